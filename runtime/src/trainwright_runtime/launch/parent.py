"""Processes that must not outlive the one that started them."""

from __future__ import annotations

import ctypes
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel end this process, by a signal, when the thread that started it ends.

    What it inherited it keeps open: the peers of a killed worker would not notice its death while
    a loader process of it lives, which looks for its parent every five seconds only.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
