"""What needs attention, worst first: failed jobs, jobs with errors, limits, waiting objects."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.finding import Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.kinds.state import Phase
from trainwright.overview.model import JobOverview, Overview
from trainwright.plan import words
from trainwright.reports.values import change_line
from trainwright.runs.workspace import RunState

_GONE = frozenset({Phase.ABSENT, Phase.DELETING, Phase.DELETED})


@dataclass(frozen=True, slots=True)
class Item:
    """A job or a limit, and what is wrong with it in a few words."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Items of one kind; `tone` is how the page shows it."""

    kind: str
    tone: str
    items: tuple[Item, ...]
    of_jobs: bool = True  # whether the list of jobs can be filtered by it


def troubles(overview: Overview) -> tuple[Trouble, ...]:
    """Return the kinds of trouble that have at least one item."""
    kinds = (
        Trouble(kind="failed", tone="danger", items=tuple(_failed(overview))),
        Trouble(kind="errors", tone="danger", items=tuple(_errors(overview))),
        Trouble(kind="too small", tone="danger", items=tuple(_short(overview)), of_jobs=False),
        Trouble(
            kind="waits for its deletion",
            tone="warning",
            items=tuple(_waiting(overview)),
            of_jobs=False,
        ),
        Trouble(kind="not read", tone="warning", items=tuple(_unread(overview)), of_jobs=False),
        Trouble(kind="outdated", tone="warning", items=tuple(_outdated(overview))),
    )
    return tuple(kind for kind in kinds if kind.items)


def _failed(overview: Overview) -> Iterator[Item]:
    for job in overview.jobs:
        if job.live is not None and job.live.state.phase is Phase.FAILED:
            yield Item(str(job.file), job.live.state.message or job.live.state.reason)
        elif job.run.outcome == "failed":
            yield Item(str(job.file), _reason(job))


def _reason(job: JobOverview) -> str:
    entry = next((it for it in job.finished if it.object == job.run.object), None)
    return " ".join(filter(None, (entry.finished, entry.reason, entry.note))) if entry else ""


def _errors(overview: Overview) -> Iterator[Item]:
    first: dict[str, str] = {}
    for finding in overview.findings:
        if finding.severity is Severity.ERROR:
            first.setdefault(finding.subject, finding.message)
    for job in overview.jobs:
        name = str(job.file)
        if name in first:
            yield Item(name, first[name])
        elif job.run.state is RunState.UNREADABLE:
            yield Item(name, "the record of its run cannot be read")


def _short(overview: Overview) -> Iterator[Item]:
    for environment in overview.environments:
        for fit in environment.fits:
            if fit.short:
                yield Item(f"{environment.name} {fit.what}", words.fitting(fit))


def _waiting(overview: Overview) -> Iterator[Item]:
    """Yield the objects of runs that are over according to git but still in a cluster."""
    for run in overview.left:
        if run.state.phase not in _GONE:
            yield Item(f"{run.environment}/{run.object}", run.state.phase.value)


def _unread(overview: Overview) -> Iterator[Item]:
    """Yield the namespaces whose live state was asked for but could not be read."""
    for unread in overview.unread:
        yield Item(f"{unread.environment}: namespace {unread.namespace}", str(unread.error))


def _outdated(overview: Overview) -> Iterator[Item]:
    for job in overview.jobs:
        if job.run.held:
            yield Item(str(job.file), change_line(job.run.held[0]))
