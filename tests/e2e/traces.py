"""Whatever is made in a cluster, so that all of it is gone at the end, whatever happened."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from types import TracebackType

from live import Data, Differs, Live, Refused
from outcomes import Outcome, Outcomes, Result

STEP = "nothing is left behind"


class Traces:
    """What was made outside of the namespace, and the namespace. The last made is deleted first."""

    def __init__(self, live: Live, outcomes: Outcomes, seconds: float):
        self._live, self._outcomes, self._seconds = live, outcomes, seconds
        self._bodies: list[Data] = []

    def create(self, body: Data) -> None:
        self._bodies.append(body)  # before it is there: an interrupt may come in between
        self._live.create(body)

    def apply(self, body: Data) -> None:
        self._bodies.append(body)
        self._live.apply(body)

    def __enter__(self) -> Traces:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # what is begun here is brought to its end
        self._outcomes.steps.append(self._removed())

    def _removed(self) -> Outcome:
        problems = [words for body in reversed(self._bodies) if (words := self._deleted(body))]
        left: Sequence[str] = ()

        def look() -> bool | None:
            nonlocal left
            left = [_named(body) for body in self._bodies if self._live.get(body)]
            return None if left else True

        try:
            self._live.until(self._seconds, "everything is gone", look)
        except (Differs, Refused) as differs:
            problems.append(f"{differs}: {', '.join(left)}")
        result = Result.DIFFERED if problems else Result.HELD
        return Outcome("cluster", STEP, result, "; ".join(problems))

    def _deleted(self, body: Data) -> str:
        try:
            self._live.delete(body)
        except Refused as refused:
            return f"{_named(body)}: {refused}"
        return ""


def _named(body: Data) -> str:
    metadata = body["metadata"]
    inside = f"--namespace {metadata['namespace']} " if "namespace" in metadata else ""
    return f"kubectl delete {inside}{body['kind'].lower()} {metadata['name']}"
