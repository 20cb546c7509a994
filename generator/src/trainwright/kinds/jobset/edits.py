"""Edits of a live JobSet: its webhook fixes the Jobs, its definition the policies."""

from __future__ import annotations

from trainwright.kinds import indexed_edits
from trainwright.kinds.jobset import KIND
from trainwright.rule_model.defaults import defaults
from trainwright.rule_model.edit import EditRule, Verdict
from trainwright.rule_model.edit_row import (
    ADDED_OR_REMOVED,
    AROUND,
    CHANGED,
    FIELD_IS_IMMUTABLE,
    EditSource,
)
from trainwright.rule_model.upstream import upstream

_KINDS = (KIND.group_kind,)
_WEBHOOK = EditSource(_KINDS, upstream("jobset/webhook").source)
_TYPES = EditSource(_KINDS, upstream("jobset/immutable-fields").source)
_POD = "/spec/replicatedJobs/*/template/spec/template"

EDITS = (
    *_WEBHOOK.read(
        Verdict.IN_PLACE,
        "JobSet's webhook accepts it while the object is suspended",
        *indexed_edits.placement(_POD),
        when=(AROUND,),
    ),
    *_WEBHOOK.observed(
        Verdict.REJECTED,
        "JobSet's webhook refuses it: replicated jobs are immutable",
        "/spec/replicatedJobs",
    ),
    *_TYPES.observed(
        Verdict.REJECTED,
        FIELD_IS_IMMUTABLE,
        *(f"/spec/{name}" for name in indexed_edits.FIXED),
        when=(CHANGED,),
    ),
    *_TYPES.inferred(
        Verdict.IN_PLACE,
        "accepted: only a change of it is refused",
        "/spec/failurePolicy",
        "/spec/volumeClaimPolicies",
        when=(ADDED_OR_REMOVED,),
    ),
    *_WEBHOOK.read(
        Verdict.REJECTED, "JobSet's webhook refuses it: the field is immutable", "/spec/managedBy"
    ),
    *EditSource(_KINDS, upstream("jobset/end-of-a-jobset").source).read(
        Verdict.IN_PLACE,
        "accepted, and read by the controller",
        "/spec/suspend",
        "/spec/ttlSecondsAfterFinished",
    ),
)


_WRITTEN = (
    *indexed_edits.of_definition("/spec"),
    *defaults(
        {
            "/spec/network": {},
            "/spec/network/enableDNSHostnames": True,
            "/spec/network/publishNotReadyAddresses": True,
            "/spec/successPolicy": {"operator": "All"},
            "/spec/startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "/spec/replicatedJobs/*/template/metadata": {},
            "/spec/replicatedJobs/*/template/spec/completionMode": "Indexed",
            f"{_POD}/spec/restartPolicy": "OnFailure",
        }
    ),
)
DEFAULTS = {KIND.group_kind: _WRITTEN}

EDIT_RULES: tuple[EditRule, ...] = ()
