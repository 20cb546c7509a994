"""The process group of a training, under any launcher and without one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BACKENDS = ("nccl", "gloo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Which of the processes this is, and the device that is its own."""

    rank: int
    world_size: int
    device: torch.device

    def parallel(self, model: nn.Module) -> DistributedDataParallel:
        """The model, moved to the device, with gradients averaged over all processes."""
        ids = None if self.device.index is None else [self.device.index]
        return DistributedDataParallel(model.to(self.device), device_ids=ids)

    def say(self, text: str) -> None:
        """Print on the first process only."""
        if self.rank == 0:
            print(text, flush=True)


@contextmanager
def process_group(backend: str | None = None) -> Iterator[Place]:
    """Join the group that the environment describes; without RANK, one of this process alone.

    The backend is the one given, else `TRAINWRIGHT_BACKEND`, else nccl where there is a GPU.
    """
    wanted = os.environ.get("TRAINWRIGHT_BACKEND")
    backend = backend or wanted or ("nccl" if torch.cuda.is_available() else "gloo")
    device = torch.device("cpu")
    if backend == "nccl":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(device)
    if "RANK" in os.environ:
        dist.init_process_group(backend)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)  # type: ignore[attr-defined]
    with left_in_the_end():
        yield Place(rank=dist.get_rank(), world_size=dist.get_world_size(), device=device)


@contextmanager
def left_in_the_end() -> Iterator[None]:
    """Leave the process group if there is one, but not after an error.

    The other processes may be gone then, and leaving would wait for them.
    """
    try:
        yield
    except SystemExit:
        _leave()
        raise
    _leave()


_LEFT: list[object] = []
"""DDP's reducer must not be the last to have a group: https://github.com/pytorch/pytorch/issues/56297"""


def _leave() -> None:
    if dist.is_initialized():
        _LEFT.append(dist.group.WORLD)
        dist.destroy_process_group()
