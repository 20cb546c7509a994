"""The possible outcomes of an edit of a live object: the rules that report them, and their texts.

The table of edits says which fields of which kinds have which outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Severity
from trainwright.datatypes.groupkind import PERSISTENTVOLUMECLAIM
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import TRAINING
from trainwright.objects.departure import Departure
from trainwright.objects.departure import end as end_of
from trainwright.rule_model.edit import EditRule, Verdict

_LASTING = (*TRAINING, PERSISTENTVOLUMECLAIM)


def _kept(manifest: Manifest, environment: Environment | None, run: Sequence[Manifest] = ()) -> str:
    """Return why an object stays in the cluster when removed from git; empty if it may not."""
    end = end_of(manifest, environment, run)
    may_go = manifest.group_kind not in _LASTING or end.how is Departure.UNKNOWN
    return "" if may_go else end.stays("it")


def _deleted(
    manifest: Manifest, environment: Environment | None, _run: Sequence[Manifest] = ()
) -> str:
    if manifest.group_kind not in _LASTING or _kept(manifest, environment):
        return ""
    claim = manifest.group_kind == PERSISTENTVOLUMECLAIM
    what = "the data in it" if claim else "stops what it runs"
    return f"the next sync that prunes deletes the object and {what}"


QUEUE = EditRule(
    "TW602", "queue-changed-while-running", Severity.WARNING, __name__, Verdict.REJECTED
)
UNTIL_ADMITTED = EditRule(
    "TW613", "edit-until-admitted", Severity.WARNING, __name__, Verdict.UNTIL_ADMITTED
)
DELETION = EditRule(
    "TW511", "deletion-stops-training", Severity.WARNING, __name__, Verdict.DELETED, _deleted
)
EDIT_RULES = (
    QUEUE,
    UNTIL_ADMITTED,
    EditRule("TW504", "immutable-field-changed", Severity.ERROR, __name__, Verdict.REJECTED),
    DELETION,
    EditRule("TW514", "edit-in-place", Severity.NOTE, __name__, Verdict.IN_PLACE),
    EditRule("TW515", "object-left-in-cluster", Severity.NOTE, __name__, Verdict.IGNORED, _kept),
)
