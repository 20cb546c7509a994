"""Edits of a live batch Job."""

from __future__ import annotations

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.finding import Severity
from trainwright.kinds import indexed_edits
from trainwright.kinds.job import KIND
from trainwright.rule_model.defaults import defaults, of_pods
from trainwright.rule_model.edit import EditRule, Verdict
from trainwright.rule_model.edit_row import (
    ADDED_OR_CHANGED,
    FIELD_IS_IMMUTABLE,
    SUSPENDED,
    Condition,
    Difference,
    EditSource,
)
from trainwright.rule_model.upstream import numbers

_KINDS = (KIND.group_kind,)

RESIZED = EditRule("TW310", "resized-while-running", Severity.ERROR, __name__, Verdict.MIXED)
EDIT_RULES = (RESIZED,)

_VALIDATION = EditSource(_KINDS, "kubernetes/kubernetes:pkg/apis/batch/validation/validation.go")
_FEATURES = EditSource(_KINDS, "kubernetes/kubernetes:pkg/features/kube_features.go")
_MUTABLE_RESOURCES = (1, 36)  # since when MutablePodResourcesForSuspendedJobs is on by default


def _mutable_resources(difference: Difference) -> bool:
    """Whether a suspended Job's resources can be edited; assumed where the version is unknown."""
    environment = difference.edit.environment
    version = numbers(environment.kubernetes_version) if environment else ()
    return not version or version >= _MUTABLE_RESOURCES


def _indexed(difference: Difference) -> bool:
    return difference.edit.new.get("completionMode") == "Indexed"


def _whole(difference: Difference) -> bool:
    new = difference.edit.new
    return _indexed(difference) and new.get("completions") == new.get("parallelism")


def _per_index(difference: Difference) -> bool:
    return difference.edit.new.get("backoffLimitPerIndex") is not None


_RUNS = Condition("it is not suspended", lambda d: not d.edit.suspended)
_INDEXED = Condition("it is an Indexed Job", _indexed)
_TOGETHER = Condition("an Indexed Job's parallelism is made the same", _whole)

EDITS = (
    *_VALIDATION.read(
        Verdict.IN_PLACE,
        "accepted while the Job is suspended; before Kubernetes 1.36 only if it has never run",
        *indexed_edits.placement("/spec/template"),
        "/spec/template/spec/affinity/nodeAffinity",
        when=(SUSPENDED,),
    ),
    *_FEATURES.observed(
        Verdict.IN_PLACE,
        "accepted while the Job is suspended and no pod of it is left",
        "/spec/template/spec/containers/*/resources",
        "/spec/template/spec/initContainers/*/resources",
        when=(SUSPENDED, Condition("Kubernetes is 1.36 or later", _mutable_resources)),
    ),
    *_VALIDATION.observed(Verdict.REJECTED, FIELD_IS_IMMUTABLE, "/spec/template"),
    *_VALIDATION.read(
        RESIZED,
        "pods are added or deleted, and those that run keep the old number of ranks",
        "/spec/parallelism",
        when=(_RUNS, _INDEXED),
    ),
    *_VALIDATION.read(
        RESIZED,
        "pods are added or deleted, and those that run keep the old number of ranks",
        "/spec/completions",
        when=(_RUNS, _TOGETHER),
    ),
    *_VALIDATION.read(
        Verdict.IN_PLACE,
        "accepted, as the parallelism of the Indexed Job changes with it",
        "/spec/completions",
        when=(_TOGETHER,),
    ),
    *_VALIDATION.read(
        Verdict.REJECTED,
        FIELD_IS_IMMUTABLE,
        *("/spec/completions", "/spec/selector", "/spec/completionMode", "/spec/podFailurePolicy"),
        *("/spec/backoffLimitPerIndex", "/spec/managedBy", "/spec/successPolicy"),
    ),
    *_VALIDATION.read(
        Verdict.IN_PLACE,
        "accepted, and read by the controller",
        "/spec/maxFailedIndexes",
        when=(Condition("it has a backoffLimitPerIndex", _per_index),),
    ),
    *_VALIDATION.read(
        Verdict.REJECTED,
        "the API server refuses it: maxFailedIndexes needs a backoffLimitPerIndex",
        "/spec/maxFailedIndexes",
        when=(ADDED_OR_CHANGED,),
    ),
    *_VALIDATION.read(
        Verdict.IN_PLACE,
        "accepted, and read by the controller",
        *("/spec/suspend", "/spec/backoffLimit", "/spec/activeDeadlineSeconds"),
        *("/spec/parallelism", "/spec/ttlSecondsAfterFinished"),
    ),
)


def _replacement(spec: Data) -> Data:
    return "Failed" if mapping(spec).get("podFailurePolicy") else "TerminatingOrFailed"


def _backoff_limit(spec: Data) -> Data:
    return 6 if mapping(spec).get("backoffLimitPerIndex") is None else 2**31 - 1


_WRITTEN = (
    *defaults(
        {
            "/spec/parallelism": 1,
            "/spec/backoffLimit": _backoff_limit,
            "/spec/completionMode": "NonIndexed",
            "/spec/suspend": False,
            "/spec/podReplacementPolicy": _replacement,
            "/spec/manualSelector": False,
        }
    ),
    *of_pods("/spec/template"),
)
DEFAULTS = {KIND.group_kind: _WRITTEN}
