"""Edits of what an object says to Kueue, whatever its kind."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.kinds import SERVED
from trainwright.kinds.kind import Kind
from trainwright.pointer import Pointer
from trainwright.rule_model.edit import Verdict
from trainwright.rule_model.edit_row import (
    RUNNING,
    Basis,
    Condition,
    Difference,
    EditRow,
    EditSource,
)
from trainwright.tolerant import dig, mapping

_SOURCE = "kubernetes-sigs/kueue@v0.19.2:pkg/controller/jobframework/validation.go"
_GROUP = "kueue.x-k8s.io"


def _while_running(difference: Difference) -> bool:
    added_or_removed = difference.old is None or difference.new is None
    return added_or_removed and not difference.edit.suspended


_ADDED_OR_REMOVED = Condition("it is added or removed, and the object runs", _while_running)


def _left_to_the_flavor(difference: Difference) -> bool:
    change = difference.edit
    sides = (change.before, change.after)
    labels = [dig(side.body, "metadata", "labels") for side in sides if side]
    return difference.new is None and all(f"{_GROUP}/queue-name" in mapping(la) for la in labels)


_LEFT = Condition("all of it is removed from what is in a Kueue queue", _left_to_the_flavor)
_PLACEMENT = ("spec.nodeSelector", "spec.tolerations")


def _label(name: str, why: str, when: Condition) -> EditRow:
    return EditRow(
        path=("metadata", "labels", f"{_GROUP}/{name}"),
        when=(when,),
        outcome=Verdict.REJECTED,
        rule="TW602",
        why=why,
        basis=Basis.READ,
        source=_SOURCE,
    )


# Their API keeps the pod template of what has started.
_FIXED = tuple(kind for kind in SERVED.values() if kind.immutable_template)


def _placed(kind: Kind) -> tuple[EditRow, ...]:
    return EditSource(
        (kind.group_kind,), "kubernetes-sigs/kueue@v0.19.2:pkg/podset/podset.go"
    ).inferred(
        Verdict.IN_PLACE,
        "accepted where the flavor has node labels or tolerations, as the field is Kueue's from "
        "admission on; refused where it has none and pods run",
        *(f"{template}.{field}" for template in _templates(kind) for field in _PLACEMENT),
        when=(_LEFT,),
    )


def _templates(kind: Kind) -> Iterator[str]:
    """The pod templates of any object, as dotted paths."""
    for pointer in kind.placed:
        yield ".".join("*" if part.isdigit() else part for part in Pointer(pointer).parts)


EDITS = (
    *(edit for kind in _FIXED for edit in _placed(kind)),
    _label("queue-name", "Kueue's webhook refuses another queue while the job runs", RUNNING),
    _label(
        "priority-class",
        "Kueue's webhook refuses to add a priority to a running job, or to take it away",
        _ADDED_OR_REMOVED,
    ),
    _label(
        "max-exec-time-seconds",
        "Kueue's webhook refuses another time while the job runs",
        RUNNING,
    ),
)
