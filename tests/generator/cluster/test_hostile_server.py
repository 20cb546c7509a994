"""A server that is not what a kubeconfig says it is: it ends no run of ours, fills and hides none."""

from __future__ import annotations

import copy
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import Result

from apiserver import ApiServer
from cluster_objects import manifest
from repository import Repository
from trainwright.cluster import client
from trainwright.cluster.errors import Unreachable
from trainwright.cluster.shape import is_object
from trainwright.kinds import SERVED
from trainwright.kinds.kind import Kind

Run = Callable[..., Result]
VERBS = (
    ("status", "prod"),
    ("logs", "prod/llm"),
    ("status", "prod/llm", "--for", "succeeded"),
    ("status", "--diff", "prod"),
)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


class Hostile:
    """Answers each request with what a function writes to the connection, as long as it is read."""

    def __init__(self, write: Callable[[socket.socket, threading.Event], None]):
        self.closed = threading.Event()
        self.written = 0
        self._write = write
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._accepting = threading.Thread(target=self._serve, daemon=True)
        self._accepting.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    def close(self) -> None:
        """And wait for who accepts: stopped and continued, it would accept for the next server."""
        self.closed.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._accepting.join()
        self._socket.close()

    def _serve(self) -> None:
        while not self.closed.is_set():
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65536)
                self._write(connection, self.closed)
            except OSError:
                pass  # the client has seen enough


def _endless(connection: socket.socket, closed: threading.Event) -> None:
    connection.sendall(HEAD + b"Connection: close\r\n\r\n" + b'{"kind": "')
    while not closed.is_set():
        connection.sendall(b"x" * 65536)


def _endless_error(connection: socket.socket, closed: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n")
    while not closed.is_set():
        connection.sendall(b"\x1b[2J" * 16384)


def _dripping(head: bytes) -> Callable[[socket.socket, threading.Event], None]:
    def drip(connection: socket.socket, closed: threading.Event) -> None:
        connection.sendall(head)
        while not closed.wait(0.05):
            connection.sendall(b" ")

    return drip


ANSWERS = {
    "without end": _endless,
    "an error without end": _endless_error,
    "a body byte by byte": _dripping(HEAD + b"Connection: close\r\n\r\n"),
    "a header byte by byte": _dripping(HEAD + b"X-More: "),
    "a status line byte by byte": _dripping(b"HTTP/1.1 200 "),
}


@pytest.fixture
def hostile(request: pytest.FixtureRequest) -> Iterator[Hostile]:
    server = Hostile(ANSWERS[request.param])
    yield server
    server.close()


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
@pytest.mark.parametrize("hostile", ANSWERS, indirect=True)
def test_a_server_that_never_ends_its_answer(
    hostile: Hostile, verb: tuple[str, ...], rendered: Repository, api: ApiServer,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(client, "_DEADLINE", 0.5)
    monkeypatch.setattr(client, "_LARGEST", 2**20)
    config = api.kubeconfig(tmp_path / "k", url=hostile.url)
    done = rendered.run(*verb, "--kubeconfig", str(config))
    assert done.exit_code == 2, done.output
    assert "Traceback" not in done.output
    assert "\x1b" not in done.output
    assert len(done.output) < 2000


@pytest.fixture
def answering(
    rendered: Repository, api: ApiServer, tmp_path: Path
) -> Iterator[Callable[..., Result]]:
    """The command line against a server that answers everything with one body."""
    servers: list[Hostile] = []

    def run(verb: tuple[str, ...], body: Any, status: str = "200 OK") -> Result:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        servers.append(Hostile(lambda connection, _: connection.sendall(head.encode() + text)))
        config = api.kubeconfig(tmp_path / "k", url=servers[-1].url)
        return rendered.run(*verb, "--kubeconfig", str(config))

    yield run
    for server in servers:
        server.close()


def _list(*items: Any, **metadata: Any) -> dict[str, Any]:
    return {"kind": "PyTorchJobList", "apiVersion": "kubeflow.org/v1", "metadata": metadata, "items": list(items)}  # fmt: skip


BODIES: dict[str, Any] = {
    "items that are none": _list(5, None),
    "null": None,
    "a list": [],
    "a number": 5,
    "deep": b"[" * 100_000,
    "items of another type": {"kind": "List", "metadata": {}, "items": {"a": 1}},
    "no metadata": {"kind": "List", "items": []},
    "an item without a name": _list({"metadata": {}}),
    "labels that are a list": _list({"metadata": {"name": "a", "labels": ["b"]}}),
    "labels that are numbers": _list({"metadata": {"name": "a", "labels": {"b": 1}}}),
    "a status that is text": _list({"metadata": {"name": "a"}, "status": "fine"}),
    "conditions that are text": _list({"metadata": {"name": "a"}, "status": {"conditions": "a"}}),
    "a name that is a list": _list({"metadata": {"name": ["a"]}}),
    "pages without end": _list({"metadata": {"name": "a"}}, **{"continue": "more"}),
}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_an_answer_that_is_no_api_servers(
    body: Any, verb: tuple[str, ...], answering: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_PAGES", 3)
    done = answering(verb, body)
    assert done.exit_code in (0, 1, 2), done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
@pytest.mark.parametrize("status", ["403 Forbidden", "410 Gone", "422 No", "500 No", "429 Slow"])
def test_what_an_error_says_reaches_no_terminal(
    status: str, verb: tuple[str, ...], answering: Run
) -> None:
    """Nor what ends it: an answer that is always too old is asked for again a few times alone."""
    message = 'User "\x1b]0;x\x07\u202e" cannot list resource "a"\n::error::##[add-mask]\x1b[2J\r'
    body = {"kind": "Status", "message": message, "details": {"causes": [5, {"field": ["a"]}]}}
    done = answering(verb, body, status)
    assert done.exit_code in (1, 2), done.output
    assert not {"\x1b", "\x07", "\u202e", "\r"} & {*done.output}
    assert "\n::error" not in done.output
    assert "##[" not in done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_an_error_may_say_nothing(verb: tuple[str, ...], answering: Run) -> None:
    """As that of a proxy in front of an API server that is away."""
    done = answering(verb, b"", "502 Bad Gateway")
    assert done.exit_code == 2, done.output
    assert "Bad Gateway" in done.output
    assert "Traceback" not in done.output


def test_what_runs_and_pods_say_reaches_no_terminal(
    applied: Callable[..., dict[str, Any]], api: ApiServer, run: Run
) -> None:
    said = "\x1b[2Jdone\u202e\r"
    applied("prod/llm", {"conditions": [{"type": "Running", "status": "True", "reason": said, "message": said}]})  # fmt: skip
    for verb in (("status", "prod"), ("status", "prod/llm"), ("status", "prod", "-o", "json")):
        done = run(*verb)
        assert done.exit_code == 0, done.output
        assert not {"\x1b", "\u202e", "\r"} & {*done.output}, ascii(done.output)


_WRONG = (None, 5, "x", [], {}, [None], {"a": None}, True)


def _places(body: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    children = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()  # fmt: skip
    for key, value in children:
        yield (*at, key)
        yield from _places(value, (*at, key))


@pytest.mark.slow
def test_any_value_that_a_controller_writes_may_be_another(
    rendered: Repository, api: ApiServer, run: Run
) -> None:
    conditions = [{"type": "Running", "status": "True", "reason": "x"}]
    status = {"conditions": conditions, "replicaStatuses": {"Master": {"active": 1}}}
    body = {**manifest(rendered, "prod/llm"), "status": status}
    random = Random(1)
    # What people write is held by the schema of its kind; a status is the controller's own.
    written = [place for place in _places(body) if place[0] in ("status", "metadata")]
    for place in random.sample(written, k=min(40, len(written))):
        changed: Any = copy.deepcopy(body)
        holder = changed
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = random.choice(_WRONG)
        api.listed = [changed]
        done = run("status", "prod")
        assert done.exit_code in (0, 1, 2), (place, holder[place[-1]], done.output)


def test_recorded_objects_have_the_shape_of_objects(shared: Callable[[str], Path]) -> None:
    recordings = sorted(shared("observed/controllers").rglob("*.json"))
    assert recordings
    for path in recordings:
        found = json.loads(path.read_text())
        for part in ("children", "pods", "services"):
            assert all(map(is_object, found.get(part) or ())), path
        assert is_object(found["live"]), path


_COUNTS: dict[str, Any] = {"name": "node", "active": 1, "ready": 1, "failed": 1, "succeeded": 0}
_CONDITIONS = [{"type": "Suspended", "status": "True", "reason": "x", "lastTransitionTime": "x"}]
_STATUS: dict[str, Any] = {
    "conditions": _CONDITIONS,
    "replicaStatuses": {"Master": _COUNTS},
    "execStatus": {"conditions": _CONDITIONS, "replicaStatuses": {"Worker": _COUNTS}},
    "stage": "Running",
    "currentSize": 2,
    "replicatedJobsStatus": [_COUNTS],
    "restarts": 1,
    "currentInPlaceRestartAttempt": 1,
    "previousInPlaceRestartAttempt": 0,
    "jobsStatus": [_COUNTS],
    "active": 1,
    "ready": 1,
    "failed": 1,
    "startTime": "x",
}
_SPEC: dict[str, Any] = {
    "pytorchReplicaSpecs": {"Master": {"replicas": 1}},
    "runPolicy": {"suspend": False},
    "trainer": {"numNodes": 2},
    "replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": {"completions": 2}}}],
    "maxSize": 2,
    "suspend": False,
    "completions": 2,
}


@pytest.mark.parametrize("kind", SERVED.values(), ids=str)
def test_a_state_is_read_whatever_the_values_are(kind: Kind) -> None:
    body = {"metadata": {"name": "a"}, "spec": _SPEC, "status": _STATUS}
    for place in [place for place in _places(body) if place[0] != "metadata"]:
        for wrong in _WRONG:
            changed: Any = copy.deepcopy(body)
            holder = changed
            for key in place[:-1]:
                holder = holder[key]
            holder[place[-1]] = wrong
            if is_object(changed):
                state = kind.status.state_of(changed)
                assert isinstance(state.ready, int | None), place
                assert isinstance(state.total, int | None), place
                kind.status.makes(changed)


def test_an_answer_that_comes_too_late_is_closed() -> None:
    asked, closed = threading.Event(), threading.Event()

    class Late:
        def close(self) -> None:
            closed.set()

    def call() -> Late:
        asked.wait()
        return Late()

    with pytest.raises(Unreachable, match="slow"):
        client._within(0.01, call, Unreachable("slow"))
    asked.set()
    assert closed.wait(10)
