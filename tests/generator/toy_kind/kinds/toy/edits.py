"""Edits of a live Toy."""

from trainwright.kinds.toy import KIND
from trainwright.rule_model.edit import EditRule, Verdict
from trainwright.rule_model.edit_row import Basis, rows

EDITS = rows(
    (KIND.group_kind,),
    ("spec.size",),
    Verdict.REJECTED,
    "toys do not grow",
    Basis.INFERRED,
    "https://toys.example.com",
)
DEFAULTS = {KIND.group_kind: ()}
EDIT_RULES: tuple[EditRule, ...] = ()
