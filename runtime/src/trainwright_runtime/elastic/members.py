"""The members of a step, and an operation that they do together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

State = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Who takes this step: `names[rank]` is this worker, `quorum` changes when any member does."""

    quorum: int
    rank: int
    names: tuple[str, ...]
    processes: int = 1
    """Processes of each replica, whose ranks follow each other."""

    @property
    def world(self) -> int:
        return len(self.names)

    @property
    def replica(self) -> int:
        """The number of this worker's replica."""
        return self.rank // self.processes


class Work(Protocol):
    def wait(self) -> Any: ...
