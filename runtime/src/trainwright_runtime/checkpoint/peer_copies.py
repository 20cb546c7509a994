"""Copies of a checkpoint in the memory of two nodes: recovery from a lost node needs no storage.

    step-0000000200.1f2e3d4c/   the files of this node's ranks and those of the node before it
    .step-…                     one that is being made, or was abandoned

The folder is in memory and outlives the training processes: an emptyDir with `medium: Memory`
exists as long as its pod. The nodes form a ring, as in Gemini (SOSP '23,
https://doi.org/10.1145/3600006.3613145) and in NVIDIA's resiliency extension
(https://nvidia.github.io/nvidia-resiliency-ext/checkpointing/local/usage_guide.html). Files are
sent over the process group that the ranks have anyway, so there is no port for others to reach.
"""

from __future__ import annotations

import errno
import io
import logging
import mmap
import os
import secrets
import shutil
import socket
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.futures import Future

from trainwright_runtime.checkpoint.contents import STATE
from trainwright_runtime.checkpoint.digests import (
    DIGESTS,
    difference,
    digest_of,
    listed_digests,
    sums,
)
from trainwright_runtime.checkpoint.directory import copy_synced, step_of
from trainwright_runtime.checkpoint.ranks import Ranks
from trainwright_runtime.checkpoint.storage import METADATA, Reader, unpickled_metadata

_PIECE = 64 * 1024 * 1024  # bytes of one message
_ON_ALL = (METADATA, STATE)  # small, and needed by every rank
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Transfer:
    """A file on its way from one rank to another."""

    name: str
    size: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A copy that a node lists, with the digests of its files."""

    name: str
    digests: Mapping[str, str]

    @property
    def step(self) -> int:
        return step_of(self.name) or 0


@dataclass(frozen=True, slots=True)
class Copy(Listed):
    """A verified copy; `holders` maps each file to the nodes that have it undamaged."""

    sizes: Mapping[str, int]
    holders: Mapping[str, Sequence[int]]

    def defect(self) -> str | None:
        """Return in words which of its files is lost, or None if the copy is complete."""
        lost = sorted(name for name in self.digests if not self.holders.get(name))
        return f"{lost[0]} is on none of the nodes, or damaged" if lost else None


class Copies:
    """The folder in this node's memory, for the ranks of one process group.

    Every method but `close` is collective, and raises the same OSError on all ranks.
    """

    def __init__(self, path: Path, ranks: Ranks) -> None:
        self.path = path
        self._ranks = ranks
        self._kept: str | None = None
        identities = ranks.gather(_identity(path))
        _raise_first(identities)
        nodes = list(dict.fromkeys(identities))
        self._node_of = [nodes.index(identity) for identity in identities]
        self._members = [
            [rank for rank, node in enumerate(self._node_of) if node == index]
            for index in range(len(nodes))
        ]
        self._node = self._node_of[ranks.rank]
        self._local = self._members[self._node].index(ranks.rank)

    @property
    def _leads(self) -> bool:
        """Whether this is the rank of its node that makes and removes folders."""
        return self._local == 0

    # --- writing ---------------------------------------------------------------------------------

    def begin(self, step: int) -> Path:
        """Remove all copies but the newest, then return a new hidden folder for this node."""
        name = self._ranks.on_first(lambda: f".step-{step:010}.{secrets.token_hex(4)}")
        folder = self.path / name

        def make() -> None:
            for old in self.path.iterdir():
                if step_of(old.name.removeprefix(".")) is not None and old.name != self._kept:
                    shutil.rmtree(old, ignore_errors=True)
            folder.mkdir()

        self._on_each_node(make)
        return folder

    def collect(self, folder: Path, names: Collection[str]) -> None:
        """Send this rank's files to the next node, and receive those of the previous node."""
        mine = {name: (folder / name).stat().st_size for name in names if name not in _ON_ALL}
        transfers = [
            Transfer(name, size, rank, self._neighbour(rank))
            for rank, files in enumerate(self._ranks.gather(mine))
            for name, size in files.items()
            if len(self._members) > 1
        ]
        buffers: list[Tensor | None] = []
        refused: OSError | None = None
        try:
            buffers = [self._buffer(folder, transfer) for transfer in transfers]
        except OSError as error:
            refused = error
        _raise_first(self._ranks.gather(refused))  # nothing is sent unless all have room
        exchange(self._ranks, transfers, buffers)

    def _buffer(self, folder: Path, transfer: Transfer) -> Tensor | None:
        """Return what this rank sends from or receives into, or None if it does neither."""
        if transfer.source == self._ranks.rank:
            return _mapped(folder / transfer.name)
        if transfer.target == self._ranks.rank:
            return _created(folder / transfer.name, transfer.size)
        return None

    def publish(self, folder: Path, digests: Mapping[str, str]) -> None:
        """Make a copy visible on all nodes, with the files that every node needs."""
        shared = self._ranks.on_first(
            lambda: {name: (folder / name).read_bytes() for name in _ON_ALL}
        ) | {DIGESTS: sums(digests)}

        def show() -> None:
            for name, content in shared.items():
                (folder / name).write_bytes(content)
            folder.rename(self.path / folder.name.removeprefix("."))

        self._on_each_node(show)  # the copy before stays until all have this one
        self._kept = folder.name.removeprefix(".")

    def abandon(self, folder: Path) -> None:
        if self._leads:
            shutil.rmtree(folder, ignore_errors=True)

    def clear(self) -> None:
        """Remove all copies: the run has ended well, and its last state is on the disk."""
        if self._leads:
            for old in self.path.iterdir():
                if step_of(old.name.removeprefix(".")) is not None:
                    shutil.rmtree(old, ignore_errors=True)

    def _neighbour(self, rank: int) -> int:
        """Return the rank of the next node that keeps the files of `rank`."""
        node = self._node_of[rank]
        next_ranks = self._members[(node + 1) % len(self._members)]
        return next_ranks[self._members[node].index(rank) % len(next_ranks)]

    # --- loading ---------------------------------------------------------------------------------

    def listed(self) -> list[Listed]:
        """Return the copies that nodes have, in the order to try them: the newest first."""
        listings = self._ranks.gather(self._listing() if self._leads else {})
        names = {name for listing in listings for name in listing}
        candidates = []
        for name in sorted(names, key=lambda name: (step_of(name), name), reverse=True):
            # Each node has the digests of all files; a node whose list is damaged is outvoted.
            # Of two nodes neither outvotes the other, so both lists are tried.
            lists = Counter(listing[name] for listing in listings if name in listing)
            most = max(lists.values())
            ties = sorted(text for text, votes in lists.items() if votes == most)
            candidates += [Listed(name, listed_digests(text)) for text in ties]
        return candidates

    def _listing(self) -> dict[str, bytes]:
        """Return the list of digests of each copy on this node, by name; cut lists are left out."""
        digests: dict[str, bytes] = {}
        for name in os.listdir(self.path) if self.path.is_dir() else ():  # noqa: PTH208
            with suppress(OSError, ValueError):
                if step_of(name) is not None:
                    text = (self.path / name / DIGESTS).read_bytes()
                    present = set(os.listdir(self.path / name)) - {DIGESTS}  # noqa: PTH208
                    if present <= listed_digests(text).keys():  # and else it is cut short
                        digests[name] = text
        return digests

    def verified(self, listed: Listed) -> Copy:
        """Return a copy whose files were compared with their digests on all nodes."""
        name, digests = listed.name, listed.digests
        mine: dict[str, int] = {}
        share = sorted(digests)[self._local :: len(self._members[self._node])]
        for file in share:
            with suppress(OSError):
                path = self.path / name / file
                with path.open("rb") as opened:
                    problem = difference(opened, digests[file])
                if problem is None:
                    mine[file] = path.stat().st_size
                else:
                    _log.warning("%s %s", path, problem)
        holders: dict[str, list[int]] = {}
        sizes: dict[str, int] = {}
        for rank, files in enumerate(self._ranks.gather(mine)):
            for file, size in files.items():
                holders.setdefault(file, []).append(self._node_of[rank])
                sizes[file] = size
        return Copy(name, digests, sizes, holders)

    def keep(self, copy: Copy) -> None:
        """Keep a copy that was loaded until there is a newer one."""
        self._kept = copy.name

    def deliver(self, copy: Copy, folder: Path) -> list[str]:
        """Copy this rank's part of a copy without a defect to a folder; return its file names.

        Not collective: the parts of all ranks together are the whole copy.
        """
        folder.mkdir(parents=True, exist_ok=True)
        delivered = []
        for index, name in enumerate(sorted(copy.digests)):
            nodes = copy.holders[name]
            ranks = self._members[nodes[index % len(nodes)]]
            if ranks[index % len(ranks)] != self._ranks.rank:
                continue
            source = self.path / copy.name / name
            if copy_synced(source, folder / name) != copy.digests[name]:
                raise OSError(errno.EIO, "its digest differs from what was written", str(source))
            delivered.append(name)
        return delivered

    def reader(self, copy: Copy) -> tuple[CopyReader, str]:
        """Return a reader of the copy's tensors, and the text of its `state.json`. Collective; the
        copy must have no defect.
        """
        metadata, state = (
            self._ranks.on_rank(
                self._members[copy.holders[name][0]][0],
                (self.path / copy.name / name).read_bytes,
            )
            for name in _ON_ALL
        )
        return CopyReader(self, copy, metadata), state.decode()

    def has(self, copy: Copy, name: str) -> bool:
        return self._node in copy.holders[name]

    def fetched(self, copy: Copy, names: Sequence[str]) -> Iterator[tuple[str, bytearray]]:
        """Yield other nodes' files one at a time, so that only one of them is in memory.

        Ranks may request different files, and each starts with a different one, so that not all
        requests reach the same node at the same moment.
        """
        rank = self._ranks.rank
        first = rank % len(names) if names else 0
        requested = self._ranks.gather([*names[first:], *names[:first]])
        for turn in range(max(map(len, requested))):
            transfers, buffers = [], []
            for target, wanted in enumerate(requested):
                if turn >= len(wanted):
                    continue
                name = wanted[turn]
                nodes = copy.holders[name]
                holders = self._members[nodes[target % len(nodes)]]
                transfer = Transfer(name, copy.sizes[name], holders[target % len(holders)], target)
                transfers.append(transfer)
                buffer = None
                if transfer.source == rank:
                    with suppress(OSError):  # it was there a moment ago: the digest will differ
                        buffer = _mapped(self.path / copy.name / name)
                    buffer = (
                        torch.zeros(transfer.size, dtype=torch.uint8) if buffer is None else buffer
                    )
                elif target == rank:
                    received = bytearray(transfer.size)
                    buffer = _tensor(received)
                buffers.append(buffer)
            exchange(self._ranks, transfers, buffers)
            if turn < len(requested[rank]):
                yield requested[rank][turn], received

    def _on_each_node(self, work: Callable[[], None]) -> None:
        """Run `work` in one rank of each node; raise the first OSError in all ranks."""
        failure: OSError | None = None
        if self._leads:
            try:
                work()
            except OSError as error:
                failure = error
        _raise_first(self._ranks.gather(failure))


class CopyReader(Reader):
    """Reads a copy's tensors: from this node's memory, and else from a node that has them."""

    def __init__(self, copies: Copies, copy: Copy, metadata: bytes) -> None:
        super().__init__(copies.path / copy.name)
        self._copies, self._copy, self._metadata = copies, copy, metadata

    def read_metadata(self, *_args: object, **_options: object) -> Metadata:
        return unpickled_metadata(io.BytesIO(self._metadata), self._copy.name)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Read a plan. Collective: no rank may leave before it has sent what others need."""
        items: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            items.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        failures: list[Exception] = []

        def read(name: str, reader: Reader) -> None:
            try:
                Reader.read_data(reader, replace(plan, items=items[name]), planner)
            except Exception as error:  # noqa: BLE001 - raised below
                failures.append(error)

        here = [name for name in items if self._copies.has(self._copy, name)]
        for name in here:
            read(name, self)
        for name, content in self._copies.fetched(self._copy, sorted(items.keys() - here)):
            if digest_of(content) == self._copy.digests[name]:
                read(name, _ReceivedReader(self, content))
            else:
                failures.append(OSError(errno.EIO, "another node sent something else", name))
        if failures:
            raise failures[0]
        done: Future[None] = Future()
        done.set_result(None)
        return done


class _ReceivedReader(Reader):
    """A reader of one file that another node has sent."""

    def __init__(self, reader: CopyReader, content: bytearray) -> None:
        super().__init__(Path(reader.path))
        self.storage_data = reader.storage_data
        self.fs = _Received(content)  # type: ignore[assignment]


class _Received:
    """The file system for torch's reader: any path is the one file that was received."""

    def __init__(self, content: bytearray) -> None:
        self._content = content

    @contextmanager
    def create_stream(self, _path: str, _mode: str) -> Iterator[io.IOBase]:
        yield _Memory(self._content)

    def concat_path(self, _path: object, suffix: str) -> str:
        return suffix


class _Memory(io.RawIOBase):
    """A file object over bytes in memory, which `io.BytesIO` would copy."""

    def __init__(self, content: bytearray) -> None:
        self._content, self._position = memoryview(content), 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: len(self._content)}
        self._position = max(start[whence] + offset, 0)
        return self._position

    def readinto(self, buffer: Any) -> int:
        piece = self._content[self._position : self._position + len(buffer)]
        buffer[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)


def exchange(ranks: Ranks, transfers: Sequence[Transfer], buffers: Sequence[Tensor | None]) -> None:
    """Send and receive the files that concern this rank, all at once and piece by piece.

    All ranks have the same transfers in the same order; there is a buffer where one is this rank's.
    """
    longest = max(
        (
            transfer.size
            for transfer, buffer in zip(transfers, buffers, strict=True)
            if buffer is not None
        ),
        default=0,
    )
    for start in range(0, longest, _PIECE):
        pending = []
        for tag, (transfer, buffer) in enumerate(zip(transfers, buffers, strict=True)):
            if buffer is None or start >= transfer.size:
                continue
            piece = buffer[start : start + _PIECE]
            if transfer.source == ranks.rank:
                pending.append(dist.isend(piece, transfer.target, group=ranks.group, tag=tag))
            else:
                pending.append(dist.irecv(piece, transfer.source, group=ranks.group, tag=tag))
        for work in pending:
            if work is not None:
                work.wait()


def _mapped(path: Path) -> Tensor:
    """Return a file's bytes as a tensor that maps the file, without a copy."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return torch.empty(0, dtype=torch.uint8)
        return _tensor(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


def _created(path: Path, size: int) -> Tensor:
    """Return a tensor that maps a new file of this size, to be filled."""
    with path.open("x+b") as file:
        if not size:
            return torch.empty(0, dtype=torch.uint8)
        # A file that is only extended takes memory when it is written: SIGBUS where there is none.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:
            os.truncate(file.fileno(), size)
        return _tensor(mmap.mmap(file.fileno(), size))


def _tensor(memory: bytearray | mmap.mmap) -> Tensor:
    return (
        torch.frombuffer(memory, dtype=torch.uint8) if memory else torch.empty(0, dtype=torch.uint8)
    )


def _identity(path: Path) -> str | OSError:
    """Return a text that only ranks with the same folder share: hosts may have the same path."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        status = path.stat()
    except OSError as error:
        return error
    return f"{socket.gethostname()} {status.st_dev} {status.st_ino}"


def _raise_first(outcomes: Sequence[object]) -> None:
    for outcome in outcomes:
        if isinstance(outcome, OSError):
            raise outcome
