"""What one pod requests of a node, summed over its containers as the scheduler sums them.

https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
https://kubernetes.io/docs/tasks/configure-pod-container/assign-pod-level-resources/
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TypeAlias

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, dig, mapping
from trainwright.objects.pods.template import PodTemplate

Amounts: TypeAlias = Mapping[str, Decimal]  # by resource
# What a process takes for each GPU before its first step, by Python, CUDA and NCCL.
OF_PROCESS: Amounts = {"cpu": quantity.parse("1"), "memory": quantity.parse("2Gi")}
_NONE = Decimal()


def of_processes(name: str, number: int) -> str:
    """Return the CPUs or the memory that a number of processes take, as a quantity."""
    least = int(OF_PROCESS[name] * number)
    return quantity.format_binary(least) if name == "memory" else str(least)


def pod_requests(template: PodTemplate) -> dict[str, Decimal]:
    """Return a pod's resource requests: the larger of containers plus sidecars and any init
    container plus the sidecars started before it, or what the pod itself sets; with its overhead
    added.
    """
    running: Amounts = {}  # sidecars so far
    peak: Amounts = {}
    for container in template.containers:
        own = requests(container.body)
        if container.sidecar:
            running = _sum(running, own)
        elif container.init:
            peak = _most(peak, _sum(running, own))
    for container in template.trains:
        running = _sum(running, requests(container.body))
    whole = {**_most(peak, running), **requests(template.spec)}
    return _sum(whole, _read(template.spec.get("overhead")))


def requests(body: Mapping[str, Data]) -> dict[str, Decimal]:
    """Return what a container or a whole pod requests; as the API server does, limits fill gaps."""
    limits, written = (dig(body, "resources", which) for which in ("limits", "requests"))
    return {**_read(limits), **_read(written)}


def _sum(one: Amounts, other: Amounts) -> dict[str, Decimal]:
    return {name: one.get(name, _NONE) + other.get(name, _NONE) for name in {**one, **other}}


def _most(one: Amounts, other: Amounts) -> dict[str, Decimal]:
    return {name: max(one.get(name, _NONE), other.get(name, _NONE)) for name in {**one, **other}}


def _read(amounts: Data) -> dict[str, Decimal]:
    quantities = {name: quantity.read(amount) for name, amount in mapping(amounts).items()}
    return {name: amount for name, amount in quantities.items() if amount is not None}
