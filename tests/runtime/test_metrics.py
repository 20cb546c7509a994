"""What a training process notes, what of it outlives a SIGKILL, and what a scrape shows."""

from __future__ import annotations

import json
import logging
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from trainwright_runtime.launch.machine import free_port
from trainwright_runtime.metrics import Metrics, _samples
from trainwright_runtime.observe.journal import (
    Event,
    Lines,
    Record,
    Steps,
    Useful,
    decode,
    encode,
    read,
)


def _scrape(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://localhost:{port}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if "le" not in sample.labels
    }


def _records(path: Path) -> list[Record]:
    return [record for record in read(path) if record is not None]


def _names(path: Path) -> list[str]:
    return ["steps" if isinstance(r, Steps) else r.name for r in _records(path)]


def _in(folder: Path, **more: str) -> dict[str, str]:
    return {"TRAINWRIGHT_METRICS_DIR": str(folder), **more}


def test_without_variables_nothing_is_written_and_every_call_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Metrics.from_environment(environ={}) as metrics:
        metrics.step(step=1, samples=1, seconds=1.0)
        metrics.event("own")
        with metrics.stall():
            pass
        assert list(metrics.steps(["ab"], after=1)) == [(2, "ab")]
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_noted_line_by_line(tmp_path: Path) -> None:
    with Metrics.from_environment(rank=3, environ=_in(tmp_path)) as metrics:
        metrics.step(step=1, samples=64, seconds=0.5, data_wait=0.25, world_size=2)
        metrics.step(step=2, samples=64, seconds=0.5, data_wait=0.25, world_size=3)
        metrics.checkpoint(stall=0.125)
        metrics.event("own", reason="because")
    lines = [json.loads(line) for line in (tmp_path / "rank-3.jsonl").read_text().splitlines()]
    assert {line.pop("v") for line in lines} == {1}
    times = [line.pop("time") for line in lines]
    assert times == sorted(times)
    steps = {
        "event": "steps",
        "steps": 1,
        "samples": 64,
        "seconds": 0.5,
        "data_wait": 0.25,
        "slowest": 0.5,
    }
    assert lines == [
        {"event": "start"},
        {**steps, "step": 1, "world_size": 2},
        {"event": "resize", "before": 2, "after": 3},
        {**steps, "step": 2, "world_size": 3},
        {"event": "checkpoint", "stall": 0.125},
        {"event": "own", "reason": "because"},
        {"event": "end"},
    ]  # fmt: skip


def test_fast_steps_share_a_line_and_none_is_lost(tmp_path: Path) -> None:
    began = time.time()
    with Metrics.from_environment(rank=0, environ=_in(tmp_path)) as metrics:
        for step in range(1, 5001):
            metrics.step(step=step, samples=2, seconds=0.001)
    seconds = time.time() - began
    lines = [r for r in _records(tmp_path / "rank-0.jsonl") if isinstance(r, Steps)]
    assert len(lines) <= seconds + 2
    assert sum(line.steps for line in lines) == 5000
    assert sum(line.samples for line in lines) == 10_000
    assert [line.first for line in lines[1:]] == [line.step + 1 for line in lines[:-1]]


@pytest.mark.parametrize(
    ("error", "reason"), [(SystemExit(143), "SystemExit"), (RuntimeError(), "RuntimeError")]
)
def test_leaving_by_an_exception_is_a_stop(
    tmp_path: Path, error: BaseException, reason: str
) -> None:
    with pytest.raises(type(error)), Metrics.from_environment(rank=0, environ=_in(tmp_path)):
        raise error
    last = _records(tmp_path / "rank-0.jsonl")[-1]
    assert isinstance(last, Event)
    assert (last.name, last.fields) == ("stop", {"reason": reason})


@pytest.mark.parametrize(
    ("batch", "samples"),
    [
        (torch.zeros(8, 3), 8),
        ((torch.zeros(8, 3), torch.zeros(8)), 8),
        ({"x": torch.zeros(8, 3), "y": torch.zeros(8)}, 8),
        (((torch.zeros(8, 3), torch.zeros(8)), torch.zeros(8)), 8),
        (({"x": torch.zeros(8, 3)}, torch.zeros(8)), 8),
        (({"x": torch.zeros(8, 3)},), 8),
        (((torch.zeros(3, 5), torch.zeros(3, 6)), ({"boxes": []}, {"boxes": []})), 2),
        ((["a text", "another"], torch.zeros(2)), 2),
        (([0] * 4, "labels"), 4),
        (torch.tensor(1.0), 0),
        ((torch.tensor(1.0), torch.zeros(8)), 0),
        ([], 0),
        ((), 0),
        ({}, 0),
        (({}, torch.zeros(8)), 0),
        (None, 0),
    ],
)
def test_the_samples_of_a_batch(batch: object, samples: int) -> None:
    assert _samples(batch) == samples


def test_a_loop_is_timed_without_its_stalls_and_without_what_is_left_early(tmp_path: Path) -> None:
    def batches() -> Iterator[tuple[list[int], str]]:
        for size in (4, 3, 2):
            time.sleep(0.05)
            yield [0] * size, "labels"

    with Metrics.from_environment(rank=0, environ=_in(tmp_path)) as metrics:
        for step, _batch in metrics.steps(batches(), after=10, world_size=1):
            if step == 11:
                with metrics.stall():
                    time.sleep(0.3)
            if step == 13:
                break
    records = _records(tmp_path / "rank-0.jsonl")
    steps = [r for r in records if isinstance(r, Steps)]
    (stall,) = (
        float(str(r.fields["stall"]))
        for r in records
        if isinstance(r, Event) and r.name == "checkpoint"
    )
    assert sum(s.samples for s in steps) == 4 + 3
    assert steps[-1].step == 12
    assert stall >= 0.3
    assert sum(s.data_wait for s in steps) >= 2 * 0.05
    # What was stalled is in no step, whatever else this machine was doing meanwhile.
    assert sum(s.seconds for s in steps) + stall <= steps[-1].time - records[0].time


LIFE = """
import os, sys, time
from trainwright_runtime.metrics import Metrics
metrics = Metrics.from_environment()
first, last = map(int, sys.argv[1:])
for step in range(first, last + 1):
    metrics.step(step=step, samples=8, seconds=0.5, world_size=2)
metrics.event("mark")
print("ready", flush=True)
time.sleep(600)
"""


def _life(first: int, last: int, environ: dict[str, str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LIFE, str(first), str(last)],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def _kill(process: subprocess.Popen[str]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)


def test_a_killed_worker_goes_on_with_its_file_and_its_goodput(tmp_path: Path) -> None:
    port = free_port()
    environ = _in(tmp_path, TRAINWRIGHT_METRICS_PORT=str(port), RANK="5", LOCAL_RANK="0")
    path = tmp_path / "rank-5.jsonl"
    _kill(_life(1, 100, environ))
    with path.open("ab") as file:
        file.write(b'{"v": 1, "event": "steps", "ti')  # as if killed in the middle of a write

    again = _life(81, 120, environ)  # after the checkpoint of step 80
    try:
        before = time.time()
        scraped = _scrape(port)
        after = time.time()
    finally:
        _kill(again)

    kept = list(read(path))
    assert kept.count(None) == 1
    assert scraped["trainwright_restarts_total"] == 1
    assert scraped["trainwright_samples_total"] == 40 * 8
    assert scraped["trainwright_last_step"] == 120
    # 80 steps of the first life were kept, and 40 of this one, in all the time since its start.
    start = _records(path)[0].time
    assert 60 / (after - start) <= scraped["trainwright_goodput_ratio"] * 1.000001
    assert scraped["trainwright_goodput_ratio"] <= 60 / (before - start) * 1.000001
    # Nothing that came before an event is lost.
    names = _names(path)
    assert [name for name in names if name != "steps"] == ["start", "mark", "restart", "mark"]
    lines = [r for r in kept if isinstance(r, Steps)]
    assert [s for line in lines for s in range(line.first, line.step + 1)] == [
        *range(1, 101),
        *range(81, 121),
    ]


def test_another_world_after_a_restart_is_a_resize(tmp_path: Path) -> None:
    for step, world_size in ((1, 4), (2, 2)):
        with Metrics.from_environment(rank=0, environ=_in(tmp_path)) as metrics:
            metrics.step(step=step, samples=1, seconds=0.1, world_size=world_size)
    assert _names(tmp_path / "rank-0.jsonl") == [
        "start",
        "steps",
        "end",
        "restart",
        "resize",
        "steps",
        "end",
    ]


def test_the_series_that_a_scrape_shows(tmp_path: Path) -> None:
    port = free_port()
    environ = {
        "TRAINWRIGHT_METRICS_PORT": str(port - 3),
        "LOCAL_RANK": "3",
        "TRAINWRIGHT_REPLICA": "w-1",
    }
    with Metrics.from_environment(environ=environ) as metrics:
        metrics.step(step=1, samples=64, seconds=0.5, data_wait=0.25, world_size=2)
        metrics.step(step=2, samples=32, seconds=1.5, data_wait=0.25, world_size=2)
        metrics.checkpoint(stall=0.125)
        metrics.saved(step=2, seconds=1.5, size=1000)
        metrics.event("restart")
        scraped = _scrape(port)
    goodput = scraped.pop("trainwright_goodput_ratio")
    assert goodput > 0
    assert {name: value for name, value in scraped.items() if not name.endswith("_created")} == {
        "trainwright_worker_info": 1,
        "trainwright_step_seconds_count": 2,
        "trainwright_step_seconds_sum": 2.0,
        "trainwright_samples_total": 96,
        "trainwright_data_wait_seconds_total": 0.5,
        "trainwright_checkpoint_stall_seconds_count": 1,
        "trainwright_checkpoint_stall_seconds_sum": 0.125,
        "trainwright_checkpoint_seconds_count": 1,
        "trainwright_checkpoint_seconds_sum": 1.5,
        "trainwright_checkpoint_bytes": 1000,
        "trainwright_restarts_total": 1,
        "trainwright_last_step": 2,
        "trainwright_world_size": 2,
    }
    with socket.socket() as probe:  # closing frees the port
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("", port))


def test_the_documentation_has_every_series() -> None:
    port = free_port()
    url = f"http://localhost:{port}/metrics"
    with (
        Metrics.from_environment(environ={"TRAINWRIGHT_METRICS_PORT": str(port)}),
        urllib.request.urlopen(url, timeout=30) as answer,
    ):
        families = list(text_string_to_metric_families(answer.read().decode()))
    page = (Path(__file__).parents[2] / "docs/metrics.md").read_text()
    names = {
        f.name + "_total" * (f.type == "counter")
        for f in families
        if not f.name.endswith("_created")
    }
    assert len(names) == 12
    assert not {name for name in names if f"`{name}`" not in page}


@pytest.mark.parametrize("port", ["busy", "words", "70000", "-1"])
def test_a_port_that_cannot_be_had_is_a_warning(
    tmp_path: Path, port: str, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as taken, caplog.at_level(logging.WARNING):
        taken.bind(("", 0))
        taken.listen()
        port = port.replace("busy", str(taken.getsockname()[1]))
        with Metrics.from_environment(
            rank=0, environ=_in(tmp_path, TRAINWRIGHT_METRICS_PORT=port)
        ) as metrics:
            metrics.step(step=1, samples=1, seconds=0.1)
    (record,) = caplog.records
    assert record.getMessage().startswith(
        f"no metrics port: cannot listen on TRAINWRIGHT_METRICS_PORT={port} + LOCAL_RANK=0: "
    )
    assert "\n" not in record.getMessage()
    assert _names(tmp_path / "rank-0.jsonl") == ["start", "steps", "end"]


def test_a_folder_that_cannot_be_made_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    with Metrics.from_environment(rank=0, environ=_in(tmp_path / "file/folder")) as metrics:
        metrics.step(step=1, samples=1, seconds=0.1)
    assert [r.getMessage() for r in caplog.records] == [
        f"no metrics file: cannot write {tmp_path}/file/folder/rank-0.jsonl: Not a directory"
    ]


def test_a_full_disk_is_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    with Metrics([Lines(Path("/dev/full"))]) as metrics:
        for step in range(3):
            metrics.event("own", step=step)
    assert [r.getMessage() for r in caplog.records] == [
        "metrics are lost: cannot write /dev/full: No space left on device"
    ]


def test_a_replica_s_name_cannot_leave_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "metrics"
    with Metrics.from_environment(environ=_in(folder, TRAINWRIGHT_REPLICA="../../etc/a b")):
        pass
    assert [path.name for path in tmp_path.rglob("*.jsonl")] == [".._.._etc_a_b.jsonl"]
    assert [path.parent for path in tmp_path.rglob("*.jsonl")] == [folder]


@pytest.mark.parametrize(
    ("added", "seconds"),
    [
        ([], 0),
        ([(1, 10, 10), (11, 20, 10)], 20),
        ([(1, 10, 10), (8, 12, 5)], 12),  # 8, 9 and 10 were trained again
        ([(1, 10, 10), (11, 20, 20), (6, 8, 3)], 8),  # back over a whole line
        ([(1, 10, 10), (1, 10, 10)], 10),  # from the very beginning
        ([(1, 10, 10), (100, 110, 11)], 21),  # a worker that joined late
    ],
)
def test_steps_that_are_trained_again_count_once(
    added: list[tuple[int, int, float]], seconds: float
) -> None:
    useful = Useful()
    for first, last, spent in added:
        useful.add(first, last, spent)
    assert useful.seconds == pytest.approx(seconds)


NUMBERS = st.integers(min_value=1, max_value=2**53)
SECONDS = st.floats(min_value=0, max_value=1e10).map(lambda value: round(value, 6))
STEPS = st.builds(
    Steps,
    time=SECONDS, step=NUMBERS, steps=NUMBERS, samples=NUMBERS, seconds=SECONDS,
    data_wait=SECONDS, slowest=SECONDS, world_size=NUMBERS,
)  # fmt: skip
EVENTS = st.builds(
    Event,
    time=SECONDS,
    name=st.text().filter(lambda name: name != "steps"),
    fields=st.dictionaries(
        st.text().filter(lambda key: key not in ("v", "time", "event")),
        st.none() | st.booleans() | st.text() | st.integers(),
    ),
)


@given(STEPS | EVENTS)
def test_a_line_gives_its_record_back(record: Record) -> None:
    line = encode(record)
    assert line.count(b"\n") == 1
    assert decode(line) == record


@given(STEPS, st.data())
def test_half_a_line_is_no_record(record: Steps, data: st.DataObject) -> None:
    line = encode(record).strip()
    assert decode(line[: data.draw(st.integers(0, len(line) - 1))]) is None


@pytest.mark.parametrize(
    "line",
    [
        b"[]", b"1", b'"text"', b"\xff", b"[" * 100_000,
        b'{"v": 2, "event": "start", "time": 1}',
        b'{"v": 1, "event": "start", "time": NaN}',
        b'{"v": 1, "event": "start", "time": "1"}',
        b'{"v": 1, "event": "start", "time": 1' + b"0" * 400 + b"}",
        encode(Steps(time=1, step=1, steps=0, samples=1, seconds=1, data_wait=0, slowest=1, world_size=1)),
        encode(Steps(time=1, step=1, steps=1, samples=1, seconds=-1, data_wait=0, slowest=1, world_size=1)),
    ],
)  # fmt: skip
def test_what_is_no_line_of_ours_is_no_record(line: bytes) -> None:
    assert decode(line) is None


def test_events_of_ones_own_may_have_the_names_of_ours(tmp_path: Path) -> None:
    """Metrics never stop a training, whatever the fields of an event hold."""
    environ = _in(tmp_path, TRAINWRIGHT_METRICS_PORT=str(free_port()), RANK="0", LOCAL_RANK="0")
    with Metrics.from_environment(environ=environ) as metrics:
        metrics.event("checkpoint", stall="long")
        metrics.event("saved", seconds="many", bytes=None)
        metrics.event("checkpoint", stall=-1.0)
    names = [record.name for record in read(tmp_path / "rank-0.jsonl") if isinstance(record, Event)]
    assert names == ["start", "checkpoint", "saved", "checkpoint", "end"]
