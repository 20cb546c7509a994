"""Edits of a live RayJob: KubeRay makes each cluster of the object as it is at that time."""

from __future__ import annotations

from trainwright.datatypes.finding import Severity
from trainwright.datatypes.groupkind import GroupKind
from trainwright.kinds.rayjob import KIND
from trainwright.rule_model.defaults import Default, defaults
from trainwright.rule_model.edit import EditRule, Verdict
from trainwright.rule_model.edit_row import CHANGED, Condition, Difference, EditSource
from trainwright.rule_model.upstream import upstream

_KINDS = (KIND.group_kind,)

UNSEEN = EditRule("TW821", "ineffective-rayjob-edit", Severity.WARNING, __name__, Verdict.IGNORED)
NEXT_ATTEMPT = EditRule("TW822", "mixed-version-attempts", Severity.ERROR, __name__, Verdict.MIXED)
EDIT_RULES = (UNSEEN, NEXT_ATTEMPT)

_CONTROLLER = EditSource(_KINDS, upstream("kuberay/edits-reach-no-cluster").source)
_ENDING = EditSource(_KINDS, upstream("kuberay/end-of-a-job").source)
_TYPES = EditSource(_KINDS, upstream("kuberay/immutable-manager").source)
_STARTED = (
    "/spec/rayClusterSpec",
    "/spec/entrypoint",
    "/spec/submitterPodTemplate",
    "/spec/submissionMode",
    "/spec/runtimeEnvYAML",
)


def _runs(difference: Difference) -> bool:
    return not difference.edit.suspended


def _runs_once(difference: Difference) -> bool:
    return _runs(difference) and not difference.edit.new.get("backoffLimit")


EDITS = (
    *_CONTROLLER.read(
        UNSEEN,
        "accepted, and KubeRay disregards it: the cluster that runs stays as it is",
        *_STARTED,
        when=(Condition("it runs, and the backoffLimit is 0", _runs_once),),
    ),
    *_CONTROLLER.read(
        NEXT_ATTEMPT,
        "the cluster that runs stays as it is, and the next attempt has the new version",
        *_STARTED,
        when=(Condition("it runs, and may be tried again", _runs),),
    ),
    *_TYPES.read(
        Verdict.REJECTED,
        "the API server refuses it: the field is immutable",
        "/spec/managedBy",
        when=(CHANGED,),
    ),
    *EditSource(_KINDS, upstream("kuberay/suspends-by-deletion").source).read(
        Verdict.IN_PLACE,
        "accepted: true deletes the cluster, false makes another one",
        "/spec/suspend",
    ),
    *_ENDING.read(
        Verdict.IN_PLACE,
        "accepted, and read while it runs: an attempt that is older than its deadline ends at once",
        "/spec/activeDeadlineSeconds",
    ),
    *_ENDING.read(
        Verdict.IN_PLACE,
        "accepted, and read when an attempt ends",
        "/spec/backoffLimit",
        "/spec/shutdownAfterJobFinishes",
        "/spec/ttlSecondsAfterFinished",
    ),
)
_GROUP = "/spec/rayClusterSpec/workerGroupSpecs/*"
DEFAULTS: dict[GroupKind, tuple[Default, ...]] = {
    KIND.group_kind: (
        *defaults(
            {
                "/spec/backoffLimit": 0,
                "/spec/submissionMode": "K8sJobMode",
                "/spec/ttlSecondsAfterFinished": 0,
                f"{_GROUP}/numOfHosts": 1,
            }
        ),
    )
}
