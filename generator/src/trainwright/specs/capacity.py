"""Whether the demand of jobs fits what is finite: a node, a pool, a quota, a budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.datatypes.environment import Environment, Pool
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.specs.demand import Demand, total

# --- one job -------------------------------------------------------------------------------------


def shortage(needed: int, has: int | None) -> int:
    """Return how many are missing, 0 if it is not known how many there are."""
    return 0 if has is None else max(0, needed - has)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Accelerators that a pool does not have, on each node or altogether."""

    pool: str
    need: int
    has: int
    per_node: bool

    @property
    def missing(self) -> int:
        return shortage(self.need, self.has)

    @property
    def field(self) -> str:
        """The field of the pool that has too few."""
        return "gpusPerNode" if self.per_node else "capacity"

    def message(self, how: str = "") -> str:
        """Return the shortage in words; `how` explains the sum, unless it is per node."""
        what = " per node" if self.per_node else how
        has = f'the pool "{self.pool}" has {self.has}'
        return f"needs {self.need} GPUs{what}, {has}: {self.missing} too few"


def pool_shortages(pool: Pool, per_node: int, altogether: int) -> Iterator[Shortage]:
    """Yield why the accelerators of a pool are too few for pods that run at once."""
    for need, has, is_per_node in (
        (per_node, pool.gpus_per_node, True),
        (altogether, pool.capacity, False),
    ):
        if has is not None and shortage(need, has):
            yield Shortage(pool.name, need, has, per_node=is_per_node)


def shortages(group: Job) -> Iterator[Shortage]:
    """Yield why the pool of a job, or of a role, can never hold all of its accelerators."""
    pool, gpus = group.pool, group.resources.gpu
    if pool is None or not gpus:
        return
    if pool.resource:
        yield from pool_shortages(pool, gpus, group.nodes * gpus)
    else:
        yield Shortage(pool.name, gpus, 0, per_node=True)


def nodes(pool: Pool) -> int | None:
    """Return the nodes of a pool (without accelerators, capacity counts nodes); None if unknown."""
    if pool.capacity is None or not pool.resource:
        return pool.capacity
    return pool.capacity // pool.gpus_per_node if pool.gpus_per_node else None


# --- an environment ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityCheck:
    """Whether all active jobs of an environment fit something that is finite.

    `need` is the least they ask for, `most` the most; they differ for elastic jobs. `unknown`
    counts jobs whose need is not known. `has_before`, `short_before` and `short_at_most_before` are
    the limit before a merge, None if it is not known, and what was missing then.
    """

    what: str  # "pool h100", "queue team-nlp", "budget"
    unit: str  # "GPUs", "GPU-hours", or a currency
    need: float
    most: float
    has: float
    unknown: int = 0
    short_before: float = 0.0
    short_at_most_before: float = 0.0
    has_before: float | None = None

    @property
    def is_money(self) -> bool:
        """Whether the unit is a currency, by its ISO 4217 code."""
        return self.unit.isupper()

    @property
    def short(self) -> float:
        """How much is missing when all jobs run with the least they ask for."""
        return max(0.0, self.need - self.has)

    @property
    def short_at_most(self) -> float:
        """How much is missing when all jobs run with the most they ask for."""
        return max(0.0, self.most - self.has)

    @property
    def more(self) -> tuple[float, float]:
        """How much more a merge makes missing, at least and at most."""
        return (
            self.short - self.short_before,
            self.short_at_most - self.short_at_most_before,
        )

    @property
    def is_worse(self) -> bool:
        """Whether a merge makes more of it missing, or may do so for elastic jobs, beyond rounding:
        sums depend on their order.
        """
        least, most = self.more
        return round(max(least, most), 6) > 0


def check_capacity(
    environment: Environment, demands: Sequence[tuple[Job, Demand]]
) -> Iterator[CapacityCheck]:
    """Yield one check for each pool and queue that jobs request, and for each budget."""
    for pool in environment.pools.values():
        demand = total(d for _, d in demands if pool.name in d.pools).of(pool.name)
        if pool.capacity is not None and demand.nodes:
            yield _pool(pool, pool.capacity, demand)
    for queue, quota in environment.queues.items():
        demand = total(d for job, d in demands if job.queue == queue)
        if quota is not None and demand.gpus:
            gpus = demand.gpus
            yield CapacityCheck(
                what=f"queue {queue}", unit="GPUs", need=gpus.low, most=gpus.high, has=quota
            )
    yield from check_budgets(environment, total(d for _, d in demands))


def _pool(pool: Pool, capacity: int, demand: Demand) -> CapacityCheck:
    counted = demand.gpus if pool.resource else demand.nodes
    return CapacityCheck(
        what=f"pool {pool.name}",
        unit="GPUs" if pool.resource else "nodes",
        need=counted.low,
        most=counted.high,
        has=capacity,
    )


def check_budgets(environment: Environment, demand: Demand) -> Iterator[CapacityCheck]:
    """Yield one check for each budget of an environment, of what its jobs request together."""
    budget = environment.budget
    if budget.gpu_hours is not None and (demand.hours or demand.unbounded):
        yield CapacityCheck(
            what="budget",
            unit="GPU-hours",
            need=demand.hours.low,
            most=demand.hours.high,
            has=budget.gpu_hours,
            unknown=demand.unbounded,
        )
    if budget.cost is not None and (demand.cost or demand.unbounded or demand.unpriced):
        yield CapacityCheck(
            what="budget",
            unit=environment.currency,
            need=demand.cost.low,
            most=demand.cost.high,
            has=budget.cost,
            unknown=demand.unbounded + demand.unpriced,
        )
