"""Demands in closed form: what a job may take is arithmetic, so the numbers are written down."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainwright.model import Elastic, Entrypoint, Image, Job, Pool, Resources
from trainwright.specs import demand
from trainwright.specs.demand import NOTHING, Demand, Range

POOL = Pool(name="h100", resource="nvidia.com/gpu", price_per_gpu_hour=2.5)
JOB = Job(
    name="llm",
    environment="prod",
    source="",
    target="pytorchjob",
    namespace="n",
    image=Image(repository="a"),
    entrypoint=Entrypoint(script="a.py"),
    launcher="trainwright",
    flags={},
    nodes=4,
    procs_per_node=8,
    backend="nccl",
    resources=Resources(gpu=8),
    pool=POOL,
    max_duration=12 * 3600,
    retries=1,
)


def test_gpu_hours_are_nodes_times_gpus_times_duration_times_attempts() -> None:
    hours = 4 * 8 * 12 * 2
    assert demand.demand_of_job(JOB) == Demand(
        nodes=Range(4, 4),
        gpus=Range(32, 32),
        hours=Range(hours, hours),
        cost=Range(hours * 2.5, hours * 2.5),
    )


def test_elastic_jobs_ask_for_a_range() -> None:
    found = demand.demand_of_job(replace(JOB, elastic=Elastic(min_nodes=2, max_nodes=6)))
    assert found.nodes == Range(2, 6)
    assert found.gpus == Range(16, 48)
    assert found.hours == Range(16 * 24, 48 * 24)


def test_without_a_duration_hours_are_unbounded_and_never_nothing() -> None:
    found = demand.demand_of_job(replace(JOB, max_duration=None))
    assert (found.gpus, found.hours, found.unbounded) == (Range(32, 32), Range(), 1)
    assert found.unpriced == 0


def test_without_a_price_hours_are_counted_and_cost_is_not() -> None:
    found = demand.demand_of_job(replace(JOB, pool=replace(POOL, price_per_gpu_hour=None)))
    assert found.hours
    assert (found.cost, found.unpriced) == (Range(), 1)
    assert (
        demand.demand_of_job(replace(JOB, pool=replace(POOL, price_per_gpu_hour=0.0))).unpriced == 0
    )


def test_without_accelerators_only_nodes_are_asked_for() -> None:
    assert demand.demand_of_job(replace(JOB, resources=Resources(), max_duration=None)) == Demand(
        nodes=Range(4, 4)
    )


@pytest.mark.parametrize("state", ["suspended", "cancelled"])
def test_what_does_not_run_asks_for_nothing(state: str) -> None:
    assert demand.demand_of_job(replace(JOB, state=state)) == NOTHING  # type: ignore[arg-type]


def test_sums_and_differences_take_each_other_back() -> None:
    jobs = [
        JOB,
        replace(JOB, max_duration=None),
        replace(JOB, pool=None),
        replace(JOB, elastic=Elastic(min_nodes=1, max_nodes=2)),
    ]
    total = demand.total(map(demand.demand_of_job, jobs))
    assert total.nodes == Range(13, 14)
    assert (total.unbounded, total.unpriced) == (1, 1)
    for job in jobs:
        total -= demand.demand_of_job(job)
    assert total == NOTHING


@pytest.mark.parametrize(
    ("asked", "has", "missing"), [(16, 8, 8), (8, 8, 0), (8, 16, 0), (8, None, 0), (1, 0, 1)]
)
def test_shortage(asked: int, has: int | None, missing: int) -> None:
    assert demand.shortage(asked, has) == missing
