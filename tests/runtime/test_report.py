"""What the command `report` makes of metrics files: text, a picture, or one line of error."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from trainwright_runtime.observe.journal import Event, Record, Steps, encode
from trainwright_runtime.report import Job, load, main, throughput

SCHEMA = Path(__file__).parents[2] / "schemas/run-goodput.schema.json"
FAILURE = {"cause": "out-of-memory", "error": "<b>OOM", "exit_code": 137, "node": "pod-0"}
START = 1_700_000_000.0


def _steps(at: float, step: int, *, steps: int = 10, world_size: int = 2) -> Steps:
    return Steps(
        time=START + at, step=step, steps=steps, samples=64 * steps, seconds=0.09 * steps,
        data_wait=0.01 * steps, slowest=0.12, world_size=world_size,
    )  # fmt: skip


def _event(at: float, name: str, **fields: float) -> Event:
    return Event(time=START + at, name=name, fields=fields)


# Ten seconds, a kill, 5 seconds of nothing, and 6 seconds of which 2 repeat what was lost.
KILLED = (
    _event(0, "start"),
    *(_steps(i + 1, 10 * (i + 1)) for i in range(10)),
    _event(10, "checkpoint", stall=0.25),
    _event(15, "restart"),
    _event(15, "resize", before=2, after=1),
    *(_steps(16 + i, 90 + 10 * i, world_size=1) for i in range(6)),
    _event(21, "end"),
)


def _write(path: Path, records: Sequence[Record], torn: bytes = b"") -> Path:
    path.write_bytes(b"".join(map(encode, records)) + torn)
    return path


def _size(png: Path) -> tuple[int, int]:
    head = png.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", head[16:24])
    return width, height


def test_text_and_picture_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = _write(tmp_path / "rank-0.jsonl", KILLED, b'{"v": 1, "eve')
    assert main([str(run)]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert (
        out
        == f"""\
workers        rank-0
duration       21 s
samples        10,240 (488/s)
step time      90 ms in the mean, 120 ms at worst
data wait      10 ms a step in the mean, 10.0% of its time
world size     1 to 2, 1.62 in the mean
restarts       1, after 1 kill
trained again  1.8 s of steps that restarts took back
goodput        0.600
  scheduling   5 s (23.5%)
  recovery     1.8 s (8.5%)
  checkpoint   250 ms (1.2%)
  stall        1.6 s (7.5%)
  training     12.6 s (59.3%)
ETTR           0.593
checkpoints    1, stalled 250 ms, 250 ms at worst
skipped        1 unreadable line
written        {tmp_path}/rank-0.png
"""
    )
    assert _size(tmp_path / "rank-0.png") == (1200, 750)


def test_workers_that_were_slow_for_long_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = [
        Event(time=START + at, name="slow", fields={"worker": who})
        for at, who in enumerate(("w2", "w1", "w2"))
    ]
    run = _write(tmp_path / "w0.jsonl", [_event(0, "start"), *slow, _steps(4, 10)])
    assert main([str(run)]) == 0
    out, _ = capsys.readouterr()
    assert "slow           w1, named 1 time\nslow           w2, named 2 times\n" in out


def test_the_throughputs_of_workers_add_up(tmp_path: Path) -> None:
    files = [_write(tmp_path / f"rank-{i}.jsonl", KILLED) for i in range(3)]
    job = Job(workers=tuple(map(load, files)))
    rates, edges = throughput(job)
    assert (rates * (edges[1:] - edges[:-1])).sum() == pytest.approx(3 * 10_240)
    at = dict(zip(edges[:-1].round().astype(int).tolist(), rates.tolist(), strict=True))
    assert at[5] == pytest.approx(3 * 640)
    assert at[12] == 0


def test_the_world_is_empty_while_no_rank_trains(tmp_path: Path) -> None:
    files = [_write(tmp_path / f"rank-{i}.jsonl", KILLED) for i in range(2)]
    job = Job(workers=tuple(map(load, files)))
    assert [size for _, size in job.world_sizes] == [0, 2, 0, 1]
    assert [round(at, 3) for at, _ in job.world_sizes] == [0, 0, 10, 15]


def test_the_world_is_empty_after_the_last_step(tmp_path: Path) -> None:
    late = [_event(15, "restart"), _event(40, "stop")]  # without a step
    job = Job(workers=(load(_write(tmp_path / "a.jsonl", [*KILLED[:12], *late])),))
    assert [size for _, size in job.world_sizes] == [0, 2, 0]
    assert round(job.world_sizes[-1][0], 3) == 10


def test_a_worker_that_came_late_shares_the_axis_of_time(tmp_path: Path) -> None:
    early = _write(
        tmp_path / "a.jsonl", [_event(0, "start"), _steps(1, 10), _steps(9, 20), _event(9, "end")]
    )
    late = _write(
        tmp_path / "b.jsonl", [_event(100, "start"), _steps(101, 30), _event(101, "stop")]
    )
    job = Job(workers=(load(late), load(early)))
    assert job.duration == 101
    assert job.events == {"stop": [101], "start": [0, 100], "end": [9]}
    assert job.goodput == pytest.approx((1.8 + 0.9) / (9 + 1))


def test_a_clean_stop_is_no_kill(tmp_path: Path) -> None:
    lives = [
        _event(0, "start"),
        _steps(1, 10),
        _event(1, "stop"),
        _event(5, "restart"),
        _steps(6, 20),
    ]
    assert "killed" not in Job(workers=(load(_write(tmp_path / "a.jsonl", lives)),)).events


@pytest.mark.parametrize(
    "records",
    [
        [_event(0, "start")],
        [_steps(0, 1, steps=1)],
        [_event(0, "start"), _event(1, "nobody knows this one")],
        [_event(0, "start"), _steps(90_000, 10)],
        [_event(5, "start"), _steps(3, 10)],  # a clock that went back
    ],
    ids=["only-started", "one-line", "own-event", "a-day", "clock-went-back"],
)
def test_sparse_files_are_drawn_too(
    tmp_path: Path, records: list[Record], capsys: pytest.CaptureFixture[str]
) -> None:
    run = _write(tmp_path / "run.jsonl", records)
    assert main([str(run), "-o", str(tmp_path / "out.png")]) == 0
    assert _size(tmp_path / "out.png") == (1200, 750)
    assert capsys.readouterr().err == ""


def test_files_that_hold_nothing_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "other.jsonl").write_text("a\nb\n")
    run = _write(tmp_path / "run.jsonl", KILLED)
    cases = {
        f"{tmp_path}/none.jsonl": f"error: {tmp_path}/none.jsonl: cannot be read: No such file or directory\n",
        f"{tmp_path}/empty.jsonl": f"error: {tmp_path}/empty.jsonl: it is empty; expected a file of TRAINWRIGHT_METRICS_DIR\n",
        f"{tmp_path}/other.jsonl": f"error: {tmp_path}/other.jsonl: none of its 2 lines can be read; expected a file of TRAINWRIGHT_METRICS_DIR\n",
    }  # fmt: skip
    for path, message in cases.items():
        assert main([str(run), path]) == 2
        assert capsys.readouterr().err == message
    empty, other = (cases[f"{tmp_path}/{name}.jsonl"] for name in ("empty", "other"))
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == empty + other
    (tmp_path / "folder").mkdir()
    assert main([f"{tmp_path}/folder"]) == 2
    assert (
        capsys.readouterr().err
        == f"error: {tmp_path}/folder: there is no .jsonl file; expected a folder of TRAINWRIGHT_METRICS_DIR\n"
    )
    assert main([str(run), "-o", f"{tmp_path}/no/where.png"]) == 2
    assert (
        capsys.readouterr().err
        == f"error: {tmp_path}/no/where.png: cannot be written: No such file or directory\n"
    )


def test_without_matplotlib_there_is_text_and_one_line(tmp_path: Path) -> None:
    run = _write(tmp_path / "run.jsonl", KILLED)
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from trainwright_runtime.report import main; sys.exit(main(sys.argv[1:]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, run], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stdout.startswith("workers        run\n")
    assert done.stderr == (
        "error: no picture: matplotlib is not installed; pip install 'trainwright-runtime[report]'\n"
    )


def test_what_is_lost_by_rounding_alone_is_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A restart that went on right after the last step took no step back."""
    lines: list[Record] = [_event(0, "start")]
    for at in range(1, 60):
        step = _steps(at, 10 * at)
        lines.append(replace(step, seconds=0.1 * at / 3))
        if at == 30:
            lines.append(_event(30.5, "restart"))
    run = _write(tmp_path / "run.jsonl", lines)
    assert main([str(run)]) == 0
    assert "trained again  0 ms of steps that restarts took back\n" in capsys.readouterr().out
    assert main([str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["split"]["recovery"] >= 0


def test_a_folder_is_all_workers_of_the_run_that_it_is_named_after(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "llm-1a2b3c4d"
    folder.mkdir()
    for number in (0, 2, 10):
        _write(folder / f"rank-{number}.jsonl", KILLED)
    assert main([str(folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["run"], found["workers"]) == ("llm-1a2b3c4d", ["rank-0", "rank-2", "rank-10"])
    assert main([str(folder), "--json", "--run=prod/llm-1a2b3c4d"]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == "prod/llm-1a2b3c4d"
    assert main([str(folder)]) == 0
    assert _size(folder / "rank-0.png") == (1200, 750)


def test_data_keeps_to_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    validator = Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    records = [
        *KILLED[:-1],
        Event(time=START + 21, name="failure", fields=FAILURE),
        Event(time=START + 22, name="failure", fields={"exit_code": "x", "cause": None}),
    ]
    for name, lines in {"a": records, "b": [_event(0, "start")]}.items():
        assert main([str(_write(tmp_path / f"{name}.jsonl", lines)), "--json"]) == 0
        found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
        assert not list(validator.iter_errors(found))
        if name == "a":
            outcomes = [
                (one["number"], one["first_step"], one["outcome"]) for one in found["attempts"]
            ]
            assert outcomes == [(1, 1, "killed"), (2, 81, "killed")]
            assert found["checkpoints"] == {"count": 1, "stalled": 0.25, "worst": 0.25}


def test_fields_of_events_may_be_anything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are the user's own, and lines of a program that is not ours."""
    lines = [
        encode(_event(0, "start")),
        encode(_steps(1, 10)),
        b'{"v": 1, "event": "checkpoint", "time": 1700000001, "stall": "long"}\n',
        b'{"v": 1, "event": "checkpoint", "time": 1700000001, "stall": NaN}\n',
        b'{"v": 1, "event": "checkpoint", "time": 1700000001, "stall": -3}\n',
        b'{"v": 1, "event": "saved", "time": 1700000001, "seconds": [], "bytes": {}}\n',
        b'{"v": 1, "event": "$x^{$\\u202e\\u001b[31m\\ud800", "time": 1700000001, "loss": NaN}\n',
        b'{"v": 1, "event": "failure", "time": 1700000002, "cause": NaN, "error": {"a": 1}}\n',
        b'{"v": 1, "event": "restart", "time": 1700000003, "launched": "then"}\n',
        b'{"v": 1, "event": "end", "time": 1e300}\n',
    ]
    (tmp_path / "x.jsonl").write_bytes(b"".join(lines))
    run = str(tmp_path / "x.jsonl")
    assert main([run, "--json", "-o", f"{tmp_path}/x.png", "-o", f"{tmp_path}/x.html"]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert not list(
        Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).iter_errors(found)
    )
    assert found["checkpoints"] == {"count": 3, "stalled": 0, "worst": 0}
    page = (tmp_path / "x.html").read_text(encoding="utf-8")
    assert r"$x^{$\u202e\x1b[31m\ud800" in page
    assert main([run]) == 0
    assert "1 unreadable line\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("-o=run.pdf", "'run.pdf' is not a name that ends in .png or .html"),
        ("--ideal-step=nan", "'nan' is not a number of seconds such as 0.45"),
        ("--ideal-step=0", "'0' is not a number of seconds such as 0.45"),
        ("--ideal-step=fast", "'fast' is not a number of seconds such as 0.45"),
    ],
)
def test_options_that_are_not_valid(
    option: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([str(tmp_path / "x.jsonl"), *option.split("=")])
    assert message in capsys.readouterr().err


def test_it_is_a_command_of_the_package(tmp_path: Path) -> None:
    run = _write(tmp_path / "run.jsonl", KILLED)
    done = subprocess.run(
        [sys.executable, "-m", "trainwright_runtime", "report", run],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run.png").exists()
