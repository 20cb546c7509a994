"""Code lenses: what happens to a job, above its name; and how many jobs a shared value reaches."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from trainwright.authoring.place import Place, environment_of, kind_of
from trainwright.authoring.text import Position
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile, job_of
from trainwright.datatypes.listing import plural
from trainwright.datatypes.pointer import Pointer
from trainwright.runs.decision import Decision, Step
from trainwright.specs.demand import Demand, Range
from trainwright_editor.language_server.navigation import naming, uses
from trainwright_editor.language_server.reach import reach

if TYPE_CHECKING:
    from trainwright.authoring.session import Session

_SHARED = ("pools", "queues")
_START = Position(0, 0)


@dataclass(frozen=True, slots=True)
class Lens:
    """A line of text above a line of a file."""

    line: int
    title: str


def lenses(session: Session, path: str) -> Iterator[Lens]:
    """The lenses of a file."""
    kind, text = kind_of(path), session.text(path)
    if kind == "job":
        name = text.by_pointer.get(Pointer("/name"))
        line = name.span.start.line if name else 0
        file = job_of(path)
        if session.workspace.has(file):
            yield from (Lens(line, title) for title in _job(session, file))
        if reached := [job for job in session.check.reached(path) if job != file]:
            yield Lens(line, _reaching(session, "extended", reached))
    elif kind in ("defaults", "environment"):
        entry = text.by_pointer.get(Pointer("/defaults"))
        if entry is not None:
            reached = list(session.check.reached(path))
            yield Lens(entry.span.start.line, _reaching(session, "inherited", reached))
    if kind == "environment":
        for entry in text.entries:
            key, *rest = entry.pointer.parts
            if key in _SHARED and len(rest) == 1:
                yield Lens(entry.span.start.line, _named(session, path, key, rest[0]))


def _named(session: Session, path: str, key: str, name: str) -> str:
    """Return how often a pool or queue is named, and what a change of it does."""
    environment, place = environment_of(session, path), Place(session, path, _START)
    lines = len(list(uses(place, environment, key, name)))
    jobs = list(naming(session, environment, key, name))
    return reach(session, jobs).after(f"named on {plural(lines, 'line')}")


def _reaching(session: Session, how: str, jobs: Collection[JobFile]) -> str:
    return reach(session, jobs).after(f"{how} by {plural(len(jobs), 'job')}")


def _job(session: Session, file: JobFile) -> Iterator[str]:
    try:
        run, resolved = session.workspace.run(file), session.workspace.job(file)
    except TrainwrightError:
        return
    if run.object:
        outdated = f", outdated by {plural(len(run.held), 'change')}" if run.held else ""
        yield f"{run.object}: {run.status}{outdated}"
    else:
        yield run.status
    if resolved.decision is not None:
        yield _next(resolved.decision)
    if resolved.job is not None and (
        requested := _requested(session.workspace.demand(resolved.job))
    ):
        yield requested


def _next(decision: Decision) -> str:
    """Return what merging this does to the job, according to `plan`."""
    was = decision.record.object if decision.record else ""
    if decision.step is Step.BEGIN:
        return f"plan: begins {decision.name}" + (f" instead of {was}" if was else "")
    if decision.step is Step.ADOPT:
        return f"plan: {decision.name} goes on as it is in the cluster"
    if decision.step is Step.ADJUST:
        return f"plan: {decision.name} becomes {decision.state}, in place"
    if decision.step is Step.END:
        return f"plan: {decision.name} is {decision.state}"
    return "plan: unchanged"


def _requested(demand: Demand) -> str:
    parts = []
    if demand.gpus:
        parts.append(f"{_range(demand.gpus)} GPUs")
    if demand.hours:
        parts.append(f"at most {_range(demand.hours)} GPU-hours")
    if demand.cost:
        parts.append(f"cost {_range(demand.cost)}")
    return ", ".join(parts)


def _range(value: Range) -> str:
    low, high = (f"{number:,.0f}" for number in (value.low, value.high))
    return low if low == high else f"{low} to {high}"
