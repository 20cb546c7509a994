"""Edits of what an object says to Kueue, whatever its kind."""

from __future__ import annotations

from trainwright.groupkind import JOB, JOBSET
from trainwright.objects.edit import RUNNING, Basis, Condition, Difference, Edit, edits
from trainwright.objects.tolerant import dig, mapping
from trainwright.objects.transition import Verdict

_SOURCE = "kubernetes-sigs/kueue@v0.19.2:pkg/controller/jobframework/validation.go"
_GROUP = "kueue.x-k8s.io"


def _while_running(difference: Difference) -> bool:
    added_or_removed = difference.old is None or difference.new is None
    return added_or_removed and not difference.change.suspended


_ADDED_OR_REMOVED = Condition("it is added or removed, and the object runs", _while_running)


def _left_to_the_flavor(difference: Difference) -> bool:
    change = difference.change
    sides = (change.before, change.after)
    labels = [dig(side.body, "metadata", "labels") for side in sides if side]
    return difference.new is None and all(f"{_GROUP}/queue-name" in mapping(la) for la in labels)


_LEFT = Condition("all of it is removed from what is in a Kueue queue", _left_to_the_flavor)
_PLACEMENT = ("spec.nodeSelector", "spec.tolerations")


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
    *edits(
        (JOB, JOBSET),
        tuple(
            f"{template}.{field}"
            for template in ("spec.template", "spec.replicatedJobs.*.template.spec.template")
            for field in _PLACEMENT
        ),
        Verdict.IN_PLACE,
        "accepted where the flavor has node labels or tolerations, as the field is Kueue's from "
        "admission on; refused where it has none and pods run",
        Basis.INFERRED,
        "kubernetes-sigs/kueue@v0.19.2:pkg/podset/podset.go",
        when=(_LEFT,),
    ),
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
