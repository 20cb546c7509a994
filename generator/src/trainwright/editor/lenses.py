"""What becomes of a job, beside its name; and how far a shared value reaches."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.editor.navigation import uses
from trainwright.editor.place import Place, environment_of, kind_of
from trainwright.editor.session import Session, job_of
from trainwright.errors import TrainwrightError
from trainwright.frozen import dataclass
from trainwright.pointer import Pointer
from trainwright.runs.decision import Decision, Step
from trainwright.specs.demand import Demand, Range
from trainwright.specs.load import JobFile

_SHARED = ("pools", "queues")


@dataclass(frozen=True, slots=True)
class Lens:
    """A line of text above a line of a file."""

    line: int
    title: str


def lenses(session: Session, path: str) -> Iterator[Lens]:
    """What there is to say of a file."""
    kind, text = kind_of(path), session.text(path)
    if kind == "job":
        name = text.by_pointer.get(Pointer("/name"))
        line = name.span.start.line if name else 0
        file = job_of(path)
        if session.workspace.has(file):
            yield from (Lens(line, title) for title in _job(session, file))
        if reached := [one for one in session.check.reached(path) if one != file]:
            yield Lens(line, f"extended by {_count(len(reached), 'job')}")
    elif kind in ("defaults", "environment"):
        entry = text.by_pointer.get(Pointer("/defaults"))
        if entry is not None:
            reached = list(session.check.reached(path))
            yield Lens(entry.span.start.line, f"inherited by {_count(len(reached), 'job')}")
    if kind == "environment":
        for entry in text.entries:
            key, *rest = entry.pointer.parts
            if key in _SHARED and len(rest) == 1:
                place = Place(session, path, entry.span.start)
                found = list(uses(place, environment_of(session, path), key, rest[0]))
                yield Lens(entry.span.start.line, f"named on {_count(len(found), 'line')}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _job(session: Session, file: JobFile) -> Iterator[str]:
    try:
        run, found = session.workspace.run(file), session.workspace.job(file)
    except TrainwrightError:
        return
    if run.object:
        behind = f", behind {_count(len(run.held), 'change')}" if run.held else ""
        yield f"{run.object}: {run.status}{behind}"
    else:
        yield run.status
    if found.decision is not None:
        yield _next(found.decision)
    if found.job is not None and (asked := _asked(session.workspace.demand(found.job))):
        yield asked


def _next(decision: Decision) -> str:
    """What `plan` says of the job once this is merged."""
    was = decision.record.object if decision.record else ""
    if decision.step is Step.BEGIN:
        return f"plan: begins {decision.name}" + (f" instead of {was}" if was else "")
    if decision.step is Step.ADJUST:
        return f"plan: {decision.name} becomes {decision.state}, in place"
    if decision.step is Step.END:
        return f"plan: {decision.name} is {decision.state}"
    return "plan: unchanged"


def _asked(demand: Demand) -> str:
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
