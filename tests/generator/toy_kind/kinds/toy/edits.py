"""Edits of a live Toy."""

from trainwright.kinds.toy import KIND
from trainwright.rule_model.edit import EditRule, Verdict
from trainwright.rule_model.edit_row import EditSource

EDITS = EditSource((KIND.group_kind,), "https://toys.example.com").inferred(
    Verdict.REJECTED, "toys do not grow", "/spec/size"
)
DEFAULTS = {KIND.group_kind: ()}
EDIT_RULES: tuple[EditRule, ...] = ()
