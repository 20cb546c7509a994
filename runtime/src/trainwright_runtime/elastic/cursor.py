"""A position in a seeded order of records: each once an epoch, whatever the world does.

The position moves when a step is committed, together with the weights, and nothing else moves it.
A step that is lost is taken again from the same position by whoever is left. So a record is
trained exactly once an epoch by construction, with no lease, no server and nothing to persist.
"""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch

from trainwright_runtime.elastic.loading import (
    LoaderOptions,
    MapDataset,
    Plan,
    ProcessReader,
    Reader,
    Records,
    Span,
    ThreadReader,
)
from trainwright_runtime.elastic.members import Members
from trainwright_runtime.elastic.source import Batching, Piece, Share


class Sampler(Protocol):
    """As torch's: gives the indices of an epoch, of which it knows the number."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...


class Order:
    """Which record lies at which position of an epoch: `seed` and the epoch decide."""

    def __init__(
        self, records: int, *, seed: int, shuffle: bool, sampler: Sampler | None = None
    ) -> None:
        self._records, self._seed, self._shuffle, self._sampler = records, seed, shuffle, sampler
        self._orders: dict[int, torch.Tensor] = {}

    def __len__(self) -> int:
        return self._records if self._sampler is None else len(self._sampler)

    def of(self, epoch: int) -> torch.Tensor:
        if epoch not in self._orders:
            # Reading ahead is in the next epoch while training is in this one.
            self._orders = {known: o for known, o in self._orders.items() if known == epoch - 1}
            self._orders[epoch] = self._make(epoch)
        return self._orders[epoch]

    def identity(self, epoch: int) -> dict[str, Any]:
        """What must be the same for a position to mean the same record."""
        if self._sampler is None:
            return self.describe()
        return {**self.describe(), "checksum": zlib.crc32(self.of(epoch).numpy().tobytes())}

    def describe(self) -> dict[str, Any]:
        known: dict[str, Any] = {"records": len(self), "seed": self._seed, "shuffle": self._shuffle}
        if self._sampler is None:
            return known
        return {**known, "sampler": type(self._sampler).__qualname__}

    def _make(self, epoch: int) -> torch.Tensor:
        if self._sampler is None:
            return (
                permutation(self._records, self._seed, epoch)
                if self._shuffle
                else torch.arange(self._records)
            )
        if set_epoch := getattr(self._sampler, "set_epoch", None):
            set_epoch(epoch)
        # A generator of its own would go on from where it is, which is elsewhere in a newcomer.
        if isinstance(generator := getattr(self._sampler, "generator", None), torch.Generator):
            generator.manual_seed(self._seed + epoch)
        with _seeded(self._seed + epoch):
            order = torch.tensor(list(self._sampler), dtype=torch.int64)
        if len(order) != len(self):
            raise ValueError(
                f"the sampler gave {len(order)} records for epoch {epoch}, and its length is "
                f"{len(self)}: where an epoch ends would not be known"
            )
        return order


class Cursor:
    """A position in the order of one dataset. Made by `cursors`."""

    def __init__(self, name: str, order: Order, ring: _Ring) -> None:
        self.name, self.order = name, order
        self._ring = ring
        self.epoch = self.position = 0

    def begin(self, epoch: int) -> None:
        self.epoch, self.position = epoch, 0

    @property
    def finished(self) -> bool:
        return self.position >= len(self.order)

    def take(self, members: Members, batch: int) -> tuple[Share, list[Piece]]:
        span = self.span(members, batch, self.epoch, self.position)
        pieces = self._ring.read(span, members, batch)
        digest = zlib.crc32(self.order.of(self.epoch)[span.first : span.last].numpy().tobytes())
        return Share(unit="", first=span.first, last=span.last, digest=digest), pieces

    def report(self, members: Members, share: Share) -> list[int]:
        return []

    def commit(self, members: Members, batch: int, reports: Sequence[int]) -> int:
        before = self.position
        self.position = min(before + batch, len(self.order))
        return self.position - before

    def close(self) -> None:
        self._ring.close()

    def describe(self) -> dict[str, Any]:
        return self.order.describe()

    def state_dict(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "position": self.position,
            **self.order.identity(self.epoch),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for key, value in self.order.identity(state["epoch"]).items():
            if state.get(key) != value:
                raise ValueError(
                    f"the training to go on with has {key} = {state.get(key)}, this one {value}: "
                    "with another order of records the position means nothing"
                )
        self.epoch, self.position = state["epoch"], state["position"]

    def span(self, members: Members, batch: int, epoch: int, step: int) -> Span:
        """Contiguous and as equal as can be: the remainder goes to the later ranks."""
        total = max(0, min(batch, len(self.order) - step))
        first = step + total * members.rank // members.world
        last = step + total * (members.rank + 1) // members.world
        return Span(self.name, epoch, step, first, last)


def cursors(
    datasets: Mapping[str, MapDataset],
    batching: Batching,
    *,
    seed: int,
    shuffle: bool,
    samplers: Mapping[str, Sampler] | None = None,
    epochs: int | None = None,
    num_workers: int = 0,
    loader: LoaderOptions | None = None,
) -> dict[str, Cursor]:
    """A position in each dataset, in the order in which epochs go through them.

    One reader serves them all: where one of them ends it goes on with the next.
    """
    if not datasets:
        return {}
    for name, dataset in datasets.items():
        if not len(dataset):
            raise ValueError(
                f"a dataset for elastic training must have at least one record: {name!r} has none"
            )
    ring = _Ring(epochs)
    for name, dataset in datasets.items():
        sampler = (samplers or {}).get(name)
        order = Order(len(dataset), seed=seed, shuffle=shuffle, sampler=sampler)
        ring.cursors[name] = Cursor(name, order, ring)
    records = Records(datasets, batching)
    ring.reader = (
        ProcessReader(records, ring.plan, num_workers, loader or {})
        if num_workers
        else ThreadReader(records, ring.plan)
    )
    return ring.cursors


class _Ring:
    """The datasets in the order in which epochs go through them, and what reads all of them."""

    def __init__(self, epochs: int | None) -> None:
        self.cursors: dict[str, Cursor] = {}
        self.reader: Reader | None = None
        self._epochs = epochs

    def read(self, span: Span, members: Members, batch: int) -> list[Piece]:
        assert self.reader is not None, "it is closed: no batch is read from it"
        return self.reader.read(span, lambda span: self._following(span, members, batch))

    def plan(self, span: Span) -> Plan:
        if self._epochs is not None and span.epoch >= self._epochs:
            return Plan(span.dataset, [])
        order = self.cursors[span.dataset].order.of(span.epoch)
        return Plan(span.dataset, order[span.first : span.last].tolist())

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
        self.reader = None

    def _following(self, span: Span, members: Members, batch: int) -> Span:
        cursor, step = self.cursors[span.dataset], span.step + batch
        if step < len(cursor.order):
            return cursor.span(members, batch, span.epoch, step)
        names = list(self.cursors)
        place = names.index(span.dataset) + 1
        epoch = span.epoch + place // len(names)
        return self.cursors[names[place % len(names)]].span(members, batch, epoch, 0)


def permutation(records: int, seed: int, epoch: int) -> torch.Tensor:
    """The order of an epoch: the same on every machine with the same torch."""
    generator = torch.Generator().manual_seed(seed + epoch)
    return torch.randperm(records, generator=generator)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Random numbers that are the same on every worker, and leave those of the training alone."""
    python, numpy = random.getstate(), sys.modules.get("numpy")
    arrays = numpy.random.get_state() if numpy else None
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        if numpy:
            numpy.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(python)
            if numpy:
                numpy.random.set_state(arrays)
