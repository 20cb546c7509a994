"""Edits of a live TrainingJob of Lattice."""

from __future__ import annotations

from trainwright.datatypes.finding import Severity
from trainwright.datatypes.groupkind import GroupKind
from trainwright.kinds.trainingjob import KIND
from trainwright.rule_model.defaults import Default
from trainwright.rule_model.edit import EditRule, Verdict
from trainwright.rule_model.edit_row import EditSource

_CONTROLLER = EditSource(
    (KIND.group_kind,), "lattice-io/lattice:lattice-operator/pkg/controller.v1"
)
LATTICE = EditRule("TW406", "mixed-version-workers", Severity.ERROR, __name__, Verdict.MIXED)
EDIT_RULES = (LATTICE,)

EDITS = _CONTROLLER.read(
    LATTICE,
    "workers that run keep the old version, those that are started later have the new",
    "/spec/replicaSpecs",
    "/spec/injectLattice",
    "/spec/framework",
)
DEFAULTS: dict[GroupKind, tuple[Default, ...]] = {}
