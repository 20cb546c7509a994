"""Whether the members of a step hold the same parameters, and which takes longer than the others.

A processor or a memory that computes wrongly without a word makes one worker's model another one;
its gradients are summed into all others from then on. Large trainings meet several such nodes
(https://arxiv.org/abs/2407.21783, section 3.3.4). Since all members take the same updates of the
same sums, their parameters are the same to the bit, and a digest that differs is the evidence.

In every so many steps each member adds two numbers to a sum that all of them take anyway: so all
know them at once, decide alike, and wait for nothing more.
"""

from __future__ import annotations

import logging
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from xxhash import xxh3_64

from trainwright_runtime.coordination.doing import called
from trainwright_runtime.elastic.errors import DiffersFromAll, NoMajority
from trainwright_runtime.elastic.members import Members
from trainwright_runtime.elastic.shards import local
from trainwright_runtime.errors import EnvironmentMistake

log = logging.getLogger(__name__)

VARIABLE = "TRAINWRIGHT_COMPARE_EVERY"

_EXACT = 2**52  # whole numbers that a float64 holds, and a sum of it with zeros
_SLOW = 2.0  # times as long as the member in the middle
_NOISE = 0.02  # seconds: less is that of any machine
_IN_A_ROW = 3  # comparisons in which a member is slow before it is named


def steps_between(environ: Mapping[str, str]) -> int:
    """Return how many steps are between two comparisons; 0 for none.

    Raises EnvironmentMistake for what is not a number of steps.
    """
    text = environ.get(VARIABLE) or "0"
    if not text.isdecimal():
        raise EnvironmentMistake(VARIABLE, text, "a number of steps, 0 to compare nothing")
    return int(text)


def digest(parameters: Iterable[torch.Tensor]) -> int:
    """Return a number that any other bit in them changes; of shards, in those of this process."""
    found = xxh3_64()
    for parameter in parameters:
        shard = local(parameter).detach().cpu().contiguous().flatten()
        held: Any = shard.view(torch.uint8).numpy()
        found.update(held)
    return found.intdigest() % _EXACT


def differing(digests: Sequence[int], processes: int = 1) -> set[int] | None:
    """Return the ranks that hold something else than most do; None where no majority does.

    Processes of a replica hold a shard each: those of the same local rank are compared.
    """
    found: set[int] = set()
    for first in range(processes):
        ranks = range(first, len(digests), processes)
        most, count = Counter(digests[rank] for rank in ranks).most_common(1)[0]
        if 2 * count <= len(ranks):
            return None
        found |= {rank for rank in ranks if digests[rank] != most}
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Members by name."""

    wrong: Sequence[str]
    """They leave."""
    slow: Sequence[str]
    """Since several comparisons; each is named once for it."""


class Comparison:
    """What the members of a step know of each other, every `every` steps."""

    def __init__(self, every: int) -> None:
        self.every = every
        self._slow: Counter[str] = Counter()
        """In how many comparisons in a row each was slow."""

    def due(self, step: int, members: Members) -> bool:
        """Return whether members compare what they hold after so many steps; alike in all."""
        return self.every > 0 and step % self.every == 0 and members.world > members.processes

    @staticmethod
    def sample(members: Members, parameters: Iterable[torch.Tensor], seconds: float) -> list[float]:
        """Return this member's numbers at its place among those of all, to be summed."""
        found = [0.0] * (2 * members.world)
        found[2 * members.rank : 2 * members.rank + 2] = digest(parameters), seconds
        return found

    def judge(self, step: int, members: Members, sampled: Sequence[float]) -> Found:
        """Raises DiffersFromAll in the one whose parameters are others than those of most,
        NoMajority in all where it cannot be known whose are right.
        """
        names = [called(name) or name for name in members.names]
        wrong = differing([int(number) for number in sampled[::2]], members.processes)
        if wrong is None:
            raise NoMajority(step, names)
        found = sorted({names[rank] for rank in wrong})
        if names[members.rank] in found:
            raise DiffersFromAll(step, found)
        if found:
            log.warning(
                "step %d: the parameters of %s are not those of the other workers: it leaves, and "
                "takes their state. If that comes again, its node computes wrongly",
                step, " and ".join(found),
            )  # fmt: skip
        return Found(wrong=found, slow=self._note_slow(step, names, sampled[1::2]))

    def _note_slow(self, step: int, names: Sequence[str], seconds: Sequence[float]) -> list[str]:
        """Those that are named now: at the third comparison in a row, and no more after it."""
        usual = statistics.median_low(seconds)
        least = max(_SLOW * usual, usual + _NOISE)
        slow = {rank: names[rank] for rank, took in enumerate(seconds) if took > least}
        self._slow = Counter({name: self._slow[name] + 1 for name in {*slow.values()}})
        named = [rank for rank, name in slow.items() if self._slow[name] == _IN_A_ROW]
        for rank in named:
            log.warning(
                "step %d: %s computes for %.3g s, half of the workers for %.3g s at most, and was "
                "as slow in %d comparisons in a row: all others wait for it",
                step, names[rank], seconds[rank], usual, _IN_A_ROW,
            )  # fmt: skip
        return [names[rank] for rank in named]
