"""Many things in one line: the first few, and how many more there are."""

from __future__ import annotations

from collections.abc import Sequence


def listed(names: Sequence[str], most: int = 3) -> str:
    """The first `most` of some names: "a, b, c and 4 more"."""
    left = len(names) - most
    return ", ".join(names[:most]) + (f" and {left:,} more" if left > 0 else "")


def plural(count: int, noun: str) -> str:
    """As "1 job" and "3,007 jobs"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
