"""What a reviewer has to know of a merge before its jobs are read one by one, worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter

from trainwright.datatypes.finding import Severity
from trainwright.plan import words
from trainwright.plan.model import BLOCKED, Action, JobChange, Plan
from trainwright.plan.training import gpus_of
from trainwright.reports.attention import (
    Attention,
    Concern,
    Item,
    elsewhere,
    first_errors,
    of_jobs,
    worst_first,
)
from trainwright.reports.values import change_line
from trainwright.runs.wiring_files import WIRE

# What happens to the run of one job, and to those of several.
_ENDS = ("ends, and nothing of it is kept", "end, and nothing of them is kept")
_ENDS_LATER = (
    "keeps training until its object is deleted, and nothing of it is kept",
    "keep training until their objects are deleted, and nothing of them is kept",
)


def attention(plan: Plan) -> tuple[Attention, ...]:
    """Return the kinds that have at least one item."""
    listed = plan.listed
    lost = _endings([it for it in listed if it.loses], *_ENDS)
    later = _endings([it for it in listed if _loses_later(it)], *_ENDS_LATER)
    return worst_first(
        (
            *(of_jobs(it.value, Concern.BLOCKS, _blocked(plan, it)) for it in BLOCKED),
            elsewhere("errors", Concern.BLOCKS, _errors(plan), "findings-title"),
            of_jobs("loses progress", Concern.LOSES, lost),
            of_jobs("overwrites checkpoints", Concern.LOSES, _overwriting(plan)),
            of_jobs("loses progress later", Concern.ENDS, later),
            elsewhere("changed destination", Concern.ENDS, _settings(plan, moves=True)),
            elsewhere("deleted checkpoints", Concern.LOSES, _checkpoints(plan), "objects-title"),
            of_jobs(words.NEVER, Concern.EXCEEDS, _unadmitted(plan)),
            of_jobs(words.CANNOT_START, Concern.EXCEEDS, _pending(plan)),
            elsewhere("over limit", Concern.EXCEEDS, _short(plan), "uses"),
            elsewhere("not rendered", Concern.RISKS, _unrendered(plan)),
            of_jobs("shared run", Concern.RISKS, _shared(plan)),
            elsewhere("unexpected file in wiring/", Concern.RISKS, _foreign(plan)),
            elsewhere("changed setting", Concern.RISKS, _settings(plan, moves=False)),
            elsewhere("changed object", Concern.RISKS, _objects(plan), "objects-title"),
            elsewhere("loosened policy", Concern.RISKS, _policies(plan, loosens=True)),
            elsewhere("tightened policy", Concern.INFORMS, _policies(plan, loosens=False)),
            elsewhere("outdated", Concern.INFORMS, _kept(plan), "shared-title"),
        )
    )


def _item(change: JobChange, why: str) -> Item:
    return Item(str(change.file), why)


def _unadmitted(plan: Plan) -> Iterator[Item]:
    for change in plan.listed:
        if change.unadmitted:
            yield _item(change, words.never(change).removeprefix(f"{words.NEVER}: "))


def _pending(plan: Plan) -> Iterator[Item]:
    for change in plan.listed:
        if change.pending and not change.unadmitted:
            yield _item(change, words.never(change).removeprefix(f"{words.CANNOT_START}: "))


def _blocked(plan: Plan, action: Action) -> Iterator[Item]:
    """Yield the jobs to which something happens that stops a merge, with their first error."""
    first = first_errors(plan.findings)
    for change in plan.listed:
        if change.action is action:
            yield _item(change, first.get(str(change.file), change.why))


def _loses_later(change: JobChange) -> bool:
    return change.ending is not None and change.ending.loses and change.ending.waits


def _overwriting(plan: Plan) -> Iterator[Item]:
    for change in plan.listed:
        if change.overwrites:
            yield _item(
                change, "saves to the folder of another run: write `${{ run.name }}` in its path"
            )


def _endings(changes: Sequence[JobChange], ends: str, end: str) -> Iterator[Item]:
    """Yield what happens to the old runs of jobs, with what each of them holds."""
    sorts = [
        (words.happens(it)[0], gpus_of(it.before.demand.gpus) if it.before else "")
        for it in changes
    ]
    counts = Counter(sorts)
    for change, (action, gpus) in zip(changes, sorts, strict=True):
        one = f"the run{gpus and f' with {gpus}'} {ends}"
        each = f"the runs{gpus and f' with {gpus} each'} {end}"
        yield _item(change, f"{action}: {one if counts[action, gpus] == 1 else each}")


def _errors(plan: Plan) -> Iterator[Item]:
    """Yield the errors that are about no blocked job."""
    blocked = {str(change.file) for change in plan.listed if change.action in BLOCKED}
    for finding in (*plan.underived, *plan.findings):
        if finding.severity is Severity.ERROR and finding.subject not in blocked:
            yield Item(str(finding.place), finding.message)


def _short(plan: Plan) -> Iterator[Item]:
    for environment in plan.changing:
        for fit in environment.fits:
            if fit.is_worse:
                yield Item(f"{environment.name} {fit.what}", words.fitting(fit))


def _shared(plan: Plan) -> Iterator[Item]:
    for change in plan.listed:
        if change.shared and change.was:
            yield _item(change, f"{change.was.environment} applies it, too")


def _unrendered(plan: Plan) -> Iterator[Item]:
    for change in plan.changes:
        if change.unrendered:
            yield _item(change, "its rendered files are not up to date")


def _foreign(plan: Plan) -> Iterator[Item]:
    for path in plan.wiring.earlier:
        yield Item(path, f"is from before the last edit: run `{WIRE}`")
    for path in (it for it in plan.wiring.foreign if it not in plan.wiring.earlier):
        yield Item(path, "is not written so by `trainwright gitops wire`")


def _settings(plan: Plan, *, moves: bool) -> Iterator[Item]:
    """Yield what applies runs otherwise or elsewhere; the notes have what follows from it."""
    for change in plan.wiring.settings:
        if change.moves is moves:
            yield Item(change.environment, change_line(change.cause))


def _checkpoints(plan: Plan) -> Iterator[Item]:
    for change in filter(attrgetter("checkpoints"), plan.objects):
        what = f"goes with the checkpoints of {change.checkpoints}"
        yield Item(f"{change.environment} {change.object}", "; ".join((what, *change.effects)))


def _objects(plan: Plan) -> Iterator[Item]:
    """Yield the objects whose change has an effect on jobs, or grants rights."""
    for change in plan.objects:
        given = (words.changed_object(change),) if change.gives else ()
        if (change.effects and not change.checkpoints) or given:
            what = "; ".join((*given, *change.effects))
            yield Item(f"{change.environment} {change.object}", what)


def _policies(plan: Plan, *, loosens: bool) -> Iterator[Item]:
    for change in plan.policies:
        if change.loosens is loosens:
            yield Item("", words.policy(change))


def _kept(plan: Plan) -> Iterator[Item]:
    """Yield the jobs that a shared file outdates, with the file."""
    jobs = {job: file.file for file in plan.shared_files for job in file.jobs}
    for change in plan.changes:
        if change.action is Action.OUTDATED and change.file in jobs:
            yield _item(change, f"until the next run: {jobs[change.file]}")
