"""One request ahead: a thread works on a result while its caller does something else."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Generic, TypeVar

Request = TypeVar("Request")
Result = TypeVar("Result")


class Prefetcher(Generic[Request, Result]):
    """A thread that works on one request at a time.

    It uses two queues: the futures of an executor cost several times as much.
    """

    def __init__(self, work: Callable[[Request], Result]) -> None:
        self._work = work
        self._requests: SimpleQueue[Request | None] = SimpleQueue()
        self._results: SimpleQueue[Result | Exception] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self.pending: Request | None = None
        """The request whose result has not been taken yet."""

    def submit(self, request: Request) -> None:
        """Hand a request to the thread. The result of a pending one must be taken first."""
        assert self.pending is None
        if self._thread is None:
            arguments = self._work, self._requests, self._results
            self._thread = threading.Thread(target=_serve, args=arguments, daemon=True)
            self._thread.start()
        self.pending = request
        self._requests.put(request)

    def result(self) -> Result:
        """Wait for the pending request's result. What the thread raised is raised here."""
        assert self.pending is not None
        result = self._results.get()
        self.pending = None
        if isinstance(result, Exception):
            raise result
        return result

    def close(self) -> None:
        """End the thread: the interpreter must not exit while one is inside a native library."""
        if self._thread is not None:
            self._requests.put(None)
            self._thread.join()


def _serve(
    work: Callable[[Request], Result],
    requests: SimpleQueue[Request | None],
    results: SimpleQueue[Result | Exception],
) -> None:
    """Put the result of each request, or its error, until the request None."""
    while (request := requests.get()) is not None:
        try:
            results.put(work(request))
        except Exception as error:  # noqa: BLE001 - raised where the result is taken
            results.put(error)
