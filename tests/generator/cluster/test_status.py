"""`trainwright status` against an API server: what people read about their runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from apiserver import ApiServer
from cluster_objects import RUNNING, conditions, container, manifest, pod
from repository import Repository
from trainwright.cli import watch

Run = Callable[..., Result]
Applied = Callable[..., dict[str, Any]]


def items(result: Result) -> dict[str, dict[str, Any]]:
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert (data["apiVersion"], data["kind"]) == ("trainwright.io/v1alpha1", "Status")
    return {item["object"] or item["job"]: item for item in data["items"]}


def the(result: Result, job: str = "prod/llm") -> dict[str, Any]:
    return next(item for item in items(result).values() if item["job"] == job)


def test_what_is_not_applied_says_so(run: Run) -> None:
    item = the(run("status", "prod", "-o", "json"))
    assert (item["git"], item["cluster"], item["pods"]) == ("active", "not applied", [])


def test_one_list_call_a_kind_however_many_jobs(run: Run, applied: Applied, api: ApiServer) -> None:
    for job in ("prod/llm", "prod/mnist"):
        body = applied(job, conditions("Created", "Running"))
        for role in ("master", "worker"):
            api.put(pod(body, f"{body['metadata']['name']}-{role}-0", **RUNNING))
    run("status", "prod")
    asked = [(request.verb, request.resource) for request in api.requests]
    assert asked == [("list", "pytorchjobs"), ("list", "pods")]


def test_lists_are_read_page_by_page_and_anew_when_a_page_expires(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    for job in ("prod/llm", "prod/mnist"):
        applied(job, conditions("Created", "Running"))
    api.page, api.expire_continue = 1, 1
    states = [item["cluster"] for item in items(run("status", "prod", "-o", "json")).values()]
    assert states == ["running", "running"]
    assert sum(request.resource == "pytorchjobs" for request in api.requests) == 4


def test_running_with_ranks_ready(run: Run, applied: Applied, api: ApiServer) -> None:
    body = applied("prod/llm", conditions("Created", "Running"))
    name = body["metadata"]["name"]
    api.put(pod(body, f"{name}-master-0", **RUNNING))
    waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
    api.put(pod(body, f"{name}-worker-0", phase="Pending", **container(waiting)))
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["ready"], item["total"]) == ("running", 1, 2)
    assert (item["reason"], item["message"]) == ("ImagePullBackOff", "rank 1: no such image")
    assert [p["ranks"] for p in item["pods"]] == [[0], [1]]
    line = next(x for x in run("status", "prod").stdout.splitlines() if "llm" in x)
    assert line.split()[3:6] == ["running", "1/2", "-"]


PENDING: dict[str, tuple[dict[str, Any], str, str]] = {
    "a secret that is missing": (
        {"phase": "Pending", **container(
            {"waiting": {"reason": "CreateContainerConfigError", "message": 'secret "hf" not found'}}
        )},
        "CreateContainerConfigError",
        'secret "hf" not found',
    ),
    "an image that cannot be pulled": (
        {"phase": "Pending", **container({"waiting": {"reason": "ErrImagePull", "message": "401"}})},
        "ErrImagePull",
        "401",
    ),
    "nodes that do not fit": (
        {"phase": "Pending", "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
             "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}
        ]},
        "Unschedulable",
        "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    ),
    "the name of the master": (
        {"phase": "Pending", "initContainerStatuses": [
            {"name": "init-pytorch", "state": {"running": {}}, "restartCount": 2}
        ], **container({"waiting": {"reason": "PodInitializing"}})},
        "Init",
        "init container init-pytorch waits until the name of the master resolves, started 2 times again",
    ),
    "an init container whose image is missing": (
        {"phase": "Pending", "initContainerStatuses": [
            {"name": "init-pytorch", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no alpine"}}}
        ]},
        "Init:ImagePullBackOff",
        "init container init-pytorch: no alpine",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PENDING)
def test_pending_says_what_it_waits_for(
    run: Run, applied: Applied, api: ApiServer, case: str
) -> None:
    state, reason, message = PENDING[case]
    body = applied("prod/llm", conditions("Created"))
    api.put(pod(body, f"{body['metadata']['name']}-worker-0", **state))
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["reason"]) == ("pending", reason)
    assert item["message"] == f"rank 1: {message}"


def test_pods_that_are_refused_are_explained_by_events(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    body = applied("prod/llm", conditions("Created"))
    for name, message, when in (
        ("b", 'pods "x" is forbidden: violates PodSecurity "restricted"', "2026-11-21T03:05:00Z"),
        ("a", "an older one", "2026-11-21T03:04:00Z"),
    ):
        api.put(
            {
                "apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "type": "Warning",
                "involvedObject": {"kind": "PyTorchJob", "name": body["metadata"]["name"]},
                "lastTimestamp": when, "message": message,
            }
        )  # fmt: skip
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["reason"]) == ("pending", "Warning")
    assert item["message"] == 'pods "x" is forbidden: violates PodSecurity "restricted"'


def failed(
    reason: str = "Error", code: int = 1, at: str = "03:04:55", **more: str
) -> dict[str, Any]:
    ended = {"exitCode": code, "reason": reason, "finishedAt": f"2026-11-21T{at}Z", **more}
    return {"phase": "Failed", **container({"terminated": ended}, ready=False, restartCount=0)}


def test_the_rank_that_failed_first_speaks_for_the_run(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    body = applied("prod/llm", conditions("Created", "Failed"))
    name = body["metadata"]["name"]
    # The master was stopped by the operator, at the same second but for the exit code.
    api.put(pod(body, f"{name}-master-0", **failed(code=143, at="03:04:54")))
    message = "Traceback\nRuntimeError: hf_abcdefghijklmnopqrstuvwxyz0123456789 is refused"
    api.put(pod(body, f"{name}-worker-0", **failed("OOMKilled", 137, message=message)))
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["reason"]) == ("failed", "OOMKilled")
    assert item["message"] == (
        "rank 1 ended with exit code 137 (OOMKilled): RuntimeError: *** is refused; it is failed"
    )
    assert "hf_abc" not in run("status", "prod", "-o", "json").stdout


def termination(**fields: object) -> str:
    """A termination message as the runtime leaves it (docs/failures.md)."""
    return json.dumps(
        {
            "message": "rank 1 on node 1 (w) failed: exit code 1: OSError: [Errno 28] (cause: full)",
            "cause": "disk-full", "rank": 1, "node": 1, "host": "w", "exitCode": 1, "retry": False,
            "follows": False, "time": "2026-11-21T03:04:50.100Z", "error": "OSError", "help": "",
            **fields,
        }
    )  # fmt: skip


def test_the_report_of_the_runtime_speaks_first_and_names_the_cause_before_what_followed(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    body = applied("prod/llm", conditions("Created", "Failed"))
    name = body["metadata"]["name"]
    lost = termination(
        message="rank 0 on node 0 (m) failed: another rank was lost", cause="peer-lost",
        follows=True, time="2026-11-21T03:04:50.000Z",
    )  # fmt: skip
    api.put(pod(body, f"{name}-master-0", **failed(code=171, at="03:04:51", message=lost)))
    api.put(pod(body, f"{name}-worker-0", **failed(at="03:04:55", message=termination())))
    item = the(run("status", "prod", "-o", "json"))
    assert item["message"] == (
        "rank 1 on node 1 (w) failed: exit code 1: OSError: [Errno 28] (cause: full); it is failed"
    )
    assert [p["ending"]["cause"] for p in item["pods"]] == ["peer-lost", "disk-full"]
    done = run("logs", "prod/llm")
    assert next(line for line in done.stderr.splitlines() if line.startswith("rank ")) == (
        "rank 1    | rank 1 on node 1 (w) failed: exit code 1: OSError: [Errno 28] (cause: full)"
    )


@pytest.mark.parametrize(
    "message",
    ['{"message": "cut', "{}", '{"message": 7}', '{"message": " "}', "{" * 4096, "[1, 2]", '"x"'],
)
def test_a_message_of_any_other_program_is_shown_as_it_is(
    run: Run, applied: Applied, api: ApiServer, message: str
) -> None:
    body = applied("prod/llm", conditions("Created", "Failed"))
    api.put(pod(body, f"{body['metadata']['name']}-worker-0", **failed(message=message)))
    item = the(run("status", "prod", "-o", "json"))
    assert item["message"] == f"rank 1 ended with exit code 1: {message.strip()}; it is failed"


def test_a_report_hides_credentials_and_keeps_to_one_line(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    body = applied("prod/llm", conditions("Created", "Failed"))
    message = termination(message="refused\nhf_abcdefghijklmnopqrstuvwxyz0123456789\x1b[31m")
    api.put(pod(body, f"{body['metadata']['name']}-worker-0", **failed(message=message)))
    done = run("status", "prod/llm")
    assert "refused ***" in done.stdout
    assert "hf_abc" not in done.stdout
    assert "\x1b" not in done.stdout


def test_the_log_s_last_lines_in_the_message_are_shown_without_asking_for_the_log(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    body = applied("prod/llm", conditions("Created", "Failed"))
    lines = "step 1\nstep 2\nValueError: boom"
    api.put(pod(body, f"{body['metadata']['name']}-worker-0", **failed(message=lines)))
    done = run("status", "prod/llm")
    assert done.stdout.endswith(
        "last lines of the rank that failed first:\n  step 1\n  step 2\n  ValueError: boom\n"
    )
    assert not [request for request in api.requests if request.resource == "pods/log"]


def test_what_was_restarted_before_is_not_why_it_failed(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    body = applied("prod/llm", conditions("Created", "Failed"))
    name = body["metadata"]["name"]
    before = {"terminated": {"exitCode": 1, "finishedAt": "2026-11-21T01:00:00Z"}}
    again = container({"running": {}}, ready=True, lastState=before, restartCount=1)
    api.put(pod(body, f"{name}-master-0", phase="Running", **again))
    api.put(pod(body, f"{name}-worker-0", **failed("OOMKilled", 137)))
    assert the(run("status", "prod", "-o", "json"))["reason"] == "OOMKilled"


def test_another_namespace_than_the_environments(run: Run, api: ApiServer) -> None:
    assert run("status", "prod", "-n", "elsewhere").exit_code == 0
    assert all("/namespaces/elsewhere/" in request.path for request in api.requests)


def test_what_no_cluster_runs_needs_none(repository: Repository) -> None:
    path = repository.root / "environments/prod/environment.yaml"
    text = path.read_text()
    start = text.index("targets:")
    path.write_text(text[:start] + "targets: {compose: {}}\npodSecurity: baseline\n")
    for job in ("llm", "mnist"):
        file = repository.root / f"environments/prod/jobs/{job}.yaml"
        text = file.read_text().replace("nodes: 2\nmaxDuration: 2h\n", "target: compose\n")
        file.write_text(text)
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output
    assert repository.run("status", "prod").exit_code == 0
    assert (
        "not a job that a cluster runs"
        in repository.run("status", "prod/llm", "--for", "succeeded").stderr
    )


def test_one_job_shows_its_pods_and_the_last_lines(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    body = applied("prod/llm", conditions("Created", "Failed"))
    name = body["metadata"]["name"]
    api.put(pod(body, f"{name}-master-0", **failed()))
    api.logs[f"{name}-master-0"] = [
        *(f"2026-11-21T03:04:5{i}.000000000Z line {i}" for i in range(5)),
        "2026-11-21T03:04:55.000000000Z password: hunter2-and-more",
        "2026-11-21T03:04:55.000000001Z \x1b[31mred",
    ]
    done = run("status", "prod/llm")
    assert done.exit_code == 0, done.output
    assert f"{name}-master-0" in done.stdout
    assert "last lines of the rank that failed first:\n  line 0\n" in done.stdout
    assert "hunter2" not in done.output
    assert "\x1b" not in done.output


@pytest.mark.parametrize(
    ("trouble", "message"),
    [
        (
            lambda api, pod: api.lost_logs.update({pod: "dial tcp: lookup node-a: no such host"}),
            "the log cannot be read: dial tcp: lookup node-a: no such host",
        ),
        (
            lambda api, pod: api.lost_logs.update({pod: 'nodes "node-a" not found'}),
            'the log cannot be read, since the node of the pod is gone: nodes "node-a" not found',
        ),
        (lambda api, pod: None, "the pod is gone, and its log with it"),
        (lambda api, pod: api.not_started.update({pod: "is waiting to start"}), "waiting to start"),
        (lambda api, pod: api.forbidden.add(("get", "pods/log")), "not allowed to get pods/log"),
    ],
    ids=["node is gone", "node is deleted", "pod is gone", "not started", "forbidden"],
)
def test_a_log_that_cannot_be_read_hides_nothing_else(
    run: Run,
    applied: Applied,
    api: ApiServer,
    trouble: Callable[[ApiServer, str], None],
    message: str,
) -> None:
    body = applied("prod/llm", conditions("Created", "Failed"))
    name = f"{body['metadata']['name']}-master-0"
    api.put(pod(body, name, **failed()))
    trouble(api, name)
    done = run("status", "prod/llm")
    assert done.exit_code == 0, done.output
    assert "rank 0 ended with exit code 1" in done.stdout
    assert name in done.stdout
    assert "no last lines of the rank that failed first: " in done.stdout
    assert message in done.stdout.splitlines()[-1]


def test_restarting_counts_and_says_why(run: Run, applied: Applied, api: ApiServer) -> None:
    body = applied("prod/llm", conditions("Created", "Running"))
    name = body["metadata"]["name"]
    before = {
        "terminated": {"exitCode": 139, "reason": "Error", "finishedAt": "2026-11-21T03:05:00Z"}
    }
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 5m0s"}}
    crashed = container(waiting, lastState=before, restartCount=3)
    api.put(pod(body, f"{name}-master-0", phase="Running", **crashed))
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["restarts"]) == ("restarting", 3)
    assert item["message"] == "rank 0 ended with exit code 139"


def test_suspended_is_by_hand_and_queued_is_by_kueue(
    repository: Repository, run: Run, api: ApiServer
) -> None:
    repository.job("prod/paused", "state: suspended\n")
    repository.run("render")
    body = manifest(repository, "prod/paused")
    api.put({**body, "status": conditions("Created", "Suspended")})
    item = the(run("status", "prod", "-o", "json"), "prod/paused")
    assert (item["git"], item["cluster"]) == ("suspended", "suspended")


UNSAID = (
    "Kueue gives no reason: it is not evaluated yet, or waits with a workload of the same shape"
)
WORKLOADS: dict[str, tuple[dict[str, Any] | None, str, str]] = {
    "no Workload": (None, "NoWorkload", "Kueue has taken no notice of it, in the queue team"),
    "quota": (
        {"status": {"conditions": [{
            "type": "QuotaReserved", "status": "False", "reason": "Pending",
            "message": "couldn't assign flavors to pod set master: insufficient unused quota for "
            "nvidia.com/gpu in flavor h100, 4 more needed",
        }]}},
        "WaitingForQuota",
        "couldn't assign flavors to pod set master: insufficient unused quota for nvidia.com/gpu "
        "in flavor h100, 4 more needed",
    ),
    "a queue that is not there": (
        {"status": {"conditions": [{
            "type": "QuotaReserved", "status": "False", "reason": "Inadmissible",
            "message": "LocalQueue team doesn't exist",
        }]}},
        "Inadmissible",
        "LocalQueue team doesn't exist",
    ),
    "a check": (
        {"status": {
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            "admissionChecks": [
                {"name": "provisioning", "state": "Pending", "message": "waiting for 3 nodes"},
                {"name": "budget", "state": "Ready"},
            ],
        }},
        "AdmissionChecks",
        "provisioning: waiting for 3 nodes",
    ),
    "somebody held it": ({"spec": {"active": False}}, "Deactivated", "its Workload is not active"),
    "granular": (
        {"status": {"conditions": [
            {"type": "QuotaReserved", "status": "False", "reason": "TopologyPlacementFailed",
             "message": 'topology "rack" doesn\'t allow to fit any of 2 pod(s)'},
            {"type": "Admitted", "status": "False", "reason": "NoReservation"},
        ]}},
        "TopologyPlacementFailed",
        'topology "rack" doesn\'t allow to fit any of 2 pod(s)',
    ),
    "more than there ever is": (
        {"status": {"conditions": [{
            "type": "QuotaReserved", "status": "False", "reason": "Pending",
            "message": "couldn't assign flavors to pod set worker: insufficient quota for "
            "nvidia.com/gpu in flavor h100, previously considered podsets requests (0) + current "
            "podset request (16) > maximum capacity (8)",
        }]}},
        "ExceedsMaxQuota",
        "couldn't assign flavors to pod set worker: insufficient quota for nvidia.com/gpu in flavor "
        "h100, previously considered podsets requests (0) + current podset request (16) > maximum "
        "capacity (8)",
    ),
    "taints": (
        {"status": {"conditions": [{
            "type": "QuotaReserved", "status": "False", "reason": "Pending",
            "message": "couldn't assign flavors to pod set main: untolerated taint {gpu  NoSchedule "
            "<nil>} in flavor h100",
        }]}},
        "NoMatchingFlavor",
        "couldn't assign flavors to pod set main: untolerated taint {gpu NoSchedule <nil>} in "
        "flavor h100",
    ),
    "held for a reason of its own": (
        {"status": {"conditions": [{
            "type": "QuotaReserved", "status": "False", "reason": "Pending",
            "message": "Workload no longer fits after processing another workload",
        }]}},
        "Pending",
        "Workload no longer fits after processing another workload",
    ),
    "preempted, and back in the queue": (
        {"status": {"conditions": [
            {"type": "QuotaReserved", "status": "False", "reason": "Pending",
             "message": "couldn't assign flavors to pod set main: insufficient unused quota for cpu"},
            {"type": "Evicted", "status": "True", "reason": "Preempted",
             "message": "Preempted to accommodate a workload (UID: 1) due to prioritization"},
            {"type": "Preempted", "status": "True", "reason": "InClusterQueue",
             "message": "Preempted to accommodate a workload (UID: 1) due to prioritization"},
            {"type": "Requeued", "status": "True", "reason": "Preempted"},
        ]}},
        "Preempted",
        "Preempted to accommodate a workload (UID: 1) due to prioritization; couldn't assign flavors "
        "to pod set main: insufficient unused quota for cpu",
    ),
    "just preempted": (
        {"status": {"conditions": [
            {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "Preempted to b"},
            {"type": "Evicted", "status": "True", "reason": "Preempted", "message": "Preempted to b"},
        ]}},
        "Preempted",
        "Preempted to b",
    ),
    "preempted before, and quota is reserved again": (
        {"status": {"conditions": [
            {"type": "QuotaReserved", "status": "True"},
            {"type": "Evicted", "status": "False", "reason": "QuotaReserved", "message": "Previously: a"},
        ]}},
        "AdmissionChecks",
        "quota is reserved, checks are not done",
    ),
    "nothing said": ({}, "Queued", UNSAID),
}  # fmt: skip


@pytest.mark.parametrize("version", ["v1beta2", "v1beta1"])
@pytest.mark.parametrize("case", WORKLOADS)
def test_queued_is_said_in_kueues_words(
    repository: Repository, run: Run, api: ApiServer, case: str, version: str
) -> None:
    workload, reason, message = WORKLOADS[case]
    repository.environment("prod", "queueing: kueue\nqueues: {team: {}}\n")
    repository.job("prod/llm", "queue: team\npodLabels: {another: run}\n")
    repository.run("render", "prod")
    body = manifest(repository, "prod/llm")
    body["spec"]["runPolicy"]["suspend"] = True
    body = api.put({**body, "status": conditions("Created", "Suspended")})
    if version == "v1beta1":
        del api.kinds["kueue.x-k8s.io/v1beta2", "Workload"]
    if workload is not None:
        owner = {"uid": body["metadata"]["uid"], "controller": True}
        metadata = {"name": "w", "ownerReferences": [owner]}
        api.put(
            {
                "apiVersion": f"kueue.x-k8s.io/{version}",
                "kind": "Workload",
                "metadata": metadata,
                **workload,
            }
        )
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["reason"], item["message"]) == ("queued", reason, message)
    assert item["ready"] == 0
    assert item["drift"] == [], "Kueue's suspend is no difference"


SHORT = "insufficient unused quota for nvidia.com/gpu in flavor h100, 2 more needed"
OTHER = {"nodeSelector": {"pool": "a100"}}
LIKE: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "alike": ({}, {}, f"{SHORT} (reported for other, a workload of the same shape)"),
    "bypassed": (
        {}, {"reason": "PendingEvaluation", "message":
             "Bypassed scheduling evaluation because an equivalent workload recently failed"},
        f"{SHORT} (reported for other, a workload of the same shape)",
    ),
    "elsewhere": ({"queueName": "else"}, {}, UNSAID),
    "other pods": ({"podSets": [{"name": "main", "count": 2, "template": {"spec": OTHER}}]}, {}, UNSAID),
    "fewer pods": ({"podSets": [{"name": "main", "count": 1}]}, {}, UNSAID),
    "more urgent": ({"priority": 9}, {}, UNSAID),
}  # fmt: skip


@pytest.mark.parametrize("case", LIKE)
def test_a_workload_that_kueue_did_not_evaluate_waits_for_what_its_like_waits_for(
    repository: Repository, run: Run, api: ApiServer, case: str
) -> None:
    differs, reported, message = LIKE[case]
    repository.environment("prod", "queueing: kueue\nqueues: {team: {}}\n")
    repository.job("prod/llm", "queue: team\npodLabels: {another: run}\n")
    repository.run("render", "prod")
    body = manifest(repository, "prod/llm")
    body["spec"]["runPolicy"]["suspend"] = True
    body = api.put({**body, "status": conditions("Created", "Suspended")})
    spec = {"queueName": "team", "podSets": [{"name": "main", "count": 2}]}
    waits = {"type": "QuotaReserved", "status": "False"}
    for name, more, condition in (
        ("other", differs, {**waits, "reason": "WaitingForQuota", "message": SHORT}),
        (
            "own",
            {},
            {**waits, **reported} if reported else {"type": "PodsReady", "status": "False"},
        ),
    ):
        owner = {"uid": body["metadata"]["uid"] if name == "own" else "u", "controller": True}
        api.put(
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload",
                "metadata": {"name": name, "ownerReferences": [owner]},
                "spec": {**spec, **more}, "status": {"conditions": [condition]},
            }
        )  # fmt: skip
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["message"]) == ("queued", message)
    assert item["reason"] == ("WaitingForQuota" if SHORT in message else "Queued")


def test_what_git_no_longer_has(repository: Repository, run: Run, applied: Applied) -> None:
    old = applied("prod/llm", conditions("Created", "Running"))["metadata"]["name"]
    gone = applied("prod/mnist", conditions("Created", "Succeeded"))["metadata"]["name"]
    repository.job("prod/llm", "run: 2\n")
    (repository.root / "environments/prod/jobs/mnist.yaml").unlink()
    repository.run("render", "prod")
    found = items(run("status", "prod", "-o", "json"))
    new = manifest(repository, "prod/llm")["metadata"]["name"]
    assert {name: (item["job"], item["git"], item["cluster"]) for name, item in found.items()} == {
        new: ("prod/llm", "active", "not applied"),
        old: ("prod/llm", "not in git", "running"),
        gone: ("prod/mnist", "not in git", "succeeded"),
    }
    assert list(items(run("status", "prod/llm", "-o", "json"))) == [new, old]
    for line in run("status", "prod").stdout.splitlines():
        command = f"`kubectl --namespace training delete pytorchjob/{line.split()[1]}` ends it"
        assert (command in line) == ("not in git" in line)


def test_what_another_object_made_is_no_run(run: Run, applied: Applied, api: ApiServer) -> None:
    body = applied("prod/llm", conditions("Created", "Running"))
    made = {**body, "metadata": {**body["metadata"], "name": "made", "uid": "other"}}
    made["metadata"]["ownerReferences"] = [{"uid": "above", "controller": True}]
    api.put(made)
    assert "made" not in items(run("status", "prod", "-o", "json"))


def test_cancelled_and_gone_is_deleted(repository: Repository, run: Run) -> None:
    repository.job("prod/llm", "state: cancelled\n")
    repository.run("render", "prod")
    item = the(run("status", "prod", "-o", "json"))
    assert (item["git"], item["cluster"], item["object"]) == ("cancelled", "deleted", "")


def test_retired_is_what_the_ledger_says(
    repository: Repository, run: Run, applied: Applied
) -> None:
    applied("prod/llm", conditions("Created", "Succeeded"))
    assert repository.run("retire", "prod/llm", "--outcome", "succeeded").exit_code == 0
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output
    found = items(run("status", "prod/llm", "-o", "json")).values()
    assert [(item["git"], item["cluster"]) for item in found] == [("retired", "succeeded")]


def test_cancelled_and_still_there_is_shown_with_its_phase(
    repository: Repository, run: Run, applied: Applied
) -> None:
    name = applied("prod/llm", conditions("Created", "Running"))["metadata"]["name"]
    repository.job("prod/llm", "state: cancelled\n")
    repository.run("render", "prod")
    for selection in ("prod", "prod/llm"):
        rows = [line for line in run("status", selection).stdout.splitlines() if "prod/llm" in line]
        assert [row.split()[1:4] for row in rows] == [[name, "cancelled", "running"]]
        assert f"it is cancelled, and still there: `kubectl --namespace training delete pytorchjob/{name}` ends it" in rows[0]  # fmt: skip


def test_what_cannot_be_read_hides_nothing_else(
    repository: Repository, run: Run, applied: Applied, api: ApiServer
) -> None:
    applied("prod/mnist", conditions("Created", "Running"))
    repository.environment("other")
    repository.write(
        "other/environment.yaml",
        (repository.root / "environments/other/environment.yaml")
        .read_text()
        .replace("namespace: training", "namespace: closed"),
    )
    repository.job("other/llm")
    assert repository.run("render", "other").exit_code == 0
    api.closed.add("closed")

    done = run("status")
    assert done.exit_code == 2
    rows = {line.split()[0]: line.split()[3] for line in done.stdout.splitlines()[1:]}
    assert rows["prod/mnist"] == "running"
    assert not [job for job in rows if job.startswith("other/")]
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("trainwright: ")]
    assert line.startswith("trainwright: other: namespace closed was not read: not allowed to list")
    assert line.endswith("`trainwright status --print-rbac read` prints the role that allows it")

    done = run("status", "-o", "json")
    assert done.exit_code == 2
    data = json.loads(done.stdout)
    assert [(one["environment"], one["namespace"]) for one in data["unread"]] == [
        ("other", "closed")
    ]
    assert {item["job"] for item in data["items"]} >= {"prod/mnist"}


def test_a_cluster_that_does_not_answer_hides_no_other(
    repository: Repository, run: Run, applied: Applied, tmp_path: Path
) -> None:
    applied("prod/mnist", conditions("Created", "Running"))
    path = repository.environment("other")
    path.write_text(path.read_text().replace('"1.31"}', '"1.31", context: gone}'))
    repository.job("other/llm")
    assert repository.run("render", "other").exit_code == 0
    done = run("status")
    assert done.exit_code == 2
    assert "running" in done.stdout
    assert "trainwright: other: namespace training was not read: " in done.stderr


def test_an_object_edited_by_hand_differs_at_the_field(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    body = applied("prod/llm", conditions("Created", "Running"))
    body["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["image"] = (
        "x"
    )
    body["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"] = 5
    api.put(body)
    pointers = [
        "/spec/pytorchReplicaSpecs/Master/template/spec/containers/0/image",
        "/spec/pytorchReplicaSpecs/Worker/replicas",
    ]
    assert the(run("status", "prod", "-o", "json"))["drift"] == pointers
    assert f"differs from git at {pointers[0]} and 1 more" in run("status", "prod").stdout


def test_what_has_failed_has_no_rank_ready(run: Run, applied: Applied) -> None:
    replicas = {"Master": {"active": 1, "failed": 1}, "Worker": {"active": 1}}
    applied("prod/llm", {**conditions("Created", "Failed"), "replicaStatuses": replicas})
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["ready"]) == ("failed", 0)


def test_being_deleted_is_a_state(run: Run, applied: Applied, api: ApiServer) -> None:
    body = applied("prod/llm", conditions("Created", "Running"))
    body["metadata"]["deletionTimestamp"] = "2026-11-21T04:00:00Z"
    api.put(body)
    assert the(run("status", "prod", "-o", "json"))["cluster"] == "deleting"


def test_pods_of_a_runtime_of_the_clusters_are_found_by_the_jobsets_name(
    repository: Repository, run: Run, api: ApiServer
) -> None:
    repository.write(
        "prod/environment.yaml",
        (repository.root / "environments/prod/environment.yaml")
        .read_text()
        .replace("targets: {", 'targets: {trainjob: {version: "2.0", runtime: torch-distributed}, ')
        + "podSecurity: privileged\n",
    )
    job = repository.job("prod/llm", "target: trainjob\ngracePeriod: 30s\n")
    job.write_text(job.read_text().replace("maxDuration: 2h\n", ""))
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output
    body = manifest(repository, "prod/llm")
    name = body["metadata"]["name"]
    body = api.put({**body, "status": {"jobsStatus": [{"name": "node", "active": 1, "ready": 1}]}})
    for index in (1, 0):
        bare = pod(body, f"{name}-node-0-{index}-x{index}zzz", **RUNNING)
        bare["metadata"]["labels"] = {
            "jobset.sigs.k8s.io/jobset-name": name,
            "batch.kubernetes.io/job-completion-index": str(index),
        }
        bare["spec"]["containers"] = [{"name": "istio-proxy"}, {"name": "node"}]
        bare["status"]["containerStatuses"][0]["name"] = "node"
        api.put(bare)
    item = the(run("status", "prod", "-o", "json"))
    assert (item["cluster"], item["ready"], item["total"]) == ("running", 2, 2)
    assert [p["name"][-7] for p in item["pods"]] == ["0", "1"]


def test_two_environments_go_to_the_contexts_that_they_name(
    repository: Repository, run: Run
) -> None:
    for name, context in (("dev", "here"), ("prod", "there")):
        path = repository.root / f"environments/{name}/environment.yaml"
        path.write_text(path.read_text().replace('"1.31"}', f'"1.31", context: {context}}}'))
    done = run("status")
    assert done.exit_code == 0, done.output
    assert "dev: namespace training of" in done.stderr
    assert "(context here)" in done.stderr.splitlines()[0]
    assert "(context there)" in done.stderr.splitlines()[1]


def test_hostile_words_of_the_cluster_stay_words(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    body = applied("prod/llm", conditions("Created", "Failed"))
    body["status"]["conditions"][-1]["message"] = "\x1b]0;owned\x07 ##[error]x\u202e"
    api.put(body)
    out = run("status", "prod").stdout
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "##[" not in out


def test_the_same_cluster_gives_the_same_bytes(run: Run, applied: Applied, api: ApiServer) -> None:
    body = applied("prod/llm", conditions("Created", "Running"))
    api.put(pod(body, f"{body['metadata']['name']}-master-0", **RUNNING))
    assert run("status", "-o", "json").stdout == run("status", "-o", "json").stdout


# --- what runs are behind, and where they are ------------------------------------------------------

SHARED = 'defaults: {env: {HF_TOKEN: "hunter2-hunter2"}, gracePeriod: 5m}\n'


def test_what_a_run_is_behind_is_said_with_the_line_and_without_credentials(
    run: Run, rendered: Repository, applied: Applied
) -> None:
    applied("prod/llm", conditions("Created", "Running"))
    assert the(run("status", "prod", "-o", "json"))["outdated"] == []
    path = rendered.environment("prod", SHARED)
    line = path.read_text(encoding="utf-8").splitlines().index(SHARED.strip()) + 1
    behind = the(run("status", "prod", "-o", "json"))["outdated"]
    file = "environments/prod/environment.yaml"
    assert [item["path"] for item in behind] == ["gracePeriod", "env.HF_TOKEN"]
    grace, token = behind
    assert (grace["before"], grace["after"]) == ("60s", "5m")
    assert (grace["place"]["file"], grace["place"]["line"]) == (file, line)
    assert (token["before"], token["after"]) == (None, "***")
    many = run("status", "prod").stdout
    row = next(x for x in many.splitlines() if x.startswith("prod/llm"))
    assert f"outdated: gracePeriod ({file}:{line}:" in row
    assert " and 1 more" in row
    one = run("status", "prod/llm").stdout
    assert "outdated until `trainwright rerun prod/llm`:\n" in one
    assert f'  gracePeriod: "60s" → "5m" ({file}:{line}:' in one
    assert "  env.HF_TOKEN: (unset) → *** (" in one
    assert "hunter2" not in many + one


def test_a_run_is_found_in_the_namespace_that_it_began_in(
    run: Run, rendered: Repository, applied: Applied, api: ApiServer
) -> None:
    body = applied("prod/llm", conditions("Created", "Running"))
    api.put(pod(body, f"{body['metadata']['name']}-master-0", **RUNNING))
    path = rendered.root / "environments/prod/environment.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("namespace: training", "namespace: elsewhere"))
    for wanted in ("prod", "prod/llm"):
        assert the(run("status", wanted, "-o", "json"))["cluster"] == "running"
    asked = run("status", "prod").stderr
    assert "prod: namespace elsewhere of " in asked
    assert "prod: namespace training of " in asked
    assert "prod: namespace training of " in run("logs", "prod/llm").stderr
    assert the(run("status", "prod/llm", "-n", "elsewhere", "-o", "json"))["cluster"] == (
        "not applied"
    )


def test_the_runs_of_a_renamed_environment_are_found_by_the_name_that_they_bear(
    rendered: Repository, run: Run, applied: Applied
) -> None:
    """With what a job that is gone has left there."""
    bodies = [applied(job, conditions("Created", "Running")) for job in ("prod/llm", "prod/mnist")]
    llm, mnist = (body["metadata"]["name"] for body in bodies)
    (rendered.root / "environments/prod").rename(rendered.root / "environments/live")
    (rendered.root / "environments/live/jobs/mnist.yaml").unlink()
    found = items(run("status", "live", "-o", "json"))
    there = {name: (found[name]["job"], found[name]["cluster"]) for name in (llm, mnist)}
    assert there == {llm: ("live/llm", "running"), mnist: ("live/mnist", "running")}


def test_a_job_that_moved_here_brings_no_run_of_the_environment_that_it_left(
    rendered: Repository, run: Run, applied: Applied
) -> None:
    """Its run bears the name of that one, whose others are its own still."""
    bodies = [applied(job, conditions("Created", "Running")) for job in ("prod/llm", "prod/mnist")]
    llm, mnist = (body["metadata"]["name"] for body in bodies)
    there = rendered.root / "environments/prod"
    moved = rendered.root / "environments/live"
    (moved / "jobs").mkdir(parents=True)
    (moved / "rendered").mkdir()
    shutil.copy(there / "environment.yaml", moved)
    for part in ("jobs/llm.yaml", "rendered/llm"):
        (there / part).rename(moved / part)
    found = items(run("status", "live", "-o", "json"))
    assert mnist not in found
    assert found[llm]["job"] == "live/llm"


def test_a_watch_asks_again_and_prints_what_is_new(
    run: Run, applied: Applied, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere than in a terminal: nothing while nothing changes."""
    asked = iter(
        (lambda: None, lambda: applied("prod/llm", conditions("Created", "Running")), lambda: None)
    )

    def sleep(_: float) -> None:
        try:
            next(asked)()
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(watch, "sleep", sleep)
    done = run("status", "prod", "--watch")
    assert done.exit_code == 130
    assert done.stdout.count("OBJECT") == 2
    assert "not applied" in done.stdout.partition("OBJECT")[2].partition("OBJECT")[0]
    assert done.stderr.count("namespace") == 1
    assert done.stderr.endswith("trainwright: interrupted\n")
