"""How many processors there are to work with, and how processes that use them take Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trainwright.datatypes.errors import INTERRUPTED

if TYPE_CHECKING:  # 20 ms, and only who has much to do needs it
    from concurrent.futures import ProcessPoolExecutor

_SAFE_PATH = "PYTHONSAFEPATH"


def processors() -> int:
    """Return how many processors this process may use; on macOS, how many there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def starting_workers() -> Iterator[None]:
    """Processes started in here import nothing of the working folder, where `python -c` looks
    first, and inherit a blocked SIGINT, until they call `exit_on_interrupt`.

    A terminal sends SIGINT to all processes, and each would print a traceback, even during its
    imports, where nothing could catch it.
    """
    with _safe_path(), _blocked_interrupt():
        yield


@contextmanager
def _safe_path() -> Iterator[None]:
    """https://docs.python.org/3/using/cmdline.html#envvar-PYTHONSAFEPATH"""
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


@contextmanager
def _blocked_interrupt() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def exit_on_interrupt() -> None:
    """In a worker process, exit silently on Ctrl-C, which the parent process handles.

    By a handler, which other programs do not inherit, as they would the mask.
    """
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(INTERRUPTED))
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def at_work(pool: ProcessPoolExecutor) -> Iterator[None]:
    """A pool whose workers an interrupt may end, until it is shut down.

    Where they end before the work that was cancelled is taken back, the thread of the pool prints a
    traceback, up to Python 3.12: https://github.com/python/cpython/issues/107219
    """
    from concurrent.futures import InvalidStateError

    report = threading.excepthook

    def report_others(failed: threading.ExceptHookArgs) -> None:
        if not issubclass(failed.exc_type, InvalidStateError):
            report(failed)

    threading.excepthook = report_others
    try:
        with pool:
            yield
    finally:
        threading.excepthook = report
