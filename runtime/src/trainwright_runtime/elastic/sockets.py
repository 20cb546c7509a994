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
    """A connection: its file descriptor, and the inode that shows if it is still the same one."""

    descriptor: int
    inode: int
    ends: tuple[tuple[str, int], tuple[str, int]]
    """The addresses of this side and of the other."""


def connected() -> frozenset[Socket]:
    """Every TCP connection that is open now; none where there is no /proc."""
    if not _DESCRIPTORS.is_dir():
        return frozenset()
    sockets = (_socket(int(name)) for name in os.listdir(_DESCRIPTORS))  # noqa: PTH208 - in a step
    return frozenset(item for item in sockets if item is not None)


def listening() -> frozenset[int]:
    """The TCP ports that this process listens at now; none where there is no /proc."""
    if not _DESCRIPTORS.is_dir():
        return frozenset()
    ports = (_listened(int(name)) for name in os.listdir(_DESCRIPTORS))  # noqa: PTH208
    return frozenset(port for port in ports if port is not None)


def between(
    mine: Iterable[Socket], others: Iterable[Sequence[Sequence[object]]]
) -> frozenset[Socket]:
    """Return those of my sockets whose other side is in `others`: the `ends` of peers' sockets."""
    led = {(tuple(there), tuple(here)) for here, there in others}
    return frozenset(item for item in mine if item.ends in led)


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


def _listened(descriptor: int) -> int | None:
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
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISSOCK(status.st_mode):
            return None
        with _borrowed(descriptor) as connection:
            if connection.family not in _FAMILIES:
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
