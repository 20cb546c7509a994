"""What needs attention, worst first: jobs with errors, failed jobs, limits, waiting objects."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.kinds.state import Phase
from trainwright.overview.limits import by_share
from trainwright.overview.model import JobOverview, Overview
from trainwright.plan import words
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
from trainwright.runs.workspace import RunState
from trainwright.specs.ledger import LedgerEntry

_GONE = frozenset({Phase.ABSENT, Phase.DELETING, Phase.DELETED})


def troubles(overview: Overview) -> tuple[Attention, ...]:
    """Return the kinds of trouble that have at least one item."""
    failed, errors, short = _failed(overview), _errors(overview), _short(overview)
    waiting, unread, outdated = _waiting(overview), _unread(overview), _outdated(overview)
    return worst_first(
        (
            of_jobs("with errors", Concern.BLOCKS, errors),
            of_jobs("failed", Concern.LOSES, failed),
            elsewhere("over limit", Concern.EXCEEDS, short, "capacity"),
            of_jobs("waiting for deletion", Concern.RISKS, waiting),
            elsewhere("not read", Concern.RISKS, unread),
            of_jobs("not rendered", Concern.RISKS, _unrendered(overview)),
            of_jobs("outdated", Concern.RISKS, outdated),
        )
    )


def _failed(overview: Overview) -> Iterator[Item]:
    """Yield the jobs whose run failed: those that a cluster has so now, then the newest."""
    failed = [job for job in overview.jobs if _fails_now(job) or job.run.outcome == "failed"]
    for job in sorted(failed, key=_when, reverse=True):
        yield Item(str(job.file), _reason(job))


def _fails_now(job: JobOverview) -> bool:
    return job.live is not None and job.live.state.phase is Phase.FAILED


def _when(job: JobOverview) -> tuple[bool, str]:
    entry = _entry(job)
    return _fails_now(job), entry.finished if entry else ""


def _reason(job: JobOverview) -> str:
    if job.live is not None and _fails_now(job):
        return job.live.state.message or job.live.state.reason
    entry = _entry(job)
    return " ".join(filter(None, (entry.finished, entry.reason, entry.note))) if entry else ""


def _entry(job: JobOverview) -> LedgerEntry | None:
    """Return what the ledger has of a job's present run."""
    return next((it for it in job.finished if it.object == job.run.object), None)


def _errors(overview: Overview) -> Iterator[Item]:
    first = first_errors(overview.findings)
    for job in overview.jobs:
        name = str(job.file)
        if name in first:
            yield Item(name, first[name])
        elif job.run.state is RunState.UNREADABLE:
            yield Item(name, "the record of its run cannot be read")


def _short(overview: Overview) -> Iterator[Item]:
    """Yield the limits that are too small, beginning with the one that is exceeded most."""
    for environment, fit in by_share(overview):
        if fit.short:
            yield Item(f"{environment.name} {fit.what}", words.fitting(fit))


def _waiting(overview: Overview) -> Iterator[Item]:
    """Yield the objects of runs that are over according to git but still in a cluster, and those
    that git has no more and that no engine deletes.
    """
    seen = set[tuple[str, str]]()
    for run in overview.left:
        if run.state.phase not in _GONE:
            seen.add((str(run), run.object))
            yield Item(str(run), f"{run.object} {run.state.phase.value}")
    for left in (run for environment in overview.environments for run in environment.left):
        if (str(left.file), left.object) not in seen:
            yield Item(str(left.file), words.brief(f"{left.object} {words.left_run(left)}"))


def _unrendered(overview: Overview) -> Iterator[Item]:
    """Yield the jobs of which the sums count what their sources ask for, which is not rendered."""
    for job in overview.jobs:
        if job.stale:
            yield Item(str(job.file), "its rendered files are not up to date: `trainwright render`")


def _unread(overview: Overview) -> Iterator[Item]:
    """Yield the namespaces whose live state was asked for but could not be read."""
    for unread in overview.unread:
        yield Item(f"{unread.environment}: namespace {unread.namespace}", str(unread.error))


def _outdated(overview: Overview) -> Iterator[Item]:
    for job in overview.jobs:
        if job.run.held:
            yield Item(str(job.file), change_line(job.run.held[0]))
