"""Predicted pods against all that real controllers made of rendered jobs, field by field.

A pod is read into a record of everything that it has. What the API server, the scheduler and Kueue
add is taken out by `_without_defaults` and `_admitted` alone; what is then left of a real pod is
predicted, or is a failure here.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.datatypes.model import Manifest
from trainwright.kinds import operators
from trainwright.pods import rank_prediction
from trainwright.pods.pod import Pod, Workload

Shared = Callable[[str], Path]
Data = dict[str, Any]

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
            yield by_name[_name(real)], real


def _name(real: Data) -> str:
    """A pod's name without the letters that the Job controller makes up."""
    metadata = real["metadata"]
    name: str = metadata.get("generateName", metadata["name"])
    return name.removesuffix("-")


@pytest.fixture(params=CASES)
def recording(request: pytest.FixtureRequest, shared: Shared) -> Recording:
    return Recording(request.param, shared)


def test_every_recording_is_a_case(shared: Shared) -> None:
    folder = shared(FOLDER)
    found = {path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.json")}
    assert found == set(CASES)


# --- what the API server, the scheduler and Kueue do ---------------------------------------------

# Fields of a pod and of a container that no manifest has. The priority comes from its class.
_POD = {
    "dnsPolicy": "ClusterFirst",
    "enableServiceLinks": True,
    "preemptionPolicy": "PreemptLowerPriority",
    "schedulerName": "default-scheduler",
}
_DECIDED = ("priority", "nodeName", "serviceAccount")  # by the server and the scheduler
_CONTAINER = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_TOKEN = "kube-api-access-"  # the volume that mounts a service account's token
_MODE = 0o644


def _without_defaults(real: Data) -> tuple[Data, Data, bool]:
    """Metadata and spec without what the server adds, and whether a token is mounted."""
    metadata, spec = copy.deepcopy(real["metadata"]), copy.deepcopy(real["spec"])
    for field, value in _POD.items():
        if spec.get(field) == value:
            del spec[field]
    for field in _DECIDED:
        spec.pop(field, None)
    if spec.get("serviceAccountName") == "default":
        del spec["serviceAccountName"]
    tolerations = [t for t in spec.pop("tolerations", ()) if t.get("key") not in _NODE_TAINTS]
    if tolerations:
        spec["tolerations"] = tolerations
    token = any(v["name"].startswith(_TOKEN) for v in spec.get("volumes", ()))
    spec["volumes"] = [v for v in spec.get("volumes", ()) if not v["name"].startswith(_TOKEN)]
    for volume in spec["volumes"]:
        for source in volume.values():
            if isinstance(source, dict) and source.get("defaultMode") == _MODE:
                del source["defaultMode"]
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        _plain(container)
    return metadata, spec, token


def _plain(container: Data) -> None:
    for field, value in _CONTAINER.items():
        assert container.pop(field) == value
    mounts = container.get("volumeMounts", ())
    container["volumeMounts"] = [m for m in mounts if not m["name"].startswith(_TOKEN)]
    for port in container.get("ports", ()):
        assert port.pop("protocol") == "TCP"
    for entry in container.get("env", ()):
        entry.get("valueFrom", {}).get("fieldRef", {}).pop("apiVersion", None)


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


# --- what operators write into metadata ----------------------------------------------------------

_JOBSET = "jobset.sigs.k8s.io/"
_MADE_UP = ("controller-uid", "batch.kubernetes.io/controller-uid",
            f"{_JOBSET}job-key", f"{_JOBSET}jobset-uid", f"{_JOBSET}priority")  # fmt: skip


def _of_operators(recording: Recording, pod: Pod, real: Data) -> tuple[Data, Data]:
    """The labels and annotations by which operators know their pods again."""
    name = recording.main.name
    if recording.kind == "pytorchjob":
        prefix = "training.kubeflow.org/"
        labels = {
            f"{prefix}job-name": name,
            f"{prefix}operator-name": "pytorchjob-controller",
            f"{prefix}replica-index": str(pod.index),
            f"{prefix}replica-type": pod.role,
        }
        leads = pod.role == "master" or ("elastic" in recording.case and pod.index == 0)
        return ({**labels, f"{prefix}job-role": "master"} if leads else labels), {}
    job = name if recording.kind == "job" else f"{name}-{pod.role}-0"
    index = {"batch.kubernetes.io/job-completion-index": str(pod.index)}
    labels = {**index, "job-name": job, "batch.kubernetes.io/job-name": job}
    if recording.kind == "job":
        return labels, index
    given = {
        f"{_JOBSET}{key}": value
        for key, value in {
            "global-replicas": "1", "group-name": "default", "group-replicas": "1",
            "job-global-index": "0", "job-group-index": "0", "job-index": "0",
            "jobset-name": name, "replicatedjob-name": pod.role, "replicatedjob-replicas": "1",
        }.items()
    }  # fmt: skip
    attempt = {f"{_JOBSET}restart-attempt": real["metadata"]["labels"][f"{_JOBSET}restart-attempt"]}
    return {**labels, **given, **attempt}, {**index, **given, **attempt}


# --- two records of a pod ------------------------------------------------------------------------


def _seen(real: Data) -> Data:
    """A real pod, every field of it."""
    metadata, spec, token = _without_defaults(real)
    (container,) = spec.pop("containers")
    volumes = {v["name"]: {k: x for k, x in v.items() if k != "name"} for v in spec.pop("volumes")}
    mounts = container.pop("volumeMounts")
    assert set(volumes) == {mount["name"] for mount in mounts}
    security = {
        "pod": spec.pop("securityContext", {}),
        "container": container.pop("securityContext", {}),
    }
    return {
        "image": container.pop("image"),
        "command": [*container.get("command", ()), *container.pop("args", ())],
        "starts_image": not container.pop("command", ()),
        "env": [_variable(entry, metadata) for entry in container.pop("env", ())],
        "ports": [(p.get("name", ""), p["containerPort"]) for p in container.pop("ports", ())],
        "mounts": [
            (m["mountPath"], m["name"], volumes[m["name"]], m.get("subPath", ""), m.get("readOnly", False))
            for m in mounts
        ],
        "resources": container.pop("resources"),
        "pull_policy": container.pop("imagePullPolicy"),
        "security": {where: context for where, context in security.items() if context},
        "init": [(c["name"], c["image"], c["command"]) for c in spec.pop("initContainers", ())],
        "grace_period": spec.pop("terminationGracePeriodSeconds"),
        "pull_secrets": [secret["name"] for secret in spec.pop("imagePullSecrets", ())],
        "placement": {
            field: spec.pop(field)
            for field in ("nodeSelector", "tolerations", "affinity", "priorityClassName", "schedulerName")
            if field in spec
        },
        "service_account": spec.pop("serviceAccountName", ""),
        "token": token,
        "declines_token": spec.pop("automountServiceAccountToken", None) is False,
        "address": ".".join(filter(None, (spec.pop("hostname", ""), spec.pop("subdomain", "")))),
        "restart_policy": spec.pop("restartPolicy"),
        "labels": {k: v for k, v in metadata.get("labels", {}).items() if k not in _MADE_UP},
        "annotations": {k: v for k, v in metadata.get("annotations", {}).items() if k not in _MADE_UP},
        "other fields of the container": {k: v for k, v in container.items() if k != "name"},
        "other fields of the pod": spec,  # schedulingGates, hostNetwork, runtimeClassName ...
    }  # fmt: skip


def _variable(entry: Data, metadata: Data) -> tuple[str, str, str]:
    """A variable with its value as far as the pod has it, else where the value comes from."""
    origin = entry.get("valueFrom")
    if not origin:
        return entry["name"], entry.get("value", ""), ""
    ((kind, reference),) = origin.items()
    if kind == "fieldRef":
        part, _, key = reference["fieldPath"].removeprefix("metadata.").partition("['")
        value = metadata[part]
        return entry["name"], value[key.removesuffix("']")] if key else value, ""
    what = {"secretKeyRef": "Secret", "configMapKeyRef": "ConfigMap"}[kind]
    return entry["name"], "", f"key {reference['key']} of {what} {reference['name']}"


def _foreseen(recording: Recording, pod: Pod, real: Data) -> Data:
    """A predicted pod as the same record."""
    labels, annotations = _of_operators(recording, pod, real)
    return {
        "image": pod.image,
        "command": list(pod.command),
        "starts_image": pod.starts_image,
        "env": [(v.name, v.value, v.source) for v in pod.declared],
        "ports": [(port.name, port.number) for port in pod.ports],
        "mounts": [(m.path, m.volume, m.source, m.sub_path, m.read_only) for m in pod.mounts],
        "resources": pod.resources,
        "pull_policy": pod.pull_policy or "IfNotPresent",  # the default where an image has a tag
        "security": pod.security,
        "init": [(c.name, c.image, list(c.command_line)) for c in (*pod.before, *pod.added)],
        "grace_period": pod.grace_period,
        "pull_secrets": list(pod.pull_secrets),
        "placement": dict(pod.placement),
        "service_account": pod.service_account,
        "token": pod.token,
        "declines_token": not pod.token,
        # Pods of a PyTorchJob are reached by the Services of their names.
        "address": "" if recording.kind == "pytorchjob" else pod.hostname,
        "restart_policy": _restart_policy(recording),
        "labels": {**pod.labels, **labels},
        "annotations": {**pod.annotations, **annotations},
        "other fields of the container": {},
        "other fields of the pod": {},
    }


def _restart_policy(recording: Recording) -> str:
    """The kubelet's part: the training operator's ExitCode is its own, and Never to the kubelet."""
    written = set(_found(recording.data["applied"], "restartPolicy"))
    assert len(written) <= 1
    policy: str = written.pop() if written else "OnFailure"  # JobSet's webhook fills this in
    return "Never" if policy == "ExitCode" else policy


def _found(data: Any, field: str) -> Iterator[Any]:
    """Every value of a field, however deep."""
    if isinstance(data, dict):
        if field in data:
            yield data[field]
        for value in data.values():
            yield from _found(value, field)
    elif isinstance(data, list):
        for item in data:
            yield from _found(item, field)


# --- the comparison ------------------------------------------------------------------------------


def test_the_pods_are_those_that_real_controllers_made(recording: Recording) -> None:
    for pod, real in recording.pairs():
        wanted = _admitted(_foreseen(recording, pod, real), recording, pod.role, real)
        assert _seen(real) == wanted


def test_there_are_as_many_as_predicted_under_the_same_names(recording: Recording) -> None:
    wanted = recording.workload
    waits = {"waiting-suspended", "suspended-by-hand", "volcano-gang-python"}
    asleep = any(recording.case.endswith(case) for case in waits)
    made = sorted({_name(real) for real in recording.pods})
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
        env = {name: value for name, value, _ in _seen(real)["env"]}
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
    attempt = list(_found(live.get("replicatedJobs", []), "activeDeadlineSeconds"))
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
        name = _name(real)
        replaced = [_name(other) for other in recording.pods].count(name) > 1
        for code in _found(real["status"], "exitCode"):
            assert by_name[name].restart.helps(code) == replaced
            assert not by_name[name].restart.gang
    attempts = {
        int(real["metadata"]["labels"].get(f"{_JOBSET}restart-attempt", "0"))
        for real in recording.pods
    }
    for pod in by_name.values():
        if attempts - {0}:
            assert pod.restart.gang
            assert pod.restart.limit is None or pod.restart.limit >= max(attempts)
