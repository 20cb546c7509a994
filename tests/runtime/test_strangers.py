"""Who has no part in a training changes nothing in it, whatever they send to its ports."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from stranger import ENDING, attacking, ports

from trainwright_runtime.coordination import channel as channels
from trainwright_runtime.coordination import server as servers
from trainwright_runtime.coordination.addresses import own_addresses
from trainwright_runtime.coordination.channel import COORDINATOR, STATE, Channel, connect, connected
from trainwright_runtime.coordination.identity import Identity, ensured
from trainwright_runtime.coordination.registry import Registry
from trainwright_runtime.coordination.server import Server
from trainwright_runtime.failures.errors import EnvironmentMistake

SECRET = "a secret of a namespace"


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a port of run "a", which sends back what it is sent."""
    monkeypatch.setenv("TRAINWRIGHT_RUN", "a")
    monkeypatch.setenv("TRAINWRIGHT_RUN_KEY", SECRET)

    def serve(channel: Channel) -> None:
        with suppress(OSError, ValueError):
            while True:
                channel.write(channel.read())

    with closing(Server(["127.0.0.1"], 0, COORDINATOR, serve)) as server:
        yield f"127.0.0.1:{server.port}"


def _exchange(address: str, message: dict[str, Any], label: bytes = COORDINATOR) -> Any:
    with closing(connect(address, label, 20)) as channel:
        channel.write(message)
        return channel.read()


def test_processes_of_a_run_exchange_messages(echo: str) -> None:
    large = {"text": "x" * 1_000_000}
    assert _exchange(echo, large) == large


@pytest.mark.parametrize(
    "other",
    [
        {"TRAINWRIGHT_RUN": "b"},
        {"TRAINWRIGHT_ATTEMPT": "1"},
        {"TRAINWRIGHT_RUN_KEY": "another secret of a namespace"},
        {"TRAINWRIGHT_RUN": "", "TRAINWRIGHT_ATTEMPT": "a"},
    ],
    ids=str,
)
def test_another_run_attempt_or_secret_is_refused(
    echo: str, other: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a pod of an earlier run that wakes up, and finds the addresses that it knew."""
    for name, value in other.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConnectionRefusedError, match="is not of run"):
        _exchange(echo, {})


def test_a_name_and_a_secret_may_be_any_bytes(tmp_path: Path) -> None:
    secret = bytes(range(1, 32)) + b"\xff\xfe"
    (tmp_path / "key").write_bytes(secret)
    run = {"TRAINWRIGHT_RUN": os.fsdecode(b"run-\xff")}
    of_variable = Identity.of(run | {"TRAINWRIGHT_RUN_KEY": os.fsdecode(secret)})
    of_file = Identity.of(run | {"TRAINWRIGHT_RUN_KEY_FILE": str(tmp_path / "key")})
    assert of_variable.key == of_file.key
    other = Identity.of({**run, "TRAINWRIGHT_RUN": os.fsdecode(b"run-\xfe")})
    assert other.key != Identity.of(run).key


def test_what_is_proved_for_one_port_proves_nothing_at_another(echo: str) -> None:
    with pytest.raises(ConnectionRefusedError):
        _exchange(echo, {}, STATE)


def test_a_server_that_cannot_prove_to_be_of_the_run_is_believed_nothing() -> None:
    """Who listens where a process of the run did before, and takes any proof."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with server.accept()[0] as connection:
                connection.sendall(channels.HELLO + bytes(channels.NONCE))
                connection.recv(4096)
                connection.sendall(bytes(channels.PROOF))

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(ConnectionRefusedError):
            connect(f"127.0.0.1:{server.getsockname()[1]}", COORDINATOR, 20)


def test_what_was_recorded_proves_nothing_later(echo: str) -> None:
    """All that a client has sent, sent once more: its random bytes answered those of the server."""
    host, _, port = echo.rpartition(":")
    recorded = bytearray()
    with socket.create_server(("127.0.0.1", 0)) as between:

        def relay() -> None:
            with (
                between.accept()[0] as client,
                socket.create_connection((host, int(port))) as there,
            ):
                back = threading.Thread(target=_pump, args=(there, client, bytearray()))
                back.start()
                _pump(client, there, recorded)
                there.shutdown(socket.SHUT_WR)
                back.join()

        relaying = threading.Thread(target=relay)
        relaying.start()
        address = f"127.0.0.1:{between.getsockname()[1]}"
        assert _exchange(address, {"a": 1}) == {"a": 1}
        relaying.join()
    with socket.create_connection((host, int(port)), 20) as again:
        hello = again.recv(len(channels.HELLO) + channels.NONCE, socket.MSG_WAITALL)
        again.sendall(recorded)
        with suppress(ConnectionResetError):
            assert not again.recv(1)
    assert hello.startswith(channels.HELLO)


def _pump(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            kept += data
            target.sendall(data)


def test_a_message_that_was_changed_or_sent_again_ends_the_connection(echo: str) -> None:
    for change in (lambda sent: sent[:-1] + b"!", lambda sent: sent + sent):
        channel = connect(echo, COORDINATOR, 20)
        with closing(channel):
            text = b'{"a":1}'
            tag = channels._tag(channel._writes, 0, text)
            channel.connection.sendall(change(len(text).to_bytes(4, "big") + tag + text))
            while _answers(channel):
                pass


def _answers(channel: Channel) -> bool:
    try:
        return channel.read() == {"a": 1}
    except ConnectionError:
        return False


def test_slow_senders_are_in_nobody_s_way(echo: str) -> None:
    """More of them than are waited for: who has waited longest has to go."""
    host, _, port = echo.rpartition(":")
    with ExitStack() as held:
        for _ in range(2 * servers.PENDING):
            one = held.enter_context(socket.create_connection((host, int(port)), 20))
            one.sendall(b"1")
        assert _exchange(echo, {"a": 1}) == {"a": 1}


def test_who_does_not_prove_it_in_time_has_to_go(
    echo: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(servers, "PATIENCE", 0.01)
    host, _, port = echo.rpartition(":")
    slow = socket.create_connection((host, int(port)), 20)
    with slow, suppress(ConnectionError):
        slow.sendall(b"1")
        while slow.recv(4096):
            pass
    assert "refused a connection from 127.0.0.1" in caplog.text
    assert SECRET not in caplog.text


def test_a_port_is_open_at_the_addresses_of_the_run_alone(echo: str) -> None:
    port = int(echo.rpartition(":")[2])
    assert ("127.0.0.1", port) in set(ports(os.getpid()))
    assert {"127.0.0.1"} <= set(own_addresses("localhost")) <= {"127.0.0.1", "::1"}
    assert own_addresses("a.invalid")[0] in ("::", "0.0.0.0", "127.0.0.1")  # by its own name


def test_three_lines_end_no_training() -> None:
    """They did, when a registry asked nobody who they are."""
    lines = "".join(json.dumps(message) + "\n" for message in ENDING).encode()
    with closing(Registry(0, recovery=0, silence=60)) as registry:
        address = f"127.0.0.1:{registry.port}"
        stranger = socket.create_connection(("127.0.0.1", registry.port), 20)
        with stranger, suppress(OSError):
            stranger.sendall(lines)
            while stranger.recv(4096):
                pass
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TRAINWRIGHT_RUN_KEY", "another secret of a namespace")
            with pytest.raises(ConnectionRefusedError):
                connected(address, 20)
        assert not registry.finished
        channel, greeting = connected(address, 20)
        channel.close()
        assert greeting["serves"]


# --- the secret ----------------------------------------------------------------------------------


def test_runs_of_one_secret_have_keys_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(SECRET + "\n")
    of = [
        {"TRAINWRIGHT_RUN": run, "TRAINWRIGHT_ATTEMPT": attempt, **secret}
        for run, attempt in (("a", ""), ("a", "1"), ("b", ""), ("", "a"))
        for secret in ({}, {"TRAINWRIGHT_RUN_KEY": SECRET})
    ]
    assert len({Identity.of(environ).key for environ in of}) == len(of)
    by_file = {"TRAINWRIGHT_RUN": "a", "TRAINWRIGHT_RUN_KEY_FILE": str(tmp_path / "key")}
    assert Identity.of(by_file) == Identity.of({**of[1]})
    assert SECRET not in repr(Identity.of(by_file))


@pytest.mark.parametrize(
    "environ",
    [
        {"TRAINWRIGHT_RUN_KEY": "short"},
        {"TRAINWRIGHT_RUN_KEY": ""},
        {"TRAINWRIGHT_RUN_KEY_FILE": "/nowhere/key"},
    ],
    ids=str,
)
def test_a_secret_that_is_none_is_a_mistake(environ: dict[str, str]) -> None:
    """Who means to have one is not to train without it."""
    with pytest.raises(EnvironmentMistake) as mistake:
        Identity.of(environ)
    assert "short" not in str(mistake.value).replace("a shorter one", "")


def test_a_node_that_is_alone_makes_its_own_secret() -> None:
    one, other = (ensured({}, "node-0", alone=True) for _ in range(2))
    assert one["TRAINWRIGHT_RUN"] == "node-0"
    assert one["TRAINWRIGHT_RUN_KEY"] != other["TRAINWRIGHT_RUN_KEY"]
    assert ensured({}, "node-0", alone=False) == {"TRAINWRIGHT_RUN": "node-0"}
    given = {"TRAINWRIGHT_RUN": "a", "TRAINWRIGHT_RUN_KEY_FILE": "/key"}
    assert ensured(given, "node-0", alone=True) == {"TRAINWRIGHT_RUN": "a"}


# --- trainings -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stranger_on_every_port_changes_nothing_of_a_training(tmp_path: Path) -> None:
    from workers import workers

    from trainwright_runtime.elastic import audit

    environ = {
        "TRAINWRIGHT_RUN": "a",
        "TRAINWRIGHT_RUN_KEY": SECRET,
        "TRAINWRIGHT_MIN_REPLICAS": "2",
    }
    with workers(tmp_path, "w0 w1", "4", "0.2", environ=environ) as group:
        group.wait_for_commit(3, workers=2)
        assert group.coordinator is not None
        pids = [group.coordinator.pid, *(process.pid for process in group.processes.values())]
        places = [place for pid in pids for place in ports(pid)]
        assert not {"0.0.0.0", "::"} & {host for host, _ in places}, places
        with attacking(places) as taken:
            assert taken == len(places) > len(pids)
            last = group.wait_for_commit(workers=2)
            group.wait_for_commit(last + 3, workers=2)
            group.hurry()
            assert group.wait() == {"w0": 0, "w1": 0}, group.logs()
        verdict = audit.verify(group.audit)
    assert not verdict.problems
    assert verdict.epochs == {"train": 4, "validation": 4}


@pytest.mark.slow
def test_who_connects_in_the_place_of_a_member_adds_nothing_to_a_sum() -> None:
    """gloo takes whoever connects first for the member that it waits for."""
    import torch
    from test_elastic_peers import _peers, _place

    from trainwright_runtime.elastic import sockets
    from trainwright_runtime.elastic.peers import FAILURES, ProcessPeers

    def summed(peers: ProcessPeers) -> list[float] | None:
        total = torch.ones(3)
        peers.reduce(total).wait()
        return total.tolist() if peers.arrived() else None

    both = [_peers(timedelta(seconds=3)) for _ in range(2)]
    with _place() as place, ThreadPoolExecutor() as threads, ExitStack() as held:
        for peers in both:
            held.callback(peers.close)
            peers.open("127.0.0.1")
        known, over = sockets.listening(), threading.Event()
        racing = threads.submit(_race, known, over, held)
        try:
            for token in range(1, 4):
                forming = [threads.submit(p.form, place, r, 2, token) for r, p in enumerate(both)]
                failures = [each.exception() for each in forming]
                assert all(isinstance(each, (*FAILURES, type(None))) for each in failures)
                if not any(failures):  # each of them may find a failure by itself
                    sums = [each.result() for each in [threads.submit(summed, p) for p in both]]
                    assert sums in ([[2.0] * 3] * 2, [None] * 2)
        finally:
            over.set()
            racing.result()


def _race(known: frozenset[int], over: threading.Event, held: ExitStack) -> None:
    from trainwright_runtime.elastic import sockets

    while not over.is_set():
        for port in sockets.listening() - known:
            for number in range(4):
                with suppress(OSError):
                    one = socket.create_connection(("127.0.0.1", port), 1)
                    held.enter_context(one)
                    one.sendall(number.to_bytes(8, "little"))


@pytest.mark.slow
def test_a_frozen_worker_of_an_earlier_run_gives_its_state_to_no_other_run(tmp_path: Path) -> None:
    """It wakes when another run trains at the addresses that it knew."""
    from workers import workers

    earlier = {"TRAINWRIGHT_RUN": "a", "TRAINWRIGHT_COORDINATOR_TIMEOUT": "5"}
    with workers(tmp_path, "old", "4", "0.05", environ=earlier) as group:
        group.wait_for_commit(10)
        old = group.processes.pop("old")
        old.send_signal(signal.SIGSTOP)
        assert group.coordinator is not None
        group.coordinator.kill()
        group.coordinator.wait()
        group.environ["TRAINWRIGHT_RUN"] = "b"
        group.start_coordinator()
        old.send_signal(signal.SIGCONT)
        assert old.wait(120) != 0
        group.hurry()
        group.start("new")
        assert group.wait() == {"new": 0}, group.logs()
        (log,) = tmp_path.glob("new-*.log")
        assert "beginning training as its first worker" in log.read_text()
        assert "is not of run a, or has another key" in group.logs()
