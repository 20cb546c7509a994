"""How many files and connections this process may have open."""

from __future__ import annotations

import resource
import sys
from contextlib import suppress


def raise_limit() -> int:
    """Raise the soft limit on open files to the hard one, and return the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
