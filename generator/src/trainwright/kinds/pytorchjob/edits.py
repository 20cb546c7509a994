"""Edits of a live PyTorchJob: the API takes nearly all of them, and no pod that runs is changed."""

from __future__ import annotations

from trainwright.datatypes.data import Data, dig, mapping
from trainwright.datatypes.finding import Severity
from trainwright.kinds.pytorchjob import KIND
from trainwright.rule_model.defaults import defaults
from trainwright.rule_model.edit import EditRule, Verdict
from trainwright.rule_model.edit_row import (
    CHANGED,
    FIELD_IS_IMMUTABLE,
    Condition,
    Difference,
    EditSource,
)
from trainwright.rule_model.upstream import upstream

_KINDS = (KIND.group_kind,)

SILENT = EditRule("TW121", "ineffective-edit", Severity.WARNING, __name__, Verdict.IGNORED)
MIXED = EditRule("TW122", "mixed-version-ranks", Severity.ERROR, __name__, Verdict.MIXED)
EDIT_RULES = (SILENT, MIXED)

_OPERATOR = EditSource(_KINDS, upstream("training-operator/edits-reach-no-pod").source)
_DEFINITION = EditSource(_KINDS, upstream("training-operator/definition").source)
_RANKS = EditSource(_KINDS, upstream("training-operator/rank-variables").source)
_WEBHOOK = EditSource(_KINDS, upstream("training-operator/webhook").source)
_TEMPLATE = "/spec/pytorchReplicaSpecs/*/template"
_PODS = (
    _TEMPLATE,
    "/spec/pytorchReplicaSpecs/*/restartPolicy",
    "/spec/nprocPerNode",
    "/spec/elasticPolicy",
)


_WORKERS = "/spec/pytorchReplicaSpecs/Worker"


def _role(difference: Difference) -> Data:
    _, _, role, *_ = (*difference.path.parts, "", "")
    return dig(difference.edit.new, "pytorchReplicaSpecs", role)


def _never_again(difference: Difference) -> bool:
    """Whether the operator makes no more pods: not suspended, and restart policies all Never."""
    edit = difference.edit
    roles = [_role(difference)] if difference.path.within("/spec/pytorchReplicaSpecs") else []
    roles = roles or list(mapping(edit.new.get("pytorchReplicaSpecs")).values())
    policies = [mapping(role).get("restartPolicy", "OnFailure") for role in roles]
    return not edit.suspended and bool(policies) and set(map(str, policies)) == {"Never"}


def _made_again(difference: Difference) -> bool:
    return not difference.edit.suspended and not _never_again(difference)


def _fixed_world(difference: Difference) -> bool:
    edit = difference.edit
    elastic = edit.new.get("elasticPolicy") is not None and difference.path.parts[2:3] == (
        "Worker",
    )
    return not edit.suspended and not elastic


def _elastic_without_workers(difference: Difference) -> bool:
    new = difference.edit.new
    has_workers = "Worker" in mapping(new.get("pytorchReplicaSpecs"))
    return new.get("elasticPolicy") is not None and not has_workers


_NEVER = Condition("it runs, and the restartPolicy is Never", _never_again)
_NOT_SEEN = "accepted, but the pods that run stay as they are and no others are made"

EDITS = (
    *_WEBHOOK.read(
        Verdict.REJECTED,
        "the operator's webhook refuses it: there is one Master",
        "/spec/pytorchReplicaSpecs/Master/replicas",
        when=(Condition("it is not 1 after", lambda d: d.new != 1),),
    ),
    *_WEBHOOK.read(
        Verdict.REJECTED,
        "the operator's webhook refuses it: elasticPolicy needs a Worker",
        "/spec/elasticPolicy",
        "/spec/pytorchReplicaSpecs",
        when=(Condition("it is elastic after, without a Worker", _elastic_without_workers),),
    ),
    *_DEFINITION.observed(
        Verdict.REJECTED,
        FIELD_IS_IMMUTABLE,
        "/spec/runPolicy/schedulingPolicy/queue",
        when=(CHANGED,),
    ),
    *_DEFINITION.observed(
        Verdict.IN_PLACE,
        "accepted: only a change of it is refused",
        "/spec/runPolicy/schedulingPolicy/queue",
    ),
    *_OPERATOR.observed(SILENT, _NOT_SEEN, _TEMPLATE, when=(_NEVER,)),
    *_OPERATOR.read(SILENT, _NOT_SEEN, *_PODS[1:], when=(_NEVER,)),
    *_OPERATOR.read(
        MIXED,
        "pods that run keep the old version, one that is made again has the new one",
        *_PODS,
        when=(Condition("it runs, and pods are made again", _made_again),),
    ),
    *_RANKS.inferred(
        MIXED,
        "pods are added or deleted, and those that run keep the old WORLD_SIZE",
        "/spec/pytorchReplicaSpecs/*/replicas",
        when=(Condition("it runs, and its workers are not elastic", _fixed_world),),
    ),
    *EditSource(_KINDS, upstream("training-operator/end-of-a-job").source).observed(
        Verdict.IN_PLACE,
        "accepted: true deletes the pods, false recreates them",
        "/spec/runPolicy/suspend",
    ),
)
_WRITTEN = defaults(
    {
        "/spec/runPolicy/suspend": False,
        "/spec/pytorchReplicaSpecs/*/template/spec/containers/*/ports/*/protocol": "TCP",
    }
)
DEFAULTS = {KIND.group_kind: _WRITTEN}
