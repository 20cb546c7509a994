"""A team whose jobs train already: their objects in a cluster, and their repository."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from click.testing import Result

from git_repository import commit, init
from repository import Repository

ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: training
kubernetes: {version: "1.34"}
podSecurity: privileged
gitops: {engine: argocd, mode: rendered}
targets: {pytorchjob: {version: "1.9"}, trainjob: {version: "2.3"}, jobset: {}, job: {}}
"""
CONTAINER = {"image": "registry.example.com/a:1", "command": ["python", "train.py"]}


def template(name: str) -> dict[str, Any]:
    spec = {"restartPolicy": "Never", "containers": [{"name": name, **CONTAINER}]}
    return {"metadata": {"creationTimestamp": None}, "spec": spec}


def condition(kind: str) -> dict[str, Any]:
    at = "2026-11-21T03:04:37Z"
    one = {"type": kind, "status": "True", "reason": f"Is{kind}", "lastTransitionTime": at}
    return {"conditions": [one]}


SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "PyTorchJob": (
        "kubeflow.org/v1",
        {
            "pytorchReplicaSpecs": {
                "Master": {"replicas": 1, "restartPolicy": "Never", "template": template("pytorch")}
            }
        },
    ),
    "TrainJob": (
        "trainer.kubeflow.org/v1alpha1",
        {"runtimeRef": {"name": "torch-distributed"}, "trainer": {"numNodes": 1, **CONTAINER}},
    ),
    "JobSet": (
        "jobset.x-k8s.io/v1alpha2",
        {
            "replicatedJobs": [
                {
                    "name": "node",
                    "replicas": 1,
                    "template": {
                        "spec": {
                            "backoffLimit": 0,
                            "completionMode": "Indexed",
                            "completions": 1,
                            "parallelism": 1,
                            "template": template("node"),
                        }
                    },
                }
            ]
        },
    ),
    "Job": ("batch/v1", {"backoffLimit": 0, "template": template("node")}),
}
POOLS = "pools: {h100: {resource: nvidia.com/gpu, capacity: 1000}}\n"
OVER = {
    "PyTorchJob": ("Succeeded", "Failed"),
    "TrainJob": ("Complete", "Failed"),
    "JobSet": ("Completed", "Failed"),
    "Job": ("Complete", "Failed"),
}
STATES = ("running", "suspended", "waiting", "queued", "succeeded", "failed")


def live(kind: str, state: str) -> dict[str, Any]:
    """An object as `kubectl get -o yaml` prints it."""
    version, spec = SPECS[kind]
    body: dict[str, Any] = {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": f"{kind.lower()}-{state}",
            "namespace": "training",
            "uid": "7e1b0ef6-31b1-4a2c-9f37-5b6d2b1f6f1e",
            "resourceVersion": "12345",
            "generation": 2,
            "creationTimestamp": "2026-11-21T03:00:00Z",
            "managedFields": [{"manager": "kubectl", "operation": "Update"}],
            "labels": {"team": "vision"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}"},
        },
        "spec": copy.deepcopy(spec),
        "status": {},
    }
    if kind == "Job":
        body["spec"]["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
        body["spec"]["template"]["metadata"]["labels"] = {"controller-uid": "u", "job-name": "x"}
    if state == "running":
        body["status"] = {"active": 1, "ready": 1} if kind == "Job" else condition("Running")
    if state in ("suspended", "queued"):
        holder = body["spec"].setdefault("runPolicy", {}) if kind == "PyTorchJob" else body["spec"]
        holder["suspend"] = True
    if state == "queued":
        body["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "vision"
    if state in ("succeeded", "failed"):
        body["status"] = condition(OVER[kind][state == "failed"])
    return body


OBJECTS = [live(kind, state) for kind in SPECS for state in STATES]

GPUS = {"resources": {"limits": {"nvidia.com/gpu": 8}}}


def _pods(image: str, **more: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": image, **more}]}
    return {"metadata": {"creationTimestamp": None}, "spec": spec}


# That no spec can say: what it is, what suspends it, and its status in each state.
WITHOUT_SPECS: dict[str, tuple[str, dict[str, Any]]] = {
    "MPIJob": (
        "kubeflow.org/v2beta1",
        {
            "slotsPerWorker": 8,
            "runPolicy": {"cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": {
                    "replicas": 1,
                    "template": _pods("registry.example.com/a:1", command=["mpirun", "train"]),
                },
                "Worker": {"replicas": 2, "template": _pods("registry.example.com/a:1", **GPUS)},
            },
        },
    ),
    "RayJob": (
        "ray.io/v1",
        {
            "entrypoint": "python train.py",
            "rayClusterSpec": {
                "headGroupSpec": {"rayStartParams": {}, "template": _pods("rayproject/ray:2.44.0")},
                "workerGroupSpecs": [
                    {
                        "groupName": "gpus",
                        "replicas": 2,
                        "rayStartParams": {},
                        "template": _pods("rayproject/ray:2.44.0", **GPUS),
                    }
                ],
            },
        },
    ),
    "StatefulSet": (
        "apps/v1",
        {
            "replicas": 2,
            "serviceName": "peers",
            "selector": {"matchLabels": {"app": "peers"}},
            "template": {
                "metadata": {"labels": {"app": "peers"}},
                "spec": _pods("registry.example.com/a:1", command=["python"], **GPUS)["spec"],
            },
        },
    ),
}
_STATUS: dict[tuple[str, str], dict[str, Any]] = {
    ("RayJob", "running"): {"jobStatus": "RUNNING", "jobDeploymentStatus": "Running"},
    ("RayJob", "succeeded"): {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete"},
    ("RayJob", "failed"): {"jobStatus": "FAILED", "jobDeploymentStatus": "Failed"},
    ("StatefulSet", "running"): {"replicas": 2, "readyReplicas": 2},
    ("MPIJob", "running"): condition("Running"),
    ("MPIJob", "succeeded"): condition("Succeeded"),
    ("MPIJob", "failed"): condition("Failed"),
}


def live_as_it_is(kind: str, state: str) -> dict[str, Any]:
    """An object that no spec can say, as `kubectl get -o yaml` prints it."""
    version, spec = WITHOUT_SPECS[kind]
    body = live("Job", "waiting")
    body |= {"apiVersion": version, "kind": kind, "spec": copy.deepcopy(spec)}
    body["metadata"]["name"] = f"{kind.lower()}-{state}"
    # As many do it, which is no mark of ours.
    body["metadata"]["labels"]["app.kubernetes.io/name"] = "trainer"
    body["status"] = copy.deepcopy(_STATUS.get((kind, state), {}))
    if state == "suspended":
        (body["spec"]["runPolicy"] if kind == "MPIJob" else body["spec"])["suspend"] = True
    return body


def with_roles(state: str) -> dict[str, Any]:
    """A JobSet of two roles."""
    body = live("JobSet", state)
    (group,) = body["spec"]["replicatedJobs"]
    body["metadata"]["name"] = f"roles-{state}"
    body["spec"]["replicatedJobs"].append({**copy.deepcopy(group), "name": "judge"})
    return body


AS_THEY_ARE = [
    *(live_as_it_is(kind, s) for kind in ("MPIJob", "RayJob") for s in (*STATES[:3], *STATES[4:])),
    *(live_as_it_is("StatefulSet", state) for state in ("running", "waiting")),
    *(with_roles(state) for state in STATES),
]


def before(root: Path) -> None:
    """A team's repository before the adoption."""
    init(root)
    file = root / "environments" / "prod" / "environment.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(f"{ENVIRONMENT}queueing: kueue\nqueues: {{vision: {{}}}}\n", encoding="utf-8")
    commit(root, "Begin")


def adopted_by(root: Path, *bodies: dict[str, Any], options: tuple[str, ...] = ()) -> Result:
    listed = root.parent / f"{root.name}-live.yaml"
    text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": bodies}, sort_keys=False)
    listed.write_text(text, encoding="utf-8")
    return Repository(root).run("adopt", str(listed), "--env", "prod", *options)


def planned(repository: Repository, against: str) -> dict[str, str]:
    """What `plan` says of each job to which anything happens."""
    done = repository.run("plan", "--against", against, "-o", "json")
    changes = json.loads(done.stdout)["plan"]["changes"]
    return {change["job"]: change["action"] for change in changes}


def is_over(body: dict[str, Any]) -> bool:
    return body["metadata"]["name"].endswith(("succeeded", "failed"))


def unlike(one: Any, other: Any, path: str = "") -> list[str]:
    """Where data has what other data has not, or has otherwise: empty if applying changes nothing.

    https://kubernetes.io/docs/reference/using-api/server-side-apply/
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return [found for key in one for found in unlike(one[key], other.get(key), f"{path}/{key}")]
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for at, pair in pairs for found in unlike(*pair, f"{path}/{at}")]
    return [] if one == other else [path]


def job_file(repository: Repository, name: str) -> Path:
    return repository.root / "environments" / "prod" / "jobs" / f"{name}.yaml"


def recorded(folder: Path) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    for path in sorted(folder.glob("*/*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        applied = found["applied"] if isinstance(found["applied"], list) else [found["applied"]]
        body = found["live"]
        yield path.stem, next(a for a in applied if a["kind"] == body["kind"]), body
