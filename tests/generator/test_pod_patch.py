"""podPatch: a strategic merge patch of the pods, the last resort of a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from repository import Repository, launcher
from trainwright.datatypes.job import JOB_FIELDS
from trainwright.kinds import TARGETS as KNOWN
from trainwright.render import patched

TARGETS = {
    "pytorchjob": '{version: "1.9"}', "trainingjob": "{}", "trainjob": '{version: "2.3"}',
    "jobset": "{}", "job": "{}", "compose": "{}", "rayjob": '{version: "1.7"}',
}  # fmt: skip
ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.33"}
podSecurity: baseline
allow: [podPatch, hostPID, privileged]
pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, nodeSelector: {pool: h100}}}
targets:
""" + "".join(f"  {name}: {options}\n" for name, options in TARGETS.items())
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
resources: {cpu: "1", memory: 1Gi, gpu: 0}
pool: h100
nodes: 2
maxDuration: 2h
"""
CONTAINERS = {name: target.container for name, target in KNOWN.items() if name != "compose"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path)
    repository.write("prod/environment.yaml", ENVIRONMENT)
    return repository


def _job(repository: Repository, patch: str, target: str = "pytorchjob", extra: str = "") -> None:
    lines = "".join(f"  {line}\n" for line in patch.splitlines())
    text = f"{JOB}target: {target}\n{extra}podPatch:\n{lines}"
    repository.write("prod/jobs/llm.yaml", text)


def _check(repository: Repository, *more: str) -> list[tuple[str, str, str]]:
    """Each finding: its rule, the text at its position, and its message."""
    done = repository.run("check", "--no-cache", "-o", "json", *more)
    lines: dict[str, list[str]] = {}
    found = []
    for finding in json.loads(done.output)["report"]["results"]:
        place = finding["place"]
        file = place["file"]
        lines.setdefault(file, (repository.root / file).read_text().splitlines())
        at = lines[file][place["line"] - 1][place["column"] - 1 :]
        found.append((finding["rule"], at, finding["message"]))
    return found


def _rendered(repository: Repository, *, check: bool = True) -> dict[str, Any]:
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    return {
        path.rpartition("/")[2]: yaml.load(text, Loader=yaml.CSafeLoader)
        for path, text in repository.tree().items()
        if path.endswith(".yaml") and "/llm/" in path
    }


def _pod(files: dict[str, Any]) -> dict[str, Any]:
    """The pod template of ranks, wherever a kind has it; a RayJob's head has ports of its own."""
    found = [pod for body in files.values() for pod in _pods(body)]
    ranks = [pod for pod in found if len(pod["spec"]["containers"]) > 1] or found
    for pod in ranks:
        pod["spec"]["containers"][0].pop("ports", None)
    assert ranks
    assert all(pod == ranks[0] for pod in ranks)
    return ranks[0]


def _pods(data: Any) -> list[dict[str, Any]]:
    if isinstance(data, list):
        return [pod for item in data for pod in _pods(item)]
    if not isinstance(data, dict):
        return []
    if "containers" in data.get("spec", {}) if isinstance(data.get("spec"), dict) else False:
        return [data]
    return [pod for key, value in data.items() if key != "podPatches" for pod in _pods(value)]


@pytest.mark.parametrize("target", CONTAINERS)
def test_every_target_renders_the_patched_pods(repository: Repository, target: str) -> None:
    patch = f"""\
metadata: {{annotations: {{example.com/a: "yes"}}}}
spec:
  os: {{name: linux}}
  dnsConfig: {{options: [{{name: ndots, value: "2"}}]}}
  terminationGracePeriodSeconds: null
  containers:
    - {{name: {CONTAINERS[target]}, tty: true}}
    - {{name: log, image: "registry.example.com/log:1", resources: {{limits: {{memory: 1Gi}}}}, securityContext: {{allowPrivilegeEscalation: false}}}}
"""
    _job(repository, patch, target, launcher(target))
    pod = _pod(_rendered(repository))
    assert pod["metadata"]["annotations"]["example.com/a"] == "yes"
    assert pod["spec"]["os"] == {"name": "linux"}
    assert "terminationGracePeriodSeconds" not in pod["spec"]
    assert [c["name"] for c in pod["spec"]["containers"]] == [CONTAINERS[target], "log"]
    assert pod["spec"]["containers"][0]["tty"] is True
    assert repository.run("render", "--check", "--no-cache").exit_code == 0


def test_without_a_patch_no_byte_is_another(repository: Repository) -> None:
    repository.write("prod/jobs/llm.yaml", f"{JOB}target: job\n")
    _rendered(repository)
    before = {path: text for path, text in repository.tree().items() if "run.lock" not in path}
    repository.write("prod/jobs/llm.yaml", f"{JOB}target: job\npodPatch: {{}}\n")
    _rendered(repository)
    after = {path: text for path, text in repository.tree().items() if "run.lock" not in path}
    assert before == after
    assert "podPatches" not in after["prod/rendered/llm/values.yaml"]


# --- layers -----------------------------------------------------------------------------------


def test_layers_add_to_a_patch_and_their_nulls_reach_the_pods(repository: Repository) -> None:
    layer = "defaults:\n  podPatch:\n    spec: {hostUsers: false, dnsConfig: {searches: [a]}, schedulerName: other}\n"
    repository.write("prod/environment.yaml", ENVIRONMENT + layer)
    _job(
        repository,
        "spec: {shareProcessNamespace: true, schedulerName: null, terminationGracePeriodSeconds: null}",
    )
    spec = _pod(_rendered(repository))["spec"]
    assert spec["hostUsers"] is False
    assert spec["dnsConfig"] == {"searches": ["a"]}
    assert spec["shareProcessNamespace"] is True
    assert not {"schedulerName", "terminationGracePeriodSeconds"} & spec.keys()
    message = repository.run("explain", "prod/llm", "podPatch").output
    assert "environments/prod/environment.yaml" in message
    assert "environments/prod/jobs/llm.yaml" in message


def test_a_job_removes_the_patch_that_it_inherits(repository: Repository) -> None:
    layer = "defaults: {podPatch: {spec: {preemptionPolicy: Never}}}\n"
    repository.write("prod/environment.yaml", ENVIRONMENT + layer)
    for removed in ("podPatch: null", "podPatch: {spec: null}"):
        repository.write("prod/jobs/llm.yaml", f"{JOB}target: job\n{removed}\n")
        assert "preemptionPolicy" not in _pod(_rendered(repository))["spec"]
        assert _check(repository) == []


def test_a_null_of_a_patch_is_no_removal_of_a_layer(repository: Repository) -> None:
    _job(repository, "spec: {terminationGracePeriodSeconds: null}")
    assert _check(repository) == []


def test_what_is_replaced_below_stays_replaced(repository: Repository) -> None:
    layer = "defaults: {podPatch: {spec: {securityContext: {$patch: delete}}}}\n"
    repository.write("prod/environment.yaml", ENVIRONMENT + layer)
    _job(repository, "spec: {securityContext: {supplementalGroups: [1]}}", "job")
    assert _pod(_rendered(repository))["spec"]["securityContext"] == {"supplementalGroups": [1]}


def test_an_edit_of_a_null_begins_another_run(repository: Repository) -> None:
    _job(repository, "spec: {terminationGracePeriodSeconds: null}", "job")
    one = _rendered(repository)["job.yaml"]["metadata"]["name"]
    _job(repository, "spec: {securityContext: null}", "job")
    assert _rendered(repository)["job.yaml"]["metadata"]["name"] != one


# --- what is wrong with a patch ----------------------------------------------------------------

WRONG = {
    "a field nobody has": ("spec: {hostUser: false}", "TW010", "hostUser: false", "unknown key"),
    "a field of a later version": ("spec: {hostnameOverride: a}", "TW010", "hostnameOverride", "1.34"),
    "another type": ("spec:\n  containers:\n    - {name: pytorch, tty: 1}", "TW010", "1}", "true or false"),
    "a word that nobody has": ("spec: {dnsPolicy: Sometimes}", "TW010", "Sometimes", "dnsPolicy"),
    "another part": ("status: {}", "TW010", "status", "unknown key"),
    "a finalizer": ("metadata: {finalizers: [a]}", "TW010", "finalizers", "unknown key"),
    "an order": ("spec: {$setElementOrder/containers: []}", "TW010", "$setElementOrder", ""),
    "another directive": ("spec: {securityContext: {$patch: merge}}", "TW010", "merge", "merge"),
    "a deleted spec": ("spec: {$patch: delete}", "TW010", "$patch", "as a whole"),
    "an item without its key": ("spec: {containers: [{tty: true}]}", "TW010", "{tty", "no name"),
    "a directive in a list that is replaced": (
        "spec: {tolerations: [{key: a, $patch: delete}]}", "TW010", "$patch", "replaced as a whole",
    ),
    "a container that is not there": (
        "spec: {containers: [{name: pytroch, tty: true}]}", "TW020", "pytroch", "pytroch",
    ),
    "a volume that is not there": (
        "spec: {volumes: [{name: a, $patch: delete}]}", "TW020", "a, $patch", "no item",
    ),
    "a variable that is not there": (
        "spec:\n  containers:\n    - {name: pytorch, env: [{name: A, $patch: delete}]}", "TW020", "A, $patch", "no item",
    ),
    "a volume of two sources": (
        "spec: {volumes: [{name: dshm, hostPath: {path: /a}}]}", "TW750", "{name: dshm", "2 sources",
    ),
    "a variable with two values": (
        "spec:\n  containers:\n    - name: pytorch\n"
        "      env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]",
        "TW751", "{name: A", "from elsewhere",
    ),
    "a deleted container": (
        "spec: {containers: [{name: pytorch, $patch: delete}, {name: a, image: 'a:1'}]}", "TW071", "[", "trains",
    ),
    "how pods restart": ("spec: {restartPolicy: Always}", "TW071", "Always", "restarted"),
    "how pods are found": ("spec: {hostname: a}", "TW071", "a", "found"),
    "a label of every run": (
        "metadata: {labels: {trainwright.io/run: '7'}}", "TW071", "'7'", "lost",
    ),
    "an image": ("spec: {containers: [{name: pytorch, image: 'a:1'}]}", "TW071", "'a:1'", "image"),
    "accelerators": (
        "spec: {containers: [{name: pytorch, resources: {limits: {nvidia.com/gpu: 8}}}]}", "TW071", "{limits", "resources",
    ),
    "accelerators beside": (
        "spec: {containers: [{name: b, image: 'a:1', resources: {limits: {nvidia.com/gpu: 8}}}]}", "TW071", "[", "accelerators",
    ),
    "accelerators of a sidecar": (
        "spec:\n  initContainers:\n    - {name: b, image: 'a:1', restartPolicy: Always, resources: {limits: {nvidia.com/gpu: 8}}}",
        "TW071", "- {name: b", "accelerators",
    ),
    "accelerators before": (
        "spec:\n  initContainers:\n    - {name: b, image: 'a:1', resources: {limits: {nvidia.com/gpu: 8}}}",
        "TW071", "- {name: b", "accelerators",
    ),
    "what pod security refuses": ("spec: {hostPID: true}", "TW707", "true", "hostPID"),
    "a privileged container": (
        "spec: {containers: [{name: pytorch, securityContext: {privileged: true}}]}", "TW707", "true", "privileged",
    ),
    "a mount without a volume": (
        "spec: {containers: [{name: pytorch, volumeMounts: [{name: a, mountPath: /a}]}]}", "TW725", "{name: a", "a",
    ),
    "a credential": (
        "metadata: {annotations: {password: correct-horse-7}}", "TW710", "correct", "credential",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_at_its_line(repository: Repository, name: str) -> None:
    patch, rule, at, line = WRONG[name]
    _job(repository, patch)
    found = [(r, m) for r, text, m in _check(repository) if text.startswith(at)]
    assert any(r == rule and line in message for r, message in found), _check(repository)


def test_a_finding_is_the_patch_s_only_where_the_patch_causes_it(repository: Repository) -> None:
    repository.write("prod/environment.yaml", ENVIRONMENT.replace("baseline", "restricted"))
    _job(
        repository,
        "spec: {preemptionPolicy: Never}",
        extra="security: {capabilities: [IPC_LOCK]}\n",
    )
    (found,) = [f for f in _check(repository) if f[0] == "TW707"]
    assert found[2].startswith("IPC_LOCK") or "IPC_LOCK" in found[2], found


def test_one_container_that_is_not_there_is_one_finding(repository: Repository) -> None:
    _job(repository, "spec: {containers: [{name: pytroch, tty: true}]}")
    assert [rule for rule, _, _ in _check(repository)] == ["TW020"]


# --- what a field is for -----------------------------------------------------------------------

BETTER = {
    "spec: {nodeSelector: {zone: a}}": "nodeSelector",
    "spec: {priorityClassName: high}": "priorityClass",
    "spec: {terminationGracePeriodSeconds: 90}": "gracePeriod",
    "spec: {securityContext: {runAsUser: 1000}}": "security.runAsUser",
    "spec: {volumes: [{name: a, emptyDir: {}}]}": "volumes",
    "spec: {dnsPolicy: Default}": "dnsPolicy",
    "metadata: {annotations: {a/b: c}}": "podAnnotations",
    "spec: {containers: [{name: pytorch, workingDir: /a}]}": "workingDir",
    "spec: {containers: [{name: pytorch, securityContext: {readOnlyRootFilesystem: true}}]}":
        "security.readOnlyRootFilesystem",
    "spec: {containers: [{name: log, image: 'a:1'}]}": "sidecars",
    "spec: {containers: [{name: pytorch, env: [{name: A, value: b}]}]}": "env",
    "spec: {containers: [{name: pytorch, securityContext: {capabilities: {add: [CHOWN]}}}]}":
        "security.capabilities",
}  # fmt: skip


@pytest.mark.parametrize("patch", BETTER)
def test_a_field_is_named_that_says_the_same(repository: Repository, patch: str) -> None:
    _job(repository, patch)
    (found,) = [message for rule, _, message in _check(repository) if rule == "TW070"]
    assert found.endswith(f"sets what {BETTER[patch]} is for")


@pytest.mark.parametrize(
    "patch",
    [
        "spec: {preemptionPolicy: Never}",
        "spec: {terminationGracePeriodSeconds: null}",
        "spec: {volumes: [{name: dshm, $patch: delete}], containers: [{name: pytorch, volumeMounts: [{mountPath: /dev/shm, $patch: delete}]}]}",
    ],
)
def test_no_field_says_what_a_patch_removes(repository: Repository, patch: str) -> None:
    _job(repository, patch)
    assert "TW070" not in [rule for rule, _, _ in _check(repository)]


def test_every_field_that_is_named_is_one_of_a_job() -> None:
    named = {
        *patched._OF_PODS.values(),
        *patched._OF_CONTAINERS.values(),
        *patched._OF_METADATA.values(),
    }
    assert {field.partition(".")[0] for field in named} | {"security"} <= {*JOB_FIELDS}


# --- what an environment allows ----------------------------------------------------------------

ALLOWED = "[podPatch, hostPID, privileged]"
SMUGGLED = {
    "spec: {automountServiceAccountToken: null}": "serviceAccountToken",
    "spec: {volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: t}}]}}]}":
        "serviceAccountToken",
    "spec: {hostIPC: true}": "hostIPC",
    "spec: {containers: [{name: pytorch, securityContext: {privileged: true}}]}": "privileged",
    "spec: {containers: [{name: b, image: 'a:1', securityContext: {privileged: true}}]}": "privileged",
}  # fmt: skip


@pytest.mark.parametrize("patch", SMUGGLED)
def test_nothing_comes_in_by_a_patch_that_is_not_allowed(
    repository: Repository, patch: str
) -> None:
    lax = ENVIRONMENT.replace("baseline", "privileged").replace(ALLOWED, "[podPatch]")
    repository.write("prod/environment.yaml", lax)
    _job(repository, patch)
    (found,) = [message for rule, _, message in _check(repository) if rule == "TW027"]
    assert SMUGGLED[patch] in found
    repository.write(
        "prod/environment.yaml", lax.replace("[podPatch", f"[podPatch, {SMUGGLED[patch]}")
    )
    assert "TW027" not in [rule for rule, _, _ in _check(repository)]


def test_a_patch_has_to_be_allowed_but_where_the_environment_says_it(
    repository: Repository,
) -> None:
    strict = ENVIRONMENT.replace(ALLOWED, "[]")
    repository.write("prod/environment.yaml", strict)
    _job(repository, "spec: {preemptionPolicy: Never}")
    assert [rule for rule, _, _ in _check(repository)] == ["TW027"]
    own = "defaults: {podPatch: {spec: {preemptionPolicy: Never, automountServiceAccountToken: null}}}\n"
    repository.write("prod/environment.yaml", strict + own)
    repository.write("prod/jobs/llm.yaml", f"{JOB}target: job\n")
    assert _check(repository) == []


# --- where there are no pods of ours -----------------------------------------------------------


def test_docker_has_no_pods(repository: Repository) -> None:
    text = JOB.replace("nodes: 2", "nodes: 1").replace("pool: h100\n", "").replace("2h", "null")
    repository.write(
        "prod/jobs/llm.yaml", f"{text}target: compose\npodPatch: {{spec: {{hostUsers: false}}}}\n"
    )
    assert ("TW021", "{spec: {hostUsers: false}}") in [(r, at) for r, at, _ in _check(repository)]


@pytest.mark.parametrize(
    ("version", "patch", "refused"),
    [
        ("2.0", "spec: {preemptionPolicy: Never}", "podPatch"),
        ("2.3", "spec: {hostUsers: null}", "remove"),
        ("2.3", "spec: {securityContext: {$patch: replace, supplementalGroups: [1]}}", "replace"),
        ("2.3", "spec: {containers: [{name: node, env: [{name: A, value: b}]}]}", "env"),
        ("2.3", "metadata: {annotations: {a: b}}", ""),
        ("2.2", "spec: {preemptionPolicy: Never}", "of operator 2.2 do not have preemptionPolicy"),
    ],
)
def test_a_runtime_of_the_cluster_takes_what_its_trainer_can_override(
    repository: Repository, version: str, patch: str, refused: str
) -> None:
    options = f'{{version: "{version}", runtime: torch-distributed}}'
    text = ENVIRONMENT.replace('{version: "2.3"}', options)
    repository.write("prod/environment.yaml", text)
    grace = "gracePeriod: 30s\nmaxDuration: null\n" if version == "2.0" else "gracePeriod: 30s\n"
    repository.write(
        "prod/jobs/llm.yaml",
        f"{JOB.replace('maxDuration: 2h', '')}target: trainjob\n{grace}podPatch:\n  {patch}\n",
    )
    found = [
        f"{rule}: {message}"
        for rule, at, message in _check(repository)
        if rule in ("TW021", "TW011")
    ]
    assert [one for one in found if refused in one] if refused else not found, found


# --- the last resort of an import --------------------------------------------------------------

IMPORTED = """\
kind: {kind}
apiVersion: {api}
metadata: {{name: old, namespace: training}}
spec: {spec}
"""
POD = (
    "{template: {spec: {restartPolicy: Never, preemptionPolicy: Never, containers: [{name: NAME, image: "
    "'r.example.com/a:1', command: [python, train.py], resizePolicy: [{resourceName: cpu, "
    "restartPolicy: NotRequired}]}]}}}"
)
SOURCES = {
    "job": IMPORTED.format(
        kind="Job",
        api="batch/v1",
        spec="{completionMode: Indexed, completions: 1, parallelism: 1, " + POD[1:],
    ).replace("NAME", "main"),
    "pytorchjob": IMPORTED.format(
        kind="PyTorchJob",
        api="kubeflow.org/v1",
        spec="{pytorchReplicaSpecs: {Master: {replicas: 1, " + POD[1:] + "}}",
    ).replace("NAME", "pytorch"),
}


@pytest.mark.parametrize("target", SOURCES)
def test_import_patches_what_no_field_says(repository: Repository, target: str) -> None:
    source = repository.root / "old.yaml"
    source.write_text(SOURCES[target])
    done = repository.run("import", "--env", "prod", str(source))
    assert done.exit_code == 0, done.output
    spec = yaml.safe_load((repository.root / "environments/prod/jobs/old.yaml").read_text())
    policy = [{"resourceName": "cpu", "restartPolicy": "NotRequired"}]
    assert spec["podPatch"] == {
        "spec": {
            "preemptionPolicy": "Never",
            "containers": [{"name": CONTAINERS[target], "resizePolicy": policy}],
        }
    }
    assert "preemptionPolicy" not in done.output
