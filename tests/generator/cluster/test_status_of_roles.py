"""`status` and `logs` of a job with roles: who waits for whom, and whose lines are shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from apiserver import ApiServer
from cluster_objects import manifest
from repository import Repository

Run = Callable[..., Result]
ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
targets: {jobset: {version: "0.12"}}
defaults:
  target: jobset
  image: {repository: registry.example.com/ml/train, tag: "1.0"}
  resources: {cpu: "1", memory: 1Gi}
"""
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: grpo
entrypoint: {script: train.py}
flags: {rollouts: "${{ roles.rollout.urls }}", judge: "${{ roles.judge.url }}"}
nodes: 2
procsPerNode: 2
maxDuration: 1h
roles:
  rollout: {nodes: 2, entrypoint: {script: serve.py}, port: 8000}
  judge: {entrypoint: {script: serve.py}, port: 8000}
"""


@pytest.fixture
def rendered(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path)
    repository.write("prod/environment.yaml", ENVIRONMENT)
    repository.write("prod/jobs/grpo.yaml", JOB)
    done = repository.run("render")
    assert done.exit_code == 0, done.output
    return repository


class Live:
    """The JobSet in the cluster, and pods of it."""

    def __init__(self, api: ApiServer, body: dict[str, Any]):
        self.api = api
        self.body = api.put({**body, "status": {"replicatedJobsStatus": []}})
        self.name: str = body["metadata"]["name"]

    def pod(self, group: str, index: int, state: dict[str, Any], *, ready: bool = False) -> str:
        name = f"{self.name}-{group}-0-{index}-abcde"
        labels = {
            "app.kubernetes.io/instance": self.name,
            "app.kubernetes.io/managed-by": "trainwright",
            "trainwright.io/environment": "prod",
            "batch.kubernetes.io/job-completion-index": str(index),
            **({"trainwright.io/role": group} if group != "node" else {}),
        }
        ended = state.get("terminated")
        phase = ("Failed" if ended["exitCode"] else "Succeeded") if ended else "Running"
        self.api.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": name,
                    "generateName": name.removesuffix("abcde"),
                    "namespace": "training",
                    "labels": labels,
                    "creationTimestamp": "2026-11-21T03:04:31Z",
                },
                "spec": {"nodeName": "node-a", "containers": [{"name": group}]},
                "status": {
                    "phase": phase,
                    "containerStatuses": [
                        {"name": group, "state": state, "ready": ready, "restartCount": 0}
                    ],
                },
            }
        )
        self.api.logs[name] = [f"2026-11-21T03:04:0{index}.000000000Z {group} {index} writes"]
        return name

    def roles(self, *, ready: bool) -> None:
        for group, index in (("judge", 0), ("rollout", 0), ("rollout", 1)):
            self.pod(group, index, {"running": {}}, ready=ready or group == "judge")

    def trainers(self) -> None:
        for index in range(2):
            self.pod("node", index, {"running": {}}, ready=True)


@pytest.fixture
def live(rendered: Repository, api: ApiServer) -> Live:
    return Live(api, manifest(rendered, "prod/grpo"))


def _labels(done: Result) -> list[str]:
    return [line.split("|")[0].strip() for line in done.stdout.splitlines()]


def test_a_run_whose_roles_start_is_pending_and_says_which(run: Run, live: Live) -> None:
    live.roles(ready=False)
    done = run("status", "prod/grpo")
    assert done.exit_code == 0, done.output
    assert "those that train wait for their roles: judge 1/1, rollout 0/2" in done.stdout
    (item,) = json.loads(run("status", "prod/grpo", "-o", "json").stdout)["items"]
    assert (item["cluster"], item["reason"]) == ("pending", "RolesNotReady")
    assert (item["ready"], item["total"]) == (1, 5)


def test_what_keeps_a_role_from_starting_is_said(run: Run, live: Live) -> None:
    live.pod("judge", 0, {"running": {}}, ready=True)
    live.pod("rollout", 0, {"waiting": {"reason": "ImagePullBackOff", "message": "no such tag"}})
    shown = run("status", "prod/grpo").stdout
    assert "rollout 0/1; rollout 0: no such tag" in shown


def test_pods_are_listed_as_ranks_and_by_role(run: Run, live: Live) -> None:
    live.roles(ready=True)
    live.trainers()
    done = run("status", "prod/grpo")
    assert "running" in done.stdout
    assert "5/5" in done.stdout
    (item,) = json.loads(run("status", "prod/grpo", "-o", "json").stdout)["items"]
    assert [(pod["role"], pod["ranks"]) for pod in item["pods"]] == [
        ("", [0, 1]),
        ("", [2, 3]),
        ("judge", []),
        ("rollout", []),
        ("rollout", []),
    ]
    assert [row in done.stdout for row in ("ranks 0-1", "judge 0", "rollout 1")] == [True] * 3


def test_a_role_that_fails_is_named_as_the_cause(run: Run, live: Live) -> None:
    live.roles(ready=True)
    live.trainers()
    ended = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": ""}}
    live.pod("rollout", 1, ended)
    assert "rollout 1 ended with exit code 137 (OOMKilled)" in run("status", "prod/grpo").stdout
    assert _labels(run("logs", "prod/grpo")) == ["ranks 0-1", "ranks 2-3", "rollout 1"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), ["ranks 0-1", "ranks 2-3"]),
        (("--rank", "3"), ["ranks 2-3"]),
        (("--role", "rollout"), ["rollout 0", "rollout 1"]),
        (("--role", "rollout", "--rank", "1"), ["rollout 1"]),
        (("--role", "judge"), ["judge 0"]),
        (("--role", "all"), ["ranks 0-1", "ranks 2-3", "judge 0", "rollout 0", "rollout 1"]),
        (("--follow",), ["ranks 0-1", "ranks 2-3"]),
    ],
)
def test_logs_are_of_those_that_train_or_of_a_role(
    options: tuple[str, ...], expected: list[str], run: Run, live: Live
) -> None:
    live.roles(ready=True)
    live.trainers()
    if "--follow" in options:
        over = {"type": "Completed", "status": "True", "reason": "AllJobsCompleted"}
        live.api.put({**live.body, "status": {"conditions": [over]}})
    done = run("logs", "prod/grpo", *options)
    assert done.exit_code == 0, done.output
    assert sorted(_labels(done)) == sorted(expected)


def test_before_anything_trains_the_roles_are_what_there_is(run: Run, live: Live) -> None:
    live.roles(ready=False)
    assert _labels(run("logs", "prod/grpo")) == ["judge 0", "rollout 0", "rollout 1"]


def test_a_role_that_there_is_not(run: Run, live: Live) -> None:
    live.roles(ready=True)
    live.trainers()
    done = run("logs", "prod/grpo", "--role", "reward")
    assert done.exit_code == 2
    assert done.stderr.splitlines()[-1] == (
        "trainwright: there is no role reward: its pods are of judge, rollout"
    )
    done = run("logs", "prod/grpo", "--rank", "9")
    assert done.stderr.splitlines()[-1] == (
        "trainwright: there is no rank 9: pods hold ranks 0-1, ranks 2-3"
    )
