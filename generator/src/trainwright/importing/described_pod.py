"""One pod for all roles of a workload: a job spec describes a group of equal pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data
from trainwright.objects.pods.pod import Pod, Workload


def described_pod(workload: Workload) -> Pod:
    """Return the pod of rank 0 with what other roles request beyond it.

    For each resource, that is the largest amount; labels and scheduling fields that rank 0 lacks
    are those of the first role that has them. Otherwise a small master beside larger workers would
    make all of them as small as itself.
    """
    first = workload.training[0]
    of_roles = {pod.role: pod for pod in reversed(workload.training.first_of_each)}
    if len(of_roles) == 1:
        return first
    pods = (first, *(pod for role, pod in of_roles.items() if role != first.role))
    return replace(
        first,
        resources=_largest([pod.resources for pod in pods]),
        labels=_first_of([pod.labels for pod in pods]),
        annotations=_first_of([pod.annotations for pod in pods]),
        placement=_first_of([pod.placement for pod in pods]),
    )


def _first_of(mappings: Sequence[Mapping[str, Data]]) -> dict[str, Data]:
    """Merge mappings: each key has its value from the first mapping that has one."""
    merged: dict[str, Data] = {}
    for mapping in mappings:
        merged = {**{key: value for key, value in mapping.items() if value}, **merged}
    return merged


def _largest(
    resources: Sequence[Mapping[str, Mapping[str, str]]],
) -> dict[str, dict[str, str]]:
    """Return the largest requests and limits of all."""
    largest: dict[str, dict[str, str]] = {}
    for amounts_by_kind in resources:
        for kind, amounts in amounts_by_kind.items():
            maxima = largest.setdefault(kind, {})
            for name, amount in amounts.items():
                maxima[name] = max(maxima.get(name, amount), amount, key=_amount)
    return largest


def _amount(text: str) -> float:
    """Return the number of a quantity; of `all` devices of a machine, infinity."""
    amount = quantity.read(text)
    return float("inf") if amount is None else float(amount)
