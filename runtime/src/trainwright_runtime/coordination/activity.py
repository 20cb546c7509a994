"""What each worker last reported to be doing: which ones are in a step while others wait for them.

Each report is answered with a few names of others, found without looking at all workers: if a
thousand workers each received all names, answers alone would be 30 MB per second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import islice

WAITING, IN_STEP, IN_PROGRAM, APART = "waiting", "step", "program", "apart"
QUIET = "quiet"
"""What a worker does: waits for the next step, is in one, runs what comes between, or is not to
take any, since others cannot reach it. One that is quiet takes one step after the other, and
reports nothing until it is requested to: a few of its group do."""

SPEAKERS = 3
"""Members of a step that report for all of them while nothing changes: the first ones."""
SHOWN = 5
"""Maximum number of workers that are named."""


@dataclass(frozen=True, slots=True)
class _Activity:
    """What a worker does, in which of its steps, and since when."""

    doing: str
    steps: int
    began: float


class Activities:
    """What each worker does, by its name."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._now: dict[str, _Activity] = {}
        # Who began first comes first.
        self._workers: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def note(self, worker: str, doing: str, steps: int) -> float:
        """Note what a worker does; return for how many seconds it has, in this local step."""
        now, before = self._clock(), self._now.get(worker)
        if before is not None and (before.doing, before.steps) == (doing, steps):
            return now - before.began
        self.forget(worker)
        self._now[worker] = _Activity(doing, steps, now)
        self._workers[doing][worker] = None
        return 0.0

    def forget(self, worker: str) -> None:
        if (before := self._now.pop(worker, None)) is not None:
            del self._workers[before.doing][worker]

    def does(self, worker: str, doing: str) -> bool:
        return worker in self._workers[doing]

    def longest(self, among: Collection[str], *doing: str, but: str = "") -> str:
        """Return as text the few workers of `among` that have done one of `doing` the longest."""
        workers = (w for each in doing for w in self._workers[each] if w in among and w != but)
        shown = [display_name(worker) for worker in islice(workers, SHOWN + 1)]
        return ", ".join([*shown[:SHOWN], *(["others"] if shown[SHOWN:] else [])])

    def matching(self, names: Collection[str], among: Collection[str], *doing: str) -> str:
        """Return those of `names` with a worker in `among` that does one of `doing`: "a, b"."""
        called_names = (
            display_name(w) for each in doing for w in self._workers[each] if w in among
        )
        return ", ".join(sorted({*names} & {*called_names}))


def display_name(worker: str) -> str:
    """Return a worker's name without the suffix that differs each time it starts."""
    return worker.rpartition("-")[0]
