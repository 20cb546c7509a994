"""Predicted pods against all that real controllers made of rendered jobs, field by field.

Both are read into records of everything that a pod has (`pod_records`). What Kueue adds is added by
`_admitted` alone; what is then left of a real pod is predicted, or is a failure here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from pod_records import Data, Run, foreseen, found, pod_name, seen
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import operators
from trainwright.objects.pods import rank_prediction
from trainwright.objects.pods.pod import Pod, Workload

Shared = Callable[[str], Path]

FOLDER = "observed/controllers"
CASES = (
    "job/all-features-sweep",
    "job/gpu-in-a-queue-waiting-suspended",
    "job/plain-2-pods-gloo",
    "job/python-3-pods-gpu-in-a-queue-admitted",
    "job/suspended-by-hand",
    "job/torchrun-2-pods-gpu-in-a-queue-admitted",
    "jobset/gpu-in-a-queue-waiting-suspended",
    "jobset/plain-2-pods-gloo",
    "jobset/python-3-pods-gpu-in-a-queue-admitted",
    "jobset/suspended-by-hand",
    "jobset/torchrun-2-pods-gpu-in-a-queue-admitted",
    "jobset/volcano-gang-argv",
    "jobset/volcano-gang-python",
    "jobset/volcano-gang-torchrun",
    "pytorchjob/all-features-sweep",
    "pytorchjob/elastic-elastic-mnist",
    "pytorchjob/gpu-in-a-queue-waiting-suspended",
    "pytorchjob/plain-2-pods-gloo",
    "pytorchjob/python-3-pods-gpu-in-a-queue-admitted",
    "pytorchjob/suspended-by-hand",
    "pytorchjob/torchrun-2-pods-gpu-in-a-queue-admitted",
    "trainjob/all-features-sweep",
    "trainjob/clusters-runtime-2-pods",
    "trainjob/clusters-runtime-every-patch-pretrain",
    "trainjob/gpu-in-a-queue-waiting-suspended",
    "trainjob/plain-2-pods-gloo",
    "trainjob/python-3-pods-gpu-in-a-queue-admitted",
    "trainjob/suspended-by-hand",
    "trainjob/torchrun-2-pods-gpu-in-a-queue-admitted",
)
# The runtime that Trainer 2.3 installs. kubeflow/trainer, manifests/base/runtimes
RUNTIME = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: ClusterTrainingRuntime
metadata: {name: torch-distributed}
spec:
  mlPolicy: {numNodes: 1, torch: {}}
  template:
    spec:
      replicatedJobs:
        - name: node
          template:
            metadata: {labels: {trainer.kubeflow.org/trainjob-ancestor-step: trainer}}
            spec: {template: {spec: {containers: [{name: node, image: pytorch/pytorch}]}}}
"""
# What the ResourceFlavor of the recordings gives to pods.
FLAVOR = {
    "nodeSelector": {"truth-flavor": "h100"},
    "tolerations": [{"key": "truth", "operator": "Exists"}],
}


class Recording:
    """One file: what was applied, and what the cluster made of it."""

    def __init__(self, case: str, shared: Shared):
        self.case, self.kind = case, case.partition("/")[0]
        self.data: Data = json.loads(shared(f"{FOLDER}/{case}.json").read_text())
        self.applied = tuple(Manifest(body=body) for body in self.data["applied"])
        self.main = operators.find(self.applied)[1]
        self.pods: list[Data] = self.data["pods"]
        self.services: list[Data] = self.data["services"]

    @property
    def run(self) -> Run:
        return Run(
            target=self.kind,
            name=self.main.name,
            applied=self.data["applied"],
            elastic="elastic" in self.case,
        )

    @property
    def workload(self) -> Workload:
        runtime = (
            (Manifest(body=yaml.safe_load(RUNTIME)),) if "clusters-runtime" in self.case else ()
        )
        return operators.workload((*self.applied, *runtime))

    @property
    def admitted(self) -> Data | None:
        """Kueue's Workload, where it let the run start."""
        found = [c for c in self.data["children"] if c["kind"] == "Workload"]
        return found[0] if found and "admission" in found[0]["status"] else None

    def pairs(self) -> Iterator[tuple[Pod, Data]]:
        """Each real pod with the predicted one: several where a Job replaced failed ones."""
        by_name = {pod.name: pod for pod in self.workload.pods}
        for real in self.pods:
            yield by_name[pod_name(real)], real


@pytest.fixture(params=CASES)
def recording(request: pytest.FixtureRequest, shared: Shared) -> Recording:
    return Recording(request.param, shared)


def test_every_recording_is_a_case(shared: Shared) -> None:
    folder = shared(FOLDER)
    found = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.json")}
    assert found == set(CASES)


# --- what Kueue does -------------------------------------------------------------------------------


def _admitted(record: Data, recording: Recording, role: str, real: Data) -> Data:
    """A predicted pod with what Kueue adds when it admits the run."""
    workload = recording.admitted
    if workload is None:
        return record
    pod_set = "main" if recording.kind == "job" else role
    labels = {
        "kueue.x-k8s.io/cluster-queue-name": workload["status"]["admission"]["clusterQueue"],
        "kueue.x-k8s.io/local-queue-name": workload["spec"]["queueName"],
        "kueue.x-k8s.io/podset": pod_set,
    }
    note = {"kueue.x-k8s.io/workload": workload["metadata"]["name"]}
    placement = dict(record["placement"])
    placement["nodeSelector"] = {**placement.get("nodeSelector", {}), **FLAVOR["nodeSelector"]}
    own = placement.get("tolerations", [])
    # Kueue patches the TrainJob's runtime, which replaces the list. The JobSet controller adds
    # it to that of the first, suspended Jobs; those that it makes after a restart lack the own.
    attempt = real["metadata"]["labels"].get("jobset.sigs.k8s.io/restart-attempt", "0")
    if recording.kind == "trainjob" and attempt != "0":
        own = []
    placement["tolerations"] = [*own, *FLAVOR["tolerations"]]
    return {
        **record,
        "labels": {**record["labels"], **labels},
        "annotations": {**record["annotations"], **note},
        "placement": placement,
    }


# --- the comparison ------------------------------------------------------------------------------


def test_the_pods_are_those_that_real_controllers_made(recording: Recording) -> None:
    for pod, real in recording.pairs():
        wanted = _admitted(foreseen(recording.run, pod, real), recording, pod.role, real)
        assert seen(real) == wanted


def test_there_are_as_many_as_predicted_under_the_same_names(recording: Recording) -> None:
    wanted = recording.workload
    waits = {"waiting-suspended", "suspended-by-hand", "volcano-gang-python"}
    asleep = any(recording.case.endswith(case) for case in waits)
    made = sorted({pod_name(real) for real in recording.pods})
    assert made == ([] if asleep else sorted(pod.name for pod in wanted.pods))
    live = recording.data["live"]["spec"]
    policy = live.get("runPolicy") or {}
    assert bool(live.get("suspend") or policy.get("suspend")) == asleep


def test_the_labels_that_controllers_add_are_those_of_the_real_pods(recording: Recording) -> None:
    for pod, real in recording.pairs():
        assert pod.controller_labels
        assert pod.controller_labels.items() <= real["metadata"]["labels"].items()


def test_services_lead_to_the_pods_by_the_names_that_peers_use(recording: Recording) -> None:
    services = {service["metadata"]["name"]: service["spec"] for service in recording.services}
    for pod, real in recording.pairs():
        host, _, domain = pod.hostname.partition(".")
        spec, selected = services[domain or host], real["metadata"]["labels"].items()
        assert spec["clusterIP"] == "None"
        assert spec["selector"].items() <= selected
        if domain:  # before it is ready, since the rendezvous is what makes it so
            assert spec["publishNotReadyAddresses"]
            assert all(
                spec["selector"].items() <= p["metadata"]["labels"].items() for p in recording.pods
            )
        else:
            others = [p for p in recording.pods if p is not real]
            assert not any(
                spec["selector"].items() <= o["metadata"]["labels"].items() for o in others
            )
            assert {(p["name"], p["port"]) for p in spec["ports"]} == {
                (port.name, port.number) for port in pod.ports
            }


def test_ranks_are_counted_from_what_the_real_processes_are_given(recording: Recording) -> None:
    foreseen = rank_prediction.predict(recording.workload.pods)
    reported = [process.rank for process in foreseen if process.rank is not None]
    assert reported in ([], list(range(len(foreseen))))
    assert not reported or {process.world_size for process in foreseen} == {len(foreseen)}
    for pod, real in recording.pairs():
        env = {name: value for name, value, _ in seen(real)["env"]}
        own = [process for process in foreseen if process.pod == pod.name]
        if "RANK" in env and len(own) == 1 and own[0].rank is not None:
            assert (str(own[0].rank), str(own[0].world_size)) == (env["RANK"], env["WORLD_SIZE"])
        for node_rank in ("PET_NODE_RANK", "JOB_COMPLETION_INDEX"):
            if node_rank in env and own and own[0].node_rank is not None:
                assert env[node_rank] == str(own[0].node_rank)


def test_what_the_object_says_of_its_run_holds_for_what_was_made(recording: Recording) -> None:
    workload, live = recording.workload, recording.data["live"]["spec"]
    seconds = live.get(
        "activeDeadlineSeconds", (live.get("runPolicy") or {}).get("activeDeadlineSeconds")
    )
    attempt = list(found(live.get("replicatedJobs", []), "activeDeadlineSeconds"))
    deadline = workload.deadline
    assert (deadline and deadline.seconds) == (min(attempt) if attempt else seconds)
    assert bool(deadline and deadline.attempt) == bool(attempt)
    groups = [body for body in recording.data["applied"] if body["kind"] == "PodGroup"]
    assert bool(workload.gang) == bool(groups)
    if workload.gang:
        assert workload.gang.members == groups[0]["spec"]["minMember"] == len(workload.pods)


def test_what_was_started_again_is_what_a_restart_helps(recording: Recording) -> None:
    by_name = {pod.name: pod for pod in recording.workload.pods}
    for real in recording.pods:
        name = pod_name(real)
        replaced = [pod_name(other) for other in recording.pods].count(name) > 1
        for code in found(real["status"], "exitCode"):
            assert by_name[name].restart.helps(code) == replaced
            assert not by_name[name].restart.gang
    attempts = {
        int(real["metadata"]["labels"].get("jobset.sigs.k8s.io/restart-attempt", "0"))
        for real in recording.pods
    }
    for pod in by_name.values():
        if attempts - {0}:
            assert pod.restart.gang
            assert pod.restart.limit is None or pod.restart.limit >= max(attempts)
