"""Pods of kinds that Trainwright does not know: found by their shape, and held to the rules."""

from __future__ import annotations

import pytest
import yaml

from trainwright.datatypes.data import Data
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.subjects import subject_of
from trainwright.manifests.run import nowhere
from trainwright.rules.families import run

POD = {
    "containers": [
        {
            "name": "trainer",
            "image": "registry.example.com/train:latest",
            "command": ["torchrun", "--nproc-per-node=8", "train.py"],
            "env": [{"name": "CUDA_VISIBLE_DEVICES", "value": "0,1"}],
            "resources": {"requests": {"nvidia.com/gpu": 9}, "limits": {"nvidia.com/gpu": 8}},
        }
    ]
}
TEMPLATE = {"spec": POD}
KINDS: dict[tuple[str, str], tuple[Data, str]] = {
    ("v1", "Pod"): (POD, "/spec"),
    ("apps/v1", "StatefulSet"): ({"template": TEMPLATE}, "/spec/template/spec"),
    ("apps/v1", "Deployment"): ({"template": TEMPLATE}, "/spec/template/spec"),
    ("batch/v1", "CronJob"): (
        {"jobTemplate": {"spec": {"template": TEMPLATE}}},
        "/spec/jobTemplate/spec/template/spec",
    ),
    ("ray.io/v1", "RayCluster"): (
        {"workerGroupSpecs": [{"replicas": 2, "template": TEMPLATE}]},
        "/spec/workerGroupSpecs/0/template/spec",
    ),
    ("ray.io/v1", "RayJob"): (
        {"rayClusterSpec": {"headGroupSpec": {"template": TEMPLATE}}},
        "/spec/rayClusterSpec/headGroupSpec/template/spec",
    ),
    ("kubeflow.org/v2beta1", "MPIJob"): (
        {"mpiReplicaSpecs": {"Worker": {"replicas": 2, "template": TEMPLATE}}},
        "/spec/mpiReplicaSpecs/Worker/template/spec",
    ),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"): (
        {"leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}},
        "/spec/leaderWorkerTemplate/workerTemplate/spec",
    ),
    ("batch.volcano.sh/v1alpha1", "Job"): (
        {"tasks": [{"replicas": 2, "template": TEMPLATE}]},
        "/spec/tasks/0/template/spec",
    ),
    ("workload.codeflare.dev/v1beta2", "AppWrapper"): (
        {"components": [{"template": {"apiVersion": "v1", "kind": "Pod", "spec": POD}}]},
        "/spec/components/0/template/spec",
    ),
}


def found(api_version: str, kind: str, spec: Data) -> list[tuple[str, str]]:
    body = {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    subject = subject_of(Manifest(body=yaml.safe_load(yaml.safe_dump(body))), nowhere("1.37"))
    return [(rule.id, hit.pointer) for rule, hit in run(subject)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[1])
def test_pods_that_train_are_held_to_the_rules_whatever_their_kind(kind: tuple[str, str]) -> None:
    spec, at = KINDS[kind]
    hits = found(*kind, spec)
    container = f"{at}/containers/0"
    assert ("TW701", f"{container}/resources/requests/nvidia.com~1gpu") in hits
    assert {"TW709", "TW720", "TW757"} <= {rule for rule, _ in hits}
    assert (("TW702", at) in hits) is not kind[0].startswith("ray.io/")  # KubeRay mounts /dev/shm


SERVICE = {"spec": {"containers": [{"name": "a", "image": "nginx", "command": ["sh", "-c", "x"]}]}}


def test_pods_that_serve_are_only_what_a_server_takes() -> None:
    assert found("apps/v1", "Deployment", {"template": SERVICE}) == []
    [hit] = found("apps/v1", "Deployment", {"template": {"spec": {"containers": [
        {"name": "a", "image": "nginx", "ports": [{"containerPort": 0}]}]}}})  # fmt: skip
    assert hit[0] == "TW739"


@pytest.mark.parametrize(
    "spec",
    [
        {"predictor": {"containers": [{"image": "a:1"}]}},  # that a controller completes
        {"template": {"spec": {"containers": [{"name": "a"}]}}},
        {"template": {"spec": {"containers": "none"}}},
        {"template": {"spec": {"containers": []}}},
        [],
        None,
    ],
)
def test_what_has_not_the_shape_of_a_pod_is_none(spec: Data) -> None:
    assert found("example.com/v1", "Thing", spec) == []


def test_pods_whose_image_a_chart_left_empty_are_looked_at_as_well() -> None:
    container = {"name": "w", "image": "", "resources": {"limits": {"nvidia.com/gpu": 8}}}
    spec = {"leaderWorkerTemplate": {"workerTemplate": {"spec": {"containers": [container]}}}}
    hits = found("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", spec)
    assert "TW702" in {rule for rule, _ in hits}
