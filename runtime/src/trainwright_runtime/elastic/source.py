"""What a dataset must offer so that its position can be part of the replicated training state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trainwright_runtime.elastic.members import Members

Collate = Callable[[list[Any]], Any]
Piece = tuple[int, Any]
"""How many records a replica forwards at once, and the records as `collate` gives them.

A piece of 0 records holds one that does not count: see `loading.Records`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one replica reads in one step: records `first` to `last` (exclusive) of `unit`."""

    unit: str
    """A shard's name; empty where the unit is the order of the epoch."""
    first: int
    last: int
    ended: bool = False
    """The unit has no record after `last`."""
    digest: int = 0
    """A checksum of the identities of the records, for the audit log."""

    def __len__(self) -> int:
        return self.last - self.first


@dataclass(frozen=True, slots=True, kw_only=True)
class Batching:
    """How the samples of a share become what the training loop gets."""

    collate: Collate
    micro_batch: int
    """Records in a piece, at most."""

    def pieces(self, samples: Sequence[Any]) -> list[Piece]:
        size = self.micro_batch
        cuts = [list(samples[at : at + size]) for at in range(0, len(samples), size)]
        return [(len(cut), self.collate(cut)) for cut in cuts]


NOTHING = Share(unit="", first=0, last=0)


class Source(Protocol):
    """One dataset with a position. Everything but reading is the same on every replica."""

    def begin(self, epoch: int) -> None:
        """Go to the start of an epoch."""

    @property
    def finished(self) -> bool:
        """Whether every record of the epoch was committed."""

    def take(self, members: Members, batch: int) -> tuple[Share, list[Piece]]:
        """Return this replica's share of a step of `batch` records in all, and its records."""

    def take_local(self, members: Members, batch: int) -> Iterator[tuple[Share, list[Piece]]]:
        """Yield what this replica reads until the next synchronisation, step by step.

        Each step comes with the share up to there, which is committed if it is the last. All
        members have to call this, once they have committed the same.
        """

    def report(self, members: Members, share: Share) -> list[int]:
        """Return what others must know of the share, as integers to be summed over all replicas."""

    def absent(self, members: Members) -> list[str]:
        """Return non-members that hold data without which the members may have none to read."""

    def commit(self, members: Members, batch: int, reports: Sequence[int]) -> int:
        """Move the position past a committed step, given the sum of all reports.

        Return how many records the step had.
        """

    def close(self) -> None:
        """Stop reading."""

    def describe(self) -> dict[str, Any]:
        """Return what an auditor must know to recompute the records of an epoch."""

    @property
    def trainwright_checkpoint_format(self) -> int:
        """The checkpoint format that this state needs: see `checkpoint.contents.FORMATS`."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...
