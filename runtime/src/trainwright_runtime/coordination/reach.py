"""Rules for which workers steps go on without, because they and others cannot connect.

All members of a step are connected with each other, so one pair that cannot connect stops them all.
As few workers as possible are left out, preferably those with the most such pairs: those that most
others cannot reach, or that reach few others. A worker with state that no other has
stays. `quorum` keeps the reports; tests/runtime/test_elastic_reach.py tries every case of up to
four workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass

Pairs = frozenset[frozenset[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a worker's last request for a step reported about its connections."""

    unreached: frozenset[str] = frozenset()
    """Workers that it could not connect with."""
    held: int = 0
    """The step up to which it holds state that would be lost with it; 0 if it holds none."""
    address: str = ""
    """The address at which others connect to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    out: frozenset[str] = frozenset()
    """Workers that no step is taken with."""
    needed: str = ""
    """The one that stays since it holds what no other one has, though fewer would be left out
    without it."""


def decide(reports: Mapping[str, Report], before: Collection[str]) -> Verdict:
    """Decide which workers to leave out so that all others can connect with each other.
    `before` are the members of the last quorum."""
    pairs = _pairs(reports)
    if not pairs:
        return Verdict()
    fewest = _fewest(pairs, before)
    needed = _needed(reports, before)
    if not needed or needed - fewest:
        return Verdict(out=fewest)
    each = {worker: _fewest(pairs, before, worker) for worker in sorted(needed)}
    kept = min(each, key=lambda worker: len(each[worker]))
    return Verdict(out=each[kept], needed=kept)


def _pairs(reports: Mapping[str, Report]) -> Pairs:
    """Return the pairs of workers that cannot connect, in one direction or in both."""
    return frozenset(
        frozenset((worker, other))
        for worker, report in reports.items()
        for other in report.unreached & reports.keys() - {worker}
    )


def _needed(reports: Mapping[str, Report], before: Collection[str]) -> frozenset[str]:
    """Return the workers of which at least one has to stay, or committed steps would be lost.

    Those of the last quorum may have committed a step that they have not reported yet.
    """
    latest = max(report.held for report in reports.values())
    ahead = frozenset(w for w, report in reports.items() if 0 < report.held == latest)
    return ahead & frozenset(before) or ahead


def _fewest(pairs: Pairs, before: Collection[str], keep: str = "") -> frozenset[str]:
    """Return few workers with one of each pair among them, but not `keep`.
    Greedily: those in most pairs first; of equals new ones, then the last by name."""
    left_out: list[str] = []
    while rest := [pair for pair in pairs if pair.isdisjoint(left_out)]:
        counts = Counter(worker for pair in rest for worker in pair - {keep})
        left_out.append(max(counts, key=lambda each: (counts[each], each not in before, each)))
    return _without_those_who_fit(pairs, left_out)


def _without_those_who_fit(pairs: Pairs, left_out: list[str]) -> frozenset[str]:
    """Return `left_out` without those that may stay: each of their pairs has another one in it."""
    out = set(left_out)
    for worker in left_out:
        if all(pair & (out - {worker}) for pair in pairs if worker in pair):
            out.remove(worker)
    return frozenset(out)
