"""Shards leased to workers, for data read file by file: locality, streams of unknown length.

This is the approach of ElasticDL and DLRover, without their server: the ledger of who reads what,
and how far, is part of the replicated training state and moves with the committed step. A lease is
returned as soon as its worker is gone, from the record after the last committed one, however often
that happens; no shard is given up after some number of failures.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Self

from trainwright_runtime.elastic.members import Members
from trainwright_runtime.elastic.prefetch import Prefetcher
from trainwright_runtime.elastic.source import Batching, Piece, Share

Open = Callable[[str, int], Iterable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """A dataset in named pieces.

    `open(name, skip)` gives the samples of a piece from record `skip` on, in an order that is the
    same each time. How many there are need not be known.
    """

    names: Sequence[str]
    open: Open

    @classmethod
    def of(cls, dataset: Any) -> Self:
        """Return the shards of an iterable dataset that knows them, as `datasets.IterableDataset`.

        Raise TypeError for any other dataset.
        """
        count = getattr(dataset, "num_shards", None)
        if not isinstance(count, int) or not hasattr(dataset, "shard"):
            raise TypeError(
                f"a {type(dataset).__name__} does not describe its shards (num_shards and "
                "shard(), as datasets.IterableDataset has them): pass elastic.Shards(names=[...], "
                "open=lambda name, skip: ...)"
            )
        return cls(
            names=[str(index) for index in range(count)],
            open=lambda name, skip: dataset.shard(num_shards=count, index=int(name)).skip(skip),
        )


@dataclass(frozen=True, slots=True)
class _Request:
    """At most `wanted` records of a shard from `first` on; none before `kept` is needed again."""

    epoch: int
    shard: str
    kept: int
    first: int
    wanted: int


@dataclass(frozen=True, slots=True)
class _Read:
    """The records that were read for a request, and whether the shard ended with them."""

    pieces: list[Piece]
    records: int
    ended: bool


class _Stream:
    """The shard that is open: samples that may be requested again, and the rest of it."""

    def __init__(self, open_shard: Open, batching: Batching) -> None:
        self._open, self._batching = open_shard, batching
        self._shard: tuple[int, str] | None = None
        self._samples: Iterator[Any] = iter(())
        self._position = 0  # of the first one in hand
        self._in_hand: list[Any] = []
        self._dry = False

    def read(self, request: _Request) -> _Read:
        """Return the records of a request, and open its shard if that is not open there."""
        shard = request.epoch, request.shard
        if self._shard != shard or request.first < self._position:
            self._shard, self._position = shard, request.first
            self._samples = iter(self._open(request.shard, request.first))
            self._in_hand, self._dry = [], False
        del self._in_hand[: request.kept - self._position]
        self._position = max(self._position, request.kept)
        begin = request.first - self._position
        # One sample more than wanted, to know whether the shard ends with this step.
        missing = begin + request.wanted + 1 - len(self._in_hand)
        if missing > 0 and not self._dry:
            more = list(islice(self._samples, missing))
            self._in_hand += more
            self._dry = len(more) < missing
        samples = self._in_hand[begin : begin + request.wanted]
        ended = self._dry and len(self._in_hand) <= begin + request.wanted
        return _Read(self._batching.pieces(samples), len(samples), ended)


class Leases:
    """Shards in an order that `seed` and the epoch determine, each read by one worker at a time."""

    def __init__(
        self,
        shards: Shards,
        batching: Batching,
        *,
        seed: int,
        shuffle: bool,
        local_steps: int = 0,
    ) -> None:
        """`local_steps` is how many a worker takes before they are committed together."""
        if len(set(shards.names)) != len(shards.names) or not shards.names:
            raise ValueError("shards need names, each of them once")
        self._shards, self._seed, self._shuffle = shards, seed, shuffle
        self._local_steps = local_steps
        # A single thread reads, one step ahead.
        self._reader = Prefetcher(_Stream(shards.open, batching).read)
        self.epoch = 0
        self.begin(0)

    def begin(self, epoch: int) -> None:
        self.epoch = epoch
        self._waiting: list[str] = self._ordered(epoch)
        self._offsets: dict[str, int] = {}
        self._leases: dict[str, str] = {}  # worker -> shard

    @property
    def finished(self) -> bool:
        return not self._waiting and not self._leases

    def take(self, members: Members, batch: int) -> tuple[Share, list[Piece]]:
        leases, _ = self._assigned(members)
        shard = leases.get(members.names[members.rank])
        if shard is None:
            return Share(unit="", first=0, last=0), []
        first = self._offsets.get(shard, 0)
        wanted = _part(members, batch)
        read = self._read(_Request(self.epoch, shard, first, first, wanted))
        last = first + read.records
        if not read.ended:  # what follows if no worker comes or goes
            self._reader.submit(_Request(self.epoch, shard, first, last, wanted))
        digest = zlib.crc32(f"{shard}:{first}:{last}".encode())
        share = Share(unit=shard, first=first, last=last, ended=read.ended, digest=digest)
        return share, read.pieces

    def take_local(self, members: Members, batch: int) -> Iterator[tuple[Share, list[Piece]]]:
        # Local steps read from these leases, even if workers change before they are committed.
        self._leases, self._waiting = self._assigned(members)
        return self._read_local(members, batch)

    def _read_local(self, members: Members, batch: int) -> Iterator[tuple[Share, list[Piece]]]:
        """Yield the records of each local step, with the share up to it, until the shard ends."""
        shard = self._leases.get(members.names[members.rank])
        begin = last = self._offsets.get(shard or "", 0)
        for _ in range(self._local_steps if shard else 0):
            assert shard is not None
            wanted = _part(members, batch)
            read = self._read(_Request(self.epoch, shard, last, last, wanted))
            last += read.records
            if not read.ended:
                self._reader.submit(_Request(self.epoch, shard, last, last, wanted))
            digest = zlib.crc32(f"{shard}:{begin}:{last}".encode())
            yield (
                Share(unit=shard, first=begin, last=last, ended=read.ended, digest=digest),
                read.pieces,
            )
            if read.ended:
                return

    def report(self, members: Members, share: Share) -> list[int]:
        """Return how many records each rank read and whether its shard ended, to be summed."""
        numbers = [0] * (2 * members.world)
        numbers[2 * members.rank : 2 * members.rank + 2] = len(share), int(share.ended)
        return numbers

    def absent(self, members: Members) -> list[str]:
        return [name for name in self._leases if name not in members.names]

    def commit(self, members: Members, batch: int, reports: Sequence[int]) -> int:
        self._leases, self._waiting = self._assigned(members)
        for rank, name in enumerate(members.names):
            shard = self._leases.get(name)
            read, ended = reports[2 * rank : 2 * rank + 2]
            if shard is None:
                continue
            self._offsets[shard] = self._offsets.get(shard, 0) + read
            if ended:
                del self._leases[name]
        return sum(reports[::2])

    def close(self) -> None:
        self._reader.close()

    def describe(self) -> dict[str, Any]:
        return {"shards": list(self._shards.names), "seed": self._seed, "shuffle": self._shuffle}

    @property
    def trainwright_checkpoint_format(self) -> int:
        return 1

    def state_dict(self) -> dict[str, Any]:
        return {
            "epoch": self.epoch,
            "waiting": list(self._waiting),
            "offsets": dict(self._offsets),
            "leases": dict(self._leases),
            **self.describe(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if sorted(state["shards"]) != sorted(self._shards.names):
            raise ValueError("the training to go on with has other shards than this one")
        self.epoch = state["epoch"]
        self._waiting = list(state["waiting"])
        self._offsets = dict(state["offsets"])
        self._leases = dict(state["leases"])

    def _assigned(self, members: Members) -> tuple[dict[str, str], list[str]]:
        """Return leases (worker -> shard) and waiting shards for these members: leases of gone
        workers are taken back, and members without one get the next shards.

        Computed from the committed ledger alone, and kept only by a commit: so all agree.
        """
        leases, waiting = dict(self._leases), list(self._waiting)
        for name in sorted(set(leases) - set(members.names)):
            waiting.insert(0, leases.pop(name))
        for name in members.names:
            if name not in leases and waiting:
                leases[name] = waiting.pop(0)
        return leases, waiting

    def _read(self, request: _Request) -> _Read:
        """Return what was read ahead if that is what is requested, else read it now."""
        ahead = self._reader.pending
        if ahead is not None:
            same = replace(ahead, kept=request.kept) == request
            with suppress(*() if same else (Exception,)):  # of another world: it is not wanted
                read = self._reader.result()
            if same:
                return read
        self._reader.submit(request)
        return self._reader.result()

    def _ordered(self, epoch: int) -> list[str]:
        """Return the shards in the order of an epoch."""
        if not self._shuffle:
            return list(self._shards.names)
        # A key of its own for each shard and epoch: no generator whose algorithm may change.
        return sorted(
            self._shards.names,
            key=lambda name: (zlib.crc32(f"{self._seed}:{epoch}:{name}".encode()), name),
        )


def _part(members: Members, batch: int) -> int:
    """Return how many records of a batch are this member's."""
    return batch * (members.rank + 1) // members.world - batch * members.rank // members.world
