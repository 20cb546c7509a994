"""Where the time of a training run went: each second of a worker's wall time is in one part.

ETTR is the effective training time ratio, of productive time to all time since the job was
submitted (https://arxiv.org/abs/2410.21680). MPG, machine learning productivity goodput, is the
product of scheduling, runtime and program goodput
(https://cloud.google.com/blog/products/ai-machine-learning/goodput-metric-as-measure-of-ml-productivity).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

from trainwright_runtime.observe.journal import Event, Past, Record, Steps

Life = Sequence[Record]  # what one process wrote; never empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """The wall time of one worker, or of several together, by purpose; in seconds."""

    scheduling: float = 0.0  # nothing ran: queue, pull of the image, replacement of a pod
    start: float = 0.0  # of the first life: from the container's start to its first batch
    recovery: float = 0.0  # starting again, steps that were trained again or not committed
    checkpoint: float = 0.0  # training stood still for one
    stall: float = 0.0  # steps waited for their batches
    training: float = 0.0  # steps whose result was kept
    other: float = 0.0  # evaluation, and whatever else is between steps

    def __add__(self, other: Split) -> Split:
        return Split(**{name: getattr(self, name) + getattr(other, name) for name in PARTS})

    @property
    def wall(self) -> float:
        """The sum of all parts."""
        return math.fsum(getattr(self, name) for name in PARTS)

    @property
    def ettr(self) -> float:
        """Productive time over all time."""
        return _ratio(self.training, self.wall)

    @property
    def scheduling_goodput(self) -> float:
        """Time in which something ran over all time."""
        return _ratio(self.wall - self.scheduling, self.wall)

    @property
    def runtime_goodput(self) -> float:
        """Productive time over the time in which something ran."""
        return _ratio(self.training, self.wall - self.scheduling)


PARTS = tuple(field.name for field in fields(Split))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0


def split(lives: Sequence[Life], submitted: float | None = None) -> Split:
    """Return where one worker's time went, from the submission of its job if that is known."""
    records = [record for life in lives for record in life]
    past = Past()
    for record in records:
        past.add(record)
    steps = [record for record in records if isinstance(record, Steps)]
    training = past.useful.seconds
    launched = _launched(lives[0])
    began = launched if submitted is None else min(submitted, launched)
    gaps = list(_gaps(lives))
    lost = math.fsum(line.seconds for line in steps) - training  # trained again
    known_parts = Split(
        scheduling=launched - began + sum(idle for idle, _ in gaps),
        start=_first_batch(lives[0]) - launched,
        recovery=sum(again for _, again in gaps) + max(0.0, lost) + sum(_recoveries(records)),
        checkpoint=sum(_stalls(records)),
        stall=sum(line.data_wait for line in steps),
        training=training,
    )
    rest = records[-1].time - began - known_parts.wall
    return known_parts + Split(other=max(0.0, rest))


def _gaps(lives: Sequence[Life]) -> Iterator[tuple[float, float]]:
    """Yield, for each life after the first, the seconds before it in which nothing ran, and those
    from its launch to its first batch."""
    for before, life in pairwise(lives):
        ended, first = before[-1].time, _first_batch(life)
        launched = min(max(_launched(life), ended), first)
        yield launched - ended, max(0.0, first - launched)


def _launched(life: Life) -> float:
    """Return when the container of a process was started, or else when the process was."""
    first = life[0]
    launched = first.number("launched") if isinstance(first, Event) else 0.0
    return min(launched or first.time, first.time)


def _first_batch(life: Life) -> float:
    """Return when the first step began to wait for its batch; without one, the life's end."""
    for record in life:
        if isinstance(record, Steps):
            begin = record.time - record.seconds - record.data_wait
            return max(begin, _launched(life))
    return life[-1].time


def _recoveries(records: Iterable[Record]) -> Iterator[float]:
    """Yield the seconds of each recovery from lost workers."""
    for record in records:
        if isinstance(record, Event) and record.name == "recovered":
            yield record.number("recovery")


def _stalls(records: Iterable[Record]) -> Iterator[float]:
    for record in records:
        if isinstance(record, Event) and record.name == "checkpoint":
            yield record.number("stall")
