"""What active runs request of each pool, queue and budget, as bars on one scale."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.datatypes.data import Data
from trainwright.overview.model import EnvironmentOverview, Overview
from trainwright.plan import words
from trainwright.specs.capacity import CapacityCheck

_FIRST = 5  # limits in sight; the others are folded


def by_share(overview: Overview) -> Sequence[tuple[EnvironmentOverview, CapacityCheck]]:
    """Return all limits with their environments, the fullest first."""
    limits = [(each, fit) for each in overview.environments for fit in each.fits]
    return sorted(limits, key=lambda limit: -_share(limit[1], limit[1].need))


def limits(overview: Overview) -> Data:
    """Return the rows, those in sight first. Bars end at 100 %, or at 200 % if a limit is exceeded.

    A bar that would be longer is cut.
    """
    found = by_share(overview)
    end = 200 if any(fit.most > fit.has for _, fit in found) else 100
    rows = [_row(environment, fit, end) for environment, fit in found]
    return {"shown": rows[:_FIRST], "folded": rows[_FIRST:], "end": end}


def _row(environment: EnvironmentOverview, fit: CapacityCheck, end: int) -> Data:
    need, most = (100 * _share(fit, amount) for amount in (fit.need, fit.most))
    return {
        "environment": environment.name,
        "limit": fit.what,
        "owner": environment.budget_owner if fit.what == "budget" else "",
        "requested": words.requested(fit),
        "outcome": words.outcome(fit),
        "tone": "danger" if fit.short else "",
        "need": round(min(need, 100), 2),
        "over": round(min(max(need - 100, 0), end - 100), 2),
        "most": round(min(most, end), 2),
    }


def _share(fit: CapacityCheck, amount: float) -> float:
    return amount / fit.has if fit.has else 2 * bool(amount)
