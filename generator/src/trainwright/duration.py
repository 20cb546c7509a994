"""Durations as specs have them: "1h30m", in that order of units."""

from __future__ import annotations

import re

_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


def seconds(duration: str) -> int:
    """A duration such as "1h30m" in seconds."""
    match = _DURATION.fullmatch(duration)
    assert match is not None, "the schema lets only durations through"
    days, hours, minutes, rest = (int(group or 0) for group in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + rest


def is_duration(text: str) -> bool:
    """Whether a text is spelled as a duration, such as "12h"."""
    return bool(text and _DURATION.fullmatch(text))
