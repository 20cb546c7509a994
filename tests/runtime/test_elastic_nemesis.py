"""Random schedules of kills, pauses, early ends and lost coordinators: what must hold, holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from nemesis import Forks, Violation, run, schedule, shrunk

# Each takes some ten seconds of a processor; benchmarks/schedules.py runs a thousand.
SCHEDULES = settings.default.max_examples // 8


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks()
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_whatever_happens_each_record_counts_once_and_one_worker_runs_the_end(
    seed: int, forks: Forks, tmp_path: Path
) -> None:
    deeds = schedule(seed)
    try:
        run(tmp_path / "all", deeds, forks)
    except Violation as violation:
        pytest.fail(f"{shrunk(tmp_path, deeds, forks)}\n{violation}")
