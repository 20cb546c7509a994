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
from trainwright.rule_model.edit import EditRule, Verdict
from trainwright.rules.gitops import stays_until

# --- what is refused -----------------------------------------------------------------------------


IMMUTABLE = EditRule(
    id="TW504",
    name="immutable-field-changed",
    severity=Severity.ERROR,
    verdict=Verdict.REJECTED,
    module=__name__,
)


QUEUE = EditRule(
    id="TW602",
    name="queue-changed-while-running",
    severity=Severity.WARNING,
    verdict=Verdict.REJECTED,
    module=__name__,
)

UNTIL_ADMITTED = EditRule(
    id="TW613",
    name="edit-until-admitted",
    severity=Severity.WARNING,
    verdict=Verdict.UNTIL_ADMITTED,
    module=__name__,
)


# --- what goes away ------------------------------------------------------------------------------

_LASTING = (*TRAINING, PERSISTENTVOLUMECLAIM)


def _kept(manifest: Manifest, environment: Environment | None, run: Sequence[Manifest] = ()) -> str:
    """Return why an object stays in the cluster when removed from git; empty if it does not."""
    if manifest.group_kind not in _LASTING:
        return ""
    end = stays_until(manifest, environment, run)
    return f"it stays in the cluster until {end}" if end else ""


def _deleted(
    manifest: Manifest, environment: Environment | None, _run: Sequence[Manifest] = ()
) -> str:
    if manifest.group_kind not in _LASTING or _kept(manifest, environment):
        return ""
    claim = manifest.group_kind == PERSISTENTVOLUMECLAIM
    what = "the data in it" if claim else "stops what it runs"
    return f"the next sync that prunes deletes the object and {what}"


DELETED = EditRule(
    id="TW511",
    name="deletion-stops-training",
    severity=Severity.WARNING,
    verdict=Verdict.DELETED,
    module=__name__,
    removal=_deleted,
)

KEPT = EditRule(
    id="TW515",
    name="object-left-in-cluster",
    severity=Severity.NOTE,
    verdict=Verdict.IGNORED,
    module=__name__,
    removal=_kept,
)

IN_PLACE = EditRule(
    id="TW514",
    name="edit-in-place",
    severity=Severity.NOTE,
    verdict=Verdict.IN_PLACE,
    module=__name__,
)

EDIT_RULES = (
    *(IMMUTABLE, QUEUE, UNTIL_ADMITTED),
    *(DELETED, KEPT, IN_PLACE),
)
