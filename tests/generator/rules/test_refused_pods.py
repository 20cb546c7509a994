"""Pods that the API server refuses, in any workload: amounts, mounts, images."""

from __future__ import annotations

import json

import pytest
import yaml

from repository import Repository
from trainwright.datatypes.data import Data
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.subjects import subject_of
from trainwright.manifests.run import nowhere
from trainwright.rules.registry import RULES

WORKLOADS = {
    "Pod": "{{apiVersion: v1, kind: Pod, spec: {spec}}}",
    "Deployment": "{{apiVersion: apps/v1, kind: Deployment, spec: {{template: {{spec: {spec}}}}}}}",
    "StatefulSet": "{{apiVersion: apps/v1, kind: StatefulSet, spec: {{template: {{spec: {spec}}}}}}}",
    "Job": "{{apiVersion: batch/v1, kind: Job, spec: {{template: {{spec: {spec}}}}}}}",
    "CronJob": "{{apiVersion: batch/v1, kind: CronJob, spec: {{jobTemplate: {{spec: {{template: "
    "{{spec: {spec}}}}}}}}}}}",
    "PyTorchJob": "{{apiVersion: kubeflow.org/v1, kind: PyTorchJob, spec: {{pytorchReplicaSpecs: {{"
    "Worker: {{template: {{spec: {spec}}}}}}}}}}}",
}  # fmt: skip


def found(rule: str, body: Data) -> list[tuple[str, str]]:
    hits = RULES[rule].run(subject_of(Manifest(body=body), nowhere("1.37")))
    return [(hit.pointer, hit.message) for hit in hits]


def pod(container: str = "{}", more: str = "") -> str:
    inner = yaml.safe_load(container)
    containers = yaml.safe_dump([{"name": "a", **inner}], default_flow_style=True, width=10**6)
    return f"{{containers: {containers.strip()}{more}}}"


AMOUNTS = "{{resources: {{requests: {{{0}: {1}}}, limits: {{{0}: {2}}}}}}}"
REFUSED = [
    ("TW724", pod(AMOUNTS.format("memory", "2Gi", "1Gi")), "memory: request 2Gi, limit 1Gi"),
    ("TW724", pod(AMOUNTS.format("cpu", "2", "1500m")), "cpu: request 2, limit 1500m"),
    ("TW724", pod(more=", resources: {requests: {cpu: 2}, limits: {cpu: 1}}"), "cpu: request 2, limit 1"),
    ("TW725", pod("{volumeMounts: [{name: d, mountPath: /d}]}"), 'a mounts "d", there is no such volume'),
    ("TW725", pod("{volumeDevices: [{name: d, devicePath: /d}]}"), 'a mounts "d", there is no such volume'),
    ("TW726", pod("{}", ", volumes: [{name: d}]"), 'no container mounts the volume "d"'),
    ("TW727", pod(), "a has no image"),
    ("TW727", pod("{image: ''}"), "a has no image"),
]  # fmt: skip
ACCEPTED = [
    ("TW724", pod(AMOUNTS.format("memory", "1024Mi", "1Gi"))),
    ("TW724", pod("{resources: {requests: {cpu: 8}}}")),
    ("TW724", pod(AMOUNTS.format("nvidia.com/gpu", "2", "1"))),  # TW701 says it
    ("TW724", pod("{resources: {requests: {cpu: lots}, limits: {cpu: 1}}}")),  # the schema does
    ("TW725", pod("{volumeMounts: [{name: d, mountPath: /d}]}", ", volumes: [{name: d}]")),
    ("TW726", pod("{}", ", initContainers: [{name: i, volumeMounts: [{name: d, mountPath: /d}]}], volumes: [{name: d}]")),
    ("TW726", pod("{volumeDevices: [{name: d, devicePath: /d}]}", ", volumes: [{name: d}]")),
    ("TW727", pod("{image: a}")),
]  # fmt: skip


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize(("rule", "spec", "message"), REFUSED)
def test_what_is_refused(workload: str, rule: str, spec: str, message: str) -> None:
    hits = found(rule, yaml.safe_load(WORKLOADS[workload].format(spec=spec)))
    assert [text for _, text in hits] == [message]


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize(("rule", "spec"), ACCEPTED)
def test_what_is_accepted(workload: str, rule: str, spec: str) -> None:
    assert not found(rule, yaml.safe_load(WORKLOADS[workload].format(spec=spec)))


def test_a_claim_template_is_a_volume() -> None:
    body = yaml.safe_load(
        WORKLOADS["StatefulSet"].format(
            spec=pod("{image: a, volumeMounts: [{name: d, mountPath: /d}]}")
        )
    )
    assert found("TW725", body)
    body["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "d"}}]
    assert not found("TW725", body)


def test_a_claim_of_a_jobset_is_a_volume_of_its_pods() -> None:
    spec = pod("{image: a, volumeMounts: [{name: d, mountPath: /d}]}")
    body = yaml.safe_load(
        "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, spec: {replicatedJobs: "
        f"[{{name: a, template: {{spec: {{template: {{spec: {spec}}}}}}}}}]}}}}"
    )
    assert found("TW725", body)
    body["spec"]["volumeClaimPolicies"] = [{"templates": [{"metadata": {"name": "d"}}]}]
    assert not found("TW725", body)


def test_a_runtime_leaves_its_image_and_a_job_without_its_runtime_what_it_lacks() -> None:
    runtime = yaml.safe_load(
        "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainingRuntime, metadata: {name: a}, "
        "spec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: "
        "{containers: [{name: node}]}}}}}]}}}}"
    )
    assert not found("TW727", runtime)
    job = (
        "{apiVersion: trainer.kubeflow.org/v1alpha1, kind: TrainJob, spec: {runtimeRef: {name: a}}}"
    )
    assert not found("TW727", yaml.safe_load(job))


def test_a_job_is_told_at_its_authored_line(repository: Repository) -> None:
    file = repository.job("prod/llm")
    amounts = 'resources: {cpu: "8", memory: 1Gi, limits: {cpu: "4", memory: 512Mi}}'
    file.write_text(file.read_text().replace('resources: {cpu: "1", memory: 1Gi}', amounts))
    done = repository.run("check", "prod/llm", "-o", "json")
    found = [
        (result["message"], result["place"]["line"], result["place"]["column"])
        for result in json.loads(done.output)["report"]["results"]
        if result["rule"] == "TW724"
    ]
    assert done.exit_code == 1
    assert found == [
        ("cpu: request 8, limit 4", 7, amounts.index('"4"') + 1),
        ("memory: request 1Gi, limit 512Mi", 7, amounts.index("512Mi") + 1),
    ]


def test_what_is_said_of_a_sidecar_is_not_from_the_training(repository: Repository) -> None:
    limits = "resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}"
    repository.job("dev/mnist", f"sidecars: {{s: {{image: 'a:1', {limits}}}}}\n")
    output = repository.run("check", "--no-cache").stdout
    assert "error[TW724]: memory: request 2Gi, limit 1Gi" in output
    assert "sets resources.memory" not in output
