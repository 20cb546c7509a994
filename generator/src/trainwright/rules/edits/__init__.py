"""The table of edits: what becomes of a change to a live object, field by field, by its kind.

Rules about changes, `plan`, the verbs and the documentation read it. The rows of a kind are in
`changes.py` of its folder, the more special before the more general.
"""

from trainwright.groupkind import PERSISTENTVOLUMECLAIM, GroupKind
from trainwright.kinds import SERVED
from trainwright.model import Manifest
from trainwright.objects.defaults import Default, filled
from trainwright.objects.edit import IN_PLACE, Basis, Edit
from trainwright.objects.transition import Change, Path, Verdict
from trainwright.rules.edits import core, kueue

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
    *(edit for kind in SERVED.values() for edit in kind.edits),
    *core.EDITS,
    _ANYTHING_ELSE,
)
_DEFAULTS: dict[GroupKind, tuple[Default, ...]] = {
    known: written for kind in SERVED.values() for known, written in kind.defaults.items()
}
_DEFAULTS[PERSISTENTVOLUMECLAIM] = core.DEFAULTS


def of(change: Change, path: Path) -> Edit:
    """The row that says what becomes of a difference."""
    return next(edit for edit in EDITS if edit.covers(change, path))


def reported_by(rule: str) -> tuple[Edit, ...]:
    """The rows that a rule reports."""
    return tuple(edit for edit in EDITS if edit.rule == rule)


def as_held(manifest: Manifest) -> Manifest:
    """An object with what its server writes where nothing is said."""
    return filled(manifest, _DEFAULTS.get(manifest.group_kind, ()))
