"""A folder of checkpoints on disk: each is complete or invisible, whenever any process dies.

    step-0000000200/         whole: renamed into place after everything in it was synced
    latest                   the name of the one to load first; replaced last
    .writer-1f2e3d4c.lock    held for as long as that writer lives
    .writer-1f2e3d4c-…       what it is writing, or about to delete

It needs POSIX renames and locks, as on local disks, NFS v4, CephFS and Lustre. Object stores
mounted as folders have neither.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import secrets
import shutil
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright_runtime.checkpoint.digests import (
    DIGESTS,
    Digest,
    difference,
    digest_of,
    list_of,
    sums,
)

if TYPE_CHECKING:
    from trainwright_runtime.checkpoint.objects import ObjectPath

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LATEST = "latest"
_PIECE = 16 * 1024 * 1024  # bytes
_STEP = re.compile(r"step-(\d{10,})(\.[0-9a-f]{8})?")  # the end: of an attempt, in an object store
_WRITER = re.compile(r"(\.writer-[0-9a-f]{8})(\.lock|-.*)")

_log = logging.getLogger(__name__)


def step_of(name: str) -> int | None:
    """Return the step in a checkpoint folder's name, or None for any other name."""
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else None


def write_synced(path: Path, content: bytes) -> str:
    """Write and fsync a file; return the digest of its content."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return digest_of(content)


def copy_synced(source: Path, target: Path) -> str:
    """Copy a file piece by piece and fsync the copy; return its digest."""
    digest = Digest()
    with source.open("rb") as reading, target.open("wb") as file:
        while piece := reading.read(_PIECE):
            digest.update(piece)
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def sync_tree(folder: Path) -> None:
    """Fsync a folder that another process has written, its files and its parent."""
    for path in folder.rglob("*"):
        _sync(path)
    _sync(folder)
    _sync(folder.parent)


@dataclass(frozen=True, slots=True)
class Retention:
    """Which older checkpoints to keep when another one is saved; that one is always kept."""

    keep: int
    max_age: float | None = None
    """Seconds."""
    broken: frozenset[str] = frozenset()
    """Known to be unusable: these go first and do not count in `keep`."""


def in_order(names: Iterable[str], pointed: str | None) -> list[str]:
    """Return checkpoints in the order to try them: `pointed` first, then the highest step."""
    return sorted(names, key=lambda name: (name == pointed, step_of(name)), reverse=True)


def outdated(
    names: Iterable[str], newest: str, retention: Retention, ages: Mapping[str, float]
) -> list[str]:
    """Return the checkpoints to remove once `newest` exists. Only a `max_age` needs `ages`."""
    older = [name for name in names if (step_of(name) or 0) < (step_of(newest) or 0)]
    limit = retention.max_age
    usable = [
        name
        for name in older
        if name not in retention.broken and (limit is None or ages[name] <= limit)
    ]
    return sorted({*usable[max(retention.keep, 1) - 1 :], *(set(older) - set(usable))})


class Directory:
    """A folder of checkpoints, which any number of writers may share, even if some have died."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: _Writer | None = None
        self._removal: Future[None] | None = None  # of folders already hidden

    def steps(self) -> list[str]:
        """Return the names of the checkpoints in the order to try them; [] if there is no folder.

        The one that `latest` names comes first, then the others from the highest step down.
        Those above `latest` were given up when training went back to before them.
        """
        try:
            names = [path.name for path in self.path.iterdir() if _STEP.fullmatch(path.name)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        return in_order(names, self._pointed())

    def checkpoint(self, name: str) -> Path:
        return self.path / name

    def begin(self, step: int) -> Path:
        """Return a new hidden folder for the checkpoint of a step. Raise OSError if that fails.

        The first call also removes what dead writers have left behind.
        """
        self._wait_for_removal()  # its space may be needed
        if self._writer is None:
            self.path.mkdir(parents=True, exist_ok=True)
            self._sweep()
            self._writer = _Writer(self.path)
        # A name of its own: a rank that is behind may yet remove the folder before.
        folder = self._writer.hidden(f"{secrets.token_hex(4)}-step-{step:010}")
        folder.mkdir()
        return folder

    def stage(self, folder: Path) -> Path:
        """On each rank: return where to write its files for a folder from `begin`."""
        return folder

    def collect(self, folder: Path, names: Collection[str]) -> None:
        """On each rank: bring the files that it wrote for a folder from `begin` to the storage."""

    def publish(self, folder: Path, digests: Mapping[str, str], retention: Retention) -> Path:
        """Make a folder from `begin` visible atomically, then remove old checkpoints.

        `digests` are those of its files, which are synced already. Return the checkpoint's path.
        """
        assert self._writer is not None, "a folder to publish comes from begin()"
        name = folder.name.split("-", 3)[3]  # as `begin` has put it together
        write_synced(folder / DIGESTS, sums(digests))
        _sync(folder)
        # Everything that takes space happens before the first rename: a full disk must not leave
        # a checkpoint that is visible and yet counted as failed.
        pointer = self._writer.hidden(LATEST)
        write_synced(pointer, f"{name}\n".encode())
        target = self.path / name
        # The same step again, after going back to before it.
        replaced = self._hide(target) if target.exists() else []
        folder.rename(target)
        _sync(self.path)
        pointer.replace(self.path / LATEST)
        _sync(self.path)
        self._remove([*replaced, *self._prune(name, retention)])
        return target

    def abandon(self, folder: Path) -> None:
        """Delete a folder from `begin` that was not published."""
        shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        self._wait_for_removal()
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _pointed(self) -> str | None:
        try:
            return (self.path / LATEST).read_text().strip()
        except (OSError, UnicodeDecodeError):
            return None

    def _prune(self, newest: str, retention: Retention) -> list[Path]:
        names = self.steps()
        ages = {name: self._age(name) for name in names} if retention.max_age else {}
        old = outdated(names, newest, retention, ages)
        return [hidden for name in old for hidden in self._hide(self.path / name)]

    def _age(self, name: str) -> float:
        with suppress(FileNotFoundError):  # another writer removes it
            return time.time() - (self.path / name / DIGESTS).stat().st_mtime
        return 0.0

    def _hide(self, checkpoint: Path) -> list[Path]:
        """Rename a checkpoint out of sight, so that a kill leaves no half of one; return its new
        path, or nothing if it was gone already.
        """
        assert self._writer is not None, "only writers remove"
        hidden = self._writer.hidden(f"removed-{secrets.token_hex(4)}")
        try:
            checkpoint.rename(hidden)
        except FileNotFoundError:
            return []  # another writer was faster
        return [hidden]

    def _remove(self, hidden: Collection[Path]) -> None:
        """Delete hidden folders in the background, so that saving does not wait for that."""
        if hidden:
            thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint removal")
            self._removal = thread.submit(_remove_trees, hidden)
            thread.shutdown(wait=False)

    def _wait_for_removal(self) -> None:
        if self._removal is not None:
            self._removal.result()
            self._removal = None

    def _sweep(self) -> None:
        """Delete what writers have left behind that died."""
        for leftover in list(self.path.iterdir()):
            match = _WRITER.fullmatch(leftover.name)
            if match is None or _alive(self.path / f"{match[1]}.lock"):
                continue
            if leftover.is_dir():
                _log.info("removing %s, left by a writer that died", leftover)
                shutil.rmtree(leftover, ignore_errors=True)
            elif match[2] != ".lock":
                leftover.unlink(missing_ok=True)
        for lock in self.path.glob(".writer-*.lock"):
            if not _alive(lock):
                lock.unlink(missing_ok=True)


class _Writer:
    """A lock that ends with this process, and file names that no other process uses."""

    def __init__(self, directory: Path) -> None:
        while True:
            self._prefix = directory / f".writer-{secrets.token_hex(4)}"
            self._lock = Path(f"{self._prefix}.lock")
            self._descriptor = os.open(self._lock, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
            if self._taken():
                return
            os.close(self._descriptor)

    def _taken(self) -> bool:
        """Lock the file; return False if another process has locked or removed it in between."""
        try:
            _lock(self._descriptor)
        except BlockingIOError:
            return False  # a sweeper found the file before it was locked
        except OSError as error:
            _log.warning(
                "%s cannot be locked (%s): what dead writers leave behind will stay there",
                self._lock, error.strerror,
            )  # fmt: skip
            return True
        try:  # a sweeper may also have removed it in between
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self._lock))  # noqa: PTH116
        except FileNotFoundError:
            return False

    def hidden(self, suffix: str) -> Path:
        return Path(f"{self._prefix}-{suffix}")

    def close(self) -> None:
        self._lock.unlink(missing_ok=True)
        os.close(self._descriptor)


def _remove_trees(folders: Iterable[Path]) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def _alive(lock: Path) -> bool:
    """Whether the writer that made a lock lives; in doubt it does."""
    try:
        descriptor = os.open(lock, os.O_RDWR)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        _lock(descriptor)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _lock(descriptor: int) -> None:
    """Raise BlockingIOError if another process has the lock, OSError if there are no locks."""
    if fcntl is None:
        raise OSError(errno.ENOLCK, "this system has no POSIX locks")
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def seal(checkpoint: Path | ObjectPath) -> tuple[int, int] | None:
    """Return a value that changes when a checkpoint is replaced; None if there is no checkpoint.

    It identifies the file and not its content: two writers of one state write the same digests.
    """
    digests = checkpoint / DIGESTS
    with suppress(OSError):
        if not isinstance(digests, Path):
            return zlib.crc32(digests.read_bytes()), 0  # of a name that is not used again
        status = digests.stat()
        return status.st_ino, status.st_mtime_ns
    return None


def defect(checkpoint: Path | ObjectPath, share: int = 0, shares: int = 1) -> str | None:
    """Return in words what is wrong with a checkpoint's files, or None if they are as written.

    Digests are computed for every `shares`-th file only, so that ranks can divide the work.
    Raise OSError if an object store cannot be read.
    """
    return in_words(lambda: _check(checkpoint, share, shares), on_disk=isinstance(checkpoint, Path))


_DAMAGE = {
    getattr(errno, name)
    for name in ("EIO", "EUCLEAN", "EBADMSG", "EISDIR", "ENOTDIR", "ELOOP")
    if hasattr(errno, name)
}
"""Errors of reading where a disk has lost a file, or has something else in its place."""


def in_words(check: Callable[[], None], *, on_disk: bool = True) -> str | None:
    """Return what a check of files raised, as the end of a sentence, or None if it found nothing.

    A file that the disk cannot read is damaged. If a store or a server refuses or is unreachable,
    or if descriptors or memory run out, that is unknown, so the OSError is raised.
    """
    try:
        check()
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except OSError as error:
        if not on_disk or error.errno not in _DAMAGE:
            raise
        return f"{error.filename} cannot be read: {error.strerror}"
    except ValueError as error:
        return str(error)
    return None


def _check(checkpoint: Path | ObjectPath, share: int, shares: int) -> None:
    """Raise ValueError or OSError if a file of a checkpoint is missing, unknown or damaged."""
    digests = list_of(checkpoint)
    present = {path.name for path in checkpoint.iterdir()} - {DIGESTS}
    if missing := sorted(digests.keys() - present):
        raise ValueError(f"{missing[0]}, which {DIGESTS} lists, is missing")
    if unlisted := sorted(present - digests.keys()):
        raise ValueError(f"{DIGESTS} is cut short: it does not list {unlisted[0]}")
    for name in sorted(digests)[share::shares]:
        with (checkpoint / name).open("rb") as file:
            problem = difference(file, digests[name])
        if problem is not None:
            raise ValueError(f"{name} {problem}")
