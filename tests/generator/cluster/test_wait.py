"""`trainwright status --for`: how it ends, and that neither a broken watch nor a forgotten version ends it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from click.testing import Result

from apiserver import ApiServer
from cluster_objects import RUNNING, conditions, pod
from trainwright.cluster import wait

Run = Callable[..., Result]
Applied = Callable[..., dict[str, Any]]
Step = Callable[[], object]
PATIENCE = 60  # seconds


@contextmanager
def then(api: ApiServer, *steps: Step) -> Iterator[None]:
    """What happens in the cluster once the command watches it."""

    def act() -> None:
        end = time.monotonic() + PATIENCE
        while not any(request.verb == "watch" for request in api.requests):
            assert time.monotonic() < end, "the command does not watch"
            time.sleep(0.01)
        for step in steps:
            time.sleep(0.3)
            step()

    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize(
    ("goal", "state", "code"),
    [
        ("succeeded", "Succeeded", 0),
        ("succeeded", "Failed", 1),
        ("finished", "Succeeded", 0),
        ("finished", "Failed", 0),
        ("running", "Succeeded", 0),
        ("running", "Failed", 1),
    ],
)
def test_how_it_ends(run: Run, applied: Applied, goal: str, state: str, code: int) -> None:
    name = applied("prod/llm", conditions("Created", state))["metadata"]["name"]
    done = run("status", "prod/llm", "--for", goal, "--timeout", "1m")
    assert done.exit_code == code, done.output
    assert done.stdout.startswith(f"prod/llm: {name} is {state.lower()}")


def test_it_waits_for_the_sync_and_says_each_change(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    with then(
        api,
        lambda: applied("prod/llm", conditions("Created")),
        lambda: applied("prod/llm", conditions("Created", "Running")),
        lambda: applied("prod/llm", conditions("Created", "Succeeded")),
    ):
        done = run("status", "prod/llm", "--for", "succeeded", "--timeout", "1m")
    assert done.exit_code == 0, done.output
    message = [line.split(" is ", 1)[1] for line in done.stderr.splitlines()[1:]]
    assert message == [
        "not applied",
        "pending 0/2: PyTorchJobCreated: it is created",
        "running 0/2: PyTorchJobRunning: it is running",
    ]


@pytest.mark.parametrize("trouble", ["broken", "forgotten", "both", "short"])
def test_trouble_with_the_watch_is_survived(
    run: Run, applied: Applied, api: ApiServer, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait, "_PAUSE", 0.05)
    applied("prod/llm", conditions("Created"))
    if trouble in ("broken", "both"):
        api.drop += ["watch"] * 3
    if trouble == "short":
        api.watch_seconds = 0.1
    forget = (api.forget,) if trouble in ("forgotten", "both") else ()
    with then(
        api,
        lambda: applied("prod/mnist", conditions("Created")),  # another object moves the version on
        *forget,
        lambda: applied("prod/llm", conditions("Created", "Running")),
        *forget,
        lambda: applied("prod/llm", conditions("Created", "Succeeded")),
    ):
        done = run("status", "prod/llm", "--for", "succeeded", "--timeout", "1m")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("prod/llm: llm-")
    assert done.stdout.splitlines()[-1].endswith(" is succeeded")


def test_running_means_every_rank(
    run: Run, applied: Applied, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait, "_WINDOW", 1)
    body = applied("prod/llm", conditions("Created", "Running"))
    name = body["metadata"]["name"]
    api.put(pod(body, f"{name}-master-0", **RUNNING))
    waiting = pod(body, f"{name}-worker-0", phase="Pending")
    api.put(waiting)
    with then(api, lambda: None, lambda: api.put(pod(body, f"{name}-worker-0", **RUNNING))):
        done = run("status", "prod/llm", "--for", "running", "--timeout", "1m")
    assert done.exit_code == 0, done.output
    assert "is running 1/2: rank 1: Pending" in done.stderr
    assert "is running 2/2" in done.stdout


def test_what_is_deleted_will_not_succeed(run: Run, applied: Applied, api: ApiServer) -> None:
    body = applied("prod/llm", conditions("Created", "Running"))
    with then(api, lambda: api.remove(body)):
        done = run("status", "prod/llm", "--for", "succeeded", "--timeout", "1m")
    assert done.exit_code == 1
    assert done.stdout == f"prod/llm: {body['metadata']['name']} was deleted\n"


def test_the_time_out_says_what_it_waited_for(run: Run, applied: Applied) -> None:
    name = applied("prod/llm", conditions("Created"))["metadata"]["name"]
    done = run("status", "prod/llm", "--for", "succeeded", "--timeout", "1s")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == (
        f"trainwright: timed out waiting until it succeeded: prod/llm: {name} is pending 0/2: "
        "PyTorchJobCreated: it is created"
    )


@pytest.mark.parametrize("written", ["soon", "1m1h", "", "-5s"])
def test_durations_are_those_of_specs(run: Run, written: str) -> None:
    done = run("status", "prod/llm", "--for", "succeeded", "--timeout", written)
    assert done.exit_code == 2
    assert "is not a duration such as" in done.stderr


def test_an_api_server_that_is_away_for_a_while_is_waited_for(
    run: Run, applied: Applied, api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait, "_PAUSE", 0.05)
    applied("prod/llm", conditions("Created"))
    api.watch_seconds = 0.1
    answering = threading.Event()
    answering.set()
    handler = api.server.RequestHandlerClass
    serve = handler._serve  # type: ignore[attr-defined]

    def absent(self: Any, body: str) -> None:
        if answering.is_set():
            serve(self, body)
        else:
            self._break()

    monkeypatch.setattr(handler, "_serve", absent)
    with then(
        api,
        answering.clear,
        lambda: applied("prod/llm", conditions("Created", "Succeeded")),
        answering.set,
    ):
        done = run("status", "prod/llm", "--for", "succeeded", "--timeout", "1m")
    assert done.exit_code == 0, done.output
