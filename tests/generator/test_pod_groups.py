"""Pods of one template: each is made when it is asked for, and all of them are there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from normal_forms import normal_form
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.importing.equivalence import form
from trainwright.importing.equivalence.comparison import changed, is_same_run, value_at, values
from trainwright.kinds import operators
from trainwright.objects.pods.groups import PodGroup, Pods
from trainwright.objects.pods.pod import Pod

CONTAINER = {
    "name": "pytorch",
    "image": "registry.example.com/a:1",
    "command": ["torchrun", "--nproc-per-node=8", "a.py"],
}
TEMPLATE = {"spec": {"containers": [CONTAINER]}}


def job(workers: int) -> Manifest:
    body: dict[str, Any] = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "a"},
        "spec": {
            "pytorchReplicaSpecs": {
                "Master": {"template": TEMPLATE},
                "Worker": {"replicas": workers, "template": TEMPLATE},
            }
        },
    }
    return Manifest(body=body)


def counted(pods: Pods) -> tuple[Pods, list[int]]:
    """The same pods, and the numbers of those that are made."""
    made: list[int] = []

    def change(pod: Pod) -> Pod:
        made.append(pod.index)
        return pod

    return pods.mapped(change), made


@pytest.mark.parametrize("workers", [0, -1])
def test_no_pods_of_a_count_that_is_none(workers: int) -> None:
    assert operators.pods((job(workers),)).names == ("a-master-0",)


def test_a_sequence_of_all() -> None:
    pods = operators.pods((job(3),))
    assert len(pods) == 4
    assert pods.names == tuple(pod.name for pod in pods)
    assert pods.names == ("a-master-0", "a-worker-0", "a-worker-1", "a-worker-2")
    assert pods.hostnames == tuple(pod.hostname for pod in pods)
    assert pods[1:3] == (pods[1], pods[2])
    assert pods[-1].name == "a-worker-2"
    assert [pod.name for pod in pods.first_of_each] == ["a-master-0", "a-worker-0"]
    assert pods.where("worker".__eq__).names == pods.names[1:]
    assert Pods.of(tuple(pods)).names == pods.names
    with pytest.raises(IndexError):
        pods[4]


def test_a_pod_is_made_once_and_only_if_it_is_asked_for() -> None:
    pods, made = counted(operators.pods((job(300),)))
    assert len(pods.names) == len(pods) == 301
    assert made == []
    assert pods[-1] is pods[300]
    assert made == [299]


def test_an_empty_group_is_none() -> None:
    assert not Pods((PodGroup("worker", (), (), lambda _: pytest.fail("made")),))


def test_a_sample_makes_three_of_hundreds() -> None:
    workload = operators.workload((job(300),))
    pods, made = counted(workload.pods)
    run = form.normal_form(replace(workload, pods=pods), (job(300),), sampled=True)
    assert run.nodes == 301
    assert sorted(set(made)) == [0, 299]  # the master, and the first and the last worker
    everything = normal_form((job(300),))
    assert run.pods == (everything.pods[0], everything.pods[1], everything.pods[300])


def test_differences_are_those_of_the_values() -> None:
    before, after = (normal_form((job(workers),)) for workers in (3, 4))
    was, now = values(before), values(after)
    differing = sorted(path for path in {**was, **now} if was.get(path) != now.get(path))
    assert changed(before, after) == differing
    assert all(value_at(after, path) == now.get(path) for path in {**was, **now})
    assert value_at(before, Pointer("/pods/9/image")) is None
    assert is_same_run(before, normal_form((job(3),)))
    assert not is_same_run(before, after)
