"""Where the time of a training went: parts that add up to the wall time, and the field's ratios."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from containers import Entrypoint

from trainwright_runtime.observe.goodput import PARTS, Split, split
from trainwright_runtime.observe.journal import Event, Record, Steps
from trainwright_runtime.report import load, main

T = 1_700_000_000.0


def _steps(end: float, last: int, *, steps: int, seconds: float, wait: float = 0.0) -> Steps:
    return Steps(
        time=T + end, step=last, steps=steps, samples=steps, seconds=seconds, data_wait=wait,
        slowest=seconds, world_size=1,
    )  # fmt: skip


def _event(at: float, name: str, launched: float | None = None, **fields: float) -> Event:
    known = {} if launched is None else {"launched": T + launched}
    return Event(time=T + at, name=name, fields={**known, **fields})


FIRST = (
    _event(5, "start", launched=2),
    _steps(16, 10, steps=10, seconds=8, wait=1),  # the first batch is asked for at 7
    _event(18, "checkpoint", stall=1.5),
    _steps(30, 20, steps=10, seconds=10, wait=2),
)
CASES: dict[str, tuple[Sequence[Sequence[Record]], float | None, dict[str, float]]] = {
    "one life": (
        [FIRST],
        None,
        {"start": 5, "checkpoint": 1.5, "stall": 3, "training": 18, "other": 0.5},
    ),
    "from the queue on": (
        [FIRST],
        T - 98,
        {"scheduling": 100, "start": 5, "checkpoint": 1.5, "stall": 3, "training": 18, "other": 0.5},
    ),
    "another container": (
        [FIRST, (_event(50, "restart", launched=45), _steps(70, 25, steps=15, seconds=15))],
        None,
        # 5 of the steps are trained again; of the first life those count that are kept: 10.
        {"scheduling": 15, "start": 5, "recovery": 10 + 10, "checkpoint": 1.5, "stall": 3,
         "training": 23, "other": 0.5},
    ),
    "the same container": (
        [FIRST, (_event(34, "restart", launched=2), _steps(45, 30, steps=10, seconds=10))],
        None,
        {"start": 5, "recovery": 5, "checkpoint": 1.5, "stall": 3, "training": 28, "other": 0.5},
    ),
    "a worker was lost": (
        [(*FIRST, _event(33, "recovered", recovery=2), _steps(43, 30, steps=10, seconds=10))],
        None,
        {"start": 5, "recovery": 2, "checkpoint": 1.5, "stall": 3, "training": 28, "other": 1.5},
    ),
    "a life without a step": (
        [(_event(5, "start", launched=0), _event(9, "stop"))], None, {"start": 9},
    ),
    "files of earlier versions": (
        [(_event(0, "start"), _steps(10, 10, steps=10, seconds=8))], None,
        {"start": 2, "training": 8},
    ),
    "one word": ([(_event(0, "start"),)], None, {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_second_is_in_one_part(case: str) -> None:
    lives, submitted, parts = CASES[case]
    found = split(lives, submitted)
    assert {name: getattr(found, name) for name in PARTS} == pytest.approx(
        {name: parts.get(name, 0.0) for name in PARTS}
    )
    launched = lives[0][0].fields.get("launched", lives[0][0].time)  # type: ignore[union-attr]
    begin = launched if submitted is None else submitted
    assert found.wall == pytest.approx(lives[-1][-1].time - float(begin))  # type: ignore[arg-type]


def test_the_ratios() -> None:
    parts = Split(scheduling=20, start=10, stall=10, training=60)
    assert (parts.ettr, parts.scheduling_goodput, parts.runtime_goodput) == (0.6, 0.8, 0.75)
    assert Split().ettr == 0


def test_data_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from trainwright_runtime.observe.journal import encode

    path = tmp_path / "rank-0.jsonl"
    failure = Event(time=T + 31, name="failure", fields={"cause": "disk-full", "error": "OSError"})
    path.write_bytes(b"".join(map(encode, (*FIRST, failure))))
    argv = [str(path), "--json", "--submitted=2023-11-14T22:11:42+00:00", "--ideal-step=0.45"]
    assert main(argv) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["split"]["scheduling"] == pytest.approx(100)
    assert found["program_goodput"] == pytest.approx(0.5)
    product = found["scheduling_goodput"] * found["runtime_goodput"] * 0.5
    assert found["mpg"] == pytest.approx(product)
    assert [(f["worker"], f["cause"]) for f in found["failures"]] == [("rank-0", "disk-full")]
    assert not path.with_suffix(".png").exists()


def test_a_time_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "x.jsonl"), "--submitted=yesterday"])
    assert "is not a time such as" in capsys.readouterr().err


def test_a_real_training_that_fails_and_is_run_again(entrypoint: Entrypoint) -> None:
    script = entrypoint.script(
        "train.py",
        """
import os, sys, time
from trainwright_runtime.metrics import Metrics
with Metrics.from_environment() as metrics:
    for step, batch in metrics.steps([[0]] * 5):
        time.sleep(0.02)
    if not os.path.exists("again"):
        open("again", "w").close()
        raise ValueError("boom")
""",
    )
    env = {"TRAINWRIGHT_METRICS_DIR": str(entrypoint.folder)}
    assert [entrypoint.run("--", script, env=env).returncode for _ in range(2)] == [1, 0]
    worker = load(entrypoint.folder / "rank-0.jsonl")
    parts = split(worker.lives)
    assert min(parts.scheduling, parts.start, parts.recovery, parts.training) > 0
    first = worker.lives[0][0]
    assert isinstance(first, Event)
    launched = first.fields["launched"]
    assert isinstance(launched, float)
    assert parts.wall == pytest.approx(worker.end - launched, abs=1e-3)
    assert [e.name for e in worker.events if e.name in ("stop", "failure", "killed")] == [
        "stop", "failure",
    ]  # fmt: skip
