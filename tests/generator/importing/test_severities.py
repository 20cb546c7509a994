"""What is left of a manifest is called cosmetic only if nothing is run or reached otherwise."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.importing import ImportInput
from trainwright.importing.batch import ImportOptions, run
from trainwright.importing.convert import Imported
from trainwright.kinds.reading import Loss

HERE = Path(__file__).parent
PORTS = [
    {"name": "pytorchjob-port", "containerPort": 23456},
    {"name": "web", "containerPort": 8080},
    {"containerPort": 9090},
]
CONTAINER = {"name": "pytorch", "image": "a.example.com/a:1", "command": ["torchrun", "train.py"]}
INIT = {"name": "own", "image": "a.example.com/a:1", "command": ["chown", "-R", "1000", "/data"]}
REPLICA = {
    "replicas": 2,
    "restartPolicy": "OnFailure",
    "template": {
        "metadata": {"labels": {"app": "bert", "app.kubernetes.io/component": "trainer"}},
        "spec": {"containers": [{**CONTAINER, "ports": PORTS}], "initContainers": [INIT]},
    },
}
JOB = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "PyTorchJob",
    "metadata": {"name": "bert", "labels": {"app.kubernetes.io/component": "training"}},
    "spec": {"pytorchReplicaSpecs": {"Worker": REPLICA}},
}


def imported(folder: Path, *objects: dict[str, Any]) -> tuple[ImportInput, Imported]:
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump_all(objects), encoding="utf-8")
    found = ImportInput()
    found.files((str(path),))
    (one,) = run(HERE, found, ImportOptions(environment="lab", write=False)).imported
    return found, one


def left(one: Imported, field: str) -> list[Loss]:
    return [entry.severity for entry in one.left if entry.field.endswith(field)]


def test_other_restarts_are_behaviour(tmp_path: Path) -> None:
    _, one = imported(tmp_path, JOB)
    assert one.spec["retries"] == 6
    assert left(one, "/restartPolicy") == [Loss.BEHAVIOUR]


def test_a_label_of_pods_is_one_that_may_be_selected(tmp_path: Path) -> None:
    _, one = imported(tmp_path, JOB)
    assert left(one, "template/metadata/labels/app.kubernetes.io~1component") == [Loss.BEHAVIOUR]
    (of_object,) = (entry for entry in one.left if entry.field.startswith("/metadata/labels"))
    assert of_object.severity is Loss.COSMETIC
    assert one.spec["podLabels" if "podLabels" in one.spec else "labels"] == {"app": "bert"}


def test_a_port_with_a_name_is_found_by_it(tmp_path: Path) -> None:
    _, one = imported(tmp_path, JOB)
    by_port = {entry.field.rpartition("/ports/")[2][:1]: entry.severity for entry in one.left}
    assert (by_port["0"], by_port["1"], by_port["2"]) == (
        Loss.COSMETIC,
        Loss.BEHAVIOUR,
        Loss.COSMETIC,
    )


def test_what_prepares_a_training_uses_more_rights_than_the_training(tmp_path: Path) -> None:
    _, one = imported(tmp_path, JOB)
    dropped = {str(d.difference.path): d for d in one.differing if "/capabilities/" in d.difference.path}  # fmt: skip
    severities = {path.split("/")[3]: entry.severity for path, entry in dropped.items()}
    assert severities == {"security": Loss.COSMETIC, "init": Loss.BEHAVIOUR}


def test_an_autoscaler_scales(tmp_path: Path) -> None:
    job = copy.deepcopy(JOB)
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}
    job["spec"]["elasticPolicy"] = {"minReplicas": 2, "maxReplicas": 4, "metrics": [metric]}  # type: ignore[index]
    _, one = imported(tmp_path, job)
    assert left(one, "/elasticPolicy/metrics") == [Loss.BEHAVIOUR]


def _selects(kind: str, labels: dict[str, str], **spec: object) -> dict[str, Any]:
    group = {"NetworkPolicy": "networking.k8s.io/v1", "Service": "v1"}[kind]
    selector = {"selector": labels} if kind == "Service" else {"podSelector": {"matchLabels": labels}}  # fmt: skip
    return {"apiVersion": group, "kind": kind, "metadata": {"name": "x"}, "spec": selector | spec}


@pytest.mark.parametrize(
    ("other", "why"),
    [
        (_selects("NetworkPolicy", {"app": "bert"}), "keep applying it as it is"),
        (_selects("Service", {"app": "bert"}), "keep applying it as it is"),
        (_selects("Service", {"app": "bert"}, clusterIP="None"), "the target makes the services"),
        (
            _selects("NetworkPolicy", {"training.kubeflow.org/job-name": "bert"}),
            "it selects pods by training.kubeflow.org/job-name, which another run has otherwise",
        ),
        (
            _selects("Service", {"training.kubeflow.org/job-name": "bert"}),
            "select them by a label of podLabels",
        ),
    ],
)
def test_what_selects_the_pods_is_told_whether_it_still_does(
    other: dict[str, Any], why: str, tmp_path: Path
) -> None:
    found, _ = imported(tmp_path, JOB, other)
    (beside,) = found.beside
    assert why in beside.why


def test_restarts_within_a_pod_that_are_another_number_are_behaviour(tmp_path: Path) -> None:
    """Nodes that join or leave do not count as restarts, and so the number is of failures alone."""
    job = copy.deepcopy(JOB)
    job["spec"]["elasticPolicy"] = {"minReplicas": 1, "maxReplicas": 2, "maxRestarts": 10}
    job["spec"]["runPolicy"] = {"backoffLimit": 5}
    job["spec"]["pytorchReplicaSpecs"]["Worker"]["restartPolicy"] = "Never"
    _, one = imported(tmp_path, job)
    assert left(one, "/spec/elasticPolicy/maxRestarts") == [Loss.BEHAVIOUR]
