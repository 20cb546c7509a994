"""Reading ahead of the training: by a thread, or by the worker processes of torch's DataLoader.

What to read next is predicted: the spans that follow if no worker comes or goes. If the prediction
is wrong, the records are dropped and the right spans are read; the processes stay. A position never
depends on what was read, only on what was committed.
"""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypedDict

import torch
from torch.utils.data import DataLoader

from trainwright_runtime.elastic.prefetch import Prefetcher
from trainwright_runtime.elastic.source import Batching, Piece
from trainwright_runtime.launch.parent import die_with_parent


class MapDataset(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class LoaderOptions(TypedDict, total=False):
    """Further arguments of torch's DataLoader, which has their meaning and defaults."""

    prefetch_factor: int
    pin_memory: bool
    timeout: float
    worker_init_fn: Callable[[int], None]
    multiprocessing_context: Any


@dataclass(frozen=True, slots=True)
class Span:
    """Positions `first` to `last` in the order of a dataset, of a step that begins at `step`.

    If a replica has several processes, each has as many pieces as the one with the `most` records
    needs; `spare` is a position of the replica's, for processes without records.
    With local steps, `step` is where those that are committed together begin, and `number` is
    which of them this is; none of them has records after `end`.
    """

    dataset: str
    epoch: int
    step: int
    first: int
    last: int
    end: int
    number: int = 0
    most: int = 0
    spare: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Records to read for a span, as given to a loader process."""

    dataset: str
    indices: list[int]
    generation: int = 0
    """The generation of the prediction that this is part of."""
    most: int = 0
    """The most records that any process of the replica has."""
    spare: int = 0
    """A record to read if this process has none but another process of the replica does."""


Following = Callable[[Span], Span]
"""The span that comes after another one if no worker comes or goes."""


class Reader(Protocol):
    def read(self, span: Span, following: Following) -> list[Piece]:
        """Return the records of a span, and read the following ones during training."""

    def close(self) -> None: ...


class Records:
    """A reader of planned records, in whichever thread or process calls it."""

    def __init__(self, datasets: Mapping[str, MapDataset], batching: Batching) -> None:
        self._datasets, self._batching = dict(datasets), batching
        # Shared with the loader processes, so that they skip what an earlier
        # prediction had them read.
        self.generation = multiprocessing.RawValue("L", 0)

    def __getitems__(self, plan: Plan) -> list[Piece]:
        """Read several samples with one call, by torch's convention."""
        if self._obsolete(plan):
            return []
        dataset = self._datasets[plan.dataset]
        if together := getattr(dataset, "__getitems__", None):
            return self._pieces(plan, together(plan.indices))
        samples = []
        for index in plan.indices:
            if self._obsolete(plan):  # a sample may take as long as a step
                return []
            samples.append(dataset[index])
        return self._pieces(plan, samples)

    def _pieces(self, plan: Plan, samples: Sequence[Any]) -> list[Piece]:
        """Return the samples in pieces, with extra pieces of weight 0 if another process has more:
        all processes of a replica go through a sharded model together.

        An extra piece repeats this process's first one or, without records, another process's.
        So it adds no input that the model or the loss cannot take (a single record for a batch
        norm, nothing but masks for a masked mean).
        """
        pieces = self._batching.pieces(samples)
        missing = -(-plan.most // self._batching.micro_batch) - len(pieces)
        if missing <= 0:
            return pieces
        # If a process has no record, the others of its replica have at most one.
        own = list(samples[: self._batching.micro_batch])
        again = self._batching.collate(own or [self._datasets[plan.dataset][plan.spare]])
        return [*pieces, *[(0, again)] * missing]

    def _obsolete(self, plan: Plan) -> bool:
        return bool(plan.generation != self.generation.value)


class ThreadReader:
    """A reader that reads one span ahead, in one thread: few datasets are safe with more."""

    def __init__(self, records: Records, plan: Callable[[Span], Plan]) -> None:
        self._plan = plan
        self._prefetcher: Prefetcher[Plan, list[Piece]] = Prefetcher(records.__getitems__)
        self._ahead: Span | None = None

    def read(self, span: Span, following: Following) -> list[Piece]:
        if self._ahead != span:
            if self._prefetcher.pending is not None:
                with suppress(Exception):  # for another world: even an error is irrelevant
                    self._prefetcher.result()
            self._prefetcher.submit(self._plan(span))
        self._ahead = None
        pieces = self._prefetcher.result()
        self._ahead = following(span)
        self._prefetcher.submit(self._plan(self._ahead))
        return pieces

    def close(self) -> None:
        self._prefetcher.close()


class ProcessReader:
    """Reads by torch's DataLoader, whose processes live as long as the training.

    They are started at once, before this process opens connections that they would inherit.
    """

    def __init__(
        self,
        records: Records,
        plan: Callable[[Span], Plan],
        num_workers: int,
        options: LoaderOptions,
    ) -> None:
        self._schedule = _Schedule(records, plan)
        settings: dict[str, Any] = {"pin_memory": torch.cuda.is_available(), **options}
        settings["worker_init_fn"] = _Start(settings.get("worker_init_fn"))
        self._batches: Any = iter(
            DataLoader(
                records,  # type: ignore[arg-type]
                batch_sampler=self._schedule,  # type: ignore[arg-type]
                collate_fn=_as_it_is,
                num_workers=num_workers,
                **settings,
            )
        )

    def read(self, span: Span, following: Following) -> list[Piece]:
        if self._schedule.next_result != span:
            self._schedule.restart(span, following)
            while self._schedule.next_result != span:
                with suppress(Exception):  # of another prediction: whatever it was
                    self._next()
        self._schedule.following = following
        return self._next()

    def close(self) -> None:
        self._batches = None  # the last reference: the DataLoader ends its processes

    def _next(self) -> list[Piece]:
        self._schedule.taken()
        pieces: list[Piece] = next(self._batches)
        return pieces


class _Schedule:
    """The batch sampler: an endless iterator, from which the DataLoader takes each next task."""

    def __init__(self, records: Records, plan: Callable[[Span], Plan]) -> None:
        self._records, self._plan = records, plan
        self._outstanding: deque[Span | None] = deque()  # results come in the order of the tasks
        self._next: Span | None = None  # until the first span is requested, there is nothing to do
        self.following: Following = lambda span: span

    @property
    def next_result(self) -> Span | None:
        """Return the span whose records come next, or None if they are no longer wanted."""
        return self._outstanding[0] if self._outstanding else None

    def taken(self) -> None:
        self._outstanding.popleft()

    def restart(self, span: Span, following: Following) -> None:
        """Predict anew, from this span on."""
        self._records.generation.value += 1
        self._outstanding = deque([None] * len(self._outstanding))
        self._next, self.following = span, following

    def __iter__(self) -> _Schedule:
        return self

    def __next__(self) -> Plan:
        span = self._next
        self._outstanding.append(span)
        generation = self._records.generation.value
        if span is None:
            return Plan("", [], generation - 1)
        self._next = self.following(span)
        plan = self._plan(span)
        return replace(plan, generation=generation)


@dataclass(frozen=True)
class _Start:
    """The `worker_init_fn` of a loader process."""

    then: Callable[[int], None] | None

    def __call__(self, worker: int) -> None:
        die_with_parent()
        # The training notes SIGTERM and goes on to the end of its step.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self.then is not None:
            self.then(worker)


def _as_it_is(pieces: list[Piece]) -> list[Piece]:
    return pieces
