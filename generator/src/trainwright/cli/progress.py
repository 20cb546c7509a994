"""A bar on a terminal for work that takes longer than a second, which is gone when it is done."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import TYPE_CHECKING

from trainwright.tasks.progress import reported_to

if TYPE_CHECKING:
    from rich.progress import Progress

_PATIENCE = 1.0  # seconds without a bar


def is_wanted() -> bool:
    """Whether standard error is a terminal with a cursor, and no log of CI.

    https://docs.github.com/en/actions/reference/workflows-and-actions/variables sets CI.
    """
    return sys.stderr.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb"


@contextmanager
def shown(doing: str) -> Iterator[None]:
    """Show on standard error how far the work is that is done meanwhile.

    Nothing may be printed meanwhile.
    """
    bar = _Bar(doing)
    timer = Timer(_PATIENCE, bar.start)
    timer.daemon = True
    timer.start()
    try:
        with reported_to(bar.report):
            yield
    finally:
        timer.cancel()
        timer.join()  # or it would show the bar when the work is done
        bar.stop()


class _Bar:
    """Something turns until the work reports how much there is of it."""

    def __init__(self, doing: str):
        self._doing = doing
        self._done, self._total, self._what = 0, 0, ""
        self._shown: Progress | None = None
        self._lock = Lock()

    def start(self) -> None:
        from rich import progress as columns  # 60 ms, and only long work needs it
        from rich.console import Console

        # What is printed to standard output must not be taken for a part of the bar.
        shown = columns.Progress(
            columns.SpinnerColumn(),
            columns.TextColumn("{task.description}"),
            columns.BarColumn(),
            columns.TextColumn("{task.fields[count]}"),
            columns.TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        shown.add_task(self._doing, total=None, count="")
        with self._lock:
            self._shown = shown
            self._update()
        shown.start()

    def report(self, done: int, total: int, what: str) -> None:
        with self._lock:
            self._done, self._total, self._what = done, total, what
            self._update()

    def _update(self) -> None:
        if self._shown is not None and self._total:
            (task,) = self._shown.task_ids
            count = f"{self._done:,}/{self._total:,} {self._what}"
            self._shown.update(task, completed=self._done, total=self._total, count=count)

    def stop(self) -> None:
        if self._shown is not None:
            self._shown.stop()
