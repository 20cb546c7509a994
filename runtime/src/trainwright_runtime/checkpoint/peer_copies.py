"""Copies of a checkpoint in the memory of two nodes: a lost node then needs no storage to go on.

    step-0000000200.1f2e3d4c/   the files of this node's ranks and those of the node before it
    .step-…                     one that is being made, or that came to nothing

The folder is in memory and outlives the training processes: an emptyDir with `medium: Memory` is
there for as long as its pod. The nodes form a ring, as in Gemini (SOSP '23,
https://doi.org/10.1145/3600006.3613145) and in NVIDIA's resiliency extension
(https://nvidia.github.io/nvidia-resiliency-ext/checkpointing/local/usage_guide.html). What is sent
goes over the process group that the ranks have anyway: nothing listens that others could reach.
"""

from __future__ import annotations

import hashlib
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

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from torch.futures import Future

from trainwright_runtime.checkpoint.contents import STATE
from trainwright_runtime.checkpoint.directory import (
    DIGESTS,
    listed_digests,
    step_of,
    sums,
)
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
class Copy:
    """An attempt that some node shows; `holders` are the nodes that have a file unharmed."""

    name: str
    digests: Mapping[str, str]
    sizes: Mapping[str, int]
    holders: Mapping[str, Sequence[int]]

    @property
    def step(self) -> int:
        return step_of(self.name) or 0

    def defect(self) -> str | None:
        """What is lost of it, in words."""
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
        self._made = False
        identities = ranks.every(_identity(path))
        _raise_first(identities)
        known = list(dict.fromkeys(identities))
        self._node_of = [known.index(identity) for identity in identities]
        self._members = [
            [rank for rank, node in enumerate(self._node_of) if node == index]
            for index in range(len(known))
        ]
        self._node = self._node_of[ranks.rank]
        self._local = self._members[self._node].index(ranks.rank)

    @property
    def _leads(self) -> bool:
        """Whether this rank is the one of its node that makes and removes folders."""
        return self._local == 0

    # --- making one ------------------------------------------------------------------------------

    def begin(self, step: int) -> Path:
        """A hidden folder for the files of this node's ranks; of the others the newest stays."""
        name = self._ranks.first(lambda: f".step-{step:010}.{secrets.token_hex(4)}")
        folder = self.path / name

        def make() -> None:
            for left in self.path.iterdir():
                if step_of(left.name.removeprefix(".")) is not None and left.name != self._kept:
                    shutil.rmtree(left, ignore_errors=True)
            folder.mkdir()

        self._on_each_node(make)
        return folder

    def collect(self, folder: Path, names: Collection[str]) -> None:
        """Send the files of this rank to the next node, and take those of the node before."""
        mine = {name: (folder / name).stat().st_size for name in names if name not in _ON_ALL}
        transfers = [
            Transfer(name, size, rank, self._neighbour(rank))
            for rank, files in enumerate(self._ranks.every(mine))
            for name, size in files.items()
            if len(self._members) > 1
        ]
        refused: OSError | None = None
        buffers: list[Tensor | None] = []
        for transfer in transfers:
            buffer = None
            try:
                if transfer.source == self._ranks.rank:
                    buffer = _mapped(folder / transfer.name)
                elif transfer.target == self._ranks.rank:
                    buffer = _created(folder / transfer.name, transfer.size)
            except OSError as error:  # the other side sends or waits all the same
                refused, buffer = error, torch.empty(transfer.size, dtype=torch.uint8)
            buffers.append(buffer)
        exchange(self._ranks, transfers, buffers)
        if refused:
            raise refused

    def publish(self, folder: Path, digests: Mapping[str, str]) -> None:
        """Make it visible on all nodes, each of which has the files that every rank needs."""
        shared = self._ranks.first(
            lambda: {name: (folder / name).read_bytes() for name in _ON_ALL}
        ) | {DIGESTS: sums(digests)}

        def show() -> None:
            for name, content in shared.items():
                (folder / name).write_bytes(content)
            folder.rename(self.path / folder.name.removeprefix("."))

        self._on_each_node(show)  # the copy before stays until all have this one
        self._kept, self._made = folder.name.removeprefix("."), True

    def abandon(self, folder: Path) -> None:
        if self._leads:
            shutil.rmtree(folder, ignore_errors=True)

    def clear(self) -> None:
        """Let go of what was made: the run has ended well, and its last state is on the disk."""
        if self._made and self._leads:
            for left in self.path.iterdir():
                if step_of(left.name.removeprefix(".")) is not None:
                    shutil.rmtree(left, ignore_errors=True)

    def _neighbour(self, rank: int) -> int:
        """The rank of the next node that keeps the files of this one."""
        node = self._node_of[rank]
        there = self._members[(node + 1) % len(self._members)]
        return there[self._members[node].index(rank) % len(there)]

    # --- going on from one -----------------------------------------------------------------------

    def found(self) -> Iterator[Copy]:
        """What the nodes have, the newest first, each file held against its SHA-256."""
        listings = self._ranks.every(self._listing() if self._leads else {})
        names = {name for listing in listings for name in listing}
        for name in sorted(names, key=lambda name: (step_of(name), name), reverse=True):
            # Each node has the digests of all files; a node whose list is damaged is outvoted.
            lists = Counter(listing[name] for listing in listings if name in listing)
            digests = listed_digests(lists.most_common(1)[0][0])
            yield self._verified(name, digests)

    def _listing(self) -> dict[str, bytes]:
        """The digests of each copy on this node."""
        found: dict[str, bytes] = {}
        for name in os.listdir(self.path) if self.path.is_dir() else ():  # noqa: PTH208
            with suppress(OSError, ValueError):
                if step_of(name) is not None:
                    text = (self.path / name / DIGESTS).read_bytes()
                    listed_digests(text)
                    found[name] = text
        return found

    def _verified(self, name: str, digests: Mapping[str, str]) -> Copy:
        mine: dict[str, int] = {}
        share = sorted(digests)[self._local :: len(self._members[self._node])]
        for file in share:
            with suppress(OSError):
                path = self.path / name / file
                with path.open("rb") as opened:
                    digest = hashlib.file_digest(opened, "sha256").hexdigest()
                if digest == digests[file]:
                    mine[file] = path.stat().st_size
                else:
                    _log.warning("%s is not what was written: its SHA-256 differs", path)
        holders: dict[str, list[int]] = {}
        sizes: dict[str, int] = {}
        for rank, files in enumerate(self._ranks.every(mine)):
            for file, size in files.items():
                holders.setdefault(file, []).append(self._node_of[rank])
                sizes[file] = size
        return Copy(name, digests, sizes, holders)

    def keep(self, copy: Copy) -> None:
        """It was loaded: it stays until there is a newer one."""
        self._kept = copy.name

    def reader(self, copy: Copy) -> tuple[CopyReader, str]:
        """What reads its tensors, and its `state.json`. Collective, for a copy without a defect."""
        metadata, state = (
            self._ranks.of(
                self._members[copy.holders[name][0]][0],
                (self.path / copy.name / name).read_bytes,
            )
            for name in _ON_ALL
        )
        return CopyReader(self, copy, metadata), state.decode()

    def has(self, copy: Copy, name: str) -> bool:
        return self._node in copy.holders[name]

    def fetched(self, copy: Copy, names: Sequence[str]) -> Iterator[tuple[str, bytearray]]:
        """Files of other nodes, one at a time, so that one of them is in memory.

        Each rank may request other files, and begins with another one, so that not all requests
        reach the same node at the same moment.
        """
        rank = self._ranks.rank
        first = rank % len(names) if names else 0
        requested = self._ranks.every([*names[first:], *names[:first]])
        for turn in range(max(map(len, requested))):
            transfers, buffers = [], []
            for target, wanted in enumerate(requested):
                if turn >= len(wanted):
                    continue
                name = wanted[turn]
                nodes = copy.holders[name]
                there = self._members[nodes[target % len(nodes)]]
                transfer = Transfer(name, copy.sizes[name], there[target % len(there)], target)
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
        failure: OSError | None = None
        if self._leads:
            try:
                work()
            except OSError as error:
                failure = error
        _raise_first(self._ranks.every(failure))


class CopyReader(Reader):
    """Reads a copy's tensors: from this node's memory, and else from a node that has them."""

    def __init__(self, copies: Copies, copy: Copy, metadata: bytes) -> None:
        super().__init__(copies.path / copy.name)
        self._copies, self._copy, self._metadata = copies, copy, metadata

    def read_metadata(self, *_args: object, **_options: object) -> Metadata:
        return unpickled_metadata(io.BytesIO(self._metadata), self._copy.name)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Called on all ranks: none may leave before it has sent what the others need."""
        items: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            items.setdefault(self.storage_data[item.storage_index].relative_path, []).append(item)
        failure: Exception | None = None

        def read(name: str) -> None:
            nonlocal failure
            try:
                super(CopyReader, self).read_data(replace(plan, items=items[name]), planner)
            except Exception as error:  # noqa: BLE001 - raised below
                failure = failure or error

        for name in items:
            if self._copies.has(self._copy, name):
                read(name)
        away = [name for name in items if not self._copies.has(self._copy, name)]
        for name, content in self._copies.fetched(self._copy, sorted(away)):
            if hashlib.sha256(content).hexdigest() != self._copy.digests[name]:
                failure = failure or OSError(5, "another node sent something else", name)
                continue
            self.fs = _Received(content)  # type: ignore[assignment]
            read(name)
        if failure:
            raise failure
        done: Future[None] = Future()
        done.set_result(None)
        return done


class _Received:
    """What torch's reader opens files by: the one that has come."""

    def __init__(self, content: bytearray) -> None:
        self._content = content

    @contextmanager
    def create_stream(self, _path: str, _mode: str) -> Iterator[io.IOBase]:
        yield io.BytesIO(self._content)

    def concat_path(self, _path: object, suffix: str) -> str:
        return suffix


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
    """A file's bytes, where they lie."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            return torch.empty(0, dtype=torch.uint8)
        return _tensor(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


def _created(path: Path, size: int) -> Tensor:
    """A new file of this size, to be filled."""
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
    """The same for the ranks that have this very folder: of one path there may be many."""
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
