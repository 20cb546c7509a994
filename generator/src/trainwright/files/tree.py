"""Where files are read from: a folder of this machine, or (see `git`) a commit."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from functools import reduce
from io import FileIO
from operator import or_
from pathlib import Path
from typing import Protocol

from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENTS
from trainwright.files.entry import Entry, Kind, in_order

SCRATCH = ".trainwright-"  # prefix of files that are being written: no tree shows them
MAX_BYTES = 64 * 1024 * 1024  # far larger than any file that people write or that is rendered


def find_root(start: Path) -> Path:
    """Return the nearest folder at or above `start` that has environments/ in it.

    Raise SourceError if there is none, or if environments/ is a link.
    """
    for folder in (start, *start.parents):
        if (folder / ENVIRONMENTS).is_dir():
            return without_link(folder)
    raise SourceError(
        f"no {ENVIRONMENTS}/ folder in {start} or above it; "
        "change into the repository, name it with --root, or make one with `trainwright init`"
    )


def without_link(root: Path) -> Path:
    """Return a root as it is. Raise SourceError if its environments/ is a link, which no tree
    follows.
    """
    if (root / ENVIRONMENTS).is_symlink():
        raise SourceError(
            f"{root / ENVIRONMENTS} is a symbolic link, which could lead out of the repository: "
            "make it a folder, or name the one that holds the real folder with --root"
        )
    return root


class Tree(Protocol):
    """Files by their path relative to a root: slashes between folders, none in front."""

    def entries(self, folder: str) -> tuple[Entry, ...]:
        """Return a folder's entries, sorted by name. Raise SourceError if it cannot be listed."""
        ...

    def kind(self, path: str) -> Kind:
        """Return the kind of what is at a path, without following a link."""
        ...

    def read(self, path: str) -> bytes:
        """Return a file's bytes. Raise OSError, such as FileNotFoundError."""
        ...

    def ignored(self, folder: str) -> frozenset[str]:
        """Return what git ignores in a folder, by path in it; nested repositories end in /."""
        ...


def paths_below(tree: Tree, folder: str) -> Iterator[str]:
    """Yield the paths of all files below a folder, from the root."""
    for entry in tree.entries(folder):
        path = f"{folder}/{entry.name}" if folder else entry.name
        if entry.kind == "folder":
            yield from paths_below(tree, path)
        else:
            yield path


@dataclass(frozen=True, slots=True)
class Folder:
    """The files as they lie on disk."""

    root: Path

    def entries(self, folder: str) -> tuple[Entry, ...]:
        try:
            with os.scandir(f"{self.root}/{folder}") as scanned:
                shown = (entry for entry in scanned if not entry.name.startswith(SCRATCH))
                return in_order(Entry(entry.name, _kind(entry)) for entry in shown)
        except OSError as error:
            raise SourceError(f"cannot list {self.root / folder}: {error.strerror}") from error

    def kind(self, path: str) -> Kind:
        try:
            mode = os.lstat(f"{self.root}/{path}").st_mode
        except (OSError, ValueError):  # ValueError: a null byte in the name
            return ""
        if stat.S_ISLNK(mode):
            return "link"
        if stat.S_ISDIR(mode):
            return "folder"
        return "file" if stat.S_ISREG(mode) else "special"

    def read(self, path: str) -> bytes:
        return read_regular(f"{self.root}/{path}")

    def ignored(self, folder: str) -> frozenset[str]:
        from trainwright.files import git  # which has a tree of its own, and few folders are asked

        return git.ignored(self.root, folder)


@dataclass(frozen=True, slots=True)
class Edited:
    """Another tree with some files as they would be, `files` by path."""

    below: Tree
    files: Mapping[str, bytes]

    def entries(self, folder: str) -> tuple[Entry, ...]:
        start = f"{folder}/" if folder else ""
        inside = (path.removeprefix(start) for path in self.files if path.startswith(start))
        added = {Entry(p.partition("/")[0], "folder" if "/" in p else "file") for p in inside}
        unedited = self.below.entries(folder) if self.below.kind(folder) == "folder" else ()
        return tuple(sorted({*unedited, *added}))

    def kind(self, path: str) -> Kind:
        if path in self.files:
            return "file"
        if unedited := self.below.kind(path):
            return unedited
        return "folder" if any(file.startswith(f"{path}/") for file in self.files) else ""

    def read(self, path: str) -> bytes:
        return self.files[path] if path in self.files else self.below.read(path)

    def ignored(self, folder: str) -> frozenset[str]:
        return self.below.ignored(folder)


class _Nothing:
    """A tree without a file."""

    def entries(self, folder: str) -> tuple[Entry, ...]:
        raise SourceError(f"cannot list {folder}: there is nothing")

    def kind(self, path: str) -> Kind:
        return ""

    def read(self, path: str) -> bytes:
        raise FileNotFoundError(path)

    def ignored(self, folder: str) -> frozenset[str]:
        return frozenset()


NOTHING: Tree = _Nothing()


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir():
        return "folder"
    return "file" if entry.is_file() else "special"


def read_given(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of a path that a command names: a pipe too, up to a limit.

    A device may never end.
    """
    with open(path, "rb") as opened:  # noqa: PTH123 - a path of any kind
        if stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            return opened.read()
        raw = opened.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise too_large(path)
    return raw


def too_large(path: str | os.PathLike[str]) -> OSError:
    """Return the error for a file that is larger than anything people write or that is rendered."""
    return OSError(errno.EFBIG, f"Larger than {MAX_BYTES // 2**20} MiB", str(path))


# Of these flags Windows has only the first, and no other system has that one.
_NAMED = [getattr(os, name, 0) for name in ("O_BINARY", "O_NONBLOCK", "O_NOCTTY")]
_OPEN = reduce(or_, _NAMED, os.O_RDONLY)
_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)


def read_regular(path: str | os.PathLike[str], *, follow: bool = True) -> bytes:
    """Return the bytes of a regular file. Raise OSError for anything else, without waiting for it.

    Opening a pipe without a writer would block; `follow` is whether a link may be read.
    """
    descriptor = os.open(path, _OPEN if follow else _OPEN | _NO_LINK)
    with FileIO(descriptor) as file:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "Not a regular file", str(path))
        if status.st_size > MAX_BYTES:
            raise too_large(path)
        return file.readall()
