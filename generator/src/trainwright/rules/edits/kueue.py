"""Edits of what an object says to Kueue, whatever its kind."""

from __future__ import annotations

from trainwright.rules.edits.edit import (
    RUNNING,
    Basis,
    Condition,
    Difference,
    Edit,
)
from trainwright.rules.transition import Verdict

_SOURCE = "kubernetes-sigs/kueue@v0.19.2:pkg/controller/jobframework/validation.go"
_GROUP = "kueue.x-k8s.io"


def _while_running(difference: Difference) -> bool:
    added_or_removed = difference.old is None or difference.new is None
    return added_or_removed and not difference.change.suspended


_ADDED_OR_REMOVED = Condition("it is added or removed, and the object runs", _while_running)


def _label(name: str, why: str, when: Condition) -> Edit:
    return Edit(
        path=("metadata", "labels", f"{_GROUP}/{name}"),
        when=(when,),
        outcome=Verdict.REJECTED,
        rule="TW602",
        why=why,
        basis=Basis.READ,
        source=_SOURCE,
    )


EDITS = (
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
