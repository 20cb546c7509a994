"""The copy of a state that is written while training changes the state."""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

_ALIGNED = 64  # bytes: a cache line, and more than any dtype needs
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Location:
    """The location of a tensor in the buffers."""

    offset: int
    shape: tuple[int, ...]
    dtype: torch.dtype


class Buffers:
    """Memory that is kept from save to save: touching fresh memory takes longer than the copying.

    Another process can map it, by `descriptor`. Not in /dev/shm, which is small in a pod.
    """

    def __init__(self) -> None:
        self.descriptor: int | None = None
        self.allocations = 0
        """How often memory was allocated: another number means other memory."""
        self._layout: tuple[object, ...] = ()
        self._address = 0
        self._map: mmap.mmap | None = None
        self._tensors: dict[str, Tensor] = {}

    @property
    def size(self) -> int:
        return 0 if self._map is None else len(self._map)

    def copy(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return copies, valid until the next call; of a sharded tensor, only this rank's shard."""
        local = {name: _local(tensor) for name, tensor in tensors.items()}
        layout = tuple((name, tensor.shape, tensor.dtype) for name, tensor in local.items())
        if layout != self._layout:
            self.close()
            self._allocate(local)
            self._layout = layout
        cuda = False
        for name, tensor in local.items():
            self._tensors[name].copy_(tensor, non_blocking=tensor.is_cuda)
            cuda = cuda or tensor.is_cuda
        if cuda:
            torch.cuda.synchronize()
        return {name: _sharded_like(tensors[name], copy) for name, copy in self._tensors.items()}

    def location(self, copy: Tensor) -> Location:
        """Return the location of a tensor that `copy` returned, or of a contiguous part of one."""
        assert copy.is_contiguous(), "a copy is"
        offset = copy.data_ptr() - self._address if copy.numel() else 0
        return Location(offset, tuple(copy.shape), copy.dtype)

    def close(self) -> None:
        self._tensors, self._layout = {}, ()
        self._map = None  # unmapped with the last tensor that lies in it
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def _allocate(self, tensors: Mapping[str, Tensor]) -> None:
        """Allocate memory for these tensors, one after the other at aligned offsets."""
        offsets, end = {}, 0
        for name, tensor in tensors.items():
            offsets[name] = end
            end += -(-tensor.numel() * tensor.element_size() // _ALIGNED) * _ALIGNED
        size = max(end, mmap.PAGESIZE)
        self.descriptor = _memory_file(size)
        self._map = mmap.mmap(-1 if self.descriptor is None else self.descriptor, size)
        self.allocations += 1
        whole = torch.frombuffer(self._map, dtype=torch.uint8)
        self._address = whole.data_ptr()
        if any(tensor.is_cuda for tensor in tensors.values()):
            _pin(whole)
        self._tensors = {
            name: tensor_at(self._map, Location(offsets[name], tuple(tensor.shape), tensor.dtype))
            for name, tensor in tensors.items()
        }


def _memory_file(size: int) -> int | None:
    """Return a descriptor of memory for other processes to map; None if there is none of this size.

    A limit of the size of files (RLIMIT_FSIZE) holds for it too.
    """
    if not hasattr(os, "memfd_create"):
        return None
    descriptor = os.memfd_create("checkpoint")
    try:
        os.truncate(descriptor, size)
    except OSError as error:
        os.close(descriptor)
        _log.warning(
            "no shared memory of %d bytes (%s): checkpoints are written by a thread",
            size, error.strerror,
        )  # fmt: skip
        return None
    return descriptor


def tensor_at(memory: mmap.mmap, location: Location) -> Tensor:
    """Return a tensor with its own storage: torch would copy a view of a larger one to write it."""
    count = torch.Size(location.shape).numel() * location.dtype.itemsize
    if not count:
        return torch.empty(location.shape, dtype=location.dtype)
    flat = torch.frombuffer(memory, dtype=torch.uint8, count=count, offset=location.offset)
    return flat.view(location.dtype).view(location.shape)


def _local(tensor: Tensor) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def _sharded_like(tensor: Tensor, copy: Tensor) -> Tensor:
    """Return a copy as a DTensor like `tensor`, or as it is if `tensor` is not sharded.

    As with torch's own stager, the copy is on the CPU although the mesh may be of GPUs.
    """
    if not isinstance(tensor, DTensor):
        return copy
    return DTensor(copy, tensor._spec, requires_grad=False)  # type: ignore[no-untyped-call]


def _pin(memory: Tensor) -> None:
    """Pin the memory, so that a GPU can copy into it by itself; a failure is only logged.

    torch's own stager does this with shared memory.
    """
    cudart: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
    code = int(cudart.cudaHostRegister(memory.data_ptr(), memory.numel(), 1))
    if code:
        _log.warning("the checkpoint's buffers are not pinned (CUDA error %d): slower copies", code)
