"""A process that writes the files of checkpoints, so that training keeps its interpreter to itself.

A thread would take the interpreter from the training for its share of the time, and the processors
too: this process is nice. It is started by the first save that is worth it, maps the buffers that
training copies its state into, and ends with the training process.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.distributed.checkpoint.planner import SavePlan, WriteItem
from torch.distributed.checkpoint.storage import WriteResult

from trainwright_runtime.checkpoint.buffers import Buffers, Location, tensor_at
from trainwright_runtime.launch.parent import die_with_parent

if TYPE_CHECKING:
    from torch import Tensor

WORTH_IT = 64 * 1024 * 1024
"""Bytes: a thread has written less than this before a process has started."""

_NICE = 15  # a thirtieth of a processor that training also uses, all of an idle one

_PROGRAM = f"import sys; from {__name__} import main; main(*map(int, sys.argv[1:]))"


@dataclass(frozen=True, slots=True)
class Task:
    """Files to write in a folder."""

    folder: Path
    plan: SavePlan
    locations: list[Location]
    """Where the plan's items are in the buffers."""


@dataclass(frozen=True, slots=True)
class Outcome:
    results: list[WriteResult]
    digests: dict[str, str]
    error: OSError | None


class WriterProcess:
    """The training's side of the process that writes."""

    def __init__(self, buffers: Buffers) -> None:
        assert buffers.descriptor is not None
        self._buffers, self._mapped = buffers, buffers.allocations
        self._channel, theirs = Pipe()
        with closing(theirs):
            passed = theirs.fileno(), buffers.descriptor
            self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
                [sys.executable, "-c", _PROGRAM, *map(str, passed), str(buffers.size)],
                pass_fds=passed,
                stdin=subprocess.DEVNULL,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                    "CUDA_VISIBLE_DEVICES": "",
                    "OMP_NUM_THREADS": "1",
                },
            )

    def write(self, folder: Path, plan: SavePlan, tensors: Sequence[Tensor]) -> Outcome:
        """Write a plan's items from the buffers. Raise ChildProcessError if the process died."""
        locations = [self._buffers.location(tensor) for tensor in tensors]
        try:
            self._channel.send(Task(folder, plan, locations))
            outcome: Outcome = self._channel.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            code = self._process.wait()
            raise ChildProcessError(f"the process that writes it was lost (code {code})") from error
        return outcome

    def maps(self, buffers: Buffers) -> bool:
        """Whether the process is alive and maps the current memory of the buffers."""
        return self._mapped == buffers.allocations and self._process.poll() is None

    def close(self) -> None:
        self._channel.close()  # which it takes for the end
        self._process.wait()


class _Located:
    """The part of a planner that the writer uses: the tensors of items."""

    def __init__(self, memory: mmap.mmap, task: Task) -> None:
        self._tensors = {
            item.index: tensor_at(memory, location)
            for item, location in zip(task.plan.items, task.locations, strict=True)
        }

    def resolve_data(self, item: WriteItem) -> Tensor:
        return self._tensors[item.index]


def _serve(channel: Connection[Any, Any], memory: mmap.mmap) -> None:
    """Write the files of each task that comes over the channel, until its other end is closed."""
    from trainwright_runtime.checkpoint.storage import Writer

    while True:
        try:
            task: Task = channel.recv()
        except EOFError:
            return
        writer = Writer(task.folder)
        results: list[WriteResult] = []
        error: OSError | None = None
        try:
            results = writer.write_data(task.plan, _Located(memory, task)).value()  # type: ignore[arg-type]
        except (OSError, RuntimeError) as failure:  # torch complains of its unfinished archive
            error = writer.files.error
            if error is None:
                raise
            del failure
        channel.send(Outcome(results, writer.files.digests, error))


def main(channel: int, memory: int, size: int) -> None:
    die_with_parent()
    os.nice(_NICE)
    with closing(Connection(channel)) as connection:
        _serve(connection, mmap.mmap(memory, size))
