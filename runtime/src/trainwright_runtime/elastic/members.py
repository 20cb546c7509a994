"""The members of a step, an operation that they do together, and what they need of a training."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Callbacks:
    """What a membership calls to read the state of this worker's training, and to replace it."""

    dump: Callable[[], State]
    """Return the state that newcomers get."""
    load: Callable[[MutableMapping[str, Any]], None]
    """Take over the state of others."""
    learn: Callable[[State], None] | None = None
    """Apply the update of a step that others took; None if it cannot be applied here."""
    stopping: Callable[[], bool] = bool
    """Whether to stop waiting for others."""
    position: Callable[[], str] = str
    """Identify the state among those after as many steps."""
    outdated: Callable[[], bool] = bool
    """Whether there is a newer checkpoint than the one that this worker has read."""
    recorded: Callable[[], bool] = bool
    """Whether the checkpoint folder records that training is over."""


class Work(Protocol):
    def wait(self) -> Any: ...
