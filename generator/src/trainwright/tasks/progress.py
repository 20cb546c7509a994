"""Progress of long work, reported to a caller that shows it: the work itself shows nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

_Item = TypeVar("_Item")

Listener: TypeAlias = Callable[[int, int, str], None]  # how many are done, of how many of what
_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def reported_to(listener: Listener) -> Iterator[None]:
    """Work that is done meanwhile reports to a listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def counted(items: Iterable[_Item], total: int, what: str) -> Iterator[_Item]:
    """Yield the same items, reporting each as done when the next one is requested."""
    listener = _listener.get()
    if listener is None:
        yield from items
        return
    listener(0, total, what)
    for done, item in enumerate(items, start=1):
        yield item
        listener(done, total, what)
