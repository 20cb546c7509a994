"""Durations as specs have them: 1d12h, 1h30m, 45s."""

from __future__ import annotations

import re

SECONDS = {"d": 86400, "h": 3600, "m": 60, "s": 1}  # of each unit, in the order they are written in
_DURATION = re.compile(r"(?=\d)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def read(text: str) -> int | None:
    """Return the seconds of a duration, or None for any other text."""
    match = _DURATION.fullmatch(text)
    counts = zip(match.groups(), SECONDS.values(), strict=True) if match else ()
    return sum(int(count or 0) * size for count, size in counts) if match else None


def seconds(duration: str) -> int:
    """Return the seconds of a duration that a schema has let through."""
    number = read(duration)
    assert number is not None, "the schema lets only durations through"
    return number


def clock(number: int, units: str = "hms") -> str:
    """Return seconds as people write them: 5400 is "1h30m"."""
    text, rest = "", number
    for unit in units:
        count, rest = divmod(rest, SECONDS[unit])
        text += f"{count}{unit}" if count else ""
    return text or "0s"
