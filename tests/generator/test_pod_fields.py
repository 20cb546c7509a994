"""Fields of pods and containers that a spec writes as Kubernetes has them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from normal_forms import normal_form
from repository import Repository
from trainwright.datatypes.data import Data
from trainwright.datatypes.manifest import Manifest
from trainwright.importing.equivalence import differences

EVERYWHERE = (
    "targets: {pytorchjob: {version: '1.9', restrictedInitContainer: true}, trainjob: {version:"
    " '2.3'}, jobset: {}, job: {}, trainingjob: {}, compose: {}}\n"
)


def _environment(extra: str = "", version: str = "1.31") -> str:
    head = "apiVersion: trainwright.io/v1alpha1\nkind: Environment\nnamespace: training\n"
    return f'{head}kubernetes: {{version: "{version}"}}\n{EVERYWHERE}{extra}'


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.write("prod/environment.yaml", _environment())
    return made


def _rendered(repository: Repository, extra: str) -> str:
    repository.job("prod/llm", extra)
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    files = repository.tree().items()
    return "---\n".join(text for path, text in files if "/llm/" in path and path.endswith("yaml"))


def _pods(text: str) -> list[dict[str, Any]]:
    """Every pod spec in rendered files."""
    found = [spec for document in yaml.safe_load_all(text) for spec in _specs(document)]
    assert found
    return found


def _specs(data: Data) -> list[dict[str, Any]]:
    if isinstance(data, dict):
        own = [data] if "containers" in data else []
        return own + [spec for value in data.values() for spec in _specs(value)]
    return [spec for item in data for spec in _specs(item)] if isinstance(data, list) else []


GIVEN = """\
dnsConfig: {nameservers: [10.0.0.10], options: [{name: ndots, value: "2"}]}
hostAliases: [{ip: 10.0.0.7, hostnames: [nas]}]
livenessProbe: {exec: {command: [sh, -c, "a < b && echo 'ü' "]}, periodSeconds: 60}
lifecycle: {preStop: {exec: {command: [sync]}}}
"""


@pytest.mark.parametrize("target", ["pytorchjob", "trainjob", "jobset", "job", "trainingjob"])
def test_what_is_written_reaches_the_pods_as_it_is(repository: Repository, target: str) -> None:
    written = yaml.safe_load(GIVEN)
    for pod in _pods(_rendered(repository, f"target: {target}\nprocsPerNode: 1\n{GIVEN}")):
        (container,) = pod["containers"]
        assert {key: (pod | container)[key] for key in written} == written


@pytest.mark.parametrize(
    ("written", "line", "column", "message"),
    [
        ("dnsConfig:\n  nameserver: [10.0.0.1]\n", 11, 3, "nameservers"),
        ("dnsConfig:\n  options:\n    - {name: 1}\n", 12, 14, "dnsConfig.options.0.name"),
        ("livenessProbe:\n  exec:\n    comand: [a]\n", 12, 5, "comand"),
        ("livenessProbe:\n  periodSeconds: often\n", 11, 18, "often"),
        ("hostAliases:\n  - hostnames: [nas]\n", 11, 5, "ip"),
        ("topologySpread:\n  - {maxSkew: 1, topologyKey: z}\n", 11, 5, "whenUnsatisfiable"),
        ("lifecycle:\n  preStop: {exec: {command: run}}\n", 11, 29, "run"),
        ("hostAliases:\n  - {ip: 10.0.0.1}\n  - {ip: 10.0.0.1}\n", 12, 5, "10.0.0.1"),
        ("affinity:\n  podAffinity:\n    required: []\n", 12, 5, "required"),
    ],
    ids=lambda value: value.partition(":")[0] if isinstance(value, str) else None,
)
def test_what_kubernetes_does_not_take_is_said_at_its_line(
    repository: Repository, written: str, line: int, column: int, message: str
) -> None:
    path = repository.job("prod/llm", written)
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 1
    place = f"{path.relative_to(repository.root)}:{line}:{column}"
    assert place in done.output
    assert message in done.output


@pytest.mark.parametrize(
    ("written", "effect"),
    [
        ("retires: 2\n", "It would be ignored, and the run would be without it."),
        ("checkpoint: {path: a}\n", "Nothing can be rendered without it."),
        ("hostAliases: [{ipp: 10.0.0.1}]\n", "The API server refuses the object, or drops a field"),
        ("state: paused\n", ""),  # a value that nothing renders has no effect
    ],
)
def test_what_follows_from_a_mistake_is_that_of_its_kind(
    repository: Repository, written: str, effect: str
) -> None:
    repository.job("prod/llm", written)
    found = json.loads(repository.run("check", "--no-cache", "-o", "json").stdout)
    effects = {it.get("effect", "") for it in found["report"]["results"] if it["rule"] == "TW010"}
    (shown,) = effects
    assert shown.startswith(effect) if effect else not shown


def test_a_field_of_a_later_version_is_said_with_it(repository: Repository) -> None:
    repository.write("prod/environment.yaml", _environment(version="1.29"))
    repository.job("prod/llm", "lifecycle:\n  stopSignal: SIGUSR1\n")
    done = repository.run("render", "--no-cache")
    assert "llm.yaml:11:3" in done.output
    assert "it comes with Kubernetes 1.33, this is 1.29" in done.output


@pytest.mark.parametrize("field", ["dnsPolicy: Default", "startupProbe: {exec: {command: [a]}}"])
def test_a_target_without_a_place_for_a_field_refuses_it_by_name(
    repository: Repository, field: str
) -> None:
    repository.job("prod/llm", f"target: compose\n{field}\n")
    done = repository.run("render", "--no-cache")
    assert f"Docker has nothing like {field.partition(':')[0]}" in done.output


def test_docker_has_its_own_words_for_some(repository: Repository) -> None:
    written = """\
target: compose
workingDir: /work/$HOME
hostAliases: [{ip: 10.0.0.7, hostnames: [nas, store]}]
hostNetwork: true
"""
    repository.write("prod/environment.yaml", _environment("allow: [hostNetwork]\n"))
    path = repository.job("prod/llm", written)
    text = path.read_text(encoding="utf-8").replace("maxDuration: 2h\n", "")
    path.write_text(
        text.replace("nodes: 2", "nodes: 1\nsecurity: {runAsUser: 1}"), encoding="utf-8"
    )
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    (text,) = (t for p, t in repository.tree().items() if p.endswith("compose.yaml"))
    service = yaml.safe_load(text)["services"]["train"]
    assert service["working_dir"] == "/work/$$HOME"
    assert service["extra_hosts"] == ["nas:10.0.0.7", "store:10.0.0.7"]
    assert service["network_mode"] == "host"


# --- what is not known here yet -------------------------------------------------------------------


def _job(pod: Mapping[str, Data], container: Mapping[str, Data]) -> tuple[Manifest, ...]:
    main = {"name": "a", "image": "a:1", "command": ["python", "a.py"], **container}
    spec = {"template": {"spec": {"restartPolicy": "Never", "containers": [main], **pod}}}
    metadata = {"name": "llm", "namespace": "training"}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}
    return (Manifest(body=body),)


@pytest.mark.parametrize(
    ("pod", "container", "path"),
    [
        ({"inventedField": {"a": 1}}, {}, "rest.pod.inventedField.a"),
        ({"setHostnameAsFQDN": True}, {}, "rest.pod.setHostnameAsFQDN"),
        ({"os": {"name": "linux"}}, {}, "rest.pod.os.name"),
        ({"dnsPolicy": "Default"}, {}, "rest.pod.dnsPolicy"),
        ({}, {"inventedField": {}}, "rest.container.inventedField"),
        (
            {},
            {"restartPolicyRules": [{"action": "Restart"}]},
            "rest.container.restartPolicyRules.0.action",
        ),
        ({}, {"resources": {"claims": [{"name": "gpu"}]}}, "rest.container.claims.0.name"),
        (
            {},
            {"resizePolicy": [{"resourceName": "cpu"}]},
            "rest.container.resizePolicy.0.resourceName",
        ),
    ],
)
def test_a_field_without_a_place_of_its_own_is_compared_as_it_is_written(
    pod: Mapping[str, Data], container: Mapping[str, Data], path: str
) -> None:
    plain, more = normal_form(_job({}, {})), normal_form(_job(pod, container))
    assert [d.path.dotted for d in differences(plain, more)] == [f"pods.0.{path}"]


@pytest.mark.parametrize(
    ("pod", "container"),
    [
        ({"dnsPolicy": "ClusterFirst", "enableServiceLinks": True}, {}),
        ({"hostNetwork": False}, {"tty": False}),
        ({}, {"terminationMessagePath": "/dev/termination-log"}),
        ({}, {"terminationMessagePolicy": "File"}),
        ({}, {"terminationMessagePolicy": "FallbackToLogsOnError"}),
    ],
)
def test_what_the_server_sets_anyhow_says_nothing(
    pod: Mapping[str, Data], container: Mapping[str, Data]
) -> None:
    assert normal_form(_job({}, {})) != (), "there is one"
    assert differences(normal_form(_job({}, {})), normal_form(_job(pod, container))) == ()


def test_a_probe_with_its_defaults_is_the_same_probe() -> None:
    short = {"httpGet": {"port": 80}}
    defaults = {"timeoutSeconds": 1, "periodSeconds": 10, "failureThreshold": 3}
    full = {"httpGet": {"port": 80, "scheme": "HTTP"}, "successThreshold": 1, **defaults}
    other = {**short, "periodSeconds": 30}
    forms = [normal_form(_job({}, {"readinessProbe": probe})) for probe in (short, full, other)]
    assert differences(forms[0], forms[1]) == ()
    assert len(differences(forms[0], forms[2])) == 1


# --- the node and the cluster ---------------------------------------------------------------------

OPEN = "podSecurity: privileged\n"
USES = {
    "hostNetwork": "hostNetwork: true\n",
    "hostIPC": "hostIPC: true\n",
    "hostPID": "hostPID: true\n",
    "serviceAccountToken": "serviceAccountToken: true\n",
    "privileged": "security:\n  privileged: true\n",
}


@pytest.mark.parametrize(("name", "use"), USES.items(), ids=USES)
def test_what_is_not_allowed_is_an_error_at_its_line(
    repository: Repository, name: str, use: str
) -> None:
    repository.write("prod/environment.yaml", _environment(OPEN))
    repository.job("prod/llm", use)
    done = repository.run("render", "--no-cache")
    line = 11 if name == "privileged" else 10
    assert f"error[TW027]: {use.splitlines()[-1].partition(':')[0].strip()}" in done.output.replace(
        "security.", ""
    )
    assert f"llm.yaml:{line}:" in done.output
    assert f"add {name} to allow" in done.output


@pytest.mark.parametrize(("name", "use"), USES.items(), ids=USES)
def test_what_is_allowed_is_rendered(repository: Repository, name: str, use: str) -> None:
    repository.write("prod/environment.yaml", _environment(f"{OPEN}allow: [{name}]\n"))
    text = _rendered(repository, use)
    field = {"serviceAccountToken": "automountServiceAccountToken"}.get(name, name)
    for pod in _pods(text):
        (container,) = pod["containers"]
        assert (pod | container["securityContext"])[field] is True


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_switch_that_is_off_needs_no_permission_and_is_no_other_run(
    repository: Repository, use: str
) -> None:
    off = use.replace("true", "false")
    assert _pods(_rendered(repository, off)) == _pods(_rendered(repository, ""))


def test_what_the_environment_says_itself_is_allowed_by_that(repository: Repository) -> None:
    defaults = "defaults: {hostNetwork: true, security: {privileged: true}}\n"
    repository.write("prod/environment.yaml", _environment(OPEN + defaults))
    assert "hostNetwork: true" in _rendered(repository, "")


def test_what_a_pool_of_the_environment_says_is_allowed_by_that(repository: Repository) -> None:
    pool = "pools: {rdma: {defaults: {hostNetwork: true, security: {privileged: true}}}}\n"
    repository.write("prod/environment.yaml", _environment(OPEN + pool))
    assert "hostNetwork: true" in _rendered(repository, "pool: rdma\n")


def test_a_patch_is_no_way_around_what_is_not_allowed(repository: Repository) -> None:
    repository.write("prod/environment.yaml", _environment(f"{OPEN}allow: [podPatch]\n"))
    repository.job("prod/llm", "podPatch:\n  spec:\n    hostPID: true\n")
    done = repository.run("check")
    assert "podPatch.spec.hostPID is not allowed in prod" in done.output
    assert "llm.yaml:12:5" in done.output


@pytest.mark.parametrize("kind", ["initContainers", "sidecars"])
def test_a_container_beside_the_training_is_privileged_where_that_is_allowed(
    repository: Repository, kind: str
) -> None:
    container = "image: 'a:1', command: [a], security: {privileged: true}"
    repository.write("prod/environment.yaml", _environment(OPEN))
    repository.job("prod/llm", f"{kind}:\n  rx:\n    {{{container}}}\n")
    assert "error[TW027]" in repository.run("check").output
    repository.write("prod/environment.yaml", _environment(f"{OPEN}allow: [privileged]\n"))
    text = _rendered(repository, f"{kind}:\n  rx:\n    {{{container}}}\n")
    for pod in _pods(text):
        (beside,) = pod["initContainers"]
        assert beside["securityContext"]["privileged"] is True
        assert beside["securityContext"]["allowPrivilegeEscalation"] is True


def test_what_a_base_or_all_environments_say_is_not(repository: Repository) -> None:
    repository.write("prod/environment.yaml", _environment(OPEN))
    head = "apiVersion: trainwright.io/v1alpha1\nkind: "
    repository.write("defaults.yaml", f"{head}Defaults\ndefaults:\n  hostIPC: true\n")
    repository.write("base/jobs/big.yaml", f"{head}JobSpec\nname: big\nhostNetwork: true\n")
    repository.job("prod/llm", "extends: base/big\n")
    done = repository.run("render", "--no-cache")
    assert "base/jobs/big.yaml:4:" in done.output
    assert "defaults.yaml:4:" in done.output


@pytest.mark.parametrize(
    ("use", "line"),
    [
        ("hostNetwork: true\n", 10),
        ("security:\n  runAsUser: 1000\n  privileged: true\n", 12),
        ("security:\n  runAsUser: 1000\n  seccompProfile: {type: Unconfined}\n", 12),
        ("security:\n  sysctls:\n    - {name: kernel.sem, value: '1'}\n", 12),
        ("livenessProbe:\n  httpGet:\n    host: example.com\n    port: 80\n", 12),
    ],
)
def test_pod_security_is_said_at_the_line_of_the_field(
    repository: Repository, use: str, line: int
) -> None:
    allowed = "podSecurity: baseline\nallow: [hostNetwork, privileged]\n"
    repository.write("prod/environment.yaml", _environment(allowed, "1.35"))
    repository.job("prod/llm", use)
    done = repository.run("check")
    assert "error[TW707]" in done.output
    assert f"llm.yaml:{line}:" in done.output


def test_a_privileged_container_has_all_rights(repository: Repository) -> None:
    repository.write("prod/environment.yaml", _environment(f"{OPEN}allow: [privileged]\n"))
    text = _rendered(repository, "security: {privileged: true, capabilities: [IPC_LOCK]}\n")
    for pod in _pods(text):
        # The API refuses a privileged container that may not gain rights.
        assert pod["containers"][0]["securityContext"] == {
            "privileged": True,
            "allowPrivilegeEscalation": True,
            "capabilities": {"drop": [], "add": ["IPC_LOCK"]},
        }


SECURITY = """\
security:
  runAsNonRoot: true
  readOnlyRootFilesystem: true
  supplementalGroups: [4242]
  seccompProfile: {type: Localhost, localhostProfile: a.json}
  seLinuxOptions: {type: container_engine_t}
  sysctls: [{name: net.ipv4.tcp_rmem, value: "1 2 3"}]
"""


def test_a_security_context_is_rendered_as_it_is_written(repository: Repository) -> None:
    repository.write("prod/environment.yaml", _environment(OPEN))
    written = yaml.safe_load(SECURITY)["security"]
    for pod in _pods(_rendered(repository, SECURITY)):
        context = pod["securityContext"] | pod["containers"][0]["securityContext"]
        assert {key: context[key] for key in written} == written


@pytest.mark.parametrize(
    ("written", "policy"),
    [("", "ClusterFirstWithHostNet"), ("dnsPolicy: ClusterFirst\n", "ClusterFirst")],
)
def test_ranks_in_the_hosts_network_find_each_other(
    repository: Repository, written: str, policy: str
) -> None:
    repository.write("prod/environment.yaml", _environment(f"{OPEN}allow: [hostNetwork]\n"))
    for pod in _pods(_rendered(repository, f"hostNetwork: true\n{written}")):
        assert pod["dnsPolicy"] == policy


def test_no_policy_holds_pods_in_the_hosts_network(repository: Repository) -> None:
    repository.write("prod/environment.yaml", _environment(f"{OPEN}allow: [hostNetwork]\n"))
    repository.job("prod/llm", "hostNetwork: true\nnetwork: isolated\n")
    done = repository.run("check")
    assert "error[TW022]" in done.output
    assert "llm.yaml:10:" in done.output


# --- schedulers and metadata ----------------------------------------------------------------------


@pytest.mark.parametrize("queueing", ["volcano", "coscheduling"])
def test_a_scheduler_beside_that_of_the_gang_is_a_contradiction(
    repository: Repository, queueing: str
) -> None:
    repository.write("prod/environment.yaml", _environment(f"queueing: {queueing}\n"))
    repository.job("prod/llm", "gang: true\nschedulerName: kai-scheduler\n")
    done = repository.run("check")
    assert "llm.yaml:11:" in done.output
    assert "gang needs the scheduler" in done.output
    scheduler = {"coscheduling": "scheduler-plugins-scheduler"}.get(queueing, queueing)
    text = _rendered(repository, f"gang: true\nschedulerName: {scheduler}\n")
    assert {pod["schedulerName"] for pod in _pods(text)} == {scheduler}


def test_a_scheduler_without_a_gang_is_rendered(repository: Repository) -> None:
    text = _rendered(repository, "schedulerName: kai-scheduler\n")
    assert {pod["schedulerName"] for pod in _pods(text)} == {"kai-scheduler"}


@pytest.mark.parametrize("target", ["pytorchjob", "trainjob", "jobset", "job", "trainingjob"])
def test_metadata_of_pods_is_not_that_of_the_object(repository: Repository, target: str) -> None:
    extra = f"target: {target}\npodLabels: {{rack: r7}}\npodAnnotations: {{a.example/b: c}}\n"
    text = _rendered(repository, extra)
    metadata = [m for d in yaml.safe_load_all(text) if d for m in _templates(d)]
    assert metadata
    for pod in metadata:
        assert pod["labels"]["rack"] == "r7"
        assert pod["annotations"]["a.example/b"] == "c"
    objects = [d for d in yaml.safe_load_all(text) if d and "metadata" in d]
    assert objects
    assert all("rack" not in body["metadata"]["labels"] for body in objects)


def _templates(data: Data) -> list[dict[str, Any]]:
    """The metadata of every pod template."""
    if isinstance(data, dict):
        own = [data["metadata"]] if "containers" in data.get("spec", {}) else []
        return own + [found for value in data.values() for found in _templates(value)]
    return [found for i in data for found in _templates(i)] if isinstance(data, list) else []


@pytest.mark.parametrize(
    "written",
    [
        "podLabels: {app.kubernetes.io/instance: x}\n",
        'podLabels: {sidecar.istio.io/inject: "true"}\n',
        'podAnnotations: {sidecar.istio.io/inject: "true"}\n',
        "podLabels: {batch.kubernetes.io/job-name: x}\ntarget: job\n",
    ],
)
def test_what_is_set_for_every_pod_is_reserved(repository: Repository, written: str) -> None:
    repository.write("prod/environment.yaml", _environment("serviceMesh: istio\n"))
    repository.job("prod/llm", written)
    done = repository.run("check")
    assert "error[TW026]" in done.output
    assert "llm.yaml:10:" in done.output


# --- devices and huge pages -----------------------------------------------------------------------

DEVICES = """\
resourceClaims: {nic: {template: rdma-nic, request: port}, all: {claim: every-nic}}
resources:
  hugepages: {2Mi: 64Mi}
"""


@pytest.mark.parametrize("target", ["pytorchjob", "trainjob", "jobset", "job"])
def test_devices_reach_the_pods_that_the_operator_makes(
    repository: Repository, target: str
) -> None:
    """Kubeflow Trainer takes no claims from a TrainJob, and drops those of its runtime where the
    TrainJob has resources of its own.
    https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/jobset/builder.go
    """
    repository.write("prod/environment.yaml", _environment(version="1.34"))
    path = repository.job("prod/llm", "")
    text = path.read_text(encoding="utf-8").replace('resources: {cpu: "1", memory: 1Gi}\n', "")
    more = DEVICES.replace("resources:\n", 'resources:\n  cpu: "1"\n  memory: 1Gi\n')
    path.write_text(f"{text}target: {target}\n{more}", encoding="utf-8")
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    files = [t for p, t in repository.tree().items() if "/llm/" in p and p.endswith(".yaml")]
    bodies = [d for t in files for d in yaml.safe_load_all(t) if d and "kind" in d]
    form = normal_form(tuple(Manifest(body=body) for body in bodies))
    for pod in form.pods:
        assert pod.rest["pod"]["resourceClaims"] == [
            {"name": "all", "resourceClaimName": "every-nic"},
            {"name": "nic", "resourceClaimTemplateName": "rdma-nic"},
        ]
        assert pod.rest["container"]["claims"] == [
            {"name": "all"},
            {"name": "nic", "request": "port"},
        ]
        for kind in ("requests", "limits"):
            assert pod.resources[kind]["hugepages-2Mi"] == str(64 * 2**20)
            assert pod.resources[kind]["memory"] == str(2**30)


def test_claims_of_devices_need_a_cluster_that_knows_them(repository: Repository) -> None:
    repository.write("prod/environment.yaml", _environment(version="1.30"))
    repository.job("prod/llm", "resourceClaims: {nic: {template: rdma}}\n")
    done = repository.run("check")
    assert "llm.yaml:10:" in done.output
    assert "resourceClaims need Kubernetes 1.31, prod has 1.30" in done.output


def test_a_claim_is_a_template_or_a_claim(repository: Repository) -> None:
    repository.job("prod/llm", "resourceClaims:\n  nic: {template: a, claim: b}\n")
    done = repository.run("check")
    assert "llm.yaml:11:" in done.output
    assert "error[TW010]" in done.output


def test_a_projected_token_of_the_api_server_is_the_same_use(repository: Repository) -> None:
    volume = (
        "volumes:\n  t: {mountPath: /t, projected: {sources: [{serviceAccountToken: {path: t}}]}}\n"
    )
    repository.write("prod/environment.yaml", _environment(OPEN))
    repository.job("prod/llm", volume)
    done = repository.run("render", "--no-cache")
    assert "error[TW027]: volumes.t.projected: serviceAccountToken is not allowed" in done.output
    assert "llm.yaml:11:" in done.output
    repository.job("prod/llm", volume.replace("path: t", "path: t, audience: vault"))
    assert repository.run("render", "--no-cache").exit_code == 0


def test_pods_spread_among_those_of_the_run(repository: Repository) -> None:
    spread = """\
topologySpread:
  - {maxSkew: 1, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}
  - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}}
"""
    text = _rendered(repository, spread)
    (name,) = {d["metadata"]["name"] for d in yaml.safe_load_all(text) if d and "spec" in d}
    for pod in _pods(text):
        selectors = [item["labelSelector"] for item in pod["topologySpreadConstraints"]]
        assert selectors == [{"matchLabels": {"app.kubernetes.io/instance": name}}, {}]
