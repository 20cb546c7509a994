"""The TCP connections of this process, to close those that a library leaves open."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_DESCRIPTORS = Path("/proc/self/fd")
_FAMILIES = (socket.AF_INET, socket.AF_INET6)


@dataclass(frozen=True, slots=True)
class Socket:
    """A connection: its file descriptor, and the inode that shows whether it is still the same."""

    descriptor: int
    inode: int
    ends: tuple[tuple[str, int], tuple[str, int]]
    """The addresses of this side and of the other."""


def connected() -> frozenset[Socket]:
    """Return every TCP connection that is open now; none where there is no /proc."""
    return frozenset(filter(None, map(_socket, _descriptors())))


def listening() -> frozenset[int]:
    """Return the TCP ports that this process listens on now; none where there is no /proc."""
    return frozenset(filter(None, map(_listened, _descriptors())))


def between(
    mine: Iterable[Socket], others: Iterable[Sequence[Sequence[object]]]
) -> frozenset[Socket]:
    """Return those of `mine` whose other side is in `others`, the `ends` of sockets of peers."""
    expected = {(tuple(there), tuple(here)) for here, there in others}
    return frozenset(item for item in mine if item.ends in expected)


def open_still(sockets: Iterable[Socket]) -> bool:
    """Whether this side has closed none of them."""
    return all(_socket(item.descriptor) == item for item in sockets)


def shut(sockets: Iterable[Socket]) -> None:
    """Shut these connections down on both sides, if their descriptors still belong to them.

    The descriptors stay open: the code that opened them closes them.
    """
    for item in sockets:
        if _socket(item.descriptor) == item:
            with suppress(OSError), _borrowed(item.descriptor) as connection:
                connection.shutdown(socket.SHUT_RDWR)


def _descriptors() -> Iterator[int]:
    if _DESCRIPTORS.is_dir():
        yield from map(int, os.listdir(_DESCRIPTORS))  # noqa: PTH208 - in a step


def _listened(descriptor: int) -> int | None:
    """Return the port that a descriptor listens on, or None if it does not listen on any."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return None
        with _borrowed(descriptor) as server:
            if server.family not in _FAMILIES:
                return None
            if not server.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                return None
            return int(server.getsockname()[1])
    except OSError:
        return None


def _socket(descriptor: int) -> Socket | None:
    """Return the connection of a descriptor, or None if it has none."""
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISSOCK(status.st_mode):
            return None
        with _borrowed(descriptor) as connection:
            if connection.family not in _FAMILIES or connection.type != socket.SOCK_STREAM:
                return None
            ends = connection.getsockname()[:2], connection.getpeername()[:2]
    except OSError:
        return None
    return Socket(descriptor, status.st_ino, ends)


@contextmanager
def _borrowed(descriptor: int) -> Iterator[socket.socket]:
    """Yield a Python socket for a descriptor that other code owns, and leave that open.

    It is no duplicate: another thread that lists the connections meanwhile would take that for one
    more, which then disappears.
    """
    connection = socket.socket(fileno=descriptor)
    try:
        yield connection
    finally:
        connection.detach()
