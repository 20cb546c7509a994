"""What a coordinator has to do for each of thousands of workers does not grow with their number."""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainwright_runtime.coordination import registry as registries
from trainwright_runtime.coordination import rules, view
from trainwright_runtime.coordination.channel import (
    COORDINATOR,
    LONGEST_REQUEST,
    Channel,
    connect,
    connected,
)
from trainwright_runtime.coordination.quorum import Patience, Quorums
from trainwright_runtime.coordination.registry import Registry
from trainwright_runtime.coordination.rules import Phase, Run
from trainwright_runtime.coordination.view import View
from trainwright_runtime.elastic.session import Session

MANY = 2000
SHORT = 1000  # bytes


@pytest.fixture
def registry() -> Iterator[Registry]:
    patience = Patience(heartbeat=60, join=60)
    with closing(Registry(0, recovery=0, silence=60, patience=patience)) as found:
        yield found


def _report(worker: str, lineage: str, **more: object) -> dict[str, Any]:
    phase = "holds" if lineage else "new"
    known = {"worker": worker, "lineage": lineage, "phase": phase, "sure": True}
    return {"do": "enter", "doing": "step", "steps": 0, **known, **more}


def _all_hold(registry: Registry) -> str:
    lineage = registry.answer(_report("w0-1", "", do="step", after=0), "w0")["lineage"]
    for number in range(MANY):
        registry.answer(_report(f"w{number}-1", lineage), f"w{number}")
    return lineage


def test_answers_name_a_few_of_those_who_are_late(registry: Registry) -> None:
    lineage = _all_hold(registry)
    waits = registry.answer(_report("w0-1", lineage, doing="waiting"), "w0")
    assert waits["late"] == "w1, w2, w3, w4, w5, others"
    assert len(json.dumps(waits)) < SHORT
    registry._stall = 0
    assert registry.answer(_report("w1-1", lineage), "w1")["waiting"] == "w0"


def test_a_worker_in_a_step_is_told_of_nobody(registry: Registry) -> None:
    assert registry.answer(_report("w1-1", _all_hold(registry)), "w1")["late"] == ""


def test_a_late_worker_is_known_among_many(registry: Registry) -> None:
    _all_hold(registry)
    with closing(Session([f"127.0.0.1:{registry.port}"], "z-1", 60)) as waits:
        assert waits.awaits(["w1500", "lost"])
        registry.leave("w1500-1", registry._connections["w1500-1"])
        assert not waits.awaits(["w1500", "lost"])


@pytest.mark.parametrize("phase", [Phase.NEW, Phase.HOLDS])
def test_who_reports_again_changes_nothing(phase: Phase) -> None:
    run, _ = rules.enter(Run(recovering=False), "a", "1/a", phase)
    again, _ = rules.enter(run, "a", "1/a", phase)
    assert all(getattr(again, each.name) is getattr(run, each.name) for each in fields(Run))


# --- what the members of a step are told of each other -------------------------------------------


def _member(name: str, known: View, **more: object) -> dict[str, Any]:
    """What a worker requests a step with."""
    return {
        "replica_id": name, "step": 1, "holds": True, "unreached": [], "view": known.number,
        "lineage": "1/w0-1", "group": 7, "position": "a", "declared": "{}", "state": f"at {name}",
        **more,
    }  # fmt: skip


_MEMBERS = st.dictionaries(
    st.sampled_from("abcdef"),
    st.builds(
        lambda step, group, place: _member("", View(), step=step, group=group, state=place),
        st.integers(1, 2), st.sampled_from([0, 7]), st.sampled_from("xy"),
    ),
    min_size=1,
)  # fmt: skip


@given(st.lists(_MEMBERS, min_size=1, max_size=5), st.data())
def test_who_is_told_the_news_knows_what_one_knows_who_is_told_all(
    steps: list[dict[str, Mapping[str, Any]]], data: st.DataObject
) -> None:
    views = [View()]
    for members in steps:
        views.append(view.of(members, views[-1]))
        known = data.draw(st.sampled_from(views[:-1]))
        now = view.updated(known, json.loads(json.dumps(view.news(known, views[-1]))))
        assert now == views[-1]
        assert view.updated(known, view.news(View(), now)) == now
        for name, member in members.items():
            assert now.addresses[name] == member["state"]
            assert now[name] == {field: member[field] for field in view.COMPARED}


def test_what_a_newcomer_has_in_common_with_most_is_not_told_again() -> None:
    members = {name: _member(name, View(), declared="long") for name in "abc"}
    now = view.of({**members, "d": _member("d", View(), declared="long", step=0)}, View())
    assert view.news(View(), now)["otherwise"] == {"d": {"step": 0}}


def test_news_of_something_else_are_refused() -> None:
    first = view.of({"a": _member("a", View())}, View())
    with pytest.raises(ValueError, match="news since 1, known is 0"):
        view.updated(View(), view.news(first, view.of({"b": _member("b", View())}, first)))


class _Asking:
    """Workers that request steps of a coordinator in this process."""

    def __init__(self, quorums: Quorums) -> None:
        self._quorums = quorums
        self.views: dict[str, View] = {}

    def step(self, *names: str, **more: object) -> dict[str, int]:
        """How many bytes each of them is told."""
        known = {name: self.views.get(name, View()) for name in names}
        for name in names:
            self._quorums.beat(name)  # all of them are waited for
        requests = {
            name: self._quorums.request(name, _member(name, known[name], **more)) for name in names
        }
        answers = {name: self._quorums.answer(each, 60) or b"" for name, each in requests.items()}
        for name, answer in answers.items():
            self.views[name] = view.updated(known[name], json.loads(answer)["members"])
        return {name: len(answer) for name, answer in answers.items()}


@pytest.fixture
def asking() -> Iterator[_Asking]:
    with closing(Quorums(Patience(heartbeat=60, join=60))) as quorums:
        yield _Asking(quorums)


def test_a_step_in_which_nothing_changed_costs_no_more_with_thousands(asking: _Asking) -> None:
    names = [f"w{number}-1" for number in range(MANY)]
    assert asking.step(*names)["w0-1"] > MANY * 10
    few = asking.step(*names, step=2, position="b")
    assert set(few.values()) == {few["w0-1"]}
    assert few["w0-1"] < SHORT
    assert asking.views["w9-1"].names == tuple(sorted(names))


def test_a_worker_more_or_less_is_one_name_more(asking: _Asking) -> None:
    names = [f"w{number}-1" for number in range(MANY)]
    asking.step(*names)
    more = asking.step("z-1", *names)
    assert more["w0-1"] < SHORT < more["z-1"]
    for name in ("w1-1", "w2-1"):
        asking._quorums.lost(name)
    less = asking.step(*names[:1], *names[3:], "z-1", group=0)
    assert set(less.values()) == {less["w0-1"]}
    assert less["w0-1"] < SHORT
    assert asking.views["z-1"].names == tuple(sorted({*names, "z-1"} - {"w1-1", "w2-1"}))


def test_who_was_away_for_long_is_told_all(asking: _Asking) -> None:
    asking.step("a-1", "b-1", "c-1")
    asking._quorums.lost("c-1")
    for step in range(20):
        asking.step("a-1", "b-1", step=step)
    told = asking.step("c-1", "a-1", "b-1")
    assert told["c-1"] > told["a-1"]
    assert asking.views["c-1"] == asking.views["a-1"]


def test_groups_never_meet_under_the_same_name(asking: _Asking) -> None:
    def number() -> int:
        return asking._quorums._number

    asking.step("a-1", "b-1")
    first = number()
    asking.step("a-1", "b-1")
    assert number() == first  # they are connected
    asking.step("a-1", "b-1", group=0)
    asking.step("a-1", "b-1", group=0)
    assert number() == first + 2


def test_an_answer_of_any_size_arrives(registry: Registry) -> None:
    """It was refused above 64 KiB, which is what 1,500 workers had."""
    names = [f"w{number}-1" for number in range(MANY)]
    for name in names:
        registry.quorums.beat(name)
    waiting = [registry.quorums.request(name, _member(name, View())) for name in names[1:]]
    channel, _ = connected(f"127.0.0.1:{registry.port}", 60)
    with closing(channel):
        answer = _requested(channel, _member(names[0], View()))
        assert len(view.updated(View(), answer["members"]).names) == MANY
    assert all(registry.quorums.answer(each, 60) for each in waiting)


def test_a_request_says_what_has_changed_since_the_one_before(registry: Registry) -> None:
    channel, _ = connected(f"127.0.0.1:{registry.port}", 60)
    with closing(channel):
        known = view.updated(View(), _requested(channel, _member("a-1", View()))["members"])
        news = _requested(channel, {"step": 2, "view": known.number})["members"]
    assert news["common"] == {"step": 2}
    assert view.updated(known, news)["a-1"] == {**known["a-1"], "step": 2}


def _requested(channel: Channel, request: Mapping[str, Any]) -> dict[str, Any]:
    channel.write({"quorum": request})
    return channel.read()


# --- connections ---------------------------------------------------------------------------------

FULL = """
import contextlib, logging, resource, socket, sys
from trainwright_runtime.coordination import server as servers
from trainwright_runtime.coordination.channel import COORDINATOR

attempts = 0

class Counting(socket.socket):
    def accept(self):
        global attempts
        attempts += 1
        return super().accept()

def listener(address, port):
    return Counting(fileno=listen(address, port).detach())

def serve(channel):
    with contextlib.suppress(OSError):
        while True:
            channel.write(channel.read())

logging.basicConfig()
listen, servers.listener, servers._PAUSE = servers.listener, listener, 3600.0
resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
server = servers.Server(["127.0.0.1"], 0, COORDINATOR, serve)
server._listeners[0].setblocking(False)
print(server.port, flush=True)
sys.stdin.read()
print(attempts, flush=True)
"""


def test_without_descriptors_a_port_waits_for_one_and_serves_those_it_has() -> None:
    argv = [sys.executable, "-c", FULL]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **pipes, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        address = f"127.0.0.1:{int(process.stdout.readline())}"
        served = _connected_until_full(address)
        for channel in served:
            channel.write({"a": 1})
            assert channel.read() == {"a": 1}
        served[0].close()
        served.append(connect(address, COORDINATOR, 60))
        for channel in served:
            channel.close()
        out, err = process.communicate("")
    assert int(out) < 2 * len(served) + 8  # it was one each 10 ms
    assert "Too many open files" in err
    assert "Traceback" not in err


def _connected_until_full(address: str) -> list[Channel]:
    served: list[Channel] = []
    with suppress(OSError):
        while len(served) < 30:
            served.append(connect(address, COORDINATOR, 5))
    assert 0 < len(served) < 30
    return served


def test_a_request_has_a_bound_of_its_own(registry: Registry) -> None:
    channel, _ = connected(f"127.0.0.1:{registry.port}", 60)
    with closing(channel):
        with suppress(ConnectionError):  # it ends before all is sent
            channel.write_encoded(b" " * (LONGEST_REQUEST + 1))
        with pytest.raises(ConnectionError):
            channel.read()


def test_a_connection_on_which_nothing_happens_has_no_thread(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "_LINGER", 0.01)
    before = threading.active_count()
    channels = [connected(f"127.0.0.1:{registry.port}", 60)[0] for _ in range(20)]
    for _ in range(3):
        _wait_for_threads(before)
        for number, channel in enumerate(channels):
            channel.write(_report(f"w{number}-1", ""))
        assert {channel.read()["phase"] for channel in channels} == {"new"}
    channels[-1].close()
    _until(lambda: "w19-1" not in registry._connections)
    _wait_for_threads(before)
    registry.close()
    for channel in channels[:-1]:  # none waits for a coordinator that is closed
        with closing(channel), pytest.raises(ConnectionError):
            channel.read()


def _wait_for_threads(number: int) -> None:
    _until(lambda: threading.active_count() <= number)


def _until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_connections_are_kept_alive(registry: Registry) -> None:
    channel, _ = connected(f"127.0.0.1:{registry.port}", 60)
    with closing(channel):
        assert channel.connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.parametrize(
    ("hard", "most", "said"),
    [
        (200, 1000, "the limit of 200 open files is enough for 34 workers, and there may be 1000"),
        (4096, 0, "the limit of 4096 open files is enough for 1008 workers: raise it"),
        (4096, 1000, ""),
    ],
)
def test_a_coordinator_says_what_its_descriptors_are_enough_for(
    hard: int, most: int, said: str
) -> None:
    argv = ["-u", "-m", "trainwright_runtime", "coordinator", "--port=0", f"--max-replicas={most}"]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(_limited(hard, *argv), **pipes) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        if said:
            lines.append(process.stdout.readline())
        raised = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        process.terminate()
    assert raised == (hard, hard)
    assert said in lines[0]
    assert "quorum of at least" in lines[-1]


def _limited(hard: int, *arguments: str) -> list[str]:
    """Python with a soft limit of 64 open files."""
    shell = f'ulimit -Sn 64; ulimit -Hn {hard}; exec "$@"'
    return ["sh", "-c", shell, "sh", sys.executable, *arguments]


def test_a_worker_may_open_what_the_hard_limit_allows(tmp_path: Path) -> None:
    script = tmp_path / "limits.py"
    script.write_text("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))")
    ended = subprocess.run(
        _limited(4096, "-m", "trainwright_runtime.launch.process", str(script)),
        env={**os.environ, "TRAINWRIGHT_COORDINATOR": "127.0.0.1:1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ended.stdout.splitlines() == ["(4096, 4096)"]
    assert "the limit of 4096 open files is enough for 3840 workers at most" in ended.stderr
