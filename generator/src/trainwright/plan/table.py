"""The table of a plan: each pool, queue and budget before and after, without empty columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.listing import plural
from trainwright.plan import words
from trainwright.plan.model import EnvironmentPlan, Plan, Use
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import Range

_HEADS = ("environment", "limit", "requested", "GPU-hours", "cost", "used by ended runs")
_Shown = TypeVar("_Shown")
_GPU_HOURS = "GPU-hours"  # the unit of a budget of these


@dataclass(frozen=True, slots=True)
class Cell:
    """What is before and after a merge, once where both are the same, and how much there is."""

    sides: tuple[str, ...] = ()
    limit: str = ""  # or the unit
    short: bool = False  # whether the merge exceeds the limit, or exceeds it more than before

    def __bool__(self) -> bool:
        return bool(self.sides)

    def __str__(self) -> str:
        return " ".join(filter(None, (" → ".join(self.sides), self.limit)))


@dataclass(frozen=True, slots=True)
class Table:
    """Heads, and rows with as many cells."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def short(self) -> tuple[bool, ...]:
        """Whether each row has a limit that the merge exceeds."""
        return tuple(any(cell.short for cell in row) for row in self.rows)

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(map(str, row)) for row in self.rows)


def table(plan: Plan) -> Table:
    """Return a table of the pools, queues and budgets that a merge affects, in all environments."""
    used = [(environment, use) for environment in plan.environments for use in environment.uses]
    return Table(*columns(_HEADS, [tuple(_cells(environment, use)) for environment, use in used]))


def columns(
    heads: Sequence[str], rows: Sequence[Sequence[_Shown]]
) -> tuple[tuple[str, ...], tuple[tuple[_Shown, ...], ...]]:
    """Return the heads and the rows without the columns that are empty in every row."""
    kept = [index for index in range(len(heads)) if any(row[index] for row in rows)]
    return (
        tuple(heads[index] for index in kept),
        tuple(tuple(row[index] for index in kept) for row in rows),
    )


def _cells(environment: EnvironmentPlan, use: Use) -> Iterator[Cell]:
    budget = use.what == "budget"
    held = next((fit for fit in use.fits if not budget), None)
    hours = next((fit for fit in use.fits if fit.unit == _GPU_HOURS), None)
    cost = next((fit for fit in use.fits if budget and fit is not hours), None)
    yield Cell((environment.title,))
    yield Cell((use.what,))
    yield Cell() if budget else _at_once(use, held)
    yield _hours(use, hours)
    yield _cost(use, cost, environment)
    yield Cell(tuple(filter(None, (_spent(use, environment.shown_currency),))))


def _at_once(use: Use, fit: CapacityCheck | None) -> Cell:
    gpus = bool(use.before.gpus or use.after.gpus)
    before, after = (it.gpus if gpus else it.nodes for it in (use.before, use.after))
    return _changed(before, after, fit, "GPUs" if gpus else "nodes")


def _hours(use: Use, fit: CapacityCheck | None) -> Cell:
    hours = _changed(use.before.hours, use.after.hours, fit)
    if not (jobs := use.after.unbounded):
        return hours
    unbounded = f"{plural(jobs, 'job')} without maxDuration"
    if not hours:
        return Cell((unbounded,))
    return replace(hours, limit=" ".join(filter(None, (hours.limit, f"and {unbounded}"))))


def _cost(use: Use, fit: CapacityCheck | None, environment: EnvironmentPlan) -> Cell:
    """Return what both sides cost, which is unknown for jobs whose pool has no price."""
    now = environment.currency
    cost = _changed(use.before.cost, use.after.cost, fit, currency=now)
    before = words.cost(use.before, environment.currency_before or now)
    sides = (before, words.cost(use.after, now))
    return replace(cost, sides=tuple(dict.fromkeys(sides))) if cost else cost


def _changed(
    before: Range, after: Range, fit: CapacityCheck | None, unit: str = "", currency: str = ""
) -> Cell:
    """Return both sides, and how much there is."""
    if not before and not after:
        return Cell()
    sides = [words.money(it, currency) if currency else words.span(it) for it in (before, after)]
    limit = f"of {words.amount(fit, fit.has)}" if fit else ""
    counted = " ".join(filter(None, (limit, unit)))
    return Cell(
        tuple(dict.fromkeys(sides)),
        f"{counted}{_limit_before(fit)}{words.short(fit)}",
        short=fit is not None and fit.is_worse,
    )


def _limit_before(fit: CapacityCheck | None) -> str:
    """Return the limit without the merge, as a suffix to the one with it, where they differ."""
    if fit is None or fit.has_before in (None, fit.has):
        return ""
    return f" ({words.amount(fit, fit.has_before or 0)} before)"


def _spent(use: Use, currency: str) -> str:
    """Return the hours and the cost of runs that the merge ends, of which nothing comes back."""
    return ", ".join(words.asked(use.spent, currency))
