"""Random schedules of kills, pauses, partitions, full disks and the like: what must hold, holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from nemesis import ISOLATED, KINDS, Deed, Forks, Setup, Violation, run, schedule, shrunk

# Each takes a second of a processor; more of them by night. benchmarks/schedules.py runs a thousand.
RANDOM = max(50, settings.default.max_examples // 8)


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks()
    yield made
    made.close()


def _holds(deeds: list[Deed], setup: Setup, forks: Forks, folder: Path) -> None:
    if not forks.isolated and {deed.kind for deed in deeds} & {*ISOLATED}:
        pytest.skip("no namespaces for networks and mounts here")
    try:
        run(folder / "all", deeds, forks, setup)
    except Violation as violation:
        pytest.fail(f"{shrunk(folder, deeds, forks, setup)}\n{violation}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_record_counts_once_and_one_worker_runs_the_end(
    kind: str, forks: Forks, tmp_path: Path
) -> None:
    """Node 0 is where the coordinator is, or one of three candidates, in turns."""
    candidates = 3 if KINDS.index(kind) % 2 else 1
    _holds([Deed(0.3, kind, 0)], Setup(candidates=candidates), forks, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(RANDOM))
def test_so_it_is_whatever_happens(seed: int, forks: Forks, tmp_path: Path) -> None:
    kinds = KINDS if forks.isolated else [kind for kind in KINDS if kind not in ISOLATED]
    _holds(schedule(seed, kinds), Setup.of(seed), forks, tmp_path)
