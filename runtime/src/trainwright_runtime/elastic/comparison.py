"""Checks that all members of a step hold the same parameters, and finds the slow ones.

Silent data corruption by a processor or memory makes one worker's model differ from the others, and
from then on its gradients are summed into theirs. Large trainings meet several such nodes
(https://arxiv.org/abs/2407.21783, section 3.3.4). Since all members take the same updates of the
same sums, their parameters are the same to the bit, and a digest that differs is the evidence.

Every `Policy.every` steps each member adds some numbers to a sum that all of them compute anyway.
So all know them at once, agree on who leaves, and wait for nothing more.
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

from trainwright_runtime.coordination.activity import display_name
from trainwright_runtime.elastic.errors import DiffersFromAll, NoMajority, Slow
from trainwright_runtime.elastic.members import Members
from trainwright_runtime.elastic.shards import local
from trainwright_runtime.failures.errors import EnvironmentMistake

log = logging.getLogger(__name__)

EVERY, REPLACE_SLOW = "TRAINWRIGHT_COMPARE_EVERY", "TRAINWRIGHT_REPLACE_SLOW"

_EXACT = 2**52  # whole numbers that a float64 holds, and a sum of it with zeros
_NUMBERS = 4  # of each member
# Slow is this many times as long as the median member. The others take over the part of one that
# leaves, as the batch stays the same: from twice on they are faster without it, even if only one
# of two is left.
_SLOW = 2.0
_NOISE = 0.02  # seconds: smaller differences are normal
_IN_A_ROW = 3  # comparisons in which a member is slow before it is named


def digest(parameters: Iterable[torch.Tensor]) -> int:
    """Return a digest of all bits of the parameters; if sharded, of this process's shards."""
    hasher = xxh3_64()
    for parameter in parameters:
        shard = local(parameter).detach().cpu().contiguous().flatten()
        held: Any = shard.view(torch.uint8).numpy()
        hasher.update(held)
    return hasher.intdigest() % _EXACT


def differing(digests: Sequence[int], processes: int = 1) -> set[int] | None:
    """Return the ranks whose digests differ from the majority's, or None if there is no majority.

    Each process of a replica holds a shard: those of the same local rank are compared.
    """
    outvoted: set[int] = set()
    for first in range(processes):
        ranks = range(first, len(digests), processes)
        most, count = Counter(digests[rank] for rank in ranks).most_common(1)[0]
        if 2 * count <= len(ranks):
            return None
        outvoted |= {rank for rank in ranks if digests[rank] != most}
    return outvoted


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The outcome of a comparison: members by name."""

    slow: Sequence[str] = ()
    """Slow in several comparisons in a row; each is named once."""
    leaving: Sequence[str] = ()
    """They take no further step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """How often members compare themselves, and which of them leave."""

    every: int = 0
    """Steps; 0 to compare nothing."""
    replaced: int = 0
    """Maximum number of slow members that leave, in all."""
    least: int = 1
    """Minimum number of replicas that stay."""

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Policy:
        """Return the policy that the environment sets.

        Raise EnvironmentMistake for what is not a number.
        """
        every = _number(environ, EVERY, "a number of steps, 0 to compare nothing")
        replaced = _number(environ, REPLACE_SLOW, "how many slow workers may leave, 0 for none")
        if replaced and not every:
            raise EnvironmentMistake(REPLACE_SLOW, str(replaced), f"0, or {EVERY} beside it")
        least = _number(environ, "TRAINWRIGHT_MIN_REPLICAS", "a number of replicas", default="1")
        return cls(every=every, replaced=replaced, least=least)


def _number(environ: Mapping[str, str], name: str, expected: str, default: str = "0") -> int:
    text = environ.get(name) or default
    if not text.isdecimal():
        raise EnvironmentMistake(name, text, expected)
    return int(text)


class Comparison:
    """A comparison of members' parameters and step times, every `policy.every` steps."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._names: tuple[str, ...] = ()
        self._in_a_row = 0  # comparisons of the same members in which this one was slow
        self._replaced = 0

    def due(self, step: int, members: Members) -> bool:
        """Whether members compare themselves after `step` steps: the same answer in all of them."""
        every = self.policy.every
        return every > 0 and step % every == 0 and members.world > members.processes

    def sample(
        self, members: Members, parameters: Iterable[torch.Tensor], seconds: float
    ) -> list[float]:
        """Return numbers of all members, 0 except for this one's, to be summed over the members."""
        if members.names != self._names:  # with other parts of a batch, and connected anew
            self._names, self._in_a_row = members.names, 0
        numbers = [0.0] * (_NUMBERS * members.world)
        own = digest(parameters), seconds, self._in_a_row, self._replaced
        numbers[_NUMBERS * members.rank : _NUMBERS * (members.rank + 1)] = own
        return numbers

    def judge(self, step: int, members: Members, sampled: Sequence[float]) -> Found:
        """Return which members are slow, and which leave. Raise DiffersFromAll in those whose
        parameters differ from most members', NoMajority in all if no majority has the same ones,
        Slow in one that has to leave.
        """
        digests, seconds, in_a_row, replaced = (sampled[n::_NUMBERS] for n in range(_NUMBERS))
        self._replaced = int(max(replaced))
        names = [display_name(name) or name for name in members.names]
        wrong = differing([int(number) for number in digests], members.processes)
        if wrong is None:
            raise NoMajority(step, names)
        wrong_names = sorted({names[rank] for rank in wrong})
        if names[members.rank] in wrong_names:
            raise DiffersFromAll(step, wrong_names)
        if wrong_names:
            log.warning(
                "step %d: the parameters of %s are not those of the other workers: it leaves, and "
                "its node computes wrongly if that comes again", step, " and ".join(wrong_names),
            )  # fmt: skip
        slow = _slow(seconds, in_a_row)
        self._in_a_row = slow.get(members.rank, 0)
        leaving = None if wrong_names else self._leaving(members, seconds, slow)
        for rank in (named := [rank for rank, row in slow.items() if row == _IN_A_ROW]):
            log.warning("%s: all others wait for it", _how(step, names[rank], rank, seconds))
        if leaving is not None:
            self._replaced += 1
            wrong_names = [names[leaving]]
        if leaving == members.rank:
            raise Slow(_how(step, names[leaving], leaving, seconds))
        return Found(slow=[names[rank] for rank in named], leaving=wrong_names)

    def _leaving(
        self, members: Members, seconds: Sequence[float], slow: Mapping[int, int]
    ) -> int | None:
        """Return the rank of the slowest member if it has to leave, else None."""
        if self._replaced >= self.policy.replaced:
            return None
        if members.world // members.processes <= self.policy.least:
            return None
        slowest = max(range(members.world), key=seconds.__getitem__)
        return slowest if slow.get(slowest, 0) >= _IN_A_ROW else None


def _slow(seconds: Sequence[float], in_a_row: Sequence[float]) -> dict[int, int]:
    """Return the ranks of slow members, each with its number of slow comparisons in a row."""
    usual = statistics.median_low(seconds)
    least = max(_SLOW * usual, usual + _NOISE)
    return {rank: int(in_a_row[rank]) + 1 for rank, took in enumerate(seconds) if took > least}


def _how(step: int, name: str, rank: int, seconds: Sequence[float]) -> str:
    return (
        f"step {step}: {name} computes for {seconds[rank]:.3g} s, half of the workers for "
        f"{statistics.median_low(seconds):.3g} s at most, and was as slow in {_IN_A_ROW} "
        "comparisons in a row"
    )
