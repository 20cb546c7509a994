"""What a reviewer has to know of a merge before its jobs are read one by one, worst first."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.finding import Severity
from trainwright.plan import words
from trainwright.plan.model import Action, JobChange, Plan
from trainwright.plan.training import gpus_of
from trainwright.reports.attention import Attention, Item

_UNSAVED = "nothing of it is saved"
_BLOCKED = (Action.REJECTED, Action.BROKEN)


def attention(plan: Plan) -> tuple[Attention, ...]:
    """Return the kinds that have at least one item."""
    listed = plan.listed
    lost = (_item(it, f"{it.action.value}: {_UNSAVED}") for it in listed if it.loses)
    later = (_item(it, _held(it)) for it in listed if _loses_later(it))
    red, yellow = "danger", "warning"
    kinds = (
        *(Attention(kind=it.value, tone=red, items=tuple(_blocked(plan, it))) for it in _BLOCKED),
        Attention(kind="loses progress", tone=red, items=tuple(lost)),
        Attention(kind="loses progress later", tone=yellow, items=tuple(later)),
        _elsewhere("errors", red, "findings-title", _errors(plan)),
        _elsewhere("over limit", red, "uses", _short(plan)),
        _elsewhere("loosened policy", yellow, "", _policies(plan, loosens=True)),
        _elsewhere("tightened policy", "", "", _policies(plan, loosens=False)),
        _elsewhere("keeps old values", "", "shared-title", _kept(plan)),
    )
    return tuple(kind for kind in kinds if kind.items)


def _elsewhere(kind: str, tone: str, section: str, items: Iterator[Item]) -> Attention:
    """Return a kind of which the list of jobs knows nothing."""
    return Attention(kind=kind, tone=tone, items=tuple(items), of_jobs=False, section=section)


def _item(change: JobChange, why: str) -> Item:
    return Item(str(change.file), why)


def _blocked(plan: Plan, action: Action) -> Iterator[Item]:
    """Yield the jobs to which something happens that stops a merge, with their first error."""
    errors = [finding for finding in plan.findings if _is_error(finding.severity)]
    first = {finding.subject: finding.message for finding in reversed(errors)}
    for change in plan.listed:
        if change.action is action:
            yield _item(change, first.get(str(change.file), change.why))


def _is_error(severity: Severity) -> bool:
    return severity is Severity.ERROR


def _loses_later(change: JobChange) -> bool:
    return change.ending is not None and change.ending.loses and change.ending.waits


def _held(change: JobChange) -> str:
    """Return until when the old run of a job goes on, and what it holds."""
    gpus = gpus_of(change.before.demand.gpus) if change.before else ""
    goes_on = f"trains on {gpus and f'with {gpus} '}until its object is deleted"
    return f"{change.action.value}: {goes_on}; {_UNSAVED}"


def _errors(plan: Plan) -> Iterator[Item]:
    """Yield the errors of what is not blocked itself."""
    blocked = {str(change.file) for change in plan.listed if change.action in _BLOCKED}
    for finding in (*plan.underived, *plan.findings):
        if _is_error(finding.severity) and finding.subject not in blocked:
            yield Item(str(finding.place), finding.message)


def _short(plan: Plan) -> Iterator[Item]:
    for environment in plan.changing:
        for fit in environment.fits:
            if fit.is_worse:
                yield Item(f"{environment.name} {fit.what}", words.fitting(fit))


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
