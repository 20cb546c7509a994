"""A position in a seeded permutation: each record once an epoch, whatever the world does.

The position moves when a step is committed, together with the weights, and nothing else moves it.
A step that is lost is taken again from the same position by whoever is left. So a record is
trained exactly once an epoch by construction, with no lease, no server and nothing to persist.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

import torch

from trainwright_runtime.elastic.ahead import Ahead
from trainwright_runtime.elastic.membership import Members
from trainwright_runtime.elastic.source import Share

Span = tuple[int, int, int]
"""An epoch, and positions in its order: the first, and the one after the last."""
Found = tuple[list[Any], int]
"""Samples, and a checksum of which records they are."""


class MapDataset(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


class Cursor:
    """`dataset` in an order that depends on `seed` and the epoch alone.

    The samples of the next step are read while this one computes, on the assumption that nobody
    comes or goes; when somebody does, they are read again.
    """

    def __init__(self, dataset: MapDataset, *, seed: int, shuffle: bool) -> None:
        if not len(dataset):
            raise ValueError("a dataset for elastic training must have at least one record")
        self._seed, self._shuffle, self._length = seed, shuffle, len(dataset)
        # One thread alone touches the dataset: few are made for more.
        self._reader = Ahead(_Records(dataset, seed, shuffle).read)
        self.epoch = self.position = 0

    def begin(self, epoch: int) -> None:
        self.epoch, self.position = epoch, 0

    @property
    def finished(self) -> bool:
        return self.position >= self._length

    def take(self, members: Members, batch: int) -> tuple[Share, list[Any]]:
        span = self._span(members, batch, self.position)
        samples, digest = self._read(span)
        self._reader.ask(self._span(members, batch, self.position + batch))
        _, first, last = span
        return Share(unit="", first=first, last=last, digest=digest), samples

    def report(self, members: Members, share: Share) -> list[int]:
        return []

    def commit(self, members: Members, batch: int, reports: Sequence[int]) -> int:
        before = self.position
        self.position = min(before + batch, self._length)
        return self.position - before

    def close(self) -> None:
        self._reader.close()

    def describe(self) -> dict[str, Any]:
        return {"records": self._length, "seed": self._seed, "shuffle": self._shuffle}

    def state_dict(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "position": self.position, **self.describe()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for key, mine in self.describe().items():
            if state[key] != mine:
                raise ValueError(
                    f"the training to go on with has {key} = {state[key]}, this one {mine}: "
                    "with another order of records the position means nothing"
                )
        self.epoch, self.position = state["epoch"], state["position"]

    def _read(self, span: Span) -> Found:
        if self._reader.asked != span:
            if self._reader.asked is not None:
                with suppress(Exception):  # of another world: whatever it was, it is not wanted
                    self._reader.fetch()
            self._reader.ask(span)
        return self._reader.fetch()

    def _span(self, members: Members, batch: int, position: int) -> Span:
        """Contiguous and as equal as can be: the remainder goes to the later ranks."""
        total = max(0, min(batch, self._length - position))
        first = position + total * members.rank // members.world
        last = position + total * (members.rank + 1) // members.world
        return self.epoch, first, last


class _Records:
    """What lies at the positions of an epoch's order."""

    def __init__(self, dataset: MapDataset, seed: int, shuffle: bool) -> None:
        self._dataset, self._seed, self._shuffle = dataset, seed, shuffle
        self._order = torch.arange(len(dataset))
        self._order_of = -1

    def read(self, span: Span) -> Found:
        epoch, first, last = span
        if self._shuffle and self._order_of != epoch:
            self._order = permutation(len(self._dataset), self._seed, epoch)
            self._order_of = epoch
        indices = self._order[first:last]
        return _fetch(self._dataset, indices.tolist()), zlib.crc32(indices.numpy().tobytes())


def permutation(records: int, seed: int, epoch: int) -> torch.Tensor:
    """The order of an epoch: the same on every machine with the same torch."""
    generator = torch.Generator().manual_seed(seed + epoch)
    return torch.randperm(records, generator=generator)


def _fetch(dataset: MapDataset, wanted: list[int]) -> list[Any]:
    """The samples; by one call where the dataset can (torch's `__getitems__` convention)."""
    together = getattr(dataset, "__getitems__", None)
    return list(together(wanted)) if together else [dataset[i] for i in wanted]
