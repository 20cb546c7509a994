"""The scheduling simulator: what must hold for any jobs, and the published runs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from fractions import Fraction
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parents[1]


def _makespan() -> ModuleType:
    spec = spec_from_file_location("makespan", ROOT / "benchmarks/makespan.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    sys.modules["makespan"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


M = _makespan()
Policies = pytest.mark.parametrize("policy", M.POLICIES.values(), ids=M.POLICIES)


def job(name: str = "a", **changes: Any) -> Any:
    return M.Job(**{"name": name, "arrival": 0, "minimum": 1, "maximum": 4, "work": 400} | changes)


def sizes(policy: Any, capacity: int, *claims: tuple[Any, int]) -> list[int]:
    made = [M.Claim(job=job, remaining=job.work, units=units) for job, units in claims]
    found: list[int] = policy(capacity, made)
    return found


seconds = st.integers(0, 1000)


@st.composite
def clusters(draw: st.DrawFn, *, overheads: bool, jobs: int) -> tuple[int, list[Any]]:
    """A capacity, and jobs of which each fits in it alone."""
    capacity = draw(st.integers(1, 40))
    made = []
    for index in range(draw(st.integers(1, jobs)) if overheads else jobs):
        maximum = draw(st.integers(1, capacity))
        made.append(
            M.Job(
                name=f"job-{index}",
                arrival=draw(seconds),
                minimum=draw(st.integers(1, maximum)),
                maximum=maximum,
                work=draw(seconds) * 10 + 1,
                startup=draw(seconds) // 10 if overheads else 0,
                resize=draw(seconds) // 10 if overheads else 0,
                priority=draw(st.integers(0, 2)),
                serial=draw(st.sampled_from([Fraction(0), Fraction(1, 5), Fraction(1)])),
            )
        )
    return capacity, made


@Policies
@given(clusters(overheads=True, jobs=5))
def test_work_is_conserved_and_no_unit_is_used_twice(
    policy: Any, cluster: tuple[int, list[Any]]
) -> None:
    capacity, jobs = cluster
    timeline = M.simulate(capacity, jobs, policy)
    for one in jobs:
        spans = timeline.held(one.name)
        done = sum((s.end - s.start) * one.speed(s.units) for s in spans if s.training)
        assert done == one.work
        assert spans[0].start >= one.arrival
        assert all(one.minimum <= s.units <= one.maximum for s in spans)
    for moment in {s.start for s in timeline.spans}:
        assert sum(s.units for s in timeline.spans if s.start <= moment < s.end) <= capacity
    assert 0 < timeline.use <= 1
    assert timeline.makespan == max(s.end for s in timeline.spans)


@Policies
@given(clusters(overheads=True, jobs=1))
def test_a_job_alone_is_the_same_under_every_policy(
    policy: Any, cluster: tuple[int, list[Any]]
) -> None:
    capacity, [one] = cluster
    ended = one.arrival + one.startup + one.work / one.speed(one.maximum)
    assert M.simulate(capacity, [one], policy).makespan == ended


@pytest.mark.parametrize("policy", [M.elasticdl, M.lattice])
@given(clusters(overheads=False, jobs=2))
def test_two_elastic_jobs_never_end_later_than_gangs_if_changing_is_free(
    policy: Any, cluster: tuple[int, list[Any]]
) -> None:
    capacity, jobs = cluster
    together = M.simulate(capacity, jobs, policy).makespan
    assert together <= M.simulate(capacity, jobs, M.gang).makespan


@given(clusters(overheads=True, jobs=5))
def test_elasticdl_never_takes_units_back(cluster: tuple[int, list[Any]]) -> None:
    capacity, jobs = cluster
    timeline = M.simulate(capacity, jobs, M.elasticdl)
    for one in jobs:
        held = [span.units for span in timeline.held(one.name)]
        assert held == sorted(held)


def test_a_gang_that_waits_blocks_those_behind_it() -> None:
    big, small = job("big", maximum=4), job("small", maximum=1)
    assert sizes(M.gang, 6, (job(), 4), (big, 0), (small, 0)) == [4, 0, 0]
    assert sizes(M.gang, 9, (job(), 4), (big, 0), (small, 0)) == [4, 4, 1]


def test_elasticdl_starts_with_what_is_free_and_grows_the_oldest_first() -> None:
    assert sizes(M.elasticdl, 6, (job(), 4), (job("b"), 0)) == [4, 2]
    assert sizes(M.elasticdl, 6, (job("b"), 2), (job("c"), 1)) == [4, 2]
    assert sizes(M.elasticdl, 6, (job(), 4), (job("b", minimum=3), 0)) == [4, 0]


def test_lattice_decides_as_its_own_unit_test_says() -> None:
    # autoscaler_test.go: five units, two jobs of 2 to 4, the second squeezed in.
    assert sizes(M.lattice, 5, (job(minimum=2), 4), (job("b", minimum=2), 0)) == [3, 2]


@pytest.mark.parametrize(
    ("why", "jobs", "expected"),
    [
        ("the first waiting job blocks a smaller one that would fit",
         [job(minimum=4), job("b", minimum=4), job("c", maximum=1)], [4, 0, 0]),
        ("a full cluster is not squeezed", [job(maximum=6), job("b")], [6, 0]),
        ("a higher priority takes its maximum and the rest is paused",
         [job(minimum=3), job("b", priority=1)], [0, 4]),
        ("nothing is squeezed out of a higher priority",
         [job(priority=1), job("b", minimum=3)], [4, 0]),
        ("the last running job gives first",
         [job(maximum=2), job("b", maximum=3), job("c", minimum=2)], [2, 2, 2]),
    ],
)  # fmt: skip
def test_lattice_keeps_strict_order(why: str, jobs: list[Any], expected: list[int]) -> None:
    assert sizes(M.lattice, 6, *((one, 0) for one in jobs)) == expected, why


def test_a_paused_job_keeps_its_work_and_starts_again() -> None:
    low = job(startup=10, minimum=2, work=400)
    high = job("high", arrival=50, priority=1, maximum=6, work=60)
    timeline = M.simulate(6, [low, high], M.lattice)
    # 40 s of training before the pause of 10 s, then 10 s of start-up and the other 60 s.
    assert timeline.makespan == 10 + 40 + 10 + 10 + 60
    assert timeline.held("high")[-1].end == 60


def test_a_change_of_size_costs_its_time_once() -> None:
    first, second = job(work=400), job("b", resize=7, work=400)
    # Two of six units until 100 s, then 7 s nothing, then four.
    assert M.simulate(6, [first, second], M.elasticdl).makespan == 100 + 7 + 50


def test_growing_while_starting_does_not_start_sooner() -> None:
    first, second = job(work=40), job("b", startup=50, resize=1)
    assert M.simulate(6, [first, second], M.elasticdl).makespan == 50 + 100


def test_full_is_counted_to_the_last_time() -> None:
    # An arrival that gets nothing divides the time that the first job fills the cluster.
    first, second = job(maximum=6, work=600), job("b", arrival=30)
    timeline = M.simulate(6, [first, second], M.elasticdl)
    assert timeline.full_until == 100
    assert timeline.use == Fraction(600 + 400, 6 * 200)


def test_more_units_help_less_with_a_serial_part() -> None:
    assert job(serial=Fraction(1, 5)).speed(4) == Fraction(5, 2)
    assert job().speed(4) == 4


def test_jobs_that_can_never_run_are_named() -> None:
    with pytest.raises(ValueError, match=r"^b: would wait for ever for 3 units; ask for fewer$"):
        M.simulate(3, [job(maximum=3), job("b", maximum=4)], M.gang)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"minimum": 0}, "a: minimum 0, maximum 4: expected 1 <= minimum <= maximum"),
        ({"minimum": 5}, "a: minimum 5, maximum 4: expected 1 <= minimum <= maximum"),
        ({"work": 0}, "a: work has to be above 0"),
        ({"startup": -1}, "a: work has to be above 0, and no time or share below 0"),
    ],
)
def test_impossible_jobs_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        job(**changes)


@pytest.mark.parametrize("row", M.PUBLISHED, ids=lambda row: row.name)
def test_gang_takes_exactly_the_published_time(row: Any) -> None:
    timeline = M.simulate(row.capacity, M.jobs_of(row), M.gang)
    assert timeline.makespan == row.gang
    assert timeline.peak == row.wanted  # 4 of 6 GPUs: the published 66.6 %
    assert timeline.full_until is None
    # Units count while they train, not while a gang is launched.
    work = sum(one.work for one in M.jobs_of(row))
    assert timeline.use == Fraction(work) / (row.capacity * row.gang)
    # The second job waits for all of the first.
    assert timeline.held("second")[0].start == timeline.held("first")[-1].end


# What one simulation says, exactly, and how far a measurement of it may lie.
ELASTIC = [
    # The recordings beside the page: its elastic run held GPUs for 3765 s and its gang run, for the
    # same work, for 3607 s, 4.4 % less; its two gangs of equal jobs differ by 3 %.
    (M.GPUS, Fraction(3091, 4), 0.05),
    # The gangs of the recording train for 395 s and 400 s, and their last tenth idles most CPUs.
    (M.CPUS_IN_USE, Fraction(7390, 13), 0.05),
    # 300, 650, 1100 and 1300 s are rounded to 50 s: 25 s more or less in the published time and 29 s
    # in the predicted one are 5 %. The rest is the model's own error, which the docs state.
    (M.MANY_CPUS, Fraction(1010), 0.10),
]


@pytest.mark.parametrize(
    ("row", "expected", "tolerance"), ELASTIC, ids=lambda v: getattr(v, "name", "")
)
def test_the_elastic_time_is_predicted(row: Any, expected: Fraction, tolerance: float) -> None:
    assert M.predicted(row).makespan == expected
    assert abs(M.difference(row)) <= tolerance


def test_the_rented_capacity_does_not_explain_the_cpu_run() -> None:
    # A miss that is kept: with all 24 CPUs the second job would have had 11, and it had 8.
    assert M.predicted(M.CPUS).makespan == Fraction(6310, 13)
    assert -0.17 < M.difference(M.CPUS) < -0.16


@pytest.mark.parametrize("row", M.PUBLISHED, ids=lambda row: row.name)
def test_the_second_elastic_job_starts_at_once_and_fills_the_cluster(row: Any) -> None:
    timeline = M.predicted(row)
    assert timeline.held("second")[0].start == row.second
    assert timeline.full_until == timeline.held("first")[-1].end
    assert timeline.peak == row.capacity
    assert timeline.makespan < row.gang


def test_the_gpus_are_full_until_the_first_job_ends() -> None:
    # Published: 474 s, measured where the gang of the same job took 465 s.
    assert float(M.predicted(M.GPUS).full_until) == pytest.approx(474, rel=0.04)


def test_a_minimum_above_what_is_left_makes_an_elastic_job_wait_like_a_gang() -> None:
    found = {name: timeline.makespan for name, timeline in M.variants(M.GPUS).items()}
    assert found["elastic, minimum 2"] == found["elastic"]
    assert found["elastic, minimum 3"] == found["gang"]
    assert found["Lattice, minimum 3"] < found["Lattice"]


def _printed(capsys: pytest.CaptureFixture[str], main: Callable[[], None]) -> str:
    main()
    return capsys.readouterr().out


def test_the_documentation_shows_what_the_command_prints(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = (ROOT / "docs/elastic-scheduling.md").read_text()
    shown = page.split("```text\n")[1].split("```")[0]
    printed = _printed(capsys, M.main)
    assert shown.strip() in printed
    assert printed == _printed(capsys, M.main)
