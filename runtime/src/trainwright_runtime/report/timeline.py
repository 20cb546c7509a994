"""What happened in a run, in order: all workers' events, with similar ones joined in one row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainwright_runtime.observe.journal import Event
from trainwright_runtime.report.job import Job
from trainwright_runtime.report.text import duration, plural

# A checkpoint is written while training goes on, often until after the next was requested.
_CHECKPOINT, _SAVED = "checkpoint", "saved"

_PARTING = ("killed", "failure", "restart", "resize")

# Seconds after which the same is another row: workers of one start are not that far apart.
_APART = 5.0

# Fields that a row has in another form, or that only goodput needs.
_HIDDEN = ("launched", "recovery")

Kind = tuple[str, str]  # the name and the particulars, which events of a row share


@dataclass(frozen=True, slots=True)
class Happened:
    """An event of a worker."""

    worker: str
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Events of one kind: seconds since the run began, who, and the particulars."""

    begin: float
    end: float
    name: str
    count: int
    workers: tuple[str, ...]
    detail: str


def timeline(job: Job) -> Iterator[Row]:
    """Yield the rows, by time."""
    happened = sorted(
        (Happened(worker.name, event) for worker in job.workers for event in worker.events),
        # A kill is shown at the last that was written.
        key=lambda item: (item.event.time, item.event.name == "killed"),
    )
    for (name, _), group in _groups(happened):
        yield Row(
            begin=group[0].event.time - job.begin,
            end=group[-1].event.time - job.begin,
            name=name,
            count=sum(item.event.name == name for item in group),
            workers=tuple(dict.fromkeys(item.worker for item in group)),
            detail=_checkpoints(group) if name == _CHECKPOINT else _fields(group[0].event),
        )


def _groups(happened: Iterable[Happened]) -> list[tuple[Kind, list[Happened]]]:
    """Group into one row what workers do alike at about the same time; and into another all
    checkpoints between two events that divide the run.
    """
    groups: list[tuple[Kind, list[Happened]]] = []
    current: dict[Kind, list[Happened]] = {}
    for item in happened:
        kind = _kind(item)
        if item.event.name in _PARTING:
            current.pop((_CHECKPOINT, ""), None)
        group = current.get(kind)
        if group is None or (
            kind[0] != _CHECKPOINT and item.event.time - group[-1].event.time > _APART
        ):
            group = current[kind] = []
            groups.append((kind, group))
        group.append(item)
    return groups


def _kind(item: Happened) -> Kind:
    if item.event.name in (_CHECKPOINT, _SAVED):
        return _CHECKPOINT, ""
    return item.event.name, _fields(item.event)


def _checkpoints(group: Sequence[Happened]) -> str:
    """Return in words how many checkpoints there were, and for how long training stood still."""
    stalls = [item.event.number("stall") for item in group if item.event.name == _CHECKPOINT]
    saved = [item.event for item in group if item.event.name == _SAVED]
    parts = [f"{plural(len(stalls), 'stall')} of {duration(sum(stalls))}"] if stalls else []
    if len(stalls) > 1:
        parts.append(f"{duration(max(stalls))} at worst")
    if saved:
        parts.append(f"{len(saved)} on the disk, the last of step {saved[-1].fields.get('step')}")
    return ", ".join(parts)


def _fields(event: Event) -> str:
    fields = {key: value for key, value in event.fields.items() if key not in _HIDDEN}
    return ", ".join(f"{key} {value}" for key, value in fields.items())
