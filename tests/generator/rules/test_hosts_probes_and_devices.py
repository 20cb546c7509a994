"""Where the rules about the node's network, probes, huge pages and claims begin and end to hold."""

from __future__ import annotations

import pytest
import yaml

from trainwright.datatypes.manifest import Manifest
from trainwright.documents.yamlio import Document
from trainwright.kinds.subjects import subject_of
from trainwright.objects.bundle import Bundle
from trainwright.rules import families
from trainwright.specs import resolve


def pod(container: str, rest: str = "", replica: str = "") -> str:
    """A PyTorchJob of one container: its fields, the pod's and the replica's.

    Each is YAML in flow style; `rest` starts with a comma, `replica` ends with one.
    """
    containers = f"containers: [{{name: pytorch, {container}}}]"
    template = f"template: {{spec: {{{containers}{rest}}}}}"
    return f"kind: PyTorchJob\nspec: {{pytorchReplicaSpecs: {{Worker: {{{replica}{template}}}}}}}"


POOL = "pools: {a100: {resource: nvidia.com/gpu, gpusPerNode: 8}}"


def _said(rule: str, manifest: str, keys: str = "") -> list[str]:
    """What a rule says of an object."""
    data = {"namespace": "n", "kubernetes": {"version": "1.34"}, "targets": {"pytorchjob": {}}}
    data |= {"podSecurity": "privileged", **(yaml.safe_load(keys) or {})}
    environment = resolve.environment("prod", Document("environment.yaml", data, {}, {}))
    around = Bundle([Manifest(body=yaml.safe_load(manifest))])
    subject = subject_of(around[0], environment, None, around)
    return [hit.message for found, hit in families.run(subject) if found.id == rule]


@pytest.mark.parametrize(
    ("spec", "replicas", "wrong"),
    [
        ("hostNetwork: true", 2, True),
        ("hostNetwork: true, dnsPolicy: ClusterFirst", 2, True),
        ("hostNetwork: true, dnsPolicy: Default", 2, True),
        ("hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet", 2, False),
        ("hostNetwork: true, dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.10]}", 2, False),
        ("hostNetwork: true", 1, False),  # it connects to no other
        ("hostNetwork: false", 2, False),
        ("dnsPolicy: Default", 2, False),
    ],
)
def test_ranks_in_the_nodes_network(spec: str, replicas: int, wrong: bool) -> None:
    assert bool(_said("TW731", pod("image: a", f", {spec}", f"replicas: {replicas}, "))) == wrong


@pytest.mark.parametrize(
    ("gpus", "replicas", "port", "text"),
    [
        (8, 4, 29500, ""),
        (4, 4, 29500, "2 of the pods fit on a node"),
        (1, 4, 29500, "4 of the pods fit on a node"),
        (4, 1, 29500, ""),
        (8, 1, 10250, "port 10250 of the node is the kubelet's"),
        (8, 1, 9100, "node-exporter's"),
    ],
)
def test_ports_of_the_node(gpus: int, replicas: int, port: int, text: str) -> None:
    asked = f"resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}"
    container = f"{asked}, ports: [{{name: a, containerPort: {port}}}]"
    of = f"replicas: {replicas}, "
    found = _said("TW732", pod(container, ", hostNetwork: true", of), POOL)
    assert bool(found) == bool(text)
    assert all(text in message for message in found)
    assert not _said("TW732", pod(container, "", of), POOL)


@pytest.mark.parametrize(
    ("container", "wrong"),
    [
        ("readinessProbe: {tcpSocket: {port: 80}}", 0),
        ("readinessProbe: {grpc: {port: 80}}", 0),
        ("readinessProbe: {httpGet: {port: http}}, ports: [{name: http, containerPort: 80}]", 0),
        ("readinessProbe: {httpGet: {port: http}}, ports: [{name: web, containerPort: 80}]", 1),
        ("readinessProbe: {httpGet: {port: http}}", 1),
        ("readinessProbe: {httpGet: {port: 'HTTP_1'}}", 1),
        ("readinessProbe: {httpGet: {port: '80'}}", 1),
        ("readinessProbe: {httpGet: {port: 0}}", 1),
        ("readinessProbe: {exec: {command: []}}", 1),
        ("readinessProbe: {exec: {command: [a]}, periodSeconds: -1}", 1),
        ("readinessProbe: {exec: {command: [a]}, failureThreshold: -1, timeoutSeconds: -1}", 2),
        ("livenessProbe: {exec: {command: [a]}, terminationGracePeriodSeconds: 0}", 1),
        ("livenessProbe: {exec: {command: [a]}, successThreshold: 0}", 0),  # the server makes it 1
        ("lifecycle: {preStop: {sleep: {seconds: -1}}}", 1),
        ("lifecycle: {preStop: {sleep: {seconds: 31}}}", 1),  # the pod has 30 seconds to stop
        ("readinessProbe: {periodSeconds: 5}", 1),
        ("readinessProbe: {httpGet: {path: /}}", 1),
        ("readinessProbe: {tcpSocket: {port: 70000}}", 1),
        ("readinessProbe: {exec: {command: [a]}, terminationGracePeriodSeconds: 5}", 1),
        ("livenessProbe: {exec: {command: [a]}, terminationGracePeriodSeconds: 5}", 0),
        ("livenessProbe: {exec: {command: [a]}, successThreshold: 2}", 1),
        ("startupProbe: {exec: {command: [a]}, successThreshold: 2}", 1),
        ("readinessProbe: {exec: {command: [a]}, successThreshold: 2}", 0),
        ("lifecycle: {preStop: {sleep: {seconds: 5}}}", 0),
        ("lifecycle: {preStop: {}}", 1),
        ("lifecycle: {postStart: {exec: {command: [a]}, httpGet: {port: 1}}}", 1),
        ("lifecycle: {stopSignal: SIGUSR1}", 0),
    ],
)
def test_what_the_server_takes_of_probes(container: str, wrong: int) -> None:
    assert len(_said("TW734", pod(container))) == wrong


@pytest.mark.parametrize(("policy", "wrong"), [("", 1), (", restartPolicy: Always", 0)])
def test_probes_are_for_containers_that_stay(policy: str, wrong: int) -> None:
    init = f", initContainers: [{{name: i, livenessProbe: {{exec: {{command: [a]}}}}{policy}}}]"
    assert len(_said("TW734", pod("image: a", init))) == wrong


@pytest.mark.parametrize(
    ("probe", "seconds"),
    [
        ("exec: {command: [a]}", 30),
        (
            "exec: {command: [a]}, periodSeconds: 20, failureThreshold: 5, initialDelaySeconds: 60",
            160,
        ),
        ("exec: {command: [a]}, periodSeconds: 100", None),
        ("exec: {command: [a]}, initialDelaySeconds: 270", None),
    ],
)
def test_how_long_a_liveness_probe_waits(probe: str, seconds: int | None) -> None:
    message = _said("TW735", pod(f"livenessProbe: {{{probe}}}"))
    assert message == ([] if seconds is None else [
        f"a training that answers no probe for its first {seconds} seconds is ended"
    ])  # fmt: skip
    startup = "startupProbe: {exec: {command: [a]}, failureThreshold: 30}"
    assert not _said("TW735", pod(f"livenessProbe: {{{probe}}}, {startup}"))


@pytest.mark.parametrize(
    ("amounts", "wrong"),
    [
        ("limits: {hugepages-2Mi: 4Mi, memory: 1Gi}", 0),
        ("limits: {hugepages-2Mi: 4Mi, cpu: 1}", 0),
        ("limits: {hugepages-1Gi: 2Gi}, requests: {cpu: 1}", 0),
        ("limits: {hugepages-2Mi: 4Mi}", 1),
        ("limits: {hugepages-2Mi: 3Mi, memory: 1Gi}", 1),
        ("requests: {hugepages-2Mi: 4Mi, memory: 1Gi}", 1),
        ("limits: {hugepages-2Mi: 4Mi, memory: 1Gi}, requests: {hugepages-2Mi: 2Mi}", 1),
        ("limits: {hugepages-2Mi: 4Mi, memory: 1Gi}, requests: {hugepages-2Mi: 4096Ki}", 0),
    ],
)
def test_huge_pages(amounts: str, wrong: int) -> None:
    assert len(_said("TW736", pod(f"resources: {{{amounts}}}"))) == wrong


MASTER = (
    "kind: PyTorchJob\nspec: {{pytorchReplicaSpecs: {{Master: {{template: {{spec: {{containers: "
    "[{{name: pytorch, {}}}]}}}}}}, Worker: {{replicas: {}}}}}}}"
)


@pytest.mark.parametrize(
    ("probe", "workers", "wrong"),
    [
        ("readinessProbe: {exec: {command: [a]}}", 2, True),
        ("startupProbe: {httpGet: {port: 80}}", 2, True),
        ("readinessProbe: {tcpSocket: {port: 23456}}", 2, False),
        ("livenessProbe: {exec: {command: [a]}}", 2, False),
        ("readinessProbe: {exec: {command: [a]}}", 0, False),
    ],
)
def test_a_probe_hides_a_rank_of_a_pytorchjob(probe: str, workers: int, wrong: bool) -> None:
    assert bool(_said("TW123", MASTER.format(probe, workers))) == wrong
