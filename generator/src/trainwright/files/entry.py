"""The kinds of entries at the paths of a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from operator import attrgetter
from typing import Literal

from trainwright.datatypes.frozen import dataclass

# special: a pipe, a socket or a device, which are never opened, or a submodule in a commit. Empty:
# nothing there, or nothing that can be read.
Kind = Literal["file", "folder", "link", "special", ""]


@dataclass(frozen=True, slots=True, order=True)
class Entry:
    """A name in a folder and its kind; links are not followed."""

    name: str
    kind: Kind


def in_order(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Return entries sorted by name; a folder has each name once."""
    return tuple(sorted(entries, key=attrgetter("name")))


def above(path: str) -> Iterator[str]:
    """Yield the folders around a path, the nearest first, without the root."""
    while path := path.rpartition("/")[0]:
        yield path


def within(paths: Iterable[str]) -> Callable[[str], bool]:
    """Return a test of whether a path is one of some paths or lies below one."""
    among = frozenset(paths)
    if not among:
        return lambda _: False

    @cache
    def is_within(folder: str) -> bool:
        return folder in among or ("/" in folder and is_within(folder.rpartition("/")[0]))

    return lambda path: path in among or is_within(path.rpartition("/")[0])


_IGNORE_FILE = ".gitignore"


def ignore_file(folder: str) -> str:
    """Return the path of a folder's .gitignore."""
    return f"{folder}/{_IGNORE_FILE}" if folder else _IGNORE_FILE


def is_ignore_file(path: str) -> bool:
    """Whether a path is that of a .gitignore."""
    return path.rpartition("/")[2] == _IGNORE_FILE
