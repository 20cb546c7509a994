"""What each worker does, as far as it has reported: who is in a step while others wait for it.

Each report is answered with names of others. So they are found without looking at all workers, and
are few: with a thousand workers that named each other, answers alone would be 30 MB per second.
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
"""Workers that are named at most."""


@dataclass(frozen=True, slots=True)
class _Since:
    doing: str
    steps: int
    began: float


class Doing:
    """Of all workers, by name."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._now: dict[str, _Since] = {}
        # Who began first comes first.
        self._workers: defaultdict[str, dict[str, None]] = defaultdict(dict)

    def note(self, worker: str, doing: str, steps: int) -> float:
        """For how many seconds it does this, in this one of its local steps."""
        now, before = self._clock(), self._now.get(worker)
        if before is not None and (before.doing, before.steps) == (doing, steps):
            return now - before.began
        self.forget(worker)
        self._now[worker] = _Since(doing, steps, now)
        self._workers[doing][worker] = None
        return 0.0

    def forget(self, worker: str) -> None:
        if (before := self._now.pop(worker, None)) is not None:
            del self._workers[before.doing][worker]

    def does(self, worker: str, doing: str) -> bool:
        return worker in self._workers[doing]

    def names(self, among: Collection[str], *doing: str, but: str = "") -> str:
        """The few of these workers that have done one of this for longest."""
        workers = (w for each in doing for w in self._workers[each] if w in among and w != but)
        shown = [called(worker) for worker in islice(workers, SHOWN + 1)]
        return ", ".join([*shown[:SHOWN], *(["others"] if shown[SHOWN:] else [])])

    def those(self, names: Collection[str], among: Collection[str], *doing: str) -> str:
        """Return those of `names` with a worker in `among` that does one of `doing`: "a, b"."""
        called_names = (called(w) for each in doing for w in self._workers[each] if w in among)
        return ", ".join(sorted({*names} & {*called_names}))


def called(worker: str) -> str:
    """What a worker is called in each of its lives."""
    return worker.rpartition("-")[0]
