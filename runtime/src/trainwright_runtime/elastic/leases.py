"""Shards leased to workers, where reading must follow files: locality, streams of unknown length.

The way of ElasticDL and DLRover, without their server: the ledger of who reads what, and how far,
is part of the replicated training state and moves with the committed step. A lease is returned
the moment its worker is gone, from the record after the last committed one, however often that
happens; nothing is ever given up after some number of failures.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from trainwright_runtime.elastic.membership import Members
from trainwright_runtime.elastic.source import Share

Open = Callable[[str, int], Iterable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shards:
    """A dataset in named pieces.

    `open(name, skip)` gives the samples of a piece from record `skip` on, in an order that is the
    same each time. How many there are need not be known.
    """

    names: Sequence[str]
    open: Open


@dataclass(slots=True)
class _Reader:
    """An open shard: samples that were read and not committed yet, and the rest of the stream."""

    shard: str
    position: int
    stream: Iterator[Any]
    pending: list[Any] = field(default_factory=list)
    dry: bool = False

    def fill(self, wanted: int) -> None:
        """Hold one sample more than wanted, to know whether the shard ends with this step."""
        missing = wanted + 1 - len(self.pending)
        if missing > 0 and not self.dry:
            more = list(islice(self.stream, missing))
            self.pending += more
            self.dry = len(more) < missing

    def skip_to(self, position: int) -> None:
        del self.pending[: position - self.position]
        self.position = position


class Leases:
    """Shards in an order that `seed` and the epoch give, each read by one worker at a time."""

    def __init__(self, shards: Shards, *, seed: int, shuffle: bool) -> None:
        if len(set(shards.names)) != len(shards.names) or not shards.names:
            raise ValueError("shards need names, each of them once")
        self._shards, self._seed, self._shuffle = shards, seed, shuffle
        self._reader: _Reader | None = None
        self.epoch = 0
        self.begin(0)

    def begin(self, epoch: int) -> None:
        self.epoch = epoch
        self._waiting: list[str] = self._ordered(epoch)
        self._offsets: dict[str, int] = {}
        self._leases: dict[str, str] = {}  # worker -> shard
        self._reader = None

    @property
    def finished(self) -> bool:
        return not self._waiting and not self._leases

    def take(self, members: Members, batch: int) -> tuple[Share, list[Any]]:
        leases, _ = self._assigned(members)
        shard = leases.get(members.names[members.rank])
        if shard is None:
            return Share(unit="", first=0, last=0), []
        reader = self._open(shard)
        wanted = batch * (members.rank + 1) // members.world - batch * members.rank // members.world
        reader.fill(wanted)
        samples = reader.pending[:wanted]
        first = reader.position
        last = first + len(samples)
        ended = reader.dry and len(reader.pending) <= wanted
        digest = zlib.crc32(f"{shard}:{first}:{last}".encode())
        return Share(unit=shard, first=first, last=last, ended=ended, digest=digest), samples

    def report(self, members: Members, share: Share) -> list[int]:
        """For each rank: how many records it read, and whether its shard ended."""
        numbers = [0] * (2 * members.world)
        numbers[2 * members.rank : 2 * members.rank + 2] = len(share), int(share.ended)
        return numbers

    def commit(self, members: Members, batch: int, reports: Sequence[int]) -> int:
        self._leases, self._waiting = self._assigned(members)
        for rank, name in enumerate(members.names):
            shard = self._leases.get(name)
            read, ended = reports[2 * rank : 2 * rank + 2]
            if shard is None:
                continue
            self._offsets[shard] = self._offsets.get(shard, 0) + read
            if rank == members.rank and self._reader is not None:
                self._reader.skip_to(self._offsets[shard])
            if ended:
                del self._leases[name]
        return sum(reports[::2])

    def close(self) -> None:
        self._reader = None

    def describe(self) -> dict[str, Any]:
        return {"shards": list(self._shards.names), "seed": self._seed, "shuffle": self._shuffle}

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
        self._reader = None

    def _assigned(self, members: Members) -> tuple[dict[str, str], list[str]]:
        """Leases and waiting shards for these members: what gone workers held is taken back, who
        has none gets the next one.

        Computed from the committed ledger alone, and kept only by a commit: so all agree.
        """
        leases, waiting = dict(self._leases), list(self._waiting)
        for name in sorted(set(leases) - set(members.names)):
            waiting.insert(0, leases.pop(name))
        for name in members.names:
            if name not in leases and waiting:
                leases[name] = waiting.pop(0)
        return leases, waiting

    def _open(self, shard: str) -> _Reader:
        position = self._offsets.get(shard, 0)
        if self._reader is None or (self._reader.shard, self._reader.position) != (shard, position):
            stream = iter(self._shards.open(shard, position))
            self._reader = _Reader(shard, position, stream)
        return self._reader

    def _ordered(self, epoch: int) -> list[str]:
        if not self._shuffle:
            return list(self._shards.names)
        # A key of its own for each shard and epoch: no generator whose algorithm may change.
        return sorted(
            self._shards.names,
            key=lambda name: (zlib.crc32(f"{self._seed}:{epoch}:{name}".encode()), name),
        )
