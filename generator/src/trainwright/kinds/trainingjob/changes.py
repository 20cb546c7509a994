"""Edits of a live TrainingJob of Lattice."""

from __future__ import annotations

from trainwright.groupkind import TRAININGJOB
from trainwright.objects.edit import Basis, edits
from trainwright.objects.transition import Verdict

EDITS = edits(
    (TRAININGJOB,),
    ("spec.replicaSpecs", "spec.injectLattice", "spec.framework"),
    Verdict.MIXED,
    "workers that run keep the old version, those that are started later have the new",
    Basis.READ,
    "lattice-io/lattice:lattice-operator/pkg/controller.v1",
    rule="TW406",
)
DEFAULTS = ()
