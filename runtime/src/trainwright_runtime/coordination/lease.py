"""Electing the coordinator among candidates: a lease by votes of a majority, with nothing stored.

Each candidate has one vote, and gives it to one candidate at a time, for `LENGTH` seconds. The one
with a majority of votes is the coordinator until the first vote that it needs expires. It counts
from before its request, a voter from receiving that, which is later. A candidate that starts does
not vote for as long as a vote lasts: it cannot know to whom it gave its vote before.
Leases without a disk: Trencseni, Gazso, Reinhardt, "PaxosLease", https://arxiv.org/abs/1209.4187.

These are only the rules: `election` has the clock and the connections.
tests/runtime/test_elastic_lease.py searches every order of events for two coordinators at a time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

LENGTH = 1.0
"""Seconds for which a vote is given."""
HELD = 0.9 * LENGTH
"""Seconds for which its owner counts on it: clocks may run at slightly different rates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """To whom a candidate has given its vote."""

    owner: str = ""
    """The candidate's process: one that starts again has forgotten who voted for it."""
    number: int = 0
    """The number of the owner's request, as an earlier request may arrive later."""
    until: float = 0.0
    """When the vote expires, or one that the voter may have given before it started."""


def started(now: float) -> Vote:
    """Return a starting candidate's vote: taken for `LENGTH`, as it may have voted just before."""
    return Vote(until=now + LENGTH)


def give(vote: Vote, candidate: str, number: int, now: float) -> tuple[Vote, bool]:
    """Return the vote after a candidate's request to get or keep it, and whether it has it."""
    if now < vote.until and vote.owner != candidate:
        return vote, False
    if vote.owner == candidate and number < vote.number:
        return vote, False
    return Vote(owner=candidate, number=number, until=now + LENGTH), True


def take_back(vote: Vote, candidate: str, number: int, now: float) -> Vote:
    """Return the vote, free at once, after its owner gave it back; old requests change nothing."""
    if vote.owner != candidate or number < vote.number:
        return vote
    return replace(vote, until=min(vote.until, now))


def needed(candidates: int) -> int:
    """Return how many votes are a majority."""
    return candidates // 2 + 1


def held_until(requested: Iterable[float], candidates: int) -> float:
    """Return until when a candidate is the coordinator, given when it requested each granted vote.

    Return -inf without a majority.
    """
    latest = sorted(requested, reverse=True)
    most = needed(candidates)
    return latest[most - 1] + HELD if len(latest) >= most else float("-inf")
