"""Demands in closed form: what a job may take is arithmetic, so the numbers are written down."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import git_repository
from git_repository import git
from repository import JOB as JOB_TEXT
from repository import Repository
from trainwright.datatypes.environment import Pool
from trainwright.datatypes.job import Elastic, Entrypoint, Image, Job, Resources
from trainwright.specs import capacity, demand
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


def _demand(job: Job) -> Demand:
    return demand.demand_of_job(job, 2)


def test_gpu_hours_are_nodes_times_gpus_times_duration_times_attempts() -> None:
    hours = 4 * 8 * 12 * 2
    asked = Demand(
        nodes=Range(4, 4),
        gpus=Range(32, 32),
        hours=Range(hours, hours),
        cost=Range(hours * 2.5, hours * 2.5),
    )
    assert JOB.pool is not None
    assert _demand(JOB) == replace(asked, pools={JOB.pool.name: asked})


@pytest.mark.parametrize("price", [4, 0, 2.5, None])
def test_a_demand_at_another_price_is_that_of_the_job_at_it(price: float | None) -> None:
    other = Pool(name="cpu", resource="nvidia.com/gpu", price_per_gpu_hour=1)
    job = replace(JOB, roles=(replace(JOB, nodes=1, pool=other),))
    dear = replace(job, pool=replace(POOL, price_per_gpu_hour=price))
    assert demand.priced(_demand(job), {"h100": price, "unused": 7}) == _demand(dear)
    assert demand.priced(_demand(dear), {"h100": 2.5}) == _demand(job)
    assert demand.priced(_demand(job), {"unused": 7}) == _demand(job)
    endless = replace(job, max_duration=None)
    assert demand.priced(_demand(endless), {"h100": price}) == _demand(endless)


def test_elastic_jobs_ask_for_a_range() -> None:
    found = _demand(replace(JOB, elastic=Elastic(min_nodes=2, max_nodes=6)))
    assert found.nodes == Range(2, 6)
    assert found.gpus == Range(16, 48)
    assert found.hours == Range(16 * 24, 48 * 24)


def test_without_a_duration_hours_are_unbounded_and_never_nothing() -> None:
    found = _demand(replace(JOB, max_duration=None))
    assert (found.gpus, found.hours, found.unbounded) == (Range(32, 32), Range(), 1)
    assert found.unpriced == 0


def test_without_a_price_hours_are_counted_and_cost_is_not() -> None:
    found = _demand(replace(JOB, pool=replace(POOL, price_per_gpu_hour=None)))
    assert found.hours
    assert (found.cost, found.unpriced) == (Range(), 1)
    assert _demand(replace(JOB, pool=replace(POOL, price_per_gpu_hour=0.0))).unpriced == 0


def test_without_accelerators_only_nodes_are_asked_for() -> None:
    asked = Demand(nodes=Range(4, 4))
    assert JOB.pool is not None
    found = _demand(replace(JOB, resources=Resources(), max_duration=None))
    assert found == replace(asked, pools={JOB.pool.name: asked})


def test_a_job_is_counted_once_however_many_of_its_pools_have_no_price_or_end() -> None:
    free = replace(POOL, price_per_gpu_hour=None)
    roles = (replace(JOB, pool=replace(free, name="a100")), replace(JOB, pool=free))
    assert _demand(replace(JOB, pool=free, roles=roles)).unpriced == 1
    endless = tuple(replace(role, max_duration=None) for role in roles)
    found = _demand(replace(JOB, max_duration=None, roles=endless))
    assert (found.unbounded, found.unpriced) == (1, 0)


def test_a_part_of_an_accelerator_is_not_counted_as_one() -> None:
    extended = {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 3, "rdma/ib": 8}
    found = _demand(replace(JOB, pool=None, resources=Resources(extended=extended)))
    assert found.gpus == Range(8, 8)


@pytest.mark.parametrize("state", ["suspended", "cancelled"])
def test_what_does_not_run_asks_for_nothing(state: str) -> None:
    assert _demand(replace(JOB, state=state)) == NOTHING  # type: ignore[arg-type]


def test_sums_and_differences_take_each_other_back() -> None:
    jobs = [
        JOB,
        replace(JOB, max_duration=None),
        replace(JOB, pool=None),
        replace(JOB, elastic=Elastic(min_nodes=1, max_nodes=2)),
    ]
    total = demand.total(map(_demand, jobs))
    assert total.nodes == Range(13, 14)
    assert (total.unbounded, total.unpriced) == (1, 1)
    for job in jobs:
        total -= _demand(job)
    assert total == NOTHING


@pytest.mark.parametrize(
    ("asked", "has", "missing"), [(16, 8, 8), (8, 8, 0), (8, 16, 0), (8, None, 0), (1, 0, 1)]
)
def test_shortage(asked: int, has: int | None, missing: int) -> None:
    assert capacity.shortage(asked, has) == missing


@pytest.mark.parametrize(
    ("target", "times"),
    [
        # The deadline of a JobSet is that of the Job that it makes anew; all others have one clock.
        ('pytorchjob: {version: "1.9"}', 1),
        ("trainingjob: {}", 1),
        ('trainjob: {version: "2.1"}', 4),
        ('trainjob: {version: "2.3"}', 1),
        ("jobset: {}", 4),
        ("job: {}", 1),
    ],
)
def test_a_deadline_of_the_run_is_counted_once(tmp_path: Path, target: str, times: int) -> None:
    repository = Repository(git_repository.init(tmp_path / "repository"))
    name = target.partition(":")[0]
    repository.write(
        "dev/environment.yaml",
        "apiVersion: trainwright.io/v1alpha1\nkind: Environment\nnamespace: training\n"
        f'kubernetes: {{version: "1.31"}}\ntargets: {{{target}}}\nbudget: {{gpuHours: 1000}}\n'
        "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8}}\n",
    )
    git_repository.commit(repository.root, "Before")
    git(repository.root, "checkout", "--quiet", "-b", "change")
    job = JOB_TEXT.replace('cpu: "1", memory: 1Gi', 'cpu: "1", memory: 1Gi, gpu: 3')
    repository.write(
        "dev/jobs/llm.yaml", f"{job.replace('NAME', 'llm')}target: {name}\npool: h100\nretries: 3\n"
    )
    done = repository.run("plan", "--against", "main", "-o", "json")
    (found,) = json.loads(done.output)["plan"]["environments"]
    hours = 2 * 3 * 2 * times  # nodes, GPUs of each, hours
    assert found["after"]["gpuHours"] == {"low": hours, "high": hours}
    (budget,) = [fit for fit in found["capacity"] if fit["what"] == "budget"]
    assert budget["need"] == hours


# --- a budget as a rule ----------------------------------------------------------------------------

_PRICED = "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, pricePerGpuHour: 2.5}}\n"
_ON_GPUS = 'resources: {cpu: "1", memory: 1Gi, gpu: 8}\npool: h100\n'  # 2 nodes for 2 hours


def _over_budget(tmp_path: Path, extra: str, job: str = "") -> tuple[int, list[str]]:
    repository = Repository(tmp_path)
    repository.environment("prod", _PRICED + extra)
    for name in ("a", "b"):
        text = repository.job(f"prod/{name}").read_text()
        lines = [line for line in text.splitlines(True) if not line.startswith("resources:")]
        repository.write(f"prod/jobs/{name}.yaml", "".join(lines) + _ON_GPUS + job)
    done = repository.run("check", "--no-cache", "-o", "json")
    results = json.loads(done.stdout)["report"]["results"]
    found = [r for r in results if r["rule"] == "TW034"]
    assert all(r["place"]["file"] == "environments/prod/environment.yaml" for r in found)
    return done.exit_code, [f"{r['severity']} {r['message']}" for r in found]


@pytest.mark.parametrize(
    ("extra", "code", "found"),
    [
        ("budget: {gpuHours: 63}\n", 0, ["note the runs of prod request 64 GPU-hours, the budget is 63: 1 more than that"]),
        ("budget: {gpuHours: 64}\n", 0, []),
        ("budget: {cost: 100}\n", 0, ["note the runs of prod request 160 USD, the budget is 100: 60 more than that"]),
        ("budget: {gpuHours: 10}\nseverities: {TW034: required}\n", 1, ["error the runs of prod request 64 GPU-hours, the budget is 10: 54 more than that"]),
        ('budget: {gpuHours: 10}\nseverities: {TW034: "off"}\n', 0, []),
        ("severities: {TW034: required}\n", 0, []),
    ],
)  # fmt: skip
def test_an_exceeded_budget_is_a_finding(
    tmp_path: Path, extra: str, code: int, found: list[str]
) -> None:
    assert _over_budget(tmp_path, extra) == (code, found)


def test_a_suspended_job_asks_for_nothing(tmp_path: Path) -> None:
    assert _over_budget(tmp_path, "budget: {gpuHours: 10}\n", "state: suspended\n") == (0, [])


def test_one_job_alone_says_nothing_of_the_budget(tmp_path: Path) -> None:
    _over_budget(tmp_path, "budget: {gpuHours: 10}\n")
    assert "TW034" not in Repository(tmp_path).run("check", "prod/a").stdout
