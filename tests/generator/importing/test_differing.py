"""Every difference of an imported run has a severity, by its effect on the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from repository import Repository
from trainwright.datatypes.data import Data
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.same import Difference
from trainwright.importing.differing import reported, severity
from trainwright.kinds.reading import Loss

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [
                    {
                        "name": "main",
                        "image": "registry.example.com/a:1",
                        "command": ["python", "train.py"],
                    }
                ],
            }
        }
    },
}


@pytest.mark.parametrize(
    ("path", "before", "after", "expected"),
    [
        ("/pods/*/grace_period", 30, 60, Loss.COSMETIC),
        ("/pods/*/grace_period", 30, 10, Loss.BEHAVIOUR),
        ("/pods/7/grace_period", 30, None, Loss.BEHAVIOUR),
        ("/pods/7/grace_period", None, 30, Loss.BEHAVIOUR),
        ("/pods/7/grace_period", "30", 60, Loss.BEHAVIOUR),
        ("/pods/*/env/grace_period", "a", "b", Loss.CANNOT_RUN),
        ("/labels/grace_period", "a", "b", Loss.BEHAVIOUR),
        ("/pods/*/env/allowPrivilegeEscalation", "1", None, Loss.CANNOT_RUN),
        ("/pods/*/init/a/security/allowPrivilegeEscalation", True, False, Loss.COSMETIC),
        ("/pods/0/security/allowPrivilegeEscalation", True, None, Loss.COSMETIC),
        ("/pods/0/security/allowPrivilegeEscalation", None, True, Loss.BEHAVIOUR),
        ("/pods/*/security/capabilities/drop/0", None, "ALL", Loss.COSMETIC),
        ("/pods/*/security/capabilities/drop/0", "ALL", None, Loss.BEHAVIOUR),
        ("/pods/*/security/nonRoot", None, True, Loss.BEHAVIOUR),
        ("/pods/*/init/0/security/seccompProfile/type", None, "RuntimeDefault", Loss.COSMETIC),
        ("/pods/*/token", True, None, Loss.BEHAVIOUR),
        ("/pods/0/processes/0/rank", None, 0, Loss.COSMETIC),
        ("/pods/*/processes/0/rank", 1, 0, Loss.CANNOT_RUN),
        ("/pods/*/env/NCCL_DEBUG", None, "INFO", Loss.BEHAVIOUR),
        ("/pods/*/env/NCCL_DEBUG", "INFO", None, Loss.CANNOT_RUN),
        ("/pods/*/image", "a:1", "b:1", Loss.CANNOT_RUN),
        ("/pods/*/resources/limits/cpu", None, "4", Loss.BEHAVIOUR),
        ("/pods/*/restart/together", None, True, Loss.BEHAVIOUR),
        ("/nodes", 2, 4, Loss.CANNOT_RUN),
        ("/deadline", None, 3600, Loss.BEHAVIOUR),
    ],
)
def test_a_difference_is_as_severe_as_its_effect(
    path: str, before: Data, after: Data, expected: Loss
) -> None:
    assert severity(Difference(Pointer(path), before, after)) is expected


def test_each_is_reported_with_it(repository: Repository, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(JOB))
    done = repository.run("import", str(file), "--env", "dev", "--dry-run")
    lines = [line.split() for line in done.stderr.splitlines() if "differs" in line]
    assert lines, "a Job without a grace period gets a longer one"
    assert {line[1] for line in lines} <= {"cosmetic", "behaviour"}
    assert ["cosmetic", "a", "pod", "has", "60"] in [line[1:6] for line in lines]
    (one,) = json.loads(repository.run("import", str(file), "--env", "dev", "--dry-run", "-o", "json").stdout)["import"]["imported"]  # fmt: skip
    assert len(one["differs"]) == len(lines)
    assert {"severity": "cosmetic", "path": "pods.0.grace_period", "before": 30, "after": 60} in one["differs"]  # fmt: skip


def test_what_is_too_large_for_a_spec_is_refused_by_name(
    repository: Repository, tmp_path: Path
) -> None:
    big = {**JOB, "metadata": {"name": "train", "annotations": {"example.com/notes": "x" * 2_000_000}}}  # fmt: skip
    file = tmp_path / "big.yaml"
    file.write_text(yaml.safe_dump(big))
    done = repository.run("import", str(file), "--env", "dev", "--dry-run")
    assert done.exit_code == 1, done.output
    assert "Job/train: its spec would be refused: " in done.stderr


def test_pods_that_only_one_of_the_two_runs_has(repository: Repository, tmp_path: Path) -> None:
    """More workers than a spec can have: no spec has fewer in their place."""
    file = tmp_path / "job.yaml"
    worker = {
        "replicas": 1200,
        "restartPolicy": "OnFailure",
        "template": {
            "spec": {"containers": [{"name": "pytorch", "image": "registry.example.com/a:1"}]}
        },
    }
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "train"},
        "spec": {"pytorchReplicaSpecs": {"Worker": worker}},
    }
    file.write_text(yaml.safe_dump(job))
    done = repository.run("import", str(file), "--env", "dev", "--dry-run")
    assert done.exit_code == 1, done.output
    assert "nodes is 1200, it must be at most 1000" in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("policy", "medium", "severity"),
    [
        ("OnFailure", {}, "behaviour"),
        ("OnFailure", {"medium": "Memory"}, "cosmetic"),
        ("Never", {}, "cosmetic"),
    ],
)
def test_a_container_that_is_restarted_in_its_pod_keeps_its_emptydir(
    policy: str, medium: dict[str, str], severity: str, repository: Repository, tmp_path: Path
) -> None:
    """A rendered Job makes another pod, whose emptyDir is empty: caches, and checkpoints too."""
    container = {
        "name": "node",
        "image": "registry.example.com/a:1",
        "command": ["python", "train.py"],
        "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
    }
    pod = {
        "restartPolicy": policy,
        "containers": [container],
        "volumes": [{"name": "cache", "emptyDir": medium}],
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"template": {"spec": pod}},
    }
    head = "apiVersion: trainwright.io/v1alpha1\nkind: Environment\nnamespace: training\n"
    text = head + 'kubernetes: {version: "1.34"}\ntargets: {job: {}}\n'
    repository.write("dev/environment.yaml", text)
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    done = repository.run("import", str(file), "--env", "dev", "--dry-run", "-o", "json")
    (one,) = json.loads(done.stdout)["import"]["imported"]
    of_volumes = [left for left in one["left"] if "olume" in left["field"]]
    restarts = [left for left in one["left"] if left["field"].endswith("/restartPolicy")]
    assert of_volumes == []
    assert [left["severity"] for left in restarts] == [severity]
    assert all("emptyDir" in left["why"] for left in restarts if severity == "behaviour")


FIXED = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: default
kubernetes: {version: "1.34"}
podSecurity: privileged
defaults: {target: TARGET}
targets: {job: {}, jobset: {}, trainjob: {version: "2.3"}}
"""
ELASTIC = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: train}
spec:
  elasticPolicy: {minReplicas: LEAST, maxReplicas: 4, rdzvBackend: c10d}
  pytorchReplicaSpecs:
    Worker:
      replicas: 4
      restartPolicy: OnFailure
      template:
        spec:
          containers:
          - {name: pytorch, image: "registry.example.com/a:1", command: [torchrun, train.py]}
"""


@pytest.mark.parametrize("target", ["job", "jobset", "trainjob"])
@pytest.mark.parametrize("least", [4, 2])
def test_an_elastic_range_where_the_number_of_nodes_is_fixed(
    least: int, target: str, tmp_path: Path
) -> None:
    """One size is what nodes says; of a range it is said that it is lost, and in few lines."""
    repository = Repository(tmp_path)
    repository.write("lab/environment.yaml", FIXED.replace("TARGET", target))
    manifest = tmp_path / "elastic.yaml"
    manifest.write_text(ELASTIC.replace("LEAST", str(least)), encoding="utf-8")
    done = repository.run("import", str(manifest), "--env", "lab", "-o", "json")
    assert done.exit_code == (0 if least == 4 else 1), done.output
    (one,) = json.loads(done.stdout)["import"]["imported"]
    sizes = [left for left in one["left"] if left["field"].endswith("Replicas")]
    assert len(sizes) == 2
    for left in sizes:
        assert left["severity"] == ("cosmetic" if least == 4 else "cannot-run"), left
        assert ("one size, 4 nodes" if least == 4 else "fixed at the start") in left["why"]
    assert "/pods/1/" not in json.dumps(one)
    assert "pods.1." not in json.dumps(one)
    spec = yaml.safe_load((tmp_path / "environments/lab/jobs/train.yaml").read_text("utf-8"))
    assert (spec["nodes"], "elastic" in spec) == (4, False)
    assert repository.run("render").exit_code == 0


def test_a_toleration_that_is_added_is_one_line() -> None:
    toleration = {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}
    at = Pointer("/pods/*/placement/tolerations/0")
    added = [Difference(at / key, None, value) for key, value in sorted(toleration.items())]
    (one,) = reported([*added])
    assert str(one) == "its pods tolerate sku=gpu:NoSchedule"
    assert one.severity is Loss.BEHAVIOUR
    changed = Difference(at / "key", "a", "b")
    assert [each.difference for each in reported([changed])] == [changed]


@pytest.mark.parametrize(
    ("kind", "before", "after", "expected"),
    [
        ("limits", None, "4294967296", "a pod has at most 4Gi of memory"),
        ("limits", "4294967296", None, "a pod has no limit of memory"),
        (
            "requests",
            "1073741824",
            "1000000001",
            "a pod requests 1000000001 of memory, and had 1Gi",
        ),
    ],
)
def test_memory_is_a_quantity(kind: str, before: Data, after: Data, expected: str) -> None:
    difference = Difference(Pointer(f"/pods/*/resources/{kind}/memory"), before, after)
    (one,) = reported([difference])
    assert str(one) == expected
