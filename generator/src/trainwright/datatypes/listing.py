"""Many things: the first few, and how many more there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")
MOST = 3  # names that one line has


def more(count: int, what: str = "") -> str:
    """How many are left out: "and 4 more", "and 4 more fields"."""
    return f"and {count:,} more {what}".rstrip()


def listed(names: Sequence[str], most: int = MOST) -> str:
    """The first `most` of some names: "a, b, c and 4 more"."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" {more(left)}" if left > 0 else "")


def first(
    items: Sequence[_Item], most: int, shown: Callable[[_Item], str], what: str = ""
) -> Iterator[str]:
    """The first `most` of some items as they are shown, and then how many more there are."""
    yield from map(shown, items[:most])
    if len(items) > most:
        yield more(len(items) - most, what)


def plural(count: int, noun: str, many: str = "") -> str:
    """As "1 job" and "3,007 jobs"; `many` is the plural of a noun that does not take an s."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def article(noun: object) -> str:
    """As "a Job" and "an Ingress", by the first letter."""
    return f"{'an' if str(noun)[:1].lower() in 'aeio' else 'a'} {noun}"
