"""How many processors there are, and work that is shared by as many processes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from trainwright.datatypes.errors import INTERRUPTED

if TYPE_CHECKING:  # 20 ms, and only who has much to do needs it
    from concurrent.futures import ProcessPoolExecutor

_Item = TypeVar("_Item")
_Outcome = TypeVar("_Outcome")
_SAFE_PATH = "PYTHONSAFEPATH"
_work: Callable[[Any], Any] | None = None  # set once in each worker, never in the main process


def processors() -> int:
    """Return how many processors this process may use; on macOS, how many there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def shared_by(
    processes: int,
    make: Callable[..., Callable[[_Item], _Outcome]],
    given: tuple[Any, ...],
    items: Iterable[_Item],
    *,
    start: Literal["fork", "spawn"],
    chunk: int = 1,
) -> Iterator[_Outcome]:
    """Yield the outcome of each item, in order.

    Each process gets what is `given` once, and makes of it the function that takes items.
    """
    from concurrent.futures import ProcessPoolExecutor  # 30 ms, and only much work needs it
    from multiprocessing import get_context

    with _starting_workers():  # the first of them keeps track of semaphores
        context = get_context(start)
        pool = ProcessPoolExecutor(processes, context, initializer=_begin, initargs=(make, given))
    with at_work(pool):
        with _starting_workers():
            outcomes = pool.map(_done, items, chunksize=chunk)
        yield from outcomes


def _begin(make: Callable[..., Callable[[Any], Any]], given: tuple[Any, ...]) -> None:
    global _work  # noqa: PLW0603 - what an initializer is for
    _exit_on_interrupt()
    _work = make(*given)


def _done(item: Any) -> Any:
    assert _work is not None
    return _work(item)


@contextmanager
def _starting_workers() -> Iterator[None]:
    """Processes started in here import nothing of the working folder, where `python -c` looks
    first, and inherit a blocked SIGINT, until they call `_exit_on_interrupt`.

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


def _exit_on_interrupt() -> None:
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
            try:
                yield
            except BaseException:  # one that starts just now would be waited for, and wait itself
                for process in [*(pool._processes or {}).values()]:
                    process.kill()
                raise
    finally:
        threading.excepthook = report
