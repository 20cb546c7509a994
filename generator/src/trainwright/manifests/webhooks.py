"""Fields that a webhook fills in: if one is missing, that is not certain to be a mistake.

JobSet: kubernetes-sigs/jobset v0.12.0, pkg/webhooks/jobset_webhook.go. Kueue v0.19.2:
pkg/controller/jobframework. Kubeflow Trainer v2.3.0: pkg/webhooks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Severity
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.kinds import SERVED
from trainwright.objects.kueue import QUEUE_LABEL

UNLESS = "unless the webhook fills it"

_QUEUE = str(Pointer.of("metadata", "labels", QUEUE_LABEL))  # where a LocalQueue is named default


def _fields(kind: GroupKind) -> tuple[str, ...]:
    served = SERVED.get(kind)
    if served is None:
        return ()
    return (*((_QUEUE, served.suspend) if served.suspend else ()), *served.filled)


@cache
def _pattern(kind: GroupKind) -> re.Pattern[str]:
    fields = (re.escape(field).replace(r"\*", "[^/]+") for field in _fields(kind))
    return re.compile("|".join(fields) or r"(?!)")


_ROOT = Pointer()


def fills(kind: GroupKind, pointer: str) -> bool:
    """Whether a webhook gives the field at a pointer a value when it has none."""
    return _pattern(kind).fullmatch(pointer) is not None


def names(kind: GroupKind) -> Iterator[str]:
    """Return the name of every field that a webhook fills in an object of a kind."""
    return (field.rpartition("/")[2] for field in _fields(kind))


def awaited(kind: GroupKind, body: Mapping[str, Data], pointer: str, rule: str) -> bool:
    """Whether a rule for the value at a pointer names a field that a webhook has yet to fill in."""
    return any(
        re.search(rf"\b{re.escape(name)}\b", rule) and lookup(body, Pointer(pointer) / name) is None
        for name in names(kind)
    )


def unless(finding: Finding) -> Finding:
    """Return a finding as uncertain, since a webhook may fill the field in: no longer an error."""
    softer = Severity.WARNING if finding.severity is Severity.ERROR else finding.severity
    return replace(finding, severity=softer, message=f"{finding.message}, {UNLESS}")


def completed(kind: GroupKind, body: Data, like: Data, pointer: Pointer = _ROOT) -> Data:
    """Return `body` with the fields that webhooks fill in, where only `like` has them.

    If two bodies that complete each other still differ, no webhook made that difference.
    """
    if isinstance(body, Mapping) and isinstance(like, Mapping):
        filled = {k: v for k, v in like.items() if fills(kind, pointer / str(k))}
        own = {
            key: completed(kind, value, like.get(key), pointer / str(key))
            for key, value in body.items()
        }
        return {**filled, **own}
    if isinstance(body, list) and isinstance(like, list) and len(body) == len(like):
        pairs = enumerate(zip(body, like, strict=True))
        return [completed(kind, item, other, pointer / index) for index, (item, other) in pairs]
    return body
