"""The file of JSON lines in which a training process notes what it does, written and read back.

docs/metrics.md describes the lines.
"""

from __future__ import annotations

import io
import json
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

# Of the lines. A reader skips those of another version.
VERSION = 1

# Seconds between two lines about steps: all that SIGKILL can take, and what keeps a file below
# 20 MB a day.
LINE_INTERVAL = 1.0

# Unix seconds of the year 10000, which is later than a date can be.
_END_OF_TIME = 253_402_300_800.0

_log = logging.getLogger(__name__)

Scalar = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Consecutive steps of one process, as one line holds them.

    `step` is the number of the last one and `time` when it ended, in Unix seconds. `seconds` is
    their sum without `data_wait`, the time they waited for their batches; `slowest` the longest.
    """

    time: float
    step: int
    steps: int
    samples: int
    seconds: float
    data_wait: float
    slowest: float
    world_size: int

    @property
    def first(self) -> int:
        """The number of the first of the steps."""
        return self.step - self.steps + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """An occasional event: start, restart, checkpoint, failure and such, or the user's own."""

    time: float
    name: str
    fields: Mapping[str, Scalar] = field(default_factory=dict)

    def number(self, name: str) -> float:
        """Return a field as a duration or size; 0 if it is none: fields may be the user's own."""
        value = self.fields.get(name)
        try:
            return _seconds(value)
        except (ValueError, OverflowError):
            return 0.0


Record = Steps | Event


def encode(record: Record) -> bytes:
    """Return a record as its line."""
    if isinstance(record, Steps):
        name, fields = "steps", asdict(record)
    else:
        name, fields = record.name, dict(record.fields)
    line = {"v": VERSION, "event": name, "time": round(record.time, 6)}
    line |= {
        key: round(value, 6) if isinstance(value, float) else value
        for key, value in fields.items()
        if key not in line
    }
    return json.dumps(line, default=str).encode() + b"\n"


def decode(line: bytes) -> Record | None:
    """Return a line's record, or None if it holds none: a killed writer leaves half a line."""
    try:
        data = json.loads(line)
        if data.pop("v") != VERSION:
            return None
        name, at = str(data.pop("event")), _seconds(data.pop("time"), _END_OF_TIME)
        if name != "steps":
            return Event(time=at, name=name, fields=data)
        return Steps(
            time=at,
            step=_count(data["step"]),
            steps=_count(data["steps"], 1),
            samples=_count(data["samples"]),
            seconds=_seconds(data["seconds"]),
            data_wait=_seconds(data["data_wait"]),
            slowest=_seconds(data["slowest"]),
            world_size=_count(data["world_size"], 1),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _seconds(value: object, limit: float = math.inf) -> float:
    number = float(value) if isinstance(value, int | float) else math.nan
    if not 0 <= number < limit:
        raise ValueError(f"{value!r} is not a time")
    return number


def _count(value: object, least: int = 0) -> int:
    if not isinstance(value, int) or value < least:
        raise ValueError(f"{value!r} is not a count")
    return value


def read(path: Path) -> Iterator[Record | None]:
    """Yield the records of a file, line by line; None for each line that cannot be read."""
    with path.open("rb") as lines:
        yield from map(decode, filter(bytes.strip, lines))


class Useful:
    """Seconds of the steps whose result was kept: those that no restart took back.

    A restart goes on after the last checkpoint, and so trains some steps again: a step whose number
    was there before takes back every step from that number on.
    """

    def __init__(self) -> None:
        self._kept: list[tuple[int, int, float]] = []

    def add(self, first: int, last: int, seconds: float) -> None:
        """Add steps `first` to `last`, which took so many seconds together."""
        while self._kept and self._kept[-1][1] >= first:
            start, end, spent = self._kept.pop()
            if start < first:
                share = (first - start) / (end - start + 1)
                self._kept.append((start, first - 1, spent * share))
        self._kept.append((first, last, seconds))

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()

    def __bool__(self) -> bool:
        return bool(self._kept)

    @property
    def seconds(self) -> float:
        return math.fsum(seconds for _, _, seconds in self._kept)


@dataclass(slots=True, kw_only=True)
class Past:
    """A summary of this worker's earlier lives, from the records in its file."""

    started: float | None = None
    restarts: int = 0
    failures: Counter[str] = field(default_factory=Counter)  # by their cause
    world_size: int | None = None
    useful: Useful = field(default_factory=Useful)

    def add(self, record: Record) -> None:
        """Add the next record of the file."""
        if self.started is None:
            self.started = record.time
        if isinstance(record, Steps):
            self.world_size = record.world_size
            self.useful.add(record.first, record.step, record.seconds)
        elif record.name == "restart":
            self.restarts += 1
        elif record.name == "failure":
            self.failures[str(record.fields.get("cause"))] += 1


class Lines:
    """A file of JSON lines: one for each event, written at once, and one per second for steps."""

    def __init__(self, path: Path) -> None:
        """Open `path` for appending. Raise OSError if it cannot be opened."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = io.FileIO(path, "a+")
        self._torn = _is_torn(self._file)
        self._failed = False
        self._written = -math.inf
        self._step = self._world_size = 0
        self._ended = 0.0
        self._pending: list[tuple[int, float, float]] = []

    def past(self) -> Past:
        """Return a summary of the earlier lives that the file holds."""
        past = Past()
        for record in read(self._path):
            if record is not None:
                past.add(record)
        return past

    def step(
        self, step: int, samples: int, seconds: float, data_wait: float, world_size: int
    ) -> None:
        if step != self._step + 1 or world_size != self._world_size:
            self._flush()
        self._step, self._world_size, self._ended = step, world_size, time.time()
        self._pending.append((samples, seconds, data_wait))
        if not 0 <= self._ended - self._written < LINE_INTERVAL:
            self._flush()

    def event(self, event: Event) -> None:
        self._flush()
        self._write(event)

    def close(self) -> None:
        self._flush()
        self._file.close()

    def _flush(self) -> None:
        """Write a line of the steps that were not written yet."""
        if not self._pending:
            return
        samples, seconds, data_wait = zip(*self._pending, strict=True)
        self._write(
            Steps(
                time=self._ended,
                step=self._step,
                steps=len(self._pending),
                samples=sum(samples),
                seconds=sum(seconds),
                data_wait=sum(data_wait),
                slowest=max(seconds),
                world_size=self._world_size,
            )
        )
        self._written = self._ended
        self._pending.clear()

    def _write(self, record: Record) -> None:
        """Append a record. The first failure to write is logged, further ones are not."""
        # One unbuffered write per line: what was written survives a SIGKILL of the process.
        line = b"\n" * self._torn + encode(record)
        try:
            self._torn = self._file.write(line) < len(line)
        except OSError as error:
            self._torn = True
            if not self._failed:
                self._failed = True
                _log.warning("metrics are lost: cannot write %s: %s", self._path, error.strerror)


def append(path: Path, event: Event) -> None:
    """Add an event to the file of a process that has ended, and so writes no more."""
    try:
        lines = Lines(path)
    except OSError as error:
        _log.warning("metrics are lost: cannot write %s: %s", path, error.strerror)
        return
    lines.event(event)
    lines.close()


def _is_torn(file: io.FileIO) -> bool:
    """Whether the last line lacks its end, as after a kill in the middle of a write."""
    if not file.seek(0, os.SEEK_END):
        return False
    file.seek(-1, os.SEEK_END)
    return file.read(1) != b"\n"
