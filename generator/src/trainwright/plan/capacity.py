"""Whether everything that is active in an environment fits what is finite there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.model import Environment, Job, Pool
from trainwright.plan.model import CapacityCheck
from trainwright.specs.demand import Demand, total


def check_capacity(
    environment: Environment, demands: Sequence[tuple[Job, Demand]]
) -> Iterator[CapacityCheck]:
    """One for each pool and queue that is requested, and for each budget."""
    for pool in environment.pools.values():
        asked = total(d for job, d in demands if job.pool and job.pool.name == pool.name)
        if pool.capacity is not None and asked.nodes:
            yield _pool(pool, pool.capacity, asked)
    for queue, quota in environment.queues.items():
        asked = total(d for job, d in demands if job.queue == queue)
        if quota is not None and asked.gpus:
            gpus = asked.gpus
            yield CapacityCheck(
                what=f"queue {queue}", unit="GPUs", need=gpus.low, most=gpus.high, has=quota
            )
    yield from _budgets(environment, total(d for _, d in demands))


def _pool(pool: Pool, capacity: int, asked: Demand) -> CapacityCheck:
    counted = asked.gpus if pool.resource else asked.nodes
    return CapacityCheck(
        what=f"pool {pool.name}",
        unit="GPUs" if pool.resource else "nodes",
        need=counted.low,
        most=counted.high,
        has=capacity,
    )


def _budgets(environment: Environment, asked: Demand) -> Iterator[CapacityCheck]:
    budget = environment.budget
    if budget.gpu_hours is not None and (asked.hours or asked.unbounded):
        yield CapacityCheck(
            what="budget",
            unit="GPU-hours",
            need=asked.hours.low,
            most=asked.hours.high,
            has=budget.gpu_hours,
            unknown=asked.unbounded,
        )
    if budget.cost is not None and (asked.cost or asked.unbounded or asked.unpriced):
        yield CapacityCheck(
            what="budget",
            unit="cost",
            need=asked.cost.low,
            most=asked.cost.high,
            has=budget.cost,
            unknown=asked.unbounded + asked.unpriced,
        )
