"""The processes that write one checkpoint together, and how they agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch.distributed as dist

T = TypeVar("T")


class Ranks:
    """The processes of the default process group, or this one alone if there is no group.

    They communicate over their own gloo group: checkpoints are written by a thread, whose messages
    must not mix with those of the training loop, and nccl carries no objects off the GPU.
    Creating one is collective.
    """

    def __init__(self, world: object) -> None:
        self.world = world
        """Their default process group, or None if there is none."""
        self.group: dist.ProcessGroup | None = None
        self.rank, self.count = 0, 1
        if world is not None:
            self.group = dist.new_group(backend="gloo")
            self.rank, self.count = dist.get_rank(), dist.get_world_size()

    def on_first(self, work: Callable[[], T]) -> T:
        """Run `work` on the first rank; return its result, or raise its error, on every rank."""
        return self.on_rank(0, work)

    def on_rank(self, rank: int, work: Callable[[], T]) -> T:
        """Run `work` on one rank, and return or raise its outcome on every rank."""
        outcome: list[object] = [None, None]
        if self.rank == rank:
            try:
                outcome[0] = work()
            except Exception as error:  # noqa: BLE001 - raised below, on every rank
                outcome[1] = error
        if self.group is not None:
            dist.broadcast_object_list(outcome, src=rank, group=self.group)
        if isinstance(outcome[1], Exception):
            raise outcome[1]
        return outcome[0]  # type: ignore[return-value]

    def gather(self, value: T) -> list[T]:
        """Return the values of all ranks, in order of rank, on every rank."""
        if self.group is None:
            return [value]
        values: list[T | None] = [None] * self.count
        dist.all_gather_object(values, value, group=self.group)
        return values  # type: ignore[return-value]

    def on_all(self, work: Callable[[], T]) -> list[T]:
        """Run `work` on every rank, and return all results on each, or raise the OSError of the
        first rank that has one.

        Otherwise a rank that fails alone would leave the others waiting.
        """
        result: T | None = None
        failed: OSError | None = None
        try:
            result = work()
        except OSError as error:
            failed = error
        outcomes = self.gather((result, failed))
        if blame := next((error for _, error in outcomes if error is not None), None):
            raise blame
        return [value for value, _ in outcomes]  # type: ignore[misc]
