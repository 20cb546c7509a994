"""`trainwright logs`: which ranks, in which order, and through broken connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import Result

from apiserver import ApiServer
from cluster_objects import RUNNING, conditions, container, pod
from repository import Repository
from trainwright.cluster import logs

Run = Callable[..., Result]
Applied = Callable[..., dict[str, Any]]


@pytest.fixture
def running(applied: Applied, api: ApiServer) -> dict[str, Any]:
    """A run of two ranks, each with lines of its own."""
    body = applied("prod/llm", conditions("Created", "Running"))
    name = body["metadata"]["name"]
    for role in ("master", "worker"):
        api.put(pod(body, f"{name}-{role}-0", **RUNNING))
        api.logs[f"{name}-{role}-0"] = [stamped(i, f"{role} says {i}") for i in range(3)]
    return body


def stamped(second: int, text: str) -> str:
    return f"2026-11-21T03:04:{second:02}.000000000Z {text}"


def test_every_rank_in_order_each_line_after_its_rank(run: Run, running: dict[str, Any]) -> None:
    done = run("logs", "prod/llm")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        *(f"rank 0    | master says {i}" for i in range(3)),
        *(f"rank 1    | worker says {i}" for i in range(3)),
    ]


def test_one_rank_and_its_last_lines(run: Run, running: dict[str, Any]) -> None:
    done = run("logs", "prod/llm", "--rank", "1", "--tail", "1")
    assert done.stdout == "rank 1    | worker says 2\n"


def test_a_rank_that_there_is_not(run: Run, running: dict[str, Any]) -> None:
    done = run("logs", "prod/llm", "--rank", "7")
    assert done.exit_code == 2
    assert (
        done.stderr.splitlines()[-1] == "trainwright: there is no rank 7: pods hold rank 0, rank 1"
    )


def test_options_reach_the_kubelet(run: Run, running: dict[str, Any], api: ApiServer) -> None:
    name = running["metadata"]["name"]
    api.logs[f"{name}-master-0/previous"] = [stamped(0, "before the crash")]
    done = run("logs", "prod/llm", "--rank", "0", "--previous", "--since", "1h30m", "--tail", "9")
    assert done.stdout == "rank 0    | before the crash\n"
    asked = next(r.query for r in api.requests if r.resource == "pods/log")
    assert asked == {
        "container": "pytorch", "follow": "false", "previous": "true", "sinceSeconds": "5400",
        "tailLines": "9", "timestamps": "true",
    }  # fmt: skip


def test_of_a_failed_run_the_rank_that_failed_comes_first(
    run: Run, running: dict[str, Any], api: ApiServer
) -> None:
    name = running["metadata"]["name"]
    api.put({**running, "status": conditions("Created", "Failed")})
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-21T03:05:00Z"}}
    api.put(pod(running, f"{name}-worker-0", phase="Failed", **container(ended)))
    lines = run("logs", "prod/llm").stdout.splitlines()
    assert [line.split("|")[0].strip() for line in lines] == ["rank 1"] * 3 + ["rank 0"] * 3


def test_credentials_are_hidden_in_logs(run: Run, running: dict[str, Any], api: ApiServer) -> None:
    name = running["metadata"]["name"]
    token = "hf_" + "a1B2" * 9
    api.logs[f"{name}-master-0"] = [stamped(0, f"login with {token}"), stamped(1, "\u00fcber")]
    out = run("logs", "prod/llm", "--rank", "0").stdout
    assert out == "rank 0    | login with ***\nrank 0    | \u00fcber\n"


def test_a_log_does_nothing_to_the_terminal(
    run: Run, running: dict[str, Any], api: ApiServer
) -> None:
    name = running["metadata"]["name"]
    said = "\x1b[32mgreen\x1b[0m \x1b]0;owned\x07 a\u202eb ##[error]x\ty \u00fcber"
    api.logs[f"{name}-master-0"] = [stamped(0, said)]
    shown = "green \\x1b]0;owned\\x07 a\\u202eb \\x23#[error]x\ty \u00fcber"
    done = run("logs", "prod/llm", "--rank", "0")
    assert done.stdout == f"rank 0    | {shown}\n"


def test_a_container_that_has_not_started_is_a_note_and_not_an_error(
    run: Run, running: dict[str, Any], api: ApiServer
) -> None:
    name = running["metadata"]["name"]
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    api.put(pod(running, f"{name}-worker-0", phase="Pending", **container(waiting)))
    api.not_started[f"{name}-worker-0"] = 'container "pytorch" is waiting to start'
    done = run("logs", "prod/llm")
    assert done.exit_code == 0
    assert "rank 1    | no such image" in done.stderr
    assert "rank 1" not in done.stdout


@pytest.mark.parametrize("options", [(), ("-f",)], ids=["read", "follow"])
def test_a_log_whose_node_is_gone_is_a_note_and_the_others_are_read(
    run: Run, running: dict[str, Any], api: ApiServer, options: tuple[str, ...]
) -> None:
    name = running["metadata"]["name"]
    api.put({**running, "status": conditions("Created", "Failed")})
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-11-21T03:05:00Z"}}
    api.put(pod(running, f"{name}-worker-0", phase="Failed", **container(ended)))
    api.lost_logs[f"{name}-worker-0"] = "dial tcp: lookup node-a: no such host"
    done = run("logs", "prod/llm", *options)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [f"rank 0    | master says {i}" for i in range(3)]
    assert "rank 1    | the log cannot be read: dial tcp: lookup node-a" in done.stderr


def test_what_is_not_applied_names_the_runs_that_are(
    repository: Repository, run: Run, running: dict[str, Any], api: ApiServer
) -> None:
    old = running["metadata"]["name"]
    repository.job("prod/llm", "run: 2\n")
    repository.run("render", "prod")
    done = run("logs", "prod/llm")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1].endswith(
        f"is not applied; in the cluster: {old} (see --run)"
    )
    assert "rank 0    | master says 0" in run("logs", "prod/llm", "--run", old).stdout


def test_a_run_without_pods_says_why(run: Run, applied: Applied) -> None:
    applied("prod/llm", conditions("Created", "Suspended"))
    done = run("logs", "prod/llm")
    assert done.exit_code == 2
    assert "has no pods" in done.stderr


# --- following -----------------------------------------------------------------------------------


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_PAUSE", 0.05)
    monkeypatch.setattr(logs, "_LOOK", 0.2)


def _until(happens: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def end(api: ApiServer, body: dict[str, Any], how: str = "Succeeded") -> None:
    api.put({**body, "status": conditions("Created", how)})


@pytest.mark.usefixtures("_impatient")
def test_following_ends_with_the_run_and_survives_a_broken_connection(
    run: Run, running: dict[str, Any], api: ApiServer
) -> None:
    name = running["metadata"]["name"]
    pods = [f"{name}-master-0", f"{name}-worker-0"]
    api.open_logs.update(pods)
    api.drop.append("log")

    def live() -> None:
        for second in range(3, 30):
            time.sleep(0.02)
            # Three lines a second: a stream that goes on from a whole second repeats some.
            text = f"2026-11-21T03:04:{second // 3:02}.{second % 3}00000000Z more {second}"
            api.write(pods[0], text)
        for one in pods:
            api.finish(one)
        end(api, running)

    api.logs[pods[0]] = []
    thread = threading.Thread(target=live)
    thread.start()
    done = run("logs", "prod/llm", "-f")
    thread.join()
    assert done.exit_code == 0, done.output
    lines = [x.split("| ")[1] for x in done.stdout.splitlines() if x.startswith("rank 0")]
    assert lines == [f"more {second}" for second in range(3, 30)], "none lost, none twice"
    assert not api.drop
    assert [r.query.get("sinceTime") for r in api.requests if r.resource == "pods/log"].count(
        None
    ) == 2


@pytest.mark.usefixtures("_impatient")
def test_following_waits_for_pods_and_follows_those_that_replace_them(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    body = applied("prod/llm", conditions("Created"))
    name = f"{body['metadata']['name']}-master-0"

    def asked(resource: str) -> int:
        return sum(request.resource == resource for request in api.requests)

    def live() -> None:
        try:
            _until(lambda: asked("pods"))
            api.not_started[name] = "waiting to start"
            api.logs[name] = [stamped(1, "first")]
            first = pod(body, name, **RUNNING)
            api.put(first)
            _until(lambda: asked("pods/log"))
            del api.not_started[name]
            _until(lambda: api.read_logs)
            looked = asked("pods")
            _until(lambda: asked("pods") > looked)
            api.logs[name] = [stamped(2, "second")]
            first["metadata"]["creationTimestamp"] = "2026-11-21T03:09:00Z"
            api.put(first)
            _until(lambda: len(api.read_logs) > 1)
        finally:
            end(api, body)

    thread = threading.Thread(target=live)
    thread.start()
    done = run("logs", "prod/llm", "-f")
    thread.join()
    assert done.exit_code == 0, done.output
    assert done.stdout == "rank 0    | first\nrank 0    | second\n"


def test_following_what_has_ended_is_refused(run: Run) -> None:
    assert run("logs", "prod/llm", "-f", "-p").exit_code == 2
