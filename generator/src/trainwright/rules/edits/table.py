"""The table of edits: the outcome of an edit of a live object, field by field, by its kind.

Rules about edits, `plan`, the verbs and the documentation read it. The rows of a kind are in
`edits.py` of its folder, the more special before the more general.
"""

from trainwright.datatypes.groupkind import PERSISTENTVOLUMECLAIM, GroupKind
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import SERVED
from trainwright.rule_model.defaults import Default, filled
from trainwright.rule_model.edit import Edit, Verdict
from trainwright.rule_model.edit_row import IN_PLACE, Basis, EditRow
from trainwright.rules.edits import core, kueue

_ANYTHING_ELSE = EditRow(
    path=Pointer(),
    outcome=Verdict.IN_PLACE,
    rule=IN_PLACE,
    why="accepted, and read by the controller",
    basis=Basis.INFERRED,
    source="https://kubernetes.io/docs/concepts/architecture/controller/",
)
EDITS: tuple[EditRow, ...] = (
    *kueue.EDITS,
    *(row for kind in SERVED.values() for row in kind.edits),
    *core.EDITS,
    _ANYTHING_ELSE,
)
_DEFAULTS: dict[GroupKind, tuple[Default, ...]] = {
    known: written for kind in SERVED.values() for known, written in kind.defaults.items()
}
_DEFAULTS[PERSISTENTVOLUMECLAIM] = core.DEFAULTS


def row_for(edit: Edit, path: Pointer) -> EditRow:
    """The row with the outcome of a difference."""
    return next(row for row in EDITS if row.covers(edit, path))


def reported_by(rule: str) -> tuple[EditRow, ...]:
    """The rows that a rule reports."""
    return tuple(row for row in EDITS if row.rule == rule)


def as_held(manifest: Manifest) -> Manifest:
    """Return an object as its API server stores it, with defaults in unset fields."""
    return filled(manifest, _DEFAULTS.get(manifest.group_kind, ()))
