"""Pods in the network of their node, and whose name servers they ask."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.datatypes.tolerant import dig, mappings, sequence, text
from trainwright.pods.template import PodTemplate
from trainwright.rule_model.rule import defined_in, error, pod, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules.quota import candidates

_DNS = "https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-dns-policy"


def _on_host(template: PodTemplate) -> bool:
    return template.spec.get("hostNetwork") is True


@warning(
    id="TW731",
    summary="Pods in the network of their nodes ask the cluster's name servers for other ranks.",
    effect="In the host's network ClusterFirst means the node's name servers: ranks that look for "
    "rank 0 by name do not find it.",
    remedy="Remove dnsPolicy: it is then ClusterFirstWithHostNet.",
    by_hand="Set dnsPolicy: ClusterFirstWithHostNet.",
    spec=Pointer("/dnsPolicy"),
    source=_DNS,
    passes=pod(
        "image: a", ", hostNetwork: true, dnsPolicy: ClusterFirstWithHostNet", "replicas: 2, "
    ),
    fails=pod("image: a", ", hostNetwork: true", "replicas: 2, "),
)
def ranks_without_cluster_dns(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates if subject.pods > 1 else ():
        policy = text(template.spec.get("dnsPolicy")) or "ClusterFirst"
        if _on_host(template) and not template.partial and policy in ("ClusterFirst", "Default"):
            message = (
                f"hostNetwork with dnsPolicy {policy}: the node's name servers know no Service"
            )
            spec = Pointer("/dnsPolicy" if "dnsPolicy" in template.spec else "/hostNetwork")
            yield Hit(f"{template.pointer}/spec", message, spec)


# What listens on nodes anyhow: the kubelet and kube-proxy, and Prometheus' node exporter.
# https://kubernetes.io/docs/reference/networking/ports-and-protocols/
_TAKEN = {
    9100: "node-exporter",
    10248: "the kubelet",
    10249: "kube-proxy",
    10250: "the kubelet",
    10255: "the kubelet",
    10256: "kube-proxy",
}


_PORT = "ports: [{name: a, containerPort: %s}]"


_HALF = f"resources: {{limits: {{nvidia.com/gpu: 4}}}}, {_PORT % 29500}"


_POOL = "pools: {a100: {resource: nvidia.com/gpu, gpusPerNode: 8}}"


@warning(
    id="TW732",
    summary="In the network of a node each port is one pod's, and no daemon's.",
    effect="The second pod of a node stays Pending, or fails to listen: address already in use.",
    remedy="Use another port, ask for all accelerators of a node, or remove hostNetwork.",
    spec=Pointer("/hostNetwork"),
    source="https://kubernetes.io/docs/concepts/security/pod-security-standards/",
    passes=pod(_PORT % 29500, ", hostNetwork: true"),
    passes_in=_POOL,
    fails=pod(_HALF, ", hostNetwork: true", "replicas: 2, "),
    fails_in=_POOL,
)
def host_port_taken(subject: Subject) -> Iterator[Hit]:
    for template in filter(_on_host, subject.templates):
        together = _pods_of_a_node(subject, template)
        for container in template.containers:
            for index, port in enumerate(mappings(container.body.get("ports"))):
                number = count(port.get("containerPort"))
                taken = _TAKEN.get(number or 0)
                pointer = f"{container.pointer}/ports/{index}"
                if taken:
                    message = f"port {number} of the node is {taken}'s"
                    yield Hit(pointer, message, Pointer("/metrics/port"))
                elif together > 1:
                    yield Hit(
                        pointer,
                        f"{together} of the pods fit on a node of the pool, and each takes its "
                        f"port {number}",
                        Pointer("/hostNetwork"),
                    )


def _pods_of_a_node(subject: Subject, template: PodTemplate) -> int:
    """How many of the pods one node has accelerators for, as far as it is known."""
    held = [
        pool.gpus_per_node // number
        for pool in candidates(subject, template)
        for name, number in template.accelerators.items()
        if name == pool.resource and pool.gpus_per_node
    ]
    return min(*held, subject.pods) if held else 1


@error(
    id="TW733",
    summary="Pods with dnsPolicy None have name servers in dnsConfig.",
    effect="The API server refuses a Pod; anything else waits for pods that are refused.",
    remedy="Add dnsConfig.nameservers, or use another dnsPolicy.",
    spec=Pointer("/dnsPolicy"),
    source="https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-dns-config",
    per_pod=True,
    passes=pod("image: a", ", dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.10]}"),
    fails=pod("image: a", ", dnsPolicy: None, dnsConfig: {searches: [a.b]}"),
)
def no_name_servers(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        servers = sequence(dig(template.spec, "dnsConfig", "nameservers"))
        if template.spec.get("dnsPolicy") == "None" and not servers and not template.partial:
            message = "dnsPolicy is None, and dnsConfig has no nameservers"
            yield Hit(f"{template.pointer}/spec/dnsPolicy", message)


RUN_KEY = "TRAINWRIGHT_RUN_KEY"
_OF_SECRET = f"env: [{{name: {RUN_KEY}, valueFrom: {{secretKeyRef: {{name: a, key: b%s}}}}}}]"


@warning(
    id="TW744",
    summary="The secret of a run's ports reaches each of its pods, or none of them starts.",
    effect="Where it is missing the run's key follows from its name: who knows that, and reaches a "
    "port, may end the training.",
    remedy=f"Name the Secret under secrets, as {RUN_KEY} and without optional.",
    spec=Pointer("/secrets"),
    source="https://kubernetes.io/docs/concepts/configuration/secret/#restriction-secret-must-exist",
    passes=pod(_OF_SECRET % "", replica="replicas: 2, "),
    fails=pod(_OF_SECRET % ", optional: true", replica="replicas: 2, "),
)
def run_without_its_key(subject: Subject) -> Iterator[Hit]:
    mains = [template.main for template in subject.templates if template.main]
    keys = [next((e for e in main.env if e.get("name") == RUN_KEY), None) for main in mains]
    for main, key in zip(mains, keys, strict=True) if subject.pods > 1 and any(keys) else ():
        at = Pointer.of("secrets", RUN_KEY)
        if key is None:
            yield Hit(main.pointer, f"{RUN_KEY} is not in these pods, and in others of the run", at)
        elif dig(key, "valueFrom", "secretKeyRef", "optional") is True:
            message = f"{RUN_KEY} is optional: pods start without the secret, too"
            yield Hit(main.pointer, message, at)


RULES = defined_in(globals())
