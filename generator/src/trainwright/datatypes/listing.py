"""Many things: the first few, and how many more there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

_Item = TypeVar("_Item")


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first `most` of some names: "a, b, c and 4 more"."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left:,} more" if left > 0 else "")


def first(
    items: Sequence[_Item], most: int, shown: Callable[[_Item], str], what: str = ""
) -> Iterator[str]:
    """The first `most` of some items as they are shown, and then how many more there are."""
    yield from map(shown, items[:most])
    if len(items) > most:
        yield f"and {len(items) - most:,} more {what}".rstrip()


def plural(count: int, noun: str) -> str:
    """As "1 job" and "3,007 jobs"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
