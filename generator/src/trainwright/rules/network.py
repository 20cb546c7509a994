"""Pods in the network of their node, and whose name servers they ask."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import dig, mappings, sequence, text
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.objects.pods.template import RUN_KEY, PodTemplate
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules.quota import candidates


def _on_host(template: PodTemplate) -> bool:
    return template.spec.get("hostNetwork") is True


@warning("TW731", about=("hostNetwork",), spec=Pointer("/dnsPolicy"))
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


@warning("TW732", about=("hostNetwork",), spec=Pointer("/hostNetwork"))
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
                    yield Hit(pointer, message, Pointer("/metrics/port"), form="daemon")
                elif together > 1:
                    yield Hit(
                        pointer,
                        f"{together} of the pods fit on a node of the pool, and each takes its "
                        f"port {number}",
                        Pointer("/hostNetwork"),
                        form="pods",
                    )


def _pods_of_a_node(subject: Subject, template: PodTemplate) -> int:
    """Return how many of the pods fit on one node by their accelerators; 1 if unknown."""
    held = [
        pool.gpus_per_node // number
        for pool in candidates(subject, template)
        for name, number in template.accelerators.items()
        if name == pool.resource and pool.gpus_per_node
    ]
    return min(*held, subject.pods) if held else 1


@error("TW733", about=("dnsPolicy",), spec=Pointer("/dnsPolicy"), per_pod=True)
def no_name_servers(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        servers = sequence(dig(template.spec, "dnsConfig", "nameservers"))
        if template.spec.get("dnsPolicy") == "None" and not servers and not template.partial:
            message = "dnsPolicy is None, and dnsConfig has no nameservers"
            yield Hit(f"{template.pointer}/spec/dnsPolicy", message)


@warning("TW744", about=(RUN_KEY,), spec=Pointer("/secrets"))
def run_without_its_key(subject: Subject) -> Iterator[Hit]:
    mains = [template.main for template in subject.templates if template.main]
    keys = [next((e for e in main.env if e.get("name") == RUN_KEY), None) for main in mains]
    for main, key in zip(mains, keys, strict=True) if subject.pods > 1 and any(keys) else ():
        at = Pointer.of("secrets", RUN_KEY)
        if key is None:
            message = f"{RUN_KEY} is not in these pods, and in others of the run"
            yield Hit(main.pointer, message, at, form="absent")
        elif dig(key, "valueFrom", "secretKeyRef", "optional") is True:
            message = f"{RUN_KEY} is optional: pods start without the secret, too"
            yield Hit(main.pointer, message, at, form="optional")


RULES = defined_in(globals())
