"""How a training process is part of a group, for the three ways to be started.

`Alone` and `Gang` let an elastic script run where there is no coordinator: one process on a laptop,
or a world of fixed size under any launcher, which a failure ends and a checkpoint brings back.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
import torch.distributed as dist

from trainwright_runtime.timeouts import Timeouts

State = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Who takes this step: `names[rank]` is this worker, `quorum` changes when anybody does."""

    quorum: int
    rank: int
    names: tuple[str, ...]

    @property
    def world(self) -> int:
        return len(self.names)


class StoppedWaiting(Exception):
    """The worker was told to stop while it waited for others."""


class Work(Protocol):
    def wait(self) -> Any: ...


class Membership(Protocol):
    together: bool
    """Everybody is there from the first step to the last, or nobody is."""

    def join(self) -> Members:
        """Wait until it is settled who takes the next step.

        The state of the others is loaded before it returns if they are ahead. Raises StoppedWaiting
        when the worker was told to stop meanwhile.
        """

    def reduce(self, tensor: torch.Tensor) -> Work:
        """Start summing over the members, in place. A failure shows in `commit`."""

    def commit(self) -> bool:
        """Whether everything reduced in this step arrived here, so that it counts."""

    def abandon(self) -> None:
        """Let the step that was joined not count."""

    def leave(self) -> None:
        """End the membership."""


class Alone:
    """One process."""

    together = True

    def __init__(self, name: str) -> None:
        self._members = Members(quorum=0, rank=0, names=(name,))

    def join(self) -> Members:
        return self._members

    def reduce(self, tensor: torch.Tensor) -> Work:
        return _Done()

    def commit(self) -> bool:
        return True

    def abandon(self) -> None: ...

    def leave(self) -> None: ...


class Gang:
    """A process group of fixed size: whoever fails ends everybody."""

    together = True

    def __init__(self, backend: str) -> None:
        if not dist.is_initialized():
            dist.init_process_group(backend)
        names = tuple(f"rank-{rank}" for rank in range(dist.get_world_size()))
        self._members = Members(quorum=0, rank=dist.get_rank(), names=names)

    def join(self) -> Members:
        return self._members

    def reduce(self, tensor: torch.Tensor) -> Work:
        work: Work = dist.all_reduce(tensor, async_op=True)
        return work

    def commit(self) -> bool:
        return True

    def abandon(self) -> None: ...

    def leave(self) -> None:
        dist.destroy_process_group()


class _Done:
    def wait(self) -> None: ...


def membership(
    environ: Mapping[str, str],
    *,
    dump: Callable[[], State],
    load: Callable[[State], None],
    stopping: Callable[[], bool],
) -> Membership:
    """What the environment asks for: a coordinator, a fixed world, or neither.

    `dump` and `load` are the state that newcomers get; `stopping` says whether to give up waiting.
    """
    backend = environ.get("TRAINWRIGHT_BACKEND") or (
        "nccl" if torch.cuda.is_available() else "gloo"
    )
    if "TRAINWRIGHT_COORDINATOR" in environ:
        os.environ.setdefault("RUST_LOG", "error")  # torchft reads it at import
        from trainwright_runtime.elastic.replica import Address, Replica

        address = Address(
            coordinator=environ["TRAINWRIGHT_COORDINATOR"],
            name=worker_name(environ),
            min_replicas=int(environ.get("TRAINWRIGHT_MIN_REPLICAS", "1")),
            backend=backend,
            timeouts=Timeouts.of(environ),
        )
        return Replica(address, dump=dump, load=load, stopping=stopping)
    if int(environ.get("WORLD_SIZE", "1")) > 1:
        return Gang(backend)
    return Alone(worker_name(environ))


def worker_name(environ: Mapping[str, str]) -> str:
    """What this worker is called in logs: the entrypoint's name for it, or the host's."""
    return environ.get("TRAINWRIGHT_REPLICA") or socket.gethostname()
