"""Metrics files of one job, read back: its workers, their lives and what happened when.

Each file is what one worker noted (`journal.py`). Several are one job: their throughputs add up.
"""

from __future__ import annotations

import math
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path

from trainwright_runtime.observe.goodput import Split, split
from trainwright_runtime.observe.journal import Event, Past, Record, Scalar, Steps, read
from trainwright_runtime.observe.redaction import redact

# Events that the runtime notes, in the order in which they are shown. Other names follow.
EVENTS = ("killed", "restart", "resize", "checkpoint", "stop", "start", "end")

# The events that a process records first, and last unless it is killed.
_FIRST_WORDS = ("start", "restart")
_LAST_WORDS = ("stop", "end")

_INVISIBLE = ("Cc", "Cf", "Cs")


class ReportError(Exception):
    """The report cannot be made; the message is the one line the user sees."""


@dataclass(frozen=True)
class Attempt:
    """The records of one process of a worker, with the entrypoint's record of its failure."""

    records: tuple[Record, ...]  # never empty
    is_last: bool = field(kw_only=True)

    @property
    def begin(self) -> float:
        return self.records[0].time

    @property
    def end(self) -> float:
        return self.records[-1].time

    @cached_property
    def last(self) -> Record:
        """What the process itself wrote last: a failure is noted later, by the entrypoint."""
        own = (r for r in reversed(self.records) if not isinstance(r, Event) or r.name != "failure")
        return next(own, self.records[-1])

    @property
    def has_ended_itself(self) -> bool:
        return isinstance(self.last, Event) and self.last.name in _LAST_WORDS

    @property
    def failure(self) -> Event | None:
        """The failure of this process, if it was the first of its node to fail."""
        return next((r for r in self.records if isinstance(r, Event) and r.name == "failure"), None)

    @property
    def steps(self) -> tuple[int, int] | None:
        """The numbers of its first and its last step, or None without steps."""
        steps = [record for record in self.records if isinstance(record, Steps)]
        return (steps[0].first, steps[-1].step) if steps else None

    @property
    def outcome(self) -> str:
        """How it ended, as far as the file shows."""
        if isinstance(self.last, Event) and self.last.name == "end":
            return "ended"
        if self.has_ended_itself and isinstance(self.last, Event):
            return f"stopped: {self.last.fields.get('reason', 'no reason recorded')}"
        return "no end recorded" if self.is_last and self.failure is None else "killed"


@dataclass(frozen=True, kw_only=True)
class Worker:
    """The records of one file, in order, never empty; a life is what one process wrote."""

    name: str
    lives: tuple[tuple[Record, ...], ...]
    broken: int = 0

    @cached_property
    def past(self) -> Past:
        past = Past()
        for record in self.records:
            past.add(record)
        return past

    @property
    def records(self) -> Iterator[Record]:
        return chain.from_iterable(self.lives)

    @property
    def steps(self) -> Iterator[Steps]:
        return (record for record in self.records if isinstance(record, Steps))

    @cached_property
    def attempts(self) -> tuple[Attempt, ...]:
        last = len(self.lives)
        return tuple(Attempt(life, is_last=n == last) for n, life in enumerate(self.lives, 1))

    @property
    def events(self) -> Iterator[Event]:
        """Yield the events, then `killed` for each life but the last that has no `stop` or `end`.

        No process can record its own SIGKILL; it came soon after the last line that was written.
        """
        yield from (record for record in self.records if isinstance(record, Event))
        for attempt in self.attempts[:-1]:
            if not attempt.has_ended_itself:
                yield Event(time=attempt.last.time, name="killed")

    @property
    def stalls(self) -> Iterator[float]:
        """Seconds for which each checkpoint held training up."""
        for event in self.events:
            if event.name == "checkpoint":
                yield event.number("stall")

    @property
    def begin(self) -> float:
        return self.lives[0][0].time

    @property
    def end(self) -> float:
        return self.lives[-1][-1].time


def files_of(path: Path) -> list[Path]:
    """Return the file itself, or a folder's metrics files, by number: rank-2 before rank-10."""
    if not path.is_dir():
        return [path]
    try:
        files = [file for file in path.iterdir() if file.suffix == ".jsonl"]
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from error
    if not files:
        raise ReportError(
            f"{path}: there is no .jsonl file; expected a folder of TRAINWRIGHT_METRICS_DIR"
        )
    return sorted(files, key=lambda file: _by_number(file.name))


def _by_number(name: str) -> list[tuple[int, str]]:
    return [
        (int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)
    ]


def load(path: Path) -> Worker:
    """Return the worker that wrote a file. Raise ReportError if no records can be read from it."""
    try:
        lines = list(read(path))
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from error
    lives: list[list[Record]] = []
    for record in (_shown(line) for line in lines if line is not None):
        if not lives or (isinstance(record, Event) and record.name in _FIRST_WORDS):
            lives.append([])
        lives[-1].append(record)
    if not lives:
        what = f"none of its {len(lines)} lines can be read" if lines else "it is empty"
        raise ReportError(f"{path}: {what}; expected a file of TRAINWRIGHT_METRICS_DIR")
    return Worker(name=visible(path.stem), lives=tuple(map(tuple, lives)), broken=lines.count(None))


def load_all(paths: Sequence[Path]) -> tuple[Worker, ...]:
    """Return the workers of several files and folders. Raise ReportError for all that is wrong."""
    workers, errors = [], []
    for path in paths:
        try:
            files = files_of(path)
        except ReportError as error:
            errors.append(str(error))
            continue
        for file in files:
            try:
                workers.append(load(file))
            except ReportError as error:
                errors.append(str(error))
    if errors:
        raise ReportError("\nerror: ".join(errors))
    return tuple(workers)


def _shown(record: Record) -> Record:
    """Return a record that every output can show: events' names and fields may hold anything."""
    if isinstance(record, Steps):
        return record
    fields = {visible(key): _scalar(value) for key, value in record.fields.items()}
    return Event(time=record.time, name=visible(record.name), fields=fields)


def _scalar(value: object) -> Scalar:
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float) and math.isfinite(value):  # JSON has no others
        return value
    return visible(redact(str(value), os.environ))


def visible(text: str) -> str:
    """Return text with control characters, direction marks and lone surrogates spelled out."""
    return "".join(
        ascii(letter)[1:-1] if unicodedata.category(letter) in _INVISIBLE else letter
        for letter in text
    )


@dataclass(frozen=True, kw_only=True)
class Job:
    """The workers of a job on one time axis: seconds since the first of them started."""

    workers: tuple[Worker, ...]
    run: str = ""  # its name in the cluster, with the environment before it where that is known
    submitted: float | None = None  # Unix seconds
    ideal_step: float | None = None  # seconds of a step at the hardware's best

    @property
    def program_goodput(self) -> float | None:
        """The ideal step time over the mean one, at most 1; None if the ideal one is unknown."""
        steps = sum(line.steps for line in self.steps)
        seconds = sum(line.seconds for line in self.steps)
        if self.ideal_step is None or not seconds:
            return None
        return min(1.0, self.ideal_step * steps / seconds)

    @property
    def mpg(self) -> float | None:
        """Scheduling times runtime times program goodput; None if the last is unknown."""
        program = self.program_goodput
        if program is None:
            return None
        return self.split.scheduling_goodput * self.split.runtime_goodput * program

    @cached_property
    def failures(self) -> tuple[tuple[str, Event], ...]:
        """Each first failure of a node, by time, with the name of its worker."""
        failures = [
            (worker.name, event)
            for worker in self.workers
            for event in worker.events
            if event.name == "failure"
        ]
        return tuple(sorted(failures, key=lambda failure: failure[1].time))

    @cached_property
    def slow(self) -> Mapping[str, int]:
        """How often each worker, by name, was reported as slower than the others for long."""
        events = chain.from_iterable(worker.events for worker in self.workers)
        return Counter(str(e.fields.get("worker")) for e in events if e.name == "slow")

    @cached_property
    def begin(self) -> float:
        return min(worker.begin for worker in self.workers)

    @cached_property
    def duration(self) -> float:
        return max(worker.end for worker in self.workers) - self.begin

    @cached_property
    def steps(self) -> tuple[Steps, ...]:
        return tuple(chain.from_iterable(worker.steps for worker in self.workers))

    @cached_property
    def events(self) -> Mapping[str, Sequence[float]]:
        """The times of the events of each name, in seconds after `begin`."""
        times: dict[str, list[float]] = {name: [] for name in EVENTS}
        for event in chain.from_iterable(worker.events for worker in self.workers):
            times.setdefault(event.name, []).append(event.time - self.begin)
        return {name: sorted(moments) for name, moments in times.items() if moments}

    @cached_property
    def split(self) -> Split:
        """Where the time of all workers went."""
        parts = (split(worker.lives, self.submitted) for worker in self.workers)
        return sum(parts, Split())

    @cached_property
    def goodput(self) -> float:
        """Useful time over wall time, from each worker's first start to its last record."""
        wall = sum(worker.end - worker.begin for worker in self.workers)
        return sum(worker.past.useful.seconds for worker in self.workers) / wall if wall else 0.0

    @cached_property
    def world_sizes(self) -> tuple[tuple[float, int], ...]:
        """Return each world size with the time from which it held; 0 while no worker trained."""
        changes = [(0.0, 0)]
        until = 0.0
        for start, end, size in sorted(chain.from_iterable(map(_training, self.workers))):
            if start > until and changes[-1][1]:
                changes.append((until - self.begin, 0))
            if size != changes[-1][1]:
                changes.append((start - self.begin, size))
            until = max(until, end)
        if changes[-1][1] and until - self.begin < self.duration:
            changes.append((until - self.begin, 0))
        return tuple(changes)

    @property
    def mean_world_size(self) -> float:
        """Return the mean over the time in which any worker was training."""
        ends = [*(start for start, _ in self.world_sizes[1:]), self.duration]
        spans = [(end - start, n) for (start, n), end in zip(self.world_sizes, ends, strict=True)]
        trained = sum(span for span, size in spans if size)
        return sum(span * size for span, size in spans) / trained if trained else 0.0


def _training(worker: Worker) -> Iterator[tuple[float, float, int]]:
    """Yield when a worker trained: start and end, in Unix seconds, and the world size."""
    for life in worker.lives:
        lines = (record for record in life if isinstance(record, Steps))
        same = [list(group) for _, group in groupby(lines, key=lambda steps: steps.world_size)]
        starts = [steps[0].time - steps[0].seconds - steps[0].data_wait for steps in same]
        for steps, start, end in zip(same, starts, [*starts[1:], life[-1].time], strict=False):
            yield start, end, steps[0].world_size
