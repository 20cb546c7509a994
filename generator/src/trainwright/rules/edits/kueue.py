"""Edits of what an object says to Kueue, whatever its kind."""

from __future__ import annotations

import re

from trainwright.datatypes.data import dig, mapping
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.pointer import Pointer
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
from trainwright.rule_model.upstream import Behaviour, upstream
from trainwright.rules.edits.rules import QUEUE

# The kinds whose webhooks guard these labels, which have no meaning on any other object.
# https://kueue.sigs.k8s.io/docs/tasks/run/ and pkg/controller/jobs/*/*_webhook.go
WORKLOADS = (
    *(kind.group_kind for kind in SERVED.values() if kind.integration),
    *(
        GroupKind("kubeflow.org", kind)
        for kind in ("TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob")
    ),
    *(GroupKind("ray.io", kind) for kind in ("RayCluster", "RayService")),
    GroupKind("workload.codeflare.dev", "AppWrapper"),
    GroupKind("sparkoperator.k8s.io", "SparkApplication"),
)
_WEBHOOK = EditSource(WORKLOADS, upstream("kueue/edits-of-labels").source)
_GATES = EditSource(WORKLOADS, upstream("kueue/admission-gates").source)
_GROUP = "kueue.x-k8s.io"


def _added_while_running(difference: Difference) -> bool:
    return difference.old is None and not difference.edit.suspended


def _removed(difference: Difference) -> bool:
    return difference.new is None


def _changed_before(behaviour: Behaviour, *, while_running: bool) -> Condition:
    """It is changed with a version of Kueue that refuses it; a version not given is the latest."""

    def holds(difference: Difference) -> bool:
        environment = difference.edit.environment
        version = environment.kueue.version if environment else ""
        refused = bool(version) and not behaviour.holds(version)
        return refused and not (while_running and difference.edit.suspended)

    runs = " while the object runs" if while_running else ""
    return Condition(f"it is changed{runs}, in Kueue before {behaviour.since}", holds)


_PRIORITY_WHEN = (
    (Condition("it is removed", _removed), "Kueue's webhook refuses to take a priority away"),
    (
        Condition("it is added, and the object runs", _added_while_running),
        "Kueue's webhook refuses to add a priority to a running job",
    ),
    (
        _changed_before(upstream("kueue/priority-while-waiting"), while_running=False),
        "Kueue's webhook refuses another priority",
    ),
    (
        _changed_before(upstream("kueue/priority-while-running"), while_running=True),
        "Kueue's webhook refuses another priority while the job runs",
    ),
)


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
    """Return the rows for fields that Kueue sets in the pods of a kind."""
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
    return _WEBHOOK.read(QUEUE, why, at, when=(when,))


def _gate(difference: Difference) -> bool:
    """Whether the edit adds a gate to the comma-separated list."""
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
    *(row for when, why in _PRIORITY_WHEN for row in _label("priority-class", why, when)),
    *_label(
        "max-exec-time-seconds", "Kueue's webhook refuses another time while the job runs", RUNNING
    ),
)
