"""`trainwright status` of runs on Job, JobSet and TrainJob: refused, restarted and waiting pods."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from click.testing import Result

from apiserver import ApiServer
from cluster_objects import RUNNING, conditions, container, pod
from repository import Repository

Run = Callable[..., Result]
Applied = Callable[..., dict[str, Any]]

TARGETS = """\
targets:
  job: {}
  jobset: {version: "0.12"}
  trainjob: {version: "2.3"}
  rayjob: {version: "1.7"}
  pytorchjob: {version: "1.9", restrictedInitContainer: true}
"""
REFUSED = 'Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest"'
NO_NODE = "0/9 nodes are available: 9 node(s) didn't match Pod's node affinity/selector."


@pytest.fixture
def put(repository: Repository, api: ApiServer) -> Callable[..., dict[str, Any]]:
    """Put the run of a job on a target into the cluster, with a status."""

    def apply(target: str, status: dict[str, Any], extra: str = "") -> dict[str, Any]:
        path = repository.environment("prod")
        path.write_text(path.read_text().partition("targets:")[0] + TARGETS + extra)
        queue = "queue: team\npodLabels: {another: run}\n" if "queues" in extra else ""
        launcher = "launcher: ray\n" if target == "rayjob" else ""
        repository.job("prod/llm", f"target: {target}\n{launcher}{queue}")
        done = repository.run("render", "prod")
        assert done.exit_code == 0, done.output
        folder = repository.root / "environments/prod/rendered/llm"
        body = yaml.safe_load((folder / f"{target}.yaml").read_text())
        return api.put({**body, "status": status})

    return apply


def the(result: Result) -> dict[str, Any]:
    assert result.exit_code == 0, result.output
    return next(i for i in json.loads(result.stdout)["items"] if i["job"] == "prod/llm")


def named(body: dict[str, Any], name: str, index: int, attempt: int = 0, **status: Any) -> Any:
    """A pod as the Job controller makes it."""
    made = pod(body, name, **status)
    made["metadata"]["generateName"] = f"{name.rpartition('-')[0]}-"
    made["metadata"]["labels"] |= {
        "batch.kubernetes.io/job-completion-index": str(index),
        "jobset.sigs.k8s.io/jobset-name": body["metadata"]["name"],
        "jobset.sigs.k8s.io/restart-attempt": str(attempt),
    }
    made["spec"]["containers"] = [{"name": "node"}]
    for one in made["status"].get("containerStatuses", ()):
        one["name"] = "node"
    return made


def unschedulable() -> dict[str, Any]:
    message = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": NO_NODE,
    }
    return {"phase": "Pending", "conditions": [message]}


def failed(code: int, at: str = "03:04:55") -> dict[str, Any]:
    ended = {"exitCode": code, "reason": "Error", "finishedAt": f"2026-11-21T{at}Z"}
    return {"phase": "Failed", **container({"terminated": ended}, ready=False, restartCount=0)}


def warn(
    api: ApiServer, kind: str, name: str, reason: str, message: str, api_version: str = ""
) -> None:
    about = {"kind": kind, "name": name, **({"apiVersion": api_version} if api_version else {})}
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{name}.{reason}"},
        "type": "Warning", "involvedObject": about, "reason": reason,
        "eventTime": "2026-11-21T03:05:00.123456Z", "message": message,
    }  # fmt: skip
    api.put(event)


# --- Jobs, whose lists leave apiVersion and kind out ---------------------------------------------


def test_a_job_of_a_list_has_its_ranks_and_does_not_differ_from_git(
    run: Run, put: Applied, api: ApiServer
) -> None:
    body = put("job", {"active": 2, "ready": 1, "failed": 2})
    name = body["metadata"]["name"]
    dead = [failed(137), failed(3, "03:05:55")]
    for letters, index, status in (
        ("aaaaa", 0, RUNNING), ("bbbbb", 1, dead[0]), ("ccccc", 1, dead[1]),
        ("ddddd", 1, unschedulable()),
    ):  # fmt: skip
        made = named(body, f"{name}-{index}-{letters}", index, **status)
        made["metadata"]["creationTimestamp"] = f"2026-11-21T03:0{'abcd'.index(letters[0])}:00Z"
        api.put(made)
    item = the(run("status", "prod", "-o", "json"))
    assert item["drift"] == []
    assert (item["cluster"], item["ready"], item["total"], item["restarts"]) == ("running", 1, 2, 2)
    assert item["message"] == f"rank 1: {NO_NODE}"
    assert [p["ranks"] for p in item["pods"]] == [[0], [1], [1], [1]]


@pytest.mark.parametrize(
    ("api_version", "message"), [("batch/v1", True), ("batch.volcano.sh/v1alpha1", False)]
)
def test_an_event_about_a_kind_of_the_same_name_is_not_about_the_run(
    api_version: str, message: bool, run: Run, put: Applied, api: ApiServer
) -> None:
    body = put("job", {"active": 0})
    warn(api, "Job", body["metadata"]["name"], "FailedCreate", REFUSED, api_version)
    item = the(run("status", "prod", "-o", "json"))
    assert (REFUSED in str(item)) is message


def test_a_replacement_that_is_refused_is_said_beside_what_it_replaces(
    run: Run, put: Applied, api: ApiServer
) -> None:
    body = put("job", {"active": 1, "ready": 1, "failed": 1})
    name = body["metadata"]["name"]
    api.put(named(body, f"{name}-0-aaaaa", 0, **RUNNING))
    api.put(named(body, f"{name}-1-bbbbb", 1, **failed(9)))
    warn(api, "Job", name, "FailedCreate", REFUSED)
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["reason"]) == ("restarting", "Error")
    assert item["message"] == f"rank 1 ended with exit code 9; {REFUSED}"


# --- pods that cannot be made --------------------------------------------------------------------


@pytest.mark.parametrize("target", ["jobset", "trainjob"])
def test_the_warning_about_the_child_job_explains_its_run(
    run: Run, put: Applied, api: ApiServer, target: str
) -> None:
    count = [{"name": "node", "active": 1, "ready": 0, "failed": 0}]
    counts = "replicatedJobsStatus" if target == "jobset" else "jobsStatus"
    name = put(target, {counts: count})["metadata"]["name"]
    warn(api, "Job", f"{name}-node-0", "FailedCreate", REFUSED)
    warn(api, "Job", f"{name}-other-0", "FailedCreate", "of something else")
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["reason"]) == ("pending", "FailedCreate")
    assert item["message"] == REFUSED


def test_a_trainjob_whose_jobset_is_refused_says_so(run: Run, put: Applied, api: ApiServer) -> None:
    name = put("trainjob", {})["metadata"]["name"]
    message = "TrainJob resources reconciliation failed: admission webhook denied the request"
    warn(api, "TrainJob", name, "TrainJobResourcesCreationFailed", message)
    item = the(run("status", "prod", "-o", "json"))
    assert (item["reason"], item["message"]) == ("TrainJobResourcesCreationFailed", message)


@pytest.mark.parametrize("target", ["pytorchjob", "jobset"])
def test_a_worker_that_is_refused_beside_a_running_master(
    run: Run, put: Applied, api: ApiServer, target: str
) -> None:
    if target == "pytorchjob":
        body = put(target, conditions("Created", "Running"))
        name = body["metadata"]["name"]
        api.put(pod(body, f"{name}-master-0", **RUNNING))
        warn(api, "PyTorchJob", name, "FailedCreatePod", REFUSED)
    else:
        body = put(target, {"replicatedJobsStatus": [{"name": "node", "active": 1, "ready": 0}]})
        name = body["metadata"]["name"]
        api.put(named(body, f"{name}-node-0-0-aaaaa", 0, **RUNNING))
        warn(api, "Job", f"{name}-node-0", "FailedCreate", REFUSED)
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["ready"], item["total"]) == ("running", 1, 2)
    assert item["message"] == REFUSED
    assert REFUSED[:60] in run("status", "prod").stdout


def test_an_old_warning_about_pods_that_are_there_by_now_says_nothing(
    run: Run, put: Applied, api: ApiServer
) -> None:
    body = put("pytorchjob", conditions("Created", "Running"))
    name = body["metadata"]["name"]
    for role in ("master", "worker"):
        api.put(pod(body, f"{name}-{role}-0", **RUNNING))
    warn(api, "PyTorchJob", name, "FailedCreatePod", REFUSED)
    item = the(run("status", "prod", "-o", "json"))
    assert (item["ready"], item["message"]) == (2, "it is running")


def test_a_crashing_pod_is_there_whatever_was_refused_before(
    run: Run, put: Applied, api: ApiServer
) -> None:
    body = put("pytorchjob", conditions("Created", "Running"))
    name = body["metadata"]["name"]
    before = {"terminated": {"exitCode": 9, "finishedAt": "2026-11-21T03:05:00Z"}}
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
    crashed = container(waiting, lastState=before, restartCount=3)
    api.put(pod(body, f"{name}-master-0", phase="Running", **crashed))
    api.put(pod(body, f"{name}-worker-0", **unschedulable()))
    warn(api, "PyTorchJob", name, "FailedCreatePod", REFUSED)
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["restarts"]) == ("restarting", 3)
    assert item["message"] == f"rank 0 ended with exit code 9; rank 1: {NO_NODE}"


# --- restarts ------------------------------------------------------------------------------------

RESTARTS = {
    "conditions": [
        {
            "type": "RestartingJobSet", "status": "True", "reason": "DefaultFailurePolicy",
            "message": "applying RestartJobSet failure policy action (first failed job: llm-node-0)",
        }
    ],
    "replicatedJobsStatus": [{"name": "node", "active": 1, "ready": 0}],
    "restarts": 1,
}  # fmt: skip


@pytest.mark.parametrize("target", ["jobset", "trainjob"])
def test_a_restart_that_does_not_fit_on_any_node(
    run: Run, put: Applied, api: ApiServer, target: str
) -> None:
    # A TrainJob's own status counts no restarts: its pods say which attempt they are of.
    counts = {"jobsStatus": [{"name": "node", "active": 1, "ready": 0}]}
    body = put(target, RESTARTS if target == "jobset" else counts)
    name = body["metadata"]["name"]
    for index in (0, 1):
        api.put(named(body, f"{name}-node-0-{index}-aaaaa", index, 1, **unschedulable()))
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["reason"]) == ("restarting", "Unschedulable")
    assert item["message"].startswith(f"rank 0 (and 1 more): {NO_NODE}")
    assert item["restarts"] == 1
    line = next(x for x in run("status", "prod").stdout.splitlines() if "llm" in x)
    assert line.split()[3:6] == ["restarting", "0/2", "1"]


def test_a_restart_whose_pods_are_not_there_yet(run: Run, put: Applied) -> None:
    put("jobset", RESTARTS)
    item = the(run("status", "prod", "-o", "json"))
    assert item["cluster"] == "restarting"
    assert item["message"] == RESTARTS["conditions"][0]["message"]


def test_a_restarted_trainjob_that_runs_counts_its_restarts(
    run: Run, put: Applied, api: ApiServer
) -> None:
    body = put("trainjob", {"jobsStatus": [{"name": "node", "active": 1, "ready": 1}]})
    name = body["metadata"]["name"]
    for index in (0, 1):
        api.put(named(body, f"{name}-node-0-{index}-aaaaa", index, 2, **RUNNING))
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["ready"], item["restarts"]) == ("running", 2, 2)
    assert item["message"] == ""


def test_a_pytorchjobs_worker_that_is_replaced_and_does_not_fit(
    run: Run, put: Applied, api: ApiServer
) -> None:
    body = put("pytorchjob", conditions("Created", "Restarting"))
    name = body["metadata"]["name"]
    api.put(pod(body, f"{name}-master-0", **RUNNING))
    worker = pod(body, f"{name}-worker-0", **unschedulable())
    api.put(worker)
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["reason"]) == ("restarting", "Unschedulable")
    assert item["message"].startswith(f"rank 1: {NO_NODE}")


def test_a_job_says_what_its_new_pod_waits_for_and_what_ended_the_last_one(
    run: Run, put: Applied, api: ApiServer
) -> None:
    body = put("job", {"active": 2, "ready": 0, "failed": 3})
    name = body["metadata"]["name"]
    for letters, index, status in (
        ("aaaaa", 0, unschedulable()), ("bbbbb", 1, failed(9)), ("ccccc", 1, failed(3, "03:05:55")),
        ("ddddd", 1, unschedulable()),
    ):  # fmt: skip
        made = named(body, f"{name}-{index}-{letters}", index, **status)
        made["metadata"]["creationTimestamp"] = f"2026-11-21T03:0{'abcd'.index(letters[0])}:00Z"
        api.put(made)
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["reason"], item["restarts"]) == ("restarting", "Unschedulable", 3)
    message = f"rank 0 (and 1 more): {NO_NODE}; rank 1 ended with exit code 3"
    assert item["message"] == message


def test_pods_that_replace_others_are_known_where_the_runtime_is_the_clusters(
    run: Run, put: Applied, api: ApiServer
) -> None:
    body = put("trainjob", {"jobsStatus": [{"name": "node", "active": 1, "ready": 0}]})
    body["spec"]["runtimeRef"] = {"kind": "ClusterTrainingRuntime", "name": "its-own"}
    api.put(body)
    name = body["metadata"]["name"]
    for letters, index, status in (
        ("aaaaa", 0, RUNNING), ("bbbbb", 1, failed(9)), ("ccccc", 1, unschedulable()),
    ):  # fmt: skip
        made = named(body, f"{name}-node-0-{index}-{letters}", index, **status)
        made["metadata"]["creationTimestamp"] = f"2026-11-21T03:0{'abc'.index(letters[0])}:00Z"
        api.put(made)
    item = the(run("status", "prod", "-o", "json"))
    assert [found["ranks"] for found in item["pods"]] == [[], [], []]
    assert (item["cluster"], item["ready"], item["total"]) == ("running", 1, 2)
    assert item["message"] == f"node 1: {NO_NODE}"


# --- pods that are not scheduled ------------------------------------------------------------------


SHORT_GANG = "0/2 tasks in gang unschedulable: pod group is not ready, 2 minAvailable"


@pytest.mark.parametrize("warned", [False, True], ids=["silent", "warned"])
def test_a_pod_that_its_scheduler_leaves_alone_names_the_scheduler_or_what_it_says_of_the_gang(
    run: Run, put: Applied, api: ApiServer, warned: bool
) -> None:
    body = put("jobset", {"replicatedJobsStatus": [{"name": "node", "active": 1, "ready": 0}]})
    name = body["metadata"]["name"]
    for index in (0, 1):
        made = named(body, f"{name}-node-0-{index}-aaaaa", index, phase="Pending")
        made["spec"] |= {"schedulerName": "volcano"}
        del made["spec"]["nodeName"]
        api.put(made)
    if warned:
        warn(api, "PodGroup", name, "Unschedulable", SHORT_GANG)
    item = the(run("status", "prod", "-o", "json"))
    silent = "rank 0 (and 1 more): the scheduler volcano has not considered it"
    assert (item["cluster"], item["reason"], item["message"]) == (
        ("pending", "Unschedulable", SHORT_GANG) if warned else ("pending", "Unscheduled", silent)
    )


def test_a_gang_that_is_not_let_in_says_why(run: Run, put: Applied, api: ApiServer) -> None:
    name = put("pytorchjob", conditions("Created"))["metadata"]["name"]
    warn(api, "PodGroup", name, "Unschedulable", SHORT_GANG)
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["reason"], item["message"]) == (
        "pending",
        "Unschedulable",
        SHORT_GANG,
    )


# --- suspended -----------------------------------------------------------------------------------

ASLEEP = [{"type": "Suspended", "status": "True", "reason": "Suspended", "message": "is suspended"}]


@pytest.mark.parametrize("target", ["job", "jobset", "trainjob", "pytorchjob"])
@pytest.mark.parametrize("queued", [False, True], ids=["by hand", "in a queue"])
def test_suspended_and_queued_on_every_target(
    run: Run, put: Applied, api: ApiServer, target: str, queued: bool
) -> None:
    status = {"conditions": ASLEEP}
    body = put(target, status, "queueing: kueue\nqueues: {team: {}}\n" if queued else "")
    spec = body["spec"]["runPolicy"] if target == "pytorchjob" else body["spec"]
    spec["suspend"] = True
    body = api.put(body)
    if queued:
        owner = {"uid": body["metadata"]["uid"], "controller": True}
        message = {"type": "QuotaReserved", "status": "False", "reason": "Misconfigured",
                "message": "LocalQueue team doesn't exist"}  # fmt: skip
        api.put(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
                "metadata": {"name": "w", "ownerReferences": [owner]},
                "status": {"conditions": [message]},
            }
        )  # fmt: skip
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["ready"], item["total"]) == (
        "queued" if queued else "suspended", 0, 2,
    )  # fmt: skip
    assert item["reason"] == ("Misconfigured" if queued else "Suspended")
    # By hand it is a difference from git, which says that it runs; Kueue's is not.
    assert bool(item["drift"]) != queued


# --- RayJobs, whose pods have names that end at random --------------------------------------------


def test_the_nodes_of_a_rayjob_and_the_pod_with_the_log_of_its_program(
    run: Run, put: Applied, api: ApiServer
) -> None:
    body = put("rayjob", {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING"})
    name = body["metadata"]["name"]
    for made, kind, role in (
        (f"{name}-a1b2c-head-d3e4f", "head", ""),
        (f"{name}-a1b2c-worker-worker-g5h6j", "worker", ""),
        (f"{name}-k7m8n", "", "submitter"),
    ):
        of = pod(body, made, **RUNNING)
        of["metadata"]["labels"] |= {"ray.io/node-type": kind} if kind else {}
        of["metadata"]["labels"] |= {"trainwright.io/role": role} if role else {}
        of["spec"]["containers"] = [{"name": "ray" if kind else "ray-job-submitter"}]
        of["status"]["containerStatuses"][0]["name"] = of["spec"]["containers"][0]["name"]
        api.put(of)
        api.logs[made] = [f"2026-11-21T03:04:01.000000000Z {kind or role}"]
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["ready"], item["total"]) == ("running", 3, 3)
    lines = run("logs", "prod/llm").stdout.splitlines()
    assert [line.split("|")[0].strip() for line in lines] == ["head d3e4f", "worker g5h6j"]
    program = run("logs", "prod/llm", "--role", "submitter").stdout
    assert program == "submitter 0 | submitter\n"
