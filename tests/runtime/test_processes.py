"""Processes of a node: their output is whole, their ends are in order, nothing outlives them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainwright_runtime.failures import exit_codes
from trainwright_runtime.launch import processes
from trainwright_runtime.launch.processes import (
    STOP_SIGNALS,
    Ended,
    Events,
    Process,
    Signalled,
    first_failure,
    signals_to,
    stop,
)

Start = Callable[..., Process]
WAIT = 60.0  # seconds: generous, so that only a hang runs into it

# Copies of the streams of a process, as the entrypoint makes them.
RELAY = """
import os, sys
from trainwright_runtime.launch.processes import Events, Process
Process(
    [sys.executable, "-c", sys.argv[2]], os.environ,
    label={"rank": 0}, log_format=sys.argv[1], events=(events := Events()),
)
events.get()
"""


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture
def start(events: Events) -> Iterator[Start]:
    started: list[Process] = []

    def begin(code: str, rank: int = 0) -> Process:
        process = Process(
            [sys.executable, "-c", code], os.environ,
            label={"rank": rank}, log_format="text", events=events,
        )  # fmt: skip
        started.append(process)
        return process

    yield begin
    stop(started, signal.SIGKILL, 0)


def _relay(code: str, log_format: str = "text") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-c", RELAY, log_format, code],
        capture_output=True,
        timeout=WAIT,
        check=False,
    )


def test_every_line_comes_through_with_its_rank_and_on_its_stream() -> None:
    code = (
        "import sys\n"
        "for i in range(200_000): print(i)\n"
        "for i in range(1000): print('e', i, file=sys.stderr)\n"
    )
    done = _relay(code)
    assert done.stdout == b"".join(b"[rank 0] %d\n" % i for i in range(200_000))
    assert done.stderr == b"".join(b"[rank 0] e %d\n" % i for i in range(1000))


def test_a_label_that_is_no_text_is_escaped() -> None:
    labelled = processes._relabel("text", {"replica": os.fsdecode(b"node-\xff")}, "stdout")
    assert labelled([b"a"]) == b"[replica node-\\udcff] a\n"


def test_last_words_without_a_line_s_end_are_kept() -> None:
    code = "import os; os.write(1, b'almost'); os.write(2, b'done'); os.kill(os.getpid(), 9)"
    done = _relay(code)
    assert (done.stdout, done.stderr) == (b"[rank 0] almost\n", b"[rank 0] done\n")


def test_a_progress_bar_is_one_line_in_its_last_state() -> None:
    done = _relay(r"print('\r 10%\r 50%\r100%'); print('windows\r')")
    assert done.stdout == b"[rank 0] 100%\n[rank 0] windows\n"


def test_a_line_longer_than_any_buffer_arrives_whole_but_in_pieces() -> None:
    done = _relay("print('x' * 1_000_000)")
    assert done.stdout.replace(b"[rank 0] ", b"").replace(b"\n", b"") == b"x" * 1_000_000


def test_json_wraps_lines_and_keeps_the_fields_of_records() -> None:
    code = """
import json, os
print("plain")
print(json.dumps({"message": "own", "level": "warning", "step": 3}))
print('{"not": "a record"}')
print('{"broken', flush=True)
os.write(1, bytes([0xff, 10]))
"""
    lines = [json.loads(line) for line in _relay(code, "json").stdout.splitlines()]
    assert all(line.pop("time").endswith("Z") and line["rank"] == 0 for line in lines)
    failure_pipe = {"level": "info", "rank": 0, "stream": "stdout"}
    assert lines == [
        {**failure_pipe, "message": "plain"},
        {"level": "warning", "rank": 0, "message": "own", "step": 3},
        {**failure_pipe, "message": '{"not": "a record"}'},
        {**failure_pipe, "message": '{"broken'},
        {**failure_pipe, "message": "\ufffd"},
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (r'{"message": "half an emoji \ud83d"}', "half an emoji \ud83d"),
        (r'{"message": "", "\udc80": "\udc80"}', ""),
        ('{"message": ' + "[" * 20_000 + "]" * 20_000 + "}", None),
        ('{"message": ' + "1" * 10_000 + "}", None),
    ],
    ids=["surrogate", "surrogate in a key", "deeply nested", "many digits"],
)
def test_no_line_of_a_rank_keeps_the_next_ones_from_the_log(line: str, message: str | None) -> None:
    """Or its pipe fills up, and the training waits for ever."""
    code = f"print({line!r})\nfor i in range(10_000): print(i)"
    first, *rest = map(json.loads, _relay(code, "json").stdout.splitlines())
    assert first["message"] == (line if message is None else message)
    assert [record["message"] for record in rest] == [str(i) for i in range(10_000)]


def test_ends_are_told_in_their_order(start: Start, events: Events) -> None:
    slow = start("import time; time.sleep(1000)", rank=0)
    quick = start("input()", rank=1)  # stdin is /dev/null
    failure_pipe = events.get(timeout=WAIT)
    assert isinstance(failure_pipe, Ended)
    assert failure_pipe.process is quick
    assert quick.how_it_ended() == "exit code 1: EOFError: EOF when reading a line"
    stop([slow], signal.SIGTERM, WAIT)
    assert events.get(timeout=WAIT) == Ended(slow)
    assert slow.exit_code == 143


@pytest.mark.parametrize(
    ("code", "exit_code", "how"),
    [
        ("raise SystemExit(7)", 7, "exit code 7"),
        ("import os; os.kill(os.getpid(), 9)", 137, "killed by SIGKILL"),
        ("import os; os.abort()", 134, "killed by SIGABRT"),
        (
            "import sys; sys.stderr.write('ValueError: first\\nmany\\n'); sys.exit(3)",
            3,
            "exit code 3: ValueError: first",
        ),
        (
            "raise ExceptionGroup('g', [KeyError('x')])",
            1,
            "exit code 1: KeyError: 'x'",
        ),
        (
            "import sys; sys.stderr.write('no exception here\\n\\n'); sys.exit(3)",
            3,
            "exit code 3: no exception here",
        ),
        (
            "import os, sys; sys.stderr.write('loss nan\\n'); os.kill(os.getpid(), 11)",
            139,
            "killed by SIGSEGV; last line: loss nan",
        ),
    ],
)
def test_how_a_process_ended(
    start: Start, events: Events, code: str, exit_code: int, how: str
) -> None:
    process = start(code)
    events.get(timeout=WAIT)
    assert (process.exit_code, process.how_it_ended()) == (exit_code, how)


def test_the_cause_is_the_rank_that_did_not_merely_lose_another(
    start: Start, events: Events
) -> None:
    follower = start(f"raise SystemExit({exit_codes.PEER_LOST})", rank=0)
    events.get(timeout=WAIT)
    cause = start("raise SystemExit(5)", rank=1)
    events.get(timeout=WAIT)
    later = start("raise SystemExit(6)", rank=2)
    events.get(timeout=WAIT)
    assert first_failure([follower, cause, later]) is cause
    assert first_failure([follower]) is follower
    assert first_failure([start("pass")]) is None


def test_stop_waits_for_those_who_are_not_done_and_kills_the_deaf(
    start: Start, events: Events, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    ready.mkdir()
    saving = """
import pathlib, signal, sys, time
def save(*_):
    time.sleep(0.5)
    sys.exit(143)
signal.signal(signal.SIGTERM, {handler})
pathlib.Path({ready!r}).touch()
while True: time.sleep(0.1)
"""
    polite = start(saving.format(handler="save", ready=str(ready / "a")), rank=0)
    deaf = start(saving.format(handler="signal.SIG_IGN", ready=str(ready / "b")), rank=1)
    while len(list(ready.iterdir())) < 2:
        assert events.empty()
    stop([polite, deaf], signal.SIGTERM, 5)
    assert (polite.exit_code, deaf.exit_code) == (143, 137)


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_a_signal_that_does_not_wake_the_main_thread_is_heard(number: int, events: Events) -> None:
    """To another thread, which stands for the moment before the main one begins to wait."""

    def receive() -> None:
        time.sleep(0.2)  # the main thread waits by now; if it does not, it hears in any case
        signal.pthread_kill(threading.get_ident(), number)

    with signals_to(events):
        threading.Thread(target=receive).start()
        assert events.get(timeout=WAIT) == Signalled(number)


def test_children_do_not_outlive_their_process_nor_hold_its_output(
    start: Start, events: Events, tmp_path: Path
) -> None:
    note = tmp_path / "pid"
    code = f"""
import pathlib, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
pathlib.Path({str(note)!r}).write_text(str(child.pid))
"""
    start(code)
    events.get(timeout=WAIT)
    state = Path(f"/proc/{note.read_text()}/stat")

    def ended() -> bool:
        """Gone, or a zombie that process 1 has not reaped."""
        try:
            return state.read_text().rpartition(")")[2].split()[0] == "Z"
        except (FileNotFoundError, ProcessLookupError):
            return True

    deadline = time.monotonic() + WAIT  # the kernel ends what was killed when it next runs it
    while not ended():
        assert time.monotonic() < deadline
        time.sleep(0.01)
