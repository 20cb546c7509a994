"""Edits of a live TrainingJob of Lattice."""

from __future__ import annotations

from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.model import Severity
from trainwright.kinds.trainingjob import KIND
from trainwright.rule_model.defaults import Default
from trainwright.rule_model.edit import EditRule, EditSample, Verdict, image
from trainwright.rule_model.edit_row import EditSource

_CONTROLLER = EditSource(
    (KIND.group_kind,), "lattice-io/lattice:lattice-operator/pkg/controller.v1"
)

EDITS = _CONTROLLER.read(
    Verdict.MIXED,
    "workers that run keep the old version, those that are started later have the new",
    "/spec/replicaSpecs",
    "/spec/injectLattice",
    "/spec/framework",
    rule="TW406",
)
DEFAULTS: dict[GroupKind, tuple[Default, ...]] = {}

# --- the rules that report them -------------------------------------------------------------------

_TRAININGJOB = "apiVersion: breezeml.ai/v1\nkind: TrainingJob\nmetadata: {name: a}\nspec: "

LATTICE = EditRule(
    id="TW406",
    name="mixed-version-workers",
    severity=Severity.ERROR,
    verdict=Verdict.MIXED,
    summary="All workers of a TrainingJob run the same version.",
    effect="Workers that Lattice starts at its next resize have the new version, the rest not.",
    remedy="Start a new run under another name.",
    source=_CONTROLLER.text,
    passing=EditSample(f"{_TRAININGJOB}{{priority: 1}}", f"{_TRAININGJOB}{{priority: 2}}"),
    failing=EditSample(
        f"{_TRAININGJOB}{{replicaSpecs: {{{image('1')}}}}}",
        f"{_TRAININGJOB}{{replicaSpecs: {{{image('2')}}}}}",
    ),
)

EDIT_RULES: tuple[EditRule, ...] = (LATTICE,)
