"""Edits of what an object says to Kueue, whatever its kind."""

from __future__ import annotations

import re

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import dig, mapping
from trainwright.kinds import SERVED
from trainwright.kinds.kind import Kind
from trainwright.rule_model.edit import Verdict
from trainwright.rule_model.edit_row import (
    RUNNING,
    Condition,
    Difference,
    EditRow,
    EditSource,
)

_WEBHOOK = EditSource((), "kubernetes-sigs/kueue@v0.19.2:pkg/controller/jobframework/validation.go")
_GROUP = "kueue.x-k8s.io"


def _while_running(difference: Difference) -> bool:
    added_or_removed = difference.old is None or difference.new is None
    return added_or_removed and not difference.edit.suspended


_ADDED_OR_REMOVED = Condition("it is added or removed, and the object runs", _while_running)


def _left_to_the_flavor(difference: Difference) -> bool:
    edit = difference.edit
    both = (edit.before, edit.after)
    labels = [dig(it.body, "metadata", "labels") for it in both if it]
    return difference.new is None and all(f"{_GROUP}/queue-name" in mapping(la) for la in labels)


_LEFT = Condition("all of it is removed from what is in a Kueue queue", _left_to_the_flavor)
_PLACEMENT = ("/spec/nodeSelector", "/spec/tolerations")
# Their API keeps the pod template of what has started.
_FIXED = tuple(kind for kind in SERVED.values() if kind.immutable_template)


def _placed(kind: Kind) -> tuple[EditRow, ...]:
    templates = [re.sub(r"/\d+(?=/|$)", "/*", template) for template in kind.placed]
    source = EditSource((kind.group_kind,), "kubernetes-sigs/kueue@v0.19.2:pkg/podset/podset.go")
    return source.inferred(
        Verdict.IN_PLACE,
        "accepted where the flavor has node labels or tolerations, as the field is Kueue's from "
        "admission on; refused where it has none and pods run",
        *(f"{template}{field}" for template in templates for field in _PLACEMENT),
        when=(_LEFT,),
    )


def _label(name: str, why: str, when: Condition) -> tuple[EditRow, ...]:
    at = Pointer.of("metadata", "labels", f"{_GROUP}/{name}")
    return _WEBHOOK.read(Verdict.REJECTED, why, at, when=(when,), rule="TW602")


EDITS = (
    *(row for kind in _FIXED for row in _placed(kind)),
    *_label("queue-name", "Kueue's webhook refuses another queue while the job runs", RUNNING),
    *_label(
        "priority-class",
        "Kueue's webhook refuses to add a priority to a running job, or to take it away",
        _ADDED_OR_REMOVED,
    ),
    *_label(
        "max-exec-time-seconds", "Kueue's webhook refuses another time while the job runs", RUNNING
    ),
)
