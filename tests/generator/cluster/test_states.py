"""What the status of each kind means: real status of PyTorchJobs, and the other kinds by their code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gitops_engines import run_lua
from trainwright.kinds import SERVED, TARGETS
from trainwright.kinds.kind import Kind
from trainwright.kinds.operators import OPERATORS
from trainwright.kinds.state import Phase

Shared = Callable[[str], Path]

OBSERVED = {
    "created": (Phase.PENDING, "PyTorchJobCreated", 0),
    "running": (Phase.RUNNING, "PyTorchJobRunning", 2),
    "restarted-worker": (Phase.RUNNING, "PyTorchJobRunning", 2),
    "worker-done-master-running": (Phase.RUNNING, "PyTorchJobRunning", 1),
    "exitcode-143-retry": (Phase.RESTARTING, "PyTorchJobRestarting", 1),
    "suspended": (Phase.SUSPENDED, "PyTorchJobSuspended", 0),
    "resumed": (Phase.PENDING, "PyTorchJobCreated", 0),
    "succeeded": (Phase.SUCCEEDED, "PyTorchJobSucceeded", 0),
    "succeeded-before-ttl": (Phase.SUCCEEDED, "PyTorchJobSucceeded", 0),
    "failed": (Phase.FAILED, "PyTorchJobFailed", 1),
    "deadline": (Phase.FAILED, "PyTorchJobFailed", 0),
}


@pytest.mark.parametrize("name", OBSERVED)
def test_real_status_of_a_pytorchjob(shared: Shared, name: str) -> None:
    body = yaml.safe_load(shared(f"observed/status/pytorchjob-{name}.yaml").read_text())
    state = SERVED["kubeflow.org", "PyTorchJob"].status.state_of(body)
    assert (state.phase, state.reason, state.ready) == OBSERVED[name]
    assert state.total == 2
    assert state.since.startswith("2026-11-21T03:0")


def test_every_observed_state_is_judged(shared: Shared) -> None:
    files = shared("observed/status").glob("pytorchjob-*.yaml")
    assert {file.stem.removeprefix("pytorchjob-") for file in files} == set(OBSERVED)


def holds(*types: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": "True", "reason": "r", "message": "m"} for kind in types]


RESUMED = [{"type": "Suspended", "status": "False", "reason": "Resumed", "message": "resumed"}]
ASLEEP = {"suspend": True}
JOB = {"completions": 4, "parallelism": 4}
GROUPS = {"replicatedJobs": [{"name": "node", "replicas": 1, "template": {"spec": JOB}}]}
NODES = {"trainer": {"numNodes": 4}}
RAY = {"template": {"spec": {"containers": [{"name": "ray", "image": "a:1"}]}}}
CLUSTER = {"rayClusterSpec": {"headGroupSpec": RAY, "workerGroupSpecs": [{"replicas": 3, **RAY}]}}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], Phase]] = {
    "TrainJob new": (NODES, {}, Phase.PENDING),
    "TrainJob starting": (NODES, {"jobsStatus": [{"name": "node", "active": 1}]}, Phase.PENDING),
    "TrainJob running": (NODES, {"jobsStatus": [{"name": "node", "active": 1, "ready": 1}]}, Phase.RUNNING),
    "TrainJob resumed": (
        NODES, {"conditions": RESUMED, "jobsStatus": [{"name": "node", "active": 1, "ready": 1}]}, Phase.RUNNING
    ),
    "TrainJob suspended": ({**NODES, **ASLEEP}, {"conditions": holds("Suspended")}, Phase.SUSPENDED),
    "TrainJob resuming": (
        NODES, {"conditions": holds("Suspended"), "jobsStatus": [{"name": "node", "suspended": 1}]}, Phase.PENDING
    ),
    "TrainJob restarting": (NODES, {"jobsStatus": [{"name": "node", "failed": 1}]}, Phase.RESTARTING),
    "TrainJob complete": (NODES, {"conditions": [*RESUMED, *holds("Complete")]}, Phase.SUCCEEDED),
    "TrainJob failed": (NODES, {"conditions": holds("Failed")}, Phase.FAILED),
    "JobSet new": (GROUPS, {}, Phase.PENDING),
    "JobSet running": (GROUPS, {"replicatedJobsStatus": [{"name": "node", "active": 1, "ready": 1}]}, Phase.RUNNING),
    "JobSet restarting": (
        GROUPS, {"restarts": 2, "replicatedJobsStatus": [{"name": "node", "active": 1, "ready": 0}]}, Phase.RESTARTING
    ),
    "JobSet restarted": (
        GROUPS, {"restarts": 2, "replicatedJobsStatus": [{"name": "node", "active": 1, "ready": 1}]}, Phase.RUNNING
    ),
    "JobSet suspended": ({**GROUPS, **ASLEEP}, {"conditions": holds("Suspended")}, Phase.SUSPENDED),
    "JobSet completed": (GROUPS, {"conditions": holds("Completed"), "terminalState": "Completed"}, Phase.SUCCEEDED),
    "JobSet failed": (GROUPS, {"conditions": holds("Failed"), "terminalState": "Failed"}, Phase.FAILED),
    "Job new": (JOB, {}, Phase.PENDING),
    "Job starting": (JOB, {"active": 4, "ready": 0}, Phase.PENDING),
    "Job running": (JOB, {"active": 4, "ready": 3}, Phase.RUNNING),
    "Job restarting": (JOB, {"active": 1, "ready": 0, "failed": 1}, Phase.RESTARTING),
    "Job suspended": ({**JOB, **ASLEEP}, {"conditions": holds("Suspended")}, Phase.SUSPENDED),
    "Job failing": (JOB, {"conditions": holds("FailureTarget"), "failed": 1, "terminating": 3}, Phase.FAILED),
    "Job failed": (JOB, {"conditions": holds("FailureTarget", "Failed"), "failed": 1}, Phase.FAILED),
    "Job complete": (JOB, {"conditions": holds("SuccessCriteriaMet", "Complete"), "succeeded": 4}, Phase.SUCCEEDED),
    "RayJob new": (CLUSTER, {}, Phase.PENDING),
    "RayJob starting": (CLUSTER, {"jobDeploymentStatus": "Initializing"}, Phase.PENDING),
    "RayJob running": (CLUSTER, {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"}, Phase.RUNNING),
    "RayJob failed in this attempt": (
        CLUSTER, {"jobDeploymentStatus": "Running", "jobStatus": "FAILED"}, Phase.RUNNING
    ),
    "RayJob tried again": (CLUSTER, {"jobDeploymentStatus": "Retrying", "failed": 1}, Phase.RESTARTING),
    "RayJob suspended": ({**CLUSTER, **ASLEEP}, {"jobDeploymentStatus": "Suspended"}, Phase.SUSPENDED),
    "RayJob complete": (CLUSTER, {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED"}, Phase.SUCCEEDED),
    "RayJob stopped": (CLUSTER, {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED"}, Phase.FAILED),
    "RayJob failed": (CLUSTER, {"jobDeploymentStatus": "Failed", "reason": "AppFailed"}, Phase.FAILED),
    "RayJob refused": (CLUSTER, {"jobDeploymentStatus": "ValidationFailed"}, Phase.FAILED),
    "TrainingJob new": ({"maxSize": 4}, {}, Phase.PENDING),
    "TrainingJob waiting": ({"maxSize": 4}, {"stage": "Waiting"}, Phase.QUEUED),
    "TrainingJob cooling": ({"maxSize": 4}, {"stage": "RequeueCooldown"}, Phase.QUEUED),
    "TrainingJob wrong": ({"maxSize": 4}, {"stage": "WrongConfiguration"}, Phase.FAILED),
    "TrainingJob cancelled": ({"maxSize": 4}, {"stage": "Cancelled"}, Phase.FAILED),
    "TrainingJob starting": (
        {"maxSize": 4}, {"stage": "Running", "execStatus": {"conditions": holds("Created")}}, Phase.PENDING
    ),
    "TrainingJob running": (
        {"maxSize": 4}, {"stage": "Running", "execStatus": {"conditions": holds("Created", "Running")}}, Phase.RUNNING
    ),
    "TrainingJob restarting": (
        {"maxSize": 4}, {"stage": "Running", "execStatus": {"conditions": holds("Created", "Restarting")}}, Phase.RESTARTING
    ),
    "TrainingJob succeeded": (
        {"maxSize": 4}, {"stage": "Completed", "execStatus": {"conditions": holds("Succeeded")}}, Phase.SUCCEEDED
    ),
    "TrainingJob completed, but failed": (
        {"maxSize": 4}, {"stage": "Completed", "execStatus": {"conditions": holds("Failed")}}, Phase.FAILED
    ),
    "TrainingJob completed, nobody knows how": ({"maxSize": 4}, {"stage": "Completed"}, Phase.RUNNING),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_the_other_kinds(case: str) -> None:
    spec, status, phase = CASES[case]
    kind = _kind(case.split(maxsplit=1)[0])
    state = kind.status.state_of({"metadata": {"name": "a"}, "spec": spec, "status": status})
    assert state.phase is phase
    assert state.total == 4


def test_every_target_has_its_states_and_its_operator() -> None:
    wanted = {t.of.group_kind for t in TARGETS.values() if not t.envelope}
    assert set(SERVED) == wanted
    assert set(SERVED) <= set(OPERATORS)
    for kind in SERVED.values():
        assert kind.plural == f"{kind.kind.lower()}s"


# Argo CD's word for the state of an object and ours have to agree.
HEALTH = {
    Phase.SUCCEEDED: {"Healthy"},
    Phase.FAILED: {"Degraded"},
    Phase.SUSPENDED: {"Suspended"},
    **{p: {"Progressing"} for p in (Phase.QUEUED, Phase.PENDING, Phase.RUNNING, Phase.RESTARTING)},
}


def _kind(name: str) -> Kind:
    return next(kind for kind in SERVED.values() if kind.kind == name)


def argo_cd(body: dict[str, Any], kind: str) -> str:
    """The health of an object by the Lua that the wiring gives Argo CD."""
    status: str = run_lua(_kind(kind).health.lua, body)["status"]
    return status


# Between two reconciles the condition is older than the spec, which Argo CD does not read.
@pytest.mark.parametrize("case", [case for case in CASES if case != "TrainJob resuming"])
def test_the_health_that_argo_cd_shows_agrees(case: str) -> None:
    spec, status, phase = CASES[case]
    body = {"metadata": {"name": "a"}, "spec": spec, "status": status}
    assert argo_cd(body, case.split(maxsplit=1)[0]) in HEALTH[phase]


@pytest.mark.parametrize("name", OBSERVED)
def test_the_health_of_real_status_agrees(shared: Shared, name: str) -> None:
    body = yaml.safe_load(shared(f"observed/status/pytorchjob-{name}.yaml").read_text())
    state = SERVED["kubeflow.org", "PyTorchJob"].status.state_of(body)
    assert argo_cd(body, "PyTorchJob") in HEALTH[state.phase]


@pytest.mark.parametrize("kind", SERVED.values(), ids=lambda kind: kind.kind)
@given(
    types=st.lists(
        st.sampled_from(["Created", "Running", "Failed", "Complete", "Suspended"]), max_size=4
    ),
    filled=st.booleans(),
)
def test_a_failure_that_holds_is_never_anything_else(
    kind: Any, types: list[str], filled: bool
) -> None:
    status = {
        "conditions": holds(*types),
        "execStatus": {"conditions": holds(*types)},
        "stage": "Running",
        "jobDeploymentStatus": "Failed" if "Failed" in types else "Running",
    }
    state = kind.status.state_of(
        {"metadata": {}, **({"spec": {}} if filled else {}), "status": status}
    )
    assert (state.phase is Phase.FAILED) == ("Failed" in types)
