"""Who takes a step, and what they do together."""

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

    @property
    def world(self) -> int:
        return len(self.names)


class Work(Protocol):
    def wait(self) -> Any: ...
