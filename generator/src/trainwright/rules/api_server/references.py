"""The downward API: the pod fields and container resources that variables and files may name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, dig, text
from trainwright.datatypes.pointer import Pointer
from trainwright.objects import forms
from trainwright.rules.field_checks import Check, Problem

AMOUNTS = ("cpu", "memory", "ephemeral-storage")
_OF_POD = ("metadata.name", "metadata.namespace", "metadata.uid")
IN_ENV = (
    "spec.host",  # as spec.nodeName was called
    *("spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs"),
    *("status.podIP", "status.podIPs"),
)
IN_FILES = ("metadata.labels", "metadata.annotations")


def field_of(*more: str) -> Check:
    """A field of the pod, which an environment or a file can have."""
    allowed = (*_OF_POD, *more)

    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        path = text(dig(body, "fieldRef", "fieldPath"))
        holder, bracket, key = path.partition("['")
        if path and path not in allowed and not (bracket and holder in IN_FILES):
            where = Pointer("/fieldRef/fieldPath")
            yield where, f'fieldPath: "{path}" is not one of {", ".join(allowed)}'
        elif bracket and (problem := forms.key_problem(key.removesuffix("']").lower())):
            yield Pointer("/fieldRef/fieldPath"), f'the key of "{path}" {problem}'

    return check


def resource_field(body: Mapping[str, Data]) -> Iterator[Problem]:
    resource = text(body.get("resource"))
    part, _, name = resource.partition(".")
    recognized = part in ("limits", "requests") and (
        name in AMOUNTS or name.startswith("hugepages-")
    )
    if resource and not recognized:
        said = ", ".join(f"limits.{amount}" for amount in AMOUNTS)
        yield Pointer("/resource"), f'resource: "{resource}" is not one of {said}, or of requests'
    divisor = quantity.read(body.get("divisor"))
    if recognized and divisor and not _is_divisor(str(body["divisor"]), name):
        unit = "1 or 1m" if name == "cpu" else "1, 1k, 1Ki, 1M, 1Mi, 1G, 1Gi and so on"
        yield Pointer("/divisor"), f"divisor is {body['divisor']}, and can be {unit}"


def _is_divisor(divisor: str, resource: str) -> bool:
    units = ("1", "1m") if resource == "cpu" else ("1", *_units("k"), *_units("Ki"))
    return any(quantity.read(divisor) == quantity.read(unit) for unit in units)


def _units(first: str) -> tuple[str, ...]:
    return (f"1{first}", *(f"1{letter}{first[1:]}" for letter in "MGTPE"))
