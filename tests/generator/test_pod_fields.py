"""Fields of pods and containers that a spec writes as Kubernetes has them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from repository import Repository
from trainwright.equivalence import differences, normal_form
from trainwright.model import Data, Manifest

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
lifecycle: {preStop: {sleep: {seconds: 5}}}
"""


@pytest.mark.parametrize("target", ["pytorchjob", "trainjob", "jobset", "job", "trainingjob"])
def test_what_is_written_reaches_the_pods_as_it_is(repository: Repository, target: str) -> None:
    written = yaml.safe_load(GIVEN)
    for pod in _pods(_rendered(repository, f"target: {target}\nprocsPerNode: 1\n{GIVEN}")):
        (container,) = pod["containers"]
        assert {key: (pod | container)[key] for key in written} == written


@pytest.mark.parametrize(
    ("written", "line", "column", "said"),
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
    repository: Repository, written: str, line: int, column: int, said: str
) -> None:
    path = repository.job("prod/llm", written)
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 1
    place = f"{path.relative_to(repository.root)}:{line}:{column}"
    assert place in done.output
    assert said in done.output


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


def test_docker_starts_the_container_in_its_folder(repository: Repository) -> None:
    path = repository.job("prod/llm", "target: compose\nworkingDir: /work/$HOME\n")
    text = path.read_text(encoding="utf-8").replace("maxDuration: 2h\n", "")
    path.write_text(
        text.replace("nodes: 2", "nodes: 1\nsecurity: {runAsUser: 1}"), encoding="utf-8"
    )
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    (text,) = (t for p, t in repository.tree().items() if p.endswith("compose.yaml"))
    assert yaml.safe_load(text)["services"]["train"]["working_dir"] == "/work/$$HOME"


# --- what nobody here knows yet -------------------------------------------------------------------


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
    assert [d.path for d in differences(plain, more)] == [f"pods.0.{path}"]


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
