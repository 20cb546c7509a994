"""Edits of a runtime that live TrainJobs refer to."""

from __future__ import annotations

from trainwright.datatypes.finding import Severity
from trainwright.datatypes.groupkind import RUNTIMES
from trainwright.kinds import indexed_edits
from trainwright.kinds.trainjob.runtime import JOB_SET
from trainwright.rule_model.edit import EditRule, Verdict
from trainwright.rule_model.edit_row import CHANGED, FIELD_IS_IMMUTABLE, EditSource
from trainwright.rule_model.upstream import upstream

IN_USE = EditRule("TW215", "runtime-edited-in-use", Severity.WARNING, __name__, Verdict.IGNORED)
_CONTROLLER = EditSource(RUNTIMES, upstream("trainer/runtime-snapshots").source)

_OBSERVED = ("network", "failurePolicy")
_READ = tuple(name for name in indexed_edits.FIXED if name not in _OBSERVED)

EDITS = (
    *EditSource(RUNTIMES, upstream("jobset/immutable-fields").source).observed(
        Verdict.REJECTED,
        FIELD_IS_IMMUTABLE,
        *(f"{JOB_SET}/{name}" for name in _OBSERVED),
        when=(CHANGED,),
    ),
    *EditSource(RUNTIMES, upstream("jobset/immutable-fields").source).read(
        Verdict.REJECTED,
        FIELD_IS_IMMUTABLE,
        *(f"{JOB_SET}/{name}" for name in _READ),
        f"{JOB_SET}/replicatedJobs/*/dependsOn",
        when=(CHANGED,),
    ),
    *_CONTROLLER.read(
        IN_USE, "accepted, but jobs that refer to it keep what they began with", "/spec"
    ),
)
DEFAULTS = indexed_edits.of_definition(JOB_SET)
