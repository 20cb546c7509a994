"""`status` of the objects, pods and Workloads that real controllers made of rendered jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from apiserver import ApiServer
from repository import Repository
from trainwright.cluster import intent, status
from trainwright.cluster.client import Access, Cluster
from trainwright.cluster.intent import DesiredRun
from trainwright.cluster.text import sentence
from trainwright.datatypes.data import Data
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import SERVED
from trainwright.kinds.operators import find
from trainwright.kinds.state import Phase
from trainwright.runs.workspace import RunState

Shared = Callable[[str], Path]
Recorded = Callable[[str], status.RunStatus]

NO_CLAIM = '0/9 nodes are available: persistentvolumeclaim "transformers" not found. not found'
NO_MATCH = "0/9 nodes are available: 9 node(s) didn't match Pod's node affinity/selector."
NO_TAINT = (
    "0/9 nodes are available: 4 node(s) didn't match Pod's node affinity/selector, 5 node(s) had "
    "untolerated taint(s)."
)
UNSAID = (
    "Kueue gives no reason: it is not evaluated yet, or waits with a workload of the same shape"
)
# phase, ready, total, restarts, ranks of the pods, the start of what is said
EXPECTED: dict[str, tuple[Phase, int, int, int, list[int], str]] = {
    "job/plain-2-pods-gloo": (Phase.RUNNING, 2, 2, 0, [0, 1], ""),
    "job/gpu-in-a-queue-waiting-suspended": (
        Phase.QUEUED, 0, 2, 0, [], "Inadmissible: LocalQueue team-nlp doesn't exist",
    ),
    "job/python-3-pods-gpu-in-a-queue-admitted": (
        Phase.RUNNING, 2, 3, 2, [0, 1, 1, 1, 2], f"Unschedulable: rank 1: {NO_MATCH}",
    ),
    "job/suspended-by-hand": (Phase.SUSPENDED, 0, 2, 0, [], "JobSuspended: Job suspended"),
    "job/torchrun-2-pods-gpu-in-a-queue-admitted": (
        Phase.PENDING, 0, 2, 0, [0, 1], f"Unschedulable: rank 0 (and 1 more): {NO_CLAIM}",
    ),
    "jobset/plain-2-pods-gloo": (Phase.RUNNING, 2, 2, 0, [0, 1], ""),
    "jobset/gpu-in-a-queue-waiting-suspended": (Phase.QUEUED, 0, 2, 0, [], f"Queued: {UNSAID}"),
    "jobset/python-3-pods-gpu-in-a-queue-admitted": (
        Phase.RESTARTING, 0, 3, 1, [0, 1, 2], f"Unschedulable: rank 0 (and 2 more): {NO_MATCH}",
    ),
    "jobset/suspended-by-hand": (
        Phase.SUSPENDED, 0, 2, 0, [], "SuspendedJobs: jobset is suspended",
    ),
    "jobset/torchrun-2-pods-gpu-in-a-queue-admitted": (
        Phase.PENDING, 0, 2, 0, [0, 1], f"Unschedulable: rank 0 (and 1 more): {NO_CLAIM}",
    ),
    "jobset/volcano-gang-argv": (
        Phase.PENDING, 0, 2, 0, [0, 4],
        "ranks 0-3 (and 1 more): Pending",
    ),
    "jobset/volcano-gang-python": (
        Phase.SUSPENDED, 0, 2, 0, [], "SuspendedJobs: jobset is suspended",
    ),
    "jobset/volcano-gang-torchrun": (
        Phase.PENDING, 0, 2, 0, [0, 2],
        "Unscheduled: ranks 0-1 (and 1 more): the scheduler volcano has not considered it",
    ),
    "pytorchjob/gpu-in-a-queue-waiting-suspended": (Phase.QUEUED, 0, 2, 0, [], f"Queued: {UNSAID}"),
    "pytorchjob/python-3-pods-gpu-in-a-queue-admitted": (
        Phase.RUNNING, 2, 3, 0, [0, 1, 2], f"Unschedulable: rank 1: {NO_MATCH}",
    ),
    "pytorchjob/suspended-by-hand": (
        Phase.SUSPENDED, 0, 2, 0, [],
        "PyTorchJobSuspended: PyTorchJob mnist-gloo-8d910e52 is suspended.",
    ),
    "pytorchjob/torchrun-2-pods-gpu-in-a-queue-admitted": (
        Phase.PENDING, 0, 2, 0, [0, 1], f"Unschedulable: rank 0 (and 1 more): {NO_CLAIM}",
    ),
    "trainjob/gpu-in-a-queue-waiting-suspended": (Phase.QUEUED, 0, 2, 0, [], f"Queued: {UNSAID}"),
    "trainjob/python-3-pods-gpu-in-a-queue-admitted": (
        Phase.RESTARTING, 0, 3, 1, [0, 1, 2], f"Unschedulable: rank 0 (and 2 more): {NO_TAINT}",
    ),
    "trainjob/suspended-by-hand": (
        Phase.SUSPENDED, 0, 2, 0, [], "Suspended: TrainJob is suspended",
    ),
    "trainjob/torchrun-2-pods-gpu-in-a-queue-admitted": (
        Phase.PENDING, 0, 2, 0, [0, 1], f"Unschedulable: rank 0 (and 1 more): {NO_CLAIM}",
    ),
}  # fmt: skip

# What was changed by hand, of which the Job had two.
DRIFT = {
    "job/suspended-by-hand": ("/spec/backoffLimit", "/spec/suspend"),
    "jobset/suspended-by-hand": ("/spec/suspend",),
    "trainjob/suspended-by-hand": ("/spec/suspend",),
    "pytorchjob/suspended-by-hand": ("/spec/runPolicy/suspend",),
}


@pytest.fixture
def recorded(rendered: Repository, api: ApiServer, tmp_path: Path, shared: Shared) -> Recorded:
    """The run of a recording: what was applied in git, what came of it in the cluster."""
    cluster = Cluster(Access(kubeconfig=str(api.kubeconfig(tmp_path / "kubeconfig"))))
    (place,) = intent.desired_states(rendered.root, ("prod",))

    def read(case: str) -> status.RunStatus:
        data = json.loads(shared(f"observed/controllers/{case}.json").read_text())
        applied = tuple(Manifest(body=body) for body in data["applied"])
        main = find(applied)[1]
        uid = api.put(data["live"])["metadata"]["uid"]
        for made in (*data["children"], *data["pods"]):
            for owner in made["metadata"].get("ownerReferences", ()):
                owner.setdefault("uid", uid)
            api.put({"apiVersion": "v1", "kind": "Pod", **_dated(made)})
        labels = main.body["metadata"]["labels"]
        job = JobFile(labels["trainwright.io/environment"], labels["app.kubernetes.io/name"])
        wanted = DesiredRun(job=job, desired=RunState.ACTIVE, manifest=main, supporting=applied)
        environment = replace(place.environment, name=job.environment)
        here = replace(place, environment=environment, intents=(wanted,), whole=False)
        (run,) = status.LiveNamespace(cluster, here, main.namespace).runs()
        return run

    return read


def _dated(made: dict[str, Data]) -> dict[str, Data]:
    """The recordings have no creation times: that of the first condition stands for it."""
    conditions = made.get("status", {}).get("conditions") or [{}]
    made["metadata"].setdefault("creationTimestamp", conditions[0].get("lastTransitionTime"))
    return made


@pytest.mark.parametrize("case", EXPECTED)
def test_what_status_says_of_real_objects(recorded: Recorded, case: str) -> None:
    phase, ready, total, restarts, ranks, message = EXPECTED[case]
    run = recorded(case)
    state = run.state
    assert (state.phase, state.ready, state.total, state.restarts) == (
        phase,
        ready,
        total,
        restarts,
    )
    assert [pod.seat.ranks[0] for pod in run.pods if pod.seat and pod.seat.ranks] == ranks
    assert len(run.pods) == len(ranks)
    assert sentence(state).startswith(message)
    assert bool(sentence(state)) == bool(message)
    # A suspension by hand is not the desired state of git.
    assert run.drift == DRIFT.get(case, ())


def test_the_objects_between_a_run_and_its_pods_are_those_that_controllers_made(
    shared: Shared,
) -> None:
    seen = 0
    for path in sorted(shared("observed/controllers").rglob("*.json")):
        data = json.loads(path.read_text())
        live = data["live"]
        kind = SERVED[live["apiVersion"].rpartition("/")[0], live["kind"]]
        made = {(body["kind"], body["metadata"]["name"]) for body in data["children"]}
        made = {(kind, name) for kind, name in made if kind != "Workload"}
        assert {(str(which), name) for which, name in kind.status.makes(live)} == made, path
        seen += bool(made)
    assert seen
