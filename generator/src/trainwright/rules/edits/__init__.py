"""The table of edits: what becomes of a change to a live object, field by field, by its kind.

Rules about changes, `plan`, the verbs and the documentation read it. The rows of a kind are in
its module, the more special before the more general.
"""

from trainwright.groupkind import (
    JOB,
    JOBSET,
    PERSISTENTVOLUMECLAIM,
    PYTORCHJOB,
    RUNTIMES,
    TRAININGJOB,
    TRAINJOB,
    GroupKind,
)
from trainwright.kinds.job import changes as job
from trainwright.kinds.jobset import changes as jobset
from trainwright.kinds.pytorchjob import changes as pytorchjob
from trainwright.kinds.trainingjob import changes as trainingjob
from trainwright.kinds.trainjob import changes as trainjob
from trainwright.kinds.trainjob import runtime_changes as runtimes
from trainwright.model import Manifest
from trainwright.objects.defaults import Default, filled
from trainwright.objects.edit import IN_PLACE, Basis, Edit
from trainwright.objects.transition import Change, Path, Verdict
from trainwright.rules.edits import core, kueue

_KINDS = (pytorchjob, trainjob, runtimes, jobset, job, trainingjob, core)
_ANYTHING_ELSE = Edit(
    path=(),
    outcome=Verdict.IN_PLACE,
    rule=IN_PLACE,
    why="accepted, and read by the controller",
    basis=Basis.INFERRED,
    source="https://kubernetes.io/docs/concepts/architecture/controller/",
)
EDITS: tuple[Edit, ...] = (
    *kueue.EDITS,
    *(edit for module in _KINDS for edit in module.EDITS),
    _ANYTHING_ELSE,
)
_DEFAULTS: dict[GroupKind, tuple[Default, ...]] = {
    PYTORCHJOB: pytorchjob.DEFAULTS,
    TRAINJOB: trainjob.DEFAULTS,
    **dict.fromkeys(RUNTIMES, runtimes.DEFAULTS),
    JOBSET: jobset.DEFAULTS,
    JOB: job.DEFAULTS,
    TRAININGJOB: trainingjob.DEFAULTS,
    PERSISTENTVOLUMECLAIM: core.DEFAULTS,
}


def of(change: Change, path: Path) -> Edit:
    """The row that says what becomes of a difference."""
    return next(edit for edit in EDITS if edit.covers(change, path))


def reported_by(rule: str) -> tuple[Edit, ...]:
    """The rows that a rule reports."""
    return tuple(edit for edit in EDITS if edit.rule == rule)


def as_held(manifest: Manifest) -> Manifest:
    """An object with what its server writes where nothing is said."""
    return filled(manifest, _DEFAULTS.get(manifest.group_kind, ()))
