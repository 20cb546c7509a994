"""Edits of a runtime that live TrainJobs refer to."""

from __future__ import annotations

from trainwright.groupkind import RUNTIMES
from trainwright.kinds import indexed_edits
from trainwright.rule_model.edit import Verdict
from trainwright.rule_model.edit_row import CHANGED, Basis, rows

_ABOVE = "spec.template.spec"
_CONTROLLER = "kubeflow/trainer@v2.3.0:pkg/controller/trainjob_controller.go"

EDITS = (
    *rows(
        RUNTIMES,
        (f"{_ABOVE}.network", f"{_ABOVE}.failurePolicy"),
        Verdict.REJECTED,
        "the API server refuses it: the field is immutable",
        Basis.OBSERVED,
        "kubernetes-sigs/jobset@v0.12.0:api/jobset/v1alpha2/jobset_types.go",
        when=(CHANGED,),
    ),
    *rows(
        RUNTIMES,
        (
            *(f"{_ABOVE}.{name}" for name in indexed_edits.FIXED),
            f"{_ABOVE}.replicatedJobs.*.dependsOn",
        ),
        Verdict.REJECTED,
        "the API server refuses it: the field is immutable",
        Basis.READ,
        "kubernetes-sigs/jobset@v0.12.0:api/jobset/v1alpha2/jobset_types.go",
        when=(CHANGED,),
    ),
    *rows(
        RUNTIMES,
        ("spec",),
        Verdict.IGNORED,
        "accepted, but jobs that refer to it keep what they began with",
        Basis.READ,
        _CONTROLLER,
        rule="TW215",
    ),
)
DEFAULTS = indexed_edits.of_definition(_ABOVE)
