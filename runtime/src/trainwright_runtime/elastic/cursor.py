"""A position in a seeded order of records: each once per epoch, even as workers join and leave.

The position moves when a step is committed, together with the weights, and only then. A step that
is lost is taken again from the same position by the remaining workers. So a record is trained
exactly once per epoch by construction, with no lease, no server and nothing to persist.
"""

from __future__ import annotations

import random
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
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
    """A sampler as in torch: it yields the indices of an epoch, and knows their number."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[int]: ...


class Order:
    """The order of records in an epoch, which `seed` and the epoch determine."""

    def __init__(
        self, records: int, *, seed: int, shuffle: bool, sampler: Sampler | None = None
    ) -> None:
        self._records, self._seed, self._shuffle, self._sampler = records, seed, shuffle, sampler
        self._orders: dict[int, torch.Tensor] = {}

    def __len__(self) -> int:
        return self._records if self._sampler is None else len(self._sampler)

    def of(self, epoch: int) -> torch.Tensor:
        """Return the indices of an epoch's records in order.

        Raise ValueError if the sampler gives another number of them than its length.
        """
        if epoch not in self._orders:
            # Reading ahead may be in the next epoch while training is in this one.
            self._orders = {
                other_epoch: order
                for other_epoch, order in self._orders.items()
                if other_epoch == epoch - 1
            }
            self._orders[epoch] = self._make(epoch)
        return self._orders[epoch]

    def identity(self, epoch: int) -> dict[str, Any]:
        """Return what has to be equal for a position to mean the same record."""
        if self._sampler is None:
            return self.describe()
        return {**self.describe(), "checksum": zlib.crc32(self.of(epoch).numpy().tobytes())}

    def describe(self) -> dict[str, Any]:
        """Return what determines the order, for the log and for other workers to compare."""
        description: dict[str, Any] = {
            "records": len(self),
            "seed": self._seed,
            "shuffle": self._shuffle,
        }
        if self._sampler is None:
            return description
        return {**description, "sampler": type(self._sampler).__qualname__}

    def _make(self, epoch: int) -> torch.Tensor:
        """Compute the order of an epoch."""
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

    def __init__(self, name: str, order: Order, ring: _Ring, local_steps: int = 0) -> None:
        self.name, self.order = name, order
        self._ring = ring
        self._local_steps = local_steps
        self.epoch = self.position = 0
        self.gaps: list[tuple[int, int]] = []
        """Records before the position that lost workers had begun in local steps."""

    def begin(self, epoch: int) -> None:
        self.epoch, self.position, self.gaps = epoch, 0, []

    @property
    def finished(self) -> bool:
        return not self.gaps and self.position >= len(self.order)

    def take(self, members: Members, batch: int) -> tuple[Share, list[Piece]]:
        span = self.span(members, batch, self.epoch, *self._uncommitted()[0])
        return self._share(span, 0), self._ring.read(span, members, batch)

    def take_local(self, members: Members, batch: int) -> Iterator[tuple[Share, list[Piece]]]:
        begin, end = self._uncommitted()[0]
        digest = 0
        for number in range(self._steps(batch, begin, end)):
            span = self.span(members, batch, self.epoch, begin, end, number)
            pieces = self._ring.read(span, members, batch)
            share = self._share(span, digest)
            first = self.span(members, batch, self.epoch, begin, end).first
            digest = share.digest
            yield replace(share, first=first), pieces

    def report(self, members: Members, share: Share) -> list[int]:
        """Return where each rank's records begin and end, 0 except for this rank's, to be summed.

        Return [] without local steps: all members can compute it then.
        """
        if not self._local_steps:
            return []
        numbers = [0] * (2 * members.world)
        numbers[2 * members.rank : 2 * members.rank + 2] = share.first, share.last
        return numbers

    def absent(self, members: Members) -> list[str]:
        return []  # records are divided again among those present

    def commit(self, members: Members, batch: int, reports: Sequence[int]) -> int:
        first, end = self._uncommitted()[0]
        spans = [(first, min(first + batch, end))]
        if self._local_steps:
            spans = list(zip(reports[::2], reports[1::2], strict=True))
        for begin, stop in spans:
            if begin < stop:
                self._remove_committed(begin, stop)
        return sum(stop - begin for begin, stop in spans)

    def close(self) -> None:
        self._ring.close()

    def describe(self) -> dict[str, Any]:
        return self.order.describe()

    @property
    def trainwright_checkpoint_format(self) -> int:
        return 2 if self.gaps else 1

    def state_dict(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "position": self.position,
            **({"gaps": [list(gap) for gap in self.gaps]} if self.gaps else {}),
            **self.order.identity(self.epoch),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a position. Raise ValueError if it is one in another order of records."""
        for key, value in self.order.identity(state["epoch"]).items():
            if state.get(key) != value:
                raise ValueError(
                    f"the training to go on with has {key} = {state.get(key)}, this one {value}: "
                    "with another order of records the position means nothing"
                )
        self.epoch, self.position = state["epoch"], state["position"]
        self.gaps = [(first, last) for first, last in state.get("gaps", ())]

    def span(
        self,
        members: Members,
        batch: int,
        epoch: int,
        step: int,
        end: int | None = None,
        number: int = 0,
    ) -> Span:
        """Return this rank's span, contiguous and as equal as possible: later ranks get the rest.

        A rank's part of local steps is contiguous too, so that it is one gap if the rank is lost.
        """
        end = len(self.order) if end is None else end
        total = max(0, min(batch * max(1, self._local_steps), end - step))

        def part(rank: int) -> int:
            return step + total * rank // members.world

        first, last = part(members.rank), part(members.rank + 1)
        steps = self._steps(batch, step, end)
        cuts = [first + (last - first) * cut // steps for cut in (number, number + 1)]
        most, spare = _largest_share_and_start(part, members)
        return Span(self.name, epoch, step, cuts[0], cuts[1], end, number, most, spare)

    def following(self, span: Span, members: Members, batch: int) -> Span | None:
        """Return the next span of this dataset if no worker comes or goes, or None at its end."""
        if span.number + 1 < self._steps(batch, span.step, span.end):
            return self.span(members, batch, span.epoch, span.step, span.end, span.number + 1)
        step = span.step + batch * max(1, self._local_steps)
        if step < span.end:
            return self.span(members, batch, span.epoch, step, span.end)
        left = [
            rest for rest in self._uncommitted() if rest[0] >= span.end and span.epoch == self.epoch
        ]
        return self.span(members, batch, span.epoch, *left[0]) if left else None

    def _steps(self, batch: int, begin: int, end: int) -> int:
        """Return how many steps are taken before they are committed: 1 without local steps."""
        return max(1, min(self._local_steps, -(-(end - begin) // batch)))

    def _uncommitted(self) -> list[tuple[int, int]]:
        """Return the uncommitted spans, (first, end) each: at least one, which may be empty."""
        rest = (self.position, len(self.order))
        return [*self.gaps, rest] if rest[0] < rest[1] or not self.gaps else self.gaps

    def _remove_committed(self, first: int, last: int) -> None:
        """Remove committed records from those that are left."""
        left = [
            rest
            for begin, end in self._uncommitted()
            for rest in ((begin, min(end, first)), (max(begin, last), end))
            if rest[0] < rest[1]
        ]
        ends_open = bool(left) and left[-1][1] == len(self.order)
        self.position = left.pop()[0] if ends_open else len(self.order)
        self.gaps = left

    def _share(self, span: Span, digest: int) -> Share:
        records = self.order.of(self.epoch)[span.first : span.last].numpy().tobytes()
        digest = zlib.crc32(records, digest)
        return Share(unit="", first=span.first, last=span.last, digest=digest)


def cursors(  # noqa: PLR0913 - made in one place
    datasets: Mapping[str, MapDataset],
    batching: Batching,
    *,
    seed: int,
    shuffle: bool,
    samplers: Mapping[str, Sampler] | None = None,
    epochs: int | None = None,
    num_workers: int = 0,
    loader: LoaderOptions | None = None,
    local_steps: Mapping[str, int] | None = None,
) -> dict[str, Cursor]:
    """Return a position in each dataset, in the order in which epochs go through them.

    One reader serves them all: where one dataset ends, it goes on with the next.
    `local_steps` is how many steps of a dataset workers take before these are committed together.
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
        ring.cursors[name] = Cursor(name, order, ring, (local_steps or {}).get(name, 0))
    records = Records(datasets, batching)
    ring.reader = (
        ProcessReader(records, ring.plan, num_workers, loader or {})
        if num_workers
        else ThreadReader(records, ring.plan)
    )
    return ring.cursors


class _Ring:
    """The datasets in the order in which epochs go through them, and the reader of them all."""

    def __init__(self, epochs: int | None) -> None:
        self.cursors: dict[str, Cursor] = {}
        self.reader: Reader | None = None
        self._epochs = epochs

    def read(self, span: Span, members: Members, batch: int) -> list[Piece]:
        assert self.reader is not None, "it is closed: no batch is read from it"
        return self.reader.read(span, lambda span: self._following(span, members, batch))

    def plan(self, span: Span) -> Plan:
        """Return the records of a span, for a reader to read."""
        if self._epochs is not None and span.epoch >= self._epochs:
            return Plan(span.dataset, [])
        order = self.cursors[span.dataset].order.of(span.epoch)
        indices = order[span.first : span.last].tolist()
        if not span.most:
            return Plan(span.dataset, indices)
        return Plan(span.dataset, indices, most=span.most, spare=int(order[span.spare]))

    def close(self) -> None:
        if self.reader is not None:
            self.reader.close()
        self.reader = None

    def _following(self, span: Span, members: Members, batch: int) -> Span:
        """Return the span after this one, of the next dataset or epoch where this one's ends."""
        following = self.cursors[span.dataset].following(span, members, batch)
        if following is not None:
            return following
        names = list(self.cursors)
        place = names.index(span.dataset) + 1
        epoch = span.epoch + place // len(names)
        return self.cursors[names[place % len(names)]].span(members, batch, epoch, 0)


def _largest_share_and_start(part: Callable[[int], int], members: Members) -> tuple[int, int]:
    """Return the most records that any process of this replica has, and the replica's first one.

    Return zeros for a replica of a single process.
    """
    if members.processes == 1:
        return 0, 0
    begin = members.replica * members.processes
    cuts = [part(rank) for rank in range(begin, begin + members.processes + 1)]
    return max(after - before for before, after in pairwise(cuts)), cuts[0]


def permutation(records: int, seed: int, epoch: int) -> torch.Tensor:
    """Return the order of an epoch: the same on every machine with the same torch."""
    generator = torch.Generator().manual_seed(seed + epoch)
    return torch.randperm(records, generator=generator)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Seed Python, NumPy and torch alike on every worker; then restore the training's states."""
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
