"""A position in a seeded permutation: each record once an epoch, whatever the world does.

The position moves when a step is committed, together with the weights, and nothing else moves it.
A step that is lost is taken again from the same position by whoever is left. So a record is
trained exactly once an epoch by construction, with no lease, no server and nothing to persist.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import torch

from trainwright_runtime.elastic.membership import Members
from trainwright_runtime.elastic.source import Share


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
        self._dataset, self._seed, self._shuffle = dataset, seed, shuffle
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="elastic-reader")
        self._ahead: tuple[object, Future[list[Any]]] | None = None
        self._order = torch.empty(0, dtype=torch.int64)
        self._order_of = -1
        self.epoch = self.position = 0

    def begin(self, epoch: int) -> None:
        self.epoch, self.position = epoch, 0

    @property
    def finished(self) -> bool:
        return self.position >= len(self._dataset)

    def take(self, members: Members, batch: int) -> tuple[Share, list[Any]]:
        share = self._share(members, batch, self.position)
        samples = self._read(share)
        following = self._share(members, batch, self.position + batch)
        indices = self._indices(following)
        self._ahead = (self._key(following), self._reader.submit(_fetch, self._dataset, indices))
        return share, samples

    def report(self, members: Members, share: Share) -> list[int]:
        return []

    def commit(self, members: Members, batch: int, reports: Sequence[int]) -> int:
        before = self.position
        self.position = min(before + batch, len(self._dataset))
        return self.position - before

    def digest(self, share: Share) -> int:
        return zlib.crc32(self._indices(share).numpy().tobytes())

    def describe(self) -> dict[str, Any]:
        return {"records": len(self._dataset), "seed": self._seed, "shuffle": self._shuffle}

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

    def _share(self, members: Members, batch: int, position: int) -> Share:
        """Contiguous and as equal as can be: the remainder goes to the later ranks."""
        total = max(0, min(batch, len(self._dataset) - position))
        first = position + total * members.rank // members.world
        last = position + total * (members.rank + 1) // members.world
        return Share(unit="", first=first, last=last)

    def _read(self, share: Share) -> list[Any]:
        """One thread only ever touches the dataset: few are made for more."""
        ahead, self._ahead = self._ahead, None
        if ahead and ahead[0] == self._key(share):
            return ahead[1].result()
        return self._reader.submit(_fetch, self._dataset, self._indices(share)).result()

    def _key(self, share: Share) -> object:
        return self.epoch, share.first, share.last

    def _indices(self, share: Share) -> torch.Tensor:
        if not self._shuffle:
            return torch.arange(share.first, share.last)
        if self._order_of != self.epoch:
            self._order = permutation(len(self._dataset), self._seed, self.epoch)
            self._order_of = self.epoch
        return self._order[share.first : share.last]


def permutation(records: int, seed: int, epoch: int) -> torch.Tensor:
    """The order of an epoch: the same on every machine with the same torch."""
    generator = torch.Generator().manual_seed(seed + epoch)
    return torch.randperm(records, generator=generator)


def _fetch(dataset: MapDataset, indices: torch.Tensor) -> list[Any]:
    """The samples; by one call where the dataset can (torch's `__getitems__` convention)."""
    wanted = indices.tolist()
    together = getattr(dataset, "__getitems__", None)
    return list(together(wanted)) if together else [dataset[i] for i in wanted]
