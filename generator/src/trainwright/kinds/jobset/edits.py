"""Edits of a live JobSet: its webhook fixes the Jobs, its definition the policies."""

from __future__ import annotations

from trainwright.kinds import indexed_edits
from trainwright.kinds.jobset import KIND
from trainwright.rule_model.defaults import defaults
from trainwright.rule_model.edit import EditRule, Verdict
from trainwright.rule_model.edit_row import ADDED_OR_REMOVED, AROUND, CHANGED, Basis, rows

_KINDS = (KIND.group_kind,)
_WEBHOOK = "kubernetes-sigs/jobset@v0.12.0:pkg/webhooks/jobset_webhook.go"
_TYPES = "kubernetes-sigs/jobset@v0.12.0:api/jobset/v1alpha2/jobset_types.go"
_POD = "spec.replicatedJobs.*.template.spec.template"
# What Kueue writes into the pod templates of a suspended object, and so any client may.
DIRECTIVES = (
    f"{_POD}.metadata.labels",
    f"{_POD}.metadata.annotations",
    f"{_POD}.spec.nodeSelector",
    f"{_POD}.spec.tolerations",
    f"{_POD}.spec.schedulingGates",
)

EDITS = (
    *rows(
        _KINDS,
        DIRECTIVES,
        Verdict.IN_PLACE,
        "JobSet's webhook accepts it while the object is suspended",
        Basis.READ,
        _WEBHOOK,
        when=(AROUND,),
    ),
    *rows(
        _KINDS,
        ("spec.replicatedJobs",),
        Verdict.REJECTED,
        "JobSet's webhook refuses it: replicated jobs are immutable",
        Basis.OBSERVED,
        _WEBHOOK,
    ),
    *rows(
        _KINDS,
        tuple(f"spec.{name}" for name in indexed_edits.FIXED),
        Verdict.REJECTED,
        "the API server refuses it: the field is immutable",
        Basis.OBSERVED,
        _TYPES,
        when=(CHANGED,),
    ),
    *rows(
        _KINDS,
        ("spec.failurePolicy", "spec.volumeClaimPolicies"),
        Verdict.IN_PLACE,
        "accepted: only a change of it is refused",
        Basis.INFERRED,
        _TYPES,
        when=(ADDED_OR_REMOVED,),
    ),
    *rows(
        _KINDS,
        ("spec.managedBy",),
        Verdict.REJECTED,
        "JobSet's webhook refuses it: the field is immutable",
        Basis.READ,
        _WEBHOOK,
    ),
    *rows(
        _KINDS,
        ("spec.suspend", "spec.ttlSecondsAfterFinished"),
        Verdict.IN_PLACE,
        "accepted, and read by the controller",
        Basis.READ,
        "kubernetes-sigs/jobset@v0.12.0:pkg/controllers/jobset_controller.go",
    ),
)


_WRITTEN = (
    *indexed_edits.of_definition("spec"),
    *defaults(
        **{
            "spec.network": {},
            "spec.network.enableDNSHostnames": True,
            "spec.network.publishNotReadyAddresses": True,
            "spec.successPolicy": {"operator": "All"},
            "spec.startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "spec.replicatedJobs.*.template.metadata": {},
            "spec.replicatedJobs.*.template.spec.completionMode": "Indexed",
            f"{_POD}.spec.restartPolicy": "OnFailure",
        }
    ),
)
DEFAULTS = {KIND.group_kind: _WRITTEN}

EDIT_RULES: tuple[EditRule, ...] = ()
