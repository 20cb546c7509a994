"""How many processors there are to work with."""

from __future__ import annotations

import os


def processors() -> int:
    """How many this process may use; macOS does not say."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
