"""Saving a training state as checkpoints while training goes on, and loading it again."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NoReturn, Self

import torch.distributed as dist
from torch import Tensor

from trainwright_runtime.checkpoint import tree
from trainwright_runtime.checkpoint.buffers import Buffers
from trainwright_runtime.checkpoint.directory import (
    Directory,
    Retention,
    defect,
    seal,
    step_of,
)
from trainwright_runtime.checkpoint.errors import CheckpointError
from trainwright_runtime.checkpoint.objects import ObjectPath, Objects, split, store_of
from trainwright_runtime.checkpoint.peer_copies import Copies, Copy, Listed
from trainwright_runtime.checkpoint.process import WORTH_IT, WriterProcess
from trainwright_runtime.checkpoint.ranks import Ranks
from trainwright_runtime.checkpoint.snapshot import (
    Snapshot,
    Source,
    Written,
    content,
    deliver,
    restore,
    stored_source,
    write_files,
)
from trainwright_runtime.checkpoint.stop import noted
from trainwright_runtime.failures.errors import EnvironmentMistake

_log = logging.getLogger(__name__)
_TOLERATED = 60.0  # seconds for which saves may fail
# torch logs every call and every failure here, as dicts that reach the root logger's handlers.
logging.getLogger("c10d-NullHandler-dcp_logger").setLevel(logging.CRITICAL)


class Checkpoints:
    """Checkpoints of one run in one directory.

    A state is a mapping of names to objects with `state_dict()` and `load_state_dict()` (models,
    optimizers, schedulers, `RngState()`), tensors, and plain values: numbers, text, lists, dicts.
    Where a process group exists, `save`, `wait`, `load` and `close` are collective: every rank
    calls them at the same steps. Plain tensors and values are then those of one of the ranks;
    sharded tensors (DTensor) come from all of them.

    `every` is in steps, 0 for never; `keep` is how many to keep. If the disk is full or broken,
    training stops once `tolerate` saves in a row have failed over at least `tolerate_seconds`, as
    saves may follow each other faster than a server comes back. The last save before `close` must
    not fail. Without a directory nothing is saved or loaded.
    With `collective=False` processes act independently, as in elastic training, where all have the
    same state and one of them saves it.

    With `peer_copies` the state is also copied into the memory of two nodes between checkpoints.
    When the processes restart, and no two neighbouring nodes have lost their memory, `load` reads
    those copies and no files of the directory.
    """

    def __init__(  # noqa: PLR0913 - the whole of what there is to choose
        self,
        directory: str | os.PathLike[str] | None,
        *,
        keep: int = 3,
        every: int = 0,
        asynchronous: bool = True,
        tolerate: int = 3,
        tolerate_seconds: float = _TOLERATED,
        resume_from: str | os.PathLike[str] | None = None,
        collective: bool = True,
        max_age: float | None = None,
        peer_copies: PeerCopies | None = None,
    ) -> None:
        self._directory = None if directory is None else store_of(directory)
        self._resume_from = None if resume_from is None else str(resume_from)
        self._keep, self._every = keep, every
        self._tolerate, self._tolerate_seconds = tolerate, tolerate_seconds
        self._asynchronous, self._collective = asynchronous, collective
        self._max_age = max_age
        self._peer_copies = peer_copies if collective and directory is not None else None
        self._copies: Copies | None = None
        self._due: int | None = None  # the step that `due` was last called for
        self._trained = False  # since the state was loaded
        self._unstored: _Save | Copy | None = None  # what is newer than the storage, in memory
        self._saved: SimpleQueue[Saved] = SimpleQueue()
        self._broken: set[str] = set()
        self._failures = 0
        self._failing_since = 0.0
        self._unsaved: _Unsaved | None = None
        self._ranks: Ranks | None = None
        self._buffers = Buffers()
        self._writer: WriterProcess | None = None
        self._saving: tuple[_Save, Future[_Unsaved | None]] | None = None
        # Logged by torch at every save and load outside a process group.
        warnings.filterwarnings("ignore", "torch.distributed is (disabled|unavailable)")

    @classmethod
    def from_environment(
        cls,
        environ: Mapping[str, str] = os.environ,
        *,
        asynchronous: bool = True,
        tolerate: int = 3,
        collective: bool = True,
    ) -> Self:
        """Return the checkpoints that the variables TRAINWRIGHT_* configure.

        Raise EnvironmentMistake if one of them is not a whole number in its range.
        """
        return cls(
            environ.get("TRAINWRIGHT_CHECKPOINT_DIR") or None,
            every=_count(environ, "TRAINWRIGHT_CHECKPOINT_EVERY", 0, least=0),
            keep=_count(environ, "TRAINWRIGHT_CHECKPOINT_KEEP", 3, least=1),
            max_age=_count(environ, "TRAINWRIGHT_CHECKPOINT_MAX_AGE", 0, least=0) or None,
            peer_copies=_peer_copies(environ),
            resume_from=environ.get("TRAINWRIGHT_RESUME_FROM") or None,
            asynchronous=asynchronous,
            tolerate=tolerate,
            collective=collective,
        )

    @property
    def every(self) -> int:
        """Steps between two checkpoints, or 0 if none are to be saved."""
        return 0 if self._directory is None else self._every

    def due(self, step: int) -> bool:
        """Whether `save` is to be called after this step, counted from 1.

        If only a copy in memory is due, the next `save` of this step makes only that copy.
        """
        self._due, self._trained = step, True
        return self.saves_at(step)

    def saves_at(self, step: int) -> bool:
        """Whether something is to be saved after this step."""
        return _multiple(step, self._every) or self._copies_at(step)

    def latest(self) -> int | None:
        """Return the step of the newest checkpoint, or None; its files may still be damaged."""
        names = [] if self._directory is None else self._directory.steps()
        return step_of(names[0]) if names else None

    def save(self, step: int, state: Mapping[str, object], *, wait: bool = False) -> None:
        """Save the state as it is now; training may change it as soon as this returns.

        Returns once the state is copied or, with `wait`, once it is on the disk, or in the memory
        of two nodes if only that is due and no `StopSignal` has noted a SIGTERM. One checkpoint is
        written at a time, so this first waits for the previous one. A disk failure is logged, and
        raised as CheckpointError once it is the last one tolerated; `close` raises it if no later
        save succeeded.
        """
        self.wait()
        if self._directory is None:
            return
        ranks, started = self._agree(), time.perf_counter()
        copied, stored = self._decide(step, ranks, wait=wait)
        tensors: dict[str, Tensor] = {}
        values = {key: tree.encode(content(value), key, tensors) for key, value in state.items()}
        tensors = {name: tensor.detach() for name, tensor in tensors.items()}
        formats = [getattr(part, "trainwright_checkpoint_format", 1) for part in state.values()]
        snapshot = Snapshot(step, values, tensors, max(formats, default=1))
        waits = wait or not self._asynchronous
        copies = self._copies if copied else None
        if waits and stored:
            save = _Save(ranks, snapshot, started, copies, stored)
            future: Future[_Unsaved | None] = Future()
            future.set_result(self._run(save))
        else:  # `close` may need a state that is not stored long after this
            buffered = self._buffers.copy(tensors)
            snapshot = replace(snapshot, tensors=buffered, writer=self._writer_process())
            save = _Save(ranks, snapshot, started, copies, stored)
            # A thread for each checkpoint: one that waits for the next would keep a script that
            # forgets close() from ending.
            thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
            future = thread.submit(self._run, save)
            thread.shutdown(wait=False)
        self._saving, self._unstored = (save, future), None if stored else save
        if waits:
            self.wait()

    def wait(self) -> None:
        """Wait until the current save, if any, has succeeded or failed.

        Raise CheckpointError once the save that failed is the last one tolerated.
        """
        saving = self._saving
        if saving is None:
            return
        save, future = saving
        try:
            unsaved = future.result()
        finally:  # a script's signal handler may raise in result(), with the buffers still in use
            ended = future.done() and self._saving is saving
            if ended:
                self._saving = None
        if not (ended and save.stored):  # or a handler has saved, and so waited for this
            return
        self._unsaved = unsaved
        if self._unsaved is None:
            self._failures = 0
            return
        self._failures += 1
        if self._failures == 1:
            self._failing_since = self._unsaved.requested
        seconds = self._unsaved.at - self._failing_since
        if self._failures >= self._tolerate and seconds >= self._tolerate_seconds:
            self._refuse(f"{self._failures} saves in a row have failed, for {seconds:.0f} s")

    def saved(self) -> list[Saved]:
        """Return the checkpoints that rank 0 saved since the last call; empty on other ranks."""
        new = []
        with suppress(Empty):
            while True:
                new.append(self._saved.get_nowait())
        return new

    def load(self, state: MutableMapping[str, object]) -> int | None:
        """Fill the state from the newest intact checkpoint and return its step.

        Objects with `load_state_dict()` and tensors are filled in place, and plain values are
        replaced in the mapping. Return None, and change nothing, if there is no checkpoint yet.
        The run's own checkpoints come first, then those of the run it is to resume from. Damaged
        ones are skipped with a warning; if there are no others, raise CheckpointError.
        """
        self.wait()
        ranks = self._agree()
        self._due, self._trained, self._unstored = None, False, None
        while True:
            try:
                return self._load(state, ranks)
            except _ReplacedError:
                _log.info("another process has replaced what was being loaded: loading again")
            except OSError as error:  # of the directory itself; damaged checkpoints were skipped
                raise CheckpointError(
                    f"{error.filename} cannot be read: {error.strerror or error}; the run would "
                    "start over without it: correct what refuses, then start the run again"
                ) from error

    def close(self) -> None:
        """Wait for what is being written, then release buffers and locks.

        Raise CheckpointError if the newest state that was to be saved is not on the disk: a run
        must not succeed without its final checkpoint.
        """
        try:
            self.wait()
            self._store_last_copy()
            self._require_saved()
            if self._copies is not None and self._trained:
                self._copies.clear()
        finally:
            self._trained = False  # closed again, it must not remove what could not be stored
            self._release()

    def _release(self) -> None:
        """Wait for what is being written, and release buffers and locks. Failures were logged."""
        try:
            if self._saving is not None:
                self._saving[1].exception()  # logged when it happened
            self._saving = None
        finally:
            if self._writer is not None:
                self._writer.close()
            self._writer = None
            self._buffers.close()
            if self._directory is not None:
                self._directory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.close()
        else:
            self._release()  # without an error that would hide the one that ends the run

    def _store_last_copy(self) -> None:
        """Write the newest state to the disk if only memory has it, since the run ends well."""
        last, self._unstored = self._unstored, None
        directory, ranks, copies = self._directory, self._ranks, self._copies
        if last is None or directory is None or ranks is None:
            return
        if self._world() is not ranks.world:
            if self._trained:
                raise CheckpointError(
                    f"the state of step {last.step} is in memory only, and the process group that "
                    "was to save it is gone: call close() before destroy_process_group()"
                )
            return
        started = time.perf_counter()
        if isinstance(last, _Save):
            fill = partial(write_files, directory, ranks=ranks, snapshot=last.snapshot)
        else:
            self._trained, missing = ranks.on_first(
                lambda: (self._trained, self._trained and self._lacks(last.step))
            )
            if copies is None or not missing:
                return
            fill = partial(deliver, directory, ranks=ranks, copies=copies, copy=last)
        self._unsaved = self._write(directory, ranks, last.step, fill, started)

    def _lacks(self, step: int) -> bool:
        """Whether the checkpoint to load next is older than this step, or there is none.

        The highest step does not count: it may be one that was given up (see `Directory.steps`).
        """
        try:
            names = [] if self._directory is None else self._directory.steps()
        except OSError:
            return True  # saving there will name what is wrong
        usable = (name for name in names if name not in self._broken)
        return (step_of(next(usable, "")) or 0) < step

    def _require_saved(self) -> None:
        """Raise if the last save failed, unless a process with the same state has saved since."""
        if self._unsaved is not None and self._lacks(self._unsaved.step):
            self._refuse("it was the last one")

    def _refuse(self, why: str) -> NoReturn:
        """Raise CheckpointError for the save that failed: once, and not again in `close`."""
        assert self._unsaved is not None
        unsaved, self._unsaved = self._unsaved, None
        in_store = isinstance(self._directory, Objects)
        remedy = "correct what the store refuses" if in_store else "make room or repair the disk"
        raise CheckpointError(
            f"{unsaved.failure}; {why}: {remedy}, then start the run again, which goes on from "
            "its newest checkpoint"
        )

    def _writer_process(self) -> WriterProcess | None:
        """Return the process that writes the buffers to the disk, or None if a thread does."""
        if self._buffers.descriptor is None or self._buffers.size < WORTH_IT:
            return None
        if self._writer is not None and not self._writer.maps(self._buffers):
            self._writer.close()
            self._writer = None
        if self._writer is None:
            self._writer = WriterProcess(self._buffers)
        return self._writer

    def _agree(self) -> Ranks:
        """Return the ranks of the current process group, which may have changed. Collective."""
        world = self._world()
        if self._ranks is None or world is not self._ranks.world:
            self._ranks = Ranks(world)
            self._copies = self._open_copies(self._ranks)
        return self._ranks

    def _world(self) -> object:
        """Return the default process group if ranks save together, else None."""
        together = self._collective and dist.is_available() and dist.is_initialized()
        return dist.group.WORLD if together else None

    def _decide(self, step: int, ranks: Ranks, *, wait: bool) -> tuple[bool, bool]:
        """Return whether to copy the state, and whether to store it, the same on all ranks.

        A script may call `due` on one rank only; before a stop there is time to store only.
        """
        requested = step == self._due
        self._due, self._trained = None, True
        if not self._copies_at(step):
            return False, True
        mine = (requested or not wait, not requested or _multiple(step, self._every))
        decisions, stops = zip(*ranks.gather((mine, noted())), strict=True)
        return (False, True) if any(stops) else decisions[0]

    def _copies_at(self, step: int) -> bool:
        return self._peer_copies is not None and _multiple(step, self._peer_copies.every)

    def _open_copies(self, ranks: Ranks) -> Copies | None:
        """Return the copies in the memory of the nodes, or None if there are to be none."""
        if self._peer_copies is None:
            return None
        try:
            return Copies(Path(self._peer_copies.folder), ranks)
        except OSError as error:
            if ranks.rank == 0:
                _log.warning("no copies in the memory of the nodes: %s", error)
            return None

    def _load(self, state: MutableMapping[str, object], ranks: Ranks) -> int | None:
        """Load from memory what is at least as new as the newest stored checkpoint, else from the
        storage.
        """
        listed = deque(self._copies.listed() if self._copies else ())
        if listed:
            stored = ranks.on_first(self._newest_stored)
            copied = self._load_copy(state, ranks, listed, least=stored)
            if copied is not None:
                return copied
        return self._load_stored(state, ranks, listed)

    def _load_copy(
        self, state: MutableMapping[str, object], ranks: Ranks, listed: deque[Listed], *, least: int
    ) -> int | None:
        """Load the newest intact copy of step `least` or later from the memory of the nodes.

        Return its step, or None if there is none. Copies that were tried leave `listed`.
        """
        while self._copies and listed and listed[0].step >= least:
            copy = self._copies.verified(listed.popleft())
            if problem := copy.defect():
                if ranks.rank == 0:
                    _log.warning("passing over the copies of step %d: %s", copy.step, problem)
                continue
            if ranks.rank == 0:
                _log.info("loading the copies of step %d from the nodes' memory", copy.step)
            reader, text = self._copies.reader(copy)
            source = Source(f"the copies {copy.name}", reader, text, reader.read_metadata())
            step = restore(source, state, ranks)
            self._copies.keep(copy)
            self._unstored = copy
            return step
        return None

    def _newest_stored(self) -> int:
        """Return the step of the newest stored checkpoint; 0 if there is none or the storage cannot
        be read, as only the copies in memory are left then.
        """
        try:
            return self.latest() or 0
        except OSError as error:
            _log.warning("%s cannot be read: %s", error.filename, error.strerror)
            return 0

    def _load_stored(
        self, state: MutableMapping[str, object], ranks: Ranks, listed: deque[Listed]
    ) -> int | None:
        """Load from the directory and return the step. Each of the `listed` copies in memory is
        tried before the checkpoints that are older than it.
        """
        candidates = ranks.on_first(
            lambda: [(path, seal(path), own) for path, own in self._candidates()]
        )
        damaged: list[str] = []
        for checkpoint, sealed, own in candidates:
            least = (step_of(checkpoint.name) or 0) if own else 0
            copied = self._load_copy(state, ranks, listed, least=least)
            if copied is not None:
                return copied
            problems = ranks.on_all(partial(defect, checkpoint, ranks.rank, ranks.count))
            problem = next(filter(None, problems), None)
            try:
                if problem is None:
                    return restore(stored_source(checkpoint, ranks), state, ranks)
            finally:
                if ranks.on_first(partial(_replaced, checkpoint, sealed, listed=own)):
                    raise _ReplacedError
            damaged.append(f"{checkpoint}: {problem}")
            if own:
                self._broken.add(checkpoint.name)
            if ranks.rank == 0:
                _log.warning("%s: passing over this checkpoint for the one before", damaged[-1])
        copied = self._load_copy(state, ranks, listed, least=0)
        if copied is None and damaged:
            raise CheckpointError(
                f"no checkpoint is whole ({'; '.join(damaged)}); restore one, or delete them all "
                "to train from the beginning"
            )
        return copied

    def _candidates(self) -> Iterator[tuple[Path | ObjectPath, bool]]:
        """Yield checkpoints to try to load, in order, each with whether it is this run's own."""
        own = [] if self._directory is None else self._directory.steps()
        if self._directory is not None:
            yield from ((self._directory.checkpoint(name), True) for name in own)
        if own or self._resume_from is None:
            return
        parent, name = split(self._resume_from)
        if step_of(name) is not None:
            yield store_of(parent).checkpoint(name), False
            return
        others = store_of(self._resume_from)
        names = others.steps()
        if not names:
            raise CheckpointError(
                f"{self._resume_from} holds no checkpoint (a folder called step-…), and the run "
                "is to resume from it: correct TRAINWRIGHT_RESUME_FROM or leave it out"
            )
        yield from ((others.checkpoint(name), False) for name in names)

    def _run(self, save: _Save) -> _Unsaved | None:
        """Copy a state, store it, or both; return the checkpoint that the disk refused, or None."""
        if save.copies is not None:
            self._copy(save.copies, save.ranks, save.snapshot, save.started)
        if not save.stored or self._directory is None:
            return None
        fill = partial(write_files, self._directory, ranks=save.ranks, snapshot=save.snapshot)
        return self._write(self._directory, save.ranks, save.step, fill, save.started)

    def _copy(self, copies: Copies, ranks: Ranks, snapshot: Snapshot, started: float) -> None:
        """Copy a state to the memory of two nodes. A failure is logged: the storage remains."""
        try:
            folder = copies.begin(snapshot.step)
            try:
                written = write_files(copies, folder, ranks=ranks, snapshot=snapshot)
                copies.publish(folder, written.digests)
            finally:
                copies.abandon(folder)
        except OSError as error:
            if ranks.rank == 0:
                _log.error(
                    "the state of step %d could not be copied to the memory of two nodes: %s",
                    snapshot.step, error.strerror or error,
                )  # fmt: skip
        else:
            if ranks.rank == 0:
                seconds = time.perf_counter() - started
                _log.info("copied the state of step %d, %.2f s", snapshot.step, seconds)

    def _write(
        self,
        directory: Directory | Objects,
        ranks: Ranks,
        step: int,
        fill: Callable[[Path], Written],
        started: float,
    ) -> _Unsaved | None:
        """Write a checkpoint; return None or the failure, the same on all ranks."""
        try:
            begun = ranks.on_first(lambda: directory.begin(step))
            folder = ranks.on_all(lambda: directory.stage(begun))[ranks.rank]
            try:
                written = fill(folder)
                ranks.on_first(
                    lambda: directory.publish(folder, written.digests, self._retention())
                )
            finally:
                directory.abandon(folder)  # does nothing once it is published
        except OSError as error:
            failure = (
                f"the checkpoint of step {step} could not be saved in "
                f"{directory.path}: {error.strerror or error}"
            )
            if isinstance(directory, Objects) and error.filename:  # or the disk in front of it
                failure += f" ({error.filename})"
            if ranks.rank == 0:
                _log.error("%s", failure)
            # By the clock of one rank: all have to stop at the same save.
            return _Unsaved(step, failure, *ranks.on_first(lambda: (started, time.perf_counter())))
        if ranks.rank == 0:
            seconds = time.perf_counter() - started
            self._saved.put(Saved(step, seconds, written.size))
            _log.info(
                "saved the checkpoint of step %d in %s, %.2f s after it was requested",
                step, directory.path, seconds,
            )  # fmt: skip
        return None

    def _retention(self) -> Retention:
        return Retention(self._keep, self._max_age, frozenset(self._broken))


@dataclass(frozen=True, slots=True)
class PeerCopies:
    """Copies of the state in the memory of two nodes."""

    folder: str | os.PathLike[str]
    """In this node's memory; it outlives the training processes."""
    every: int
    """Steps."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint on the disk: `seconds` from its request until then, and its `size` in bytes."""

    step: int
    seconds: float
    size: int


class _ReplacedError(Exception):
    """Another process removed or replaced a checkpoint while it was being loaded."""


@dataclass(frozen=True, slots=True)
class _Unsaved:
    """A checkpoint that could not be written, with the error message."""

    step: int
    failure: str
    requested: float
    at: float
    """When it failed; like `requested`, by the first rank's clock."""


@dataclass(frozen=True, slots=True)
class _Save:
    """What to do with the state of a step, the same on all ranks."""

    ranks: Ranks
    snapshot: Snapshot
    started: float
    copies: Copies | None
    """Where to copy it; None where no copy is due."""
    stored: bool

    @property
    def step(self) -> int:
        return self.snapshot.step


def _count(environ: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = environ.get(name, str(default))
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise EnvironmentMistake(name, text, f"a whole number of at least {least}")
    return int(text)


def _peer_copies(environ: Mapping[str, str]) -> PeerCopies | None:
    every = _count(environ, "TRAINWRIGHT_PEER_COPIES_EVERY", 0, least=0)
    folder = environ.get("TRAINWRIGHT_PEER_COPIES_DIR")
    return PeerCopies(folder, every) if folder and every else None


def _replaced(
    checkpoint: Path | ObjectPath, sealed: tuple[int, int] | None, *, listed: bool
) -> bool:
    """Whether another process has replaced a checkpoint, or removed it although it was `listed`."""
    gone = listed and isinstance(checkpoint, Path) and not checkpoint.exists()
    return gone or seal(checkpoint) != sealed


def _multiple(step: int, every: int) -> bool:
    return every > 0 and step > 0 and step % every == 0
