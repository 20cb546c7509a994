"""What a merge does to pools, queues and budgets: the requests for each, before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.plan.model import Action, JobChange, Use
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import NOTHING, Demand, total

NO_POOL = "no pool"
_POOL = "pool "


@dataclass(frozen=True, slots=True)
class _Part:
    """What one side of a change adds to the demand on `whats`; `asked` counts new runs in full,
    and `spent` is what a run that ends may have used.
    """

    whats: tuple[str, ...]
    delta: Demand
    asked: Demand
    spent: Demand = NOTHING


def uses(
    changes: Sequence[JobChange],
    after: Sequence[tuple[Job, Demand]],
    fits: Sequence[CapacityCheck],
    before: Sequence[tuple[Job, Demand]] | None = None,
    *,
    pools: Set[str] = frozenset(),
    every: bool = False,
) -> Iterator[Use]:
    """Each pool, quota and budget to which a merge makes a difference, or `every` one, in this
    order.

    `after` is what all active jobs request once it is merged. `before` is what they requested
    before, for merges that change limits or prices; of others, the changes tell the difference.
    `pools` come or go by it, with whatever runs on them.
    """
    finite = {fit.what for fit in fits}
    parts = [part for change in changes for part in _parts(change)]
    standing = [part for job, it in after for part in _split(it, it, job.queue)]
    earlier = [part for job, it in before or () for part in _split(it, it, job.queue)]
    named = (*parts, *earlier, *(standing if every or before is not None else ()))
    names = dict.fromkeys(what for part in named for what in part.whats)
    for what in sorted(names, key=_rank):
        concerned = [part for part in parts if what in part.whats]
        delta = total(part.delta for part in concerned)
        requested = total(part.asked for part in concerned)
        spent = total(part.spent for part in concerned)
        limits = tuple(fit for fit in fits if fit.what == what)
        now = total(part.asked for part in standing if what in part.whats)
        was = now - delta
        if before is not None:
            was = total(part.asked for part in earlier if what in part.whats)
        moved = what.removeprefix(_POOL) in pools and bool(was.nodes or now.nodes)
        differs = every or moved or requested != NOTHING or spent != NOTHING or now != was
        differs = differs or any(
            fit.is_worse or fit.has_before not in (None, fit.has) for fit in limits
        )
        if differs and (_is_pool(what) or what in finite):
            yield Use(what=what, before=was, after=now, spent=spent, fits=limits)


def _parts(change: JobChange) -> Iterator[_Part]:
    again = change.action is Action.NEW_RUN and change.after is not None
    stays = change.action is Action.OUTDATED or change.counted
    uncredited = again or stays or change.action is Action.RETIRED
    if (was := change.before) is not None:
        less = change.left - was.demand
        ends = uncredited and not stays
        spent = (NOTHING - less).holding(NOTHING) if ends else NOTHING
        yield from _split(less, NOTHING if uncredited else less, was.queue, spent)
    if (now := change.after) is not None:
        yield from _split(now.demand, NOTHING if stays else now.demand, now.queue)


def _split(
    delta: Demand, requested: Demand, queue: str, spent: Demand = NOTHING
) -> Iterator[_Part]:
    """Yield a demand's part of each pool, and of its queue and the budget, as `CapacityCheck` names
    them.
    """
    for pool in {**delta.pools, **requested.pools}:
        what = f"{_POOL}{pool}" if pool else NO_POOL
        yield _Part((what,), delta.of(pool), requested.of(pool), spent.of(pool))
    queues = (f"queue {queue}",) if queue else ()
    yield _Part((*queues, "budget"), delta, requested, spent)


def _is_pool(what: str) -> bool:
    return what == NO_POOL or what.startswith(_POOL)


def _rank(what: str) -> tuple[int, str]:
    return (0 if _is_pool(what) else 1 if what.startswith("queue ") else 2, what)
