"""Edits of what an object says to Kueue, whatever its kind."""

from __future__ import annotations

import re

from trainwright.datatypes.groupkind import GroupKind
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
from trainwright.specs.upstream import upstream

# Whose webhooks hold these labels, which have no meaning on any other object.
# https://kueue.sigs.k8s.io/docs/tasks/run/ and pkg/controller/jobs/*/*_webhook.go
WORKLOADS = (
    *(kind.group_kind for kind in SERVED.values() if kind.integration),
    *(
        GroupKind("kubeflow.org", kind)
        for kind in ("TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
    ),
    *(GroupKind("ray.io", kind) for kind in ("RayJob", "RayCluster", "RayService")),
    GroupKind("workload.codeflare.dev", "AppWrapper"),
    GroupKind("sparkoperator.k8s.io", "SparkApplication"),
)
_WEBHOOK = EditSource(WORKLOADS, upstream("kueue/edits-of-labels").source)
_GATES = EditSource(WORKLOADS, upstream("kueue/admission-gates").source)
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
    source = EditSource((kind.group_kind,), upstream("kueue/writes-placement").source)
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


def _gate(difference: Difference) -> bool:
    """Whether a gate is there that was not, of those that a comma separates."""
    was, now = (str(text or "").split(",") for text in (difference.old, difference.new))
    return not {*map(str.strip, now)} <= {*map(str.strip, was), ""}


_GATED_BY = Pointer.of("metadata", "annotations", f"{_GROUP}/admission-gated-by")

EDITS = (
    *(row for kind in _FIXED for row in _placed(kind)),
    *_GATES.read(
        Verdict.REJECTED,
        "Kueue's webhook refuses it: a gate of the admission is only taken away, never added",
        _GATED_BY,
        when=(Condition("a gate is added", _gate),),
    ),
    *_GATES.read(Verdict.IN_PLACE, "accepted, and the job may be admitted", _GATED_BY),
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
