"""The rendered tree on disk: what is there, what would change, and the change made safely."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trainwright.errors import OutputError
from trainwright.tree import read_regular

_TEMPORARY = ".trainwright-"  # prefix of files being written; left-overs are swept by `apply`
_WRITERS = 4  # fsync waits for the disk, not for the processor


@dataclass(frozen=True, slots=True)
class Changes:
    """What to do to a folder, by path relative to it. Texts are the new contents."""

    added: Mapping[str, str]
    changed: Mapping[str, str]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    @property
    def written(self) -> dict[str, str]:
        return {**self.added, **self.changed}


def digest(text: str) -> str:
    """SHA-256 of a text as it is on disk."""
    return digest_of(text.encode())


def digest_of(raw: bytes) -> str:
    """SHA-256 of a file's bytes with the line ends of a rendered text.

    Git converts them to CRLF in a working tree (core.autocrlf), which nobody did by hand.
    """
    return hashlib.sha256(raw.replace(b"\r\n", b"\n")).hexdigest()


def listing(folder: Path) -> tuple[str, ...]:
    """Every file below the folder, relative to it, sorted; none when there is no folder."""
    return tuple(sorted(_walk(folder, "")))


def _walk(folder: Path, prefix: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(Path(entry.path), f"{prefix}{entry.name}/")
                else:
                    yield f"{prefix}{entry.name}"
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutputError(f"cannot read {folder}: {error.strerror}") from error


def hashes(folder: Path, paths: tuple[str, ...]) -> dict[str, str]:
    """Digest by path of the regular files that can be read; a link or a vanished one has none."""
    found = {}
    for path in paths:
        full = os.path.join(folder, path)  # noqa: PTH118 - thousands of files, and Path is slow
        with contextlib.suppress(OSError):
            found[path] = digest_of(read_regular(full, follow=False))
    return found


def compare(wanted: Mapping[str, str], there: Mapping[str, str], keep: frozenset[str]) -> Changes:
    """What turns `there` (hashes by path) into `wanted` (texts by path).

    Files in `keep` are left alone: they are known to be right, or nobody asked about them.
    """
    added = {path: text for path, text in wanted.items() if path not in there}
    changed = {
        path: text for path, text in wanted.items() if path in there and there[path] != digest(text)
    }
    removed = tuple(sorted(path for path in there if path not in wanted and path not in keep))
    return Changes(added, changed, removed)


def apply(folder: Path, changes: Changes) -> None:
    """Make the changes so that at every instant each file is the old one or the new one.

    New contents are written and synced beside their place, then renamed into it in one pass,
    lists after what they list; removals come last. Killed anywhere, the next run repairs it.
    """
    try:
        _make_folder(folder, "")
        with _locked(folder):
            _make(folder, changes)
    except OSError as error:
        where = error.filename or folder
        raise OutputError(f"cannot write {where}: {error.strerror}") from error


def write(path: Path, raw: bytes) -> None:
    """One file replaced, or made, so that at every instant it is the old one or the new one.

    Its permissions stay.
    """
    temporary = path.with_name(f"{_TEMPORARY}{path.name}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(temporary, flags, 0o644), "wb") as file:
            if path.exists():
                os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folders({path.parent})
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OutputError(f"cannot write {path}: {error.strerror}") from error


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one process at a time changes a folder; the lock goes away with the process."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make(folder: Path, changes: Changes) -> None:
    from concurrent.futures import ThreadPoolExecutor  # 10 ms, and only writing needs it

    _sweep(folder)
    # Job folders first, then what lists them (index, kustomization) at the top.
    written = sorted(changes.written.items(), key=lambda item: ("/" not in item[0], item[0]))
    for parent in sorted({os.path.dirname(path) for path, _ in written}):  # noqa: PTH120
        _make_folder(folder, parent)
    with ThreadPoolExecutor(_WRITERS) as pool:
        staged = list(pool.map(lambda item: _stage(folder, *item), written))
    for temporary, final in staged:
        temporary.replace(final)
    for path in changes.removed:
        (folder / path).unlink(missing_ok=True)
    _remove_empty(folder, changes.removed)
    _sync_folders({final.parent for _, final in staged})


def _make_folder(folder: Path, parent: str) -> None:
    """Make a folder below `folder`, without following a link out of it."""
    path = folder
    for part in ("", *parent.split("/")):
        path = path / part
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise OutputError(f"{path} is in the way: it should be a folder")
        path.mkdir(exist_ok=True, parents=path == folder)


def _stage(folder: Path, path: str, text: str) -> tuple[Path, Path]:
    final = folder / path
    temporary = final.with_name(f"{_TEMPORARY}{final.name}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o644), "wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    return temporary, final


def _sweep(folder: Path) -> None:
    """Remove what an interrupted run left behind."""
    for path in listing(folder):
        if path.rpartition("/")[2].startswith(_TEMPORARY):
            (folder / path).unlink(missing_ok=True)


def _remove_empty(folder: Path, removed: tuple[str, ...]) -> None:
    for parent in sorted({(folder / path).parent for path in removed}, reverse=True):
        while parent != folder and parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()
            parent = parent.parent  # noqa: PLW2901


def _sync_folders(folders: set[Path]) -> None:
    """Make the renames themselves durable."""
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
