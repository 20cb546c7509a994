"""Kubeflow PyTorchJob v1: the installed base, and the only Kubeflow kind with elastic min and max.

Facts: kubeflow/trainer v1.9.4, pkg/apis/kubeflow.org/v1 and pkg/controller.v1/pytorch.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.model import Data, Environment, Job
from trainwright.targets.target import Target, Unsupported

PORT = 23456  # the operator's default; named, or the Service it makes is invalid

# The operator's elastic agent counts membership changes as restarts too, so the number has to
# leave room for a long life on preemptible nodes; upstream's own elastic example uses it.
# https://docs.pytorch.org/docs/stable/elastic/quickstart.html
_MAX_RESTARTS = 100


def _values(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    values: dict[str, Data] = {
        "replicas": {"master": 0, "worker": job.nodes}
        if job.elastic
        else {"master": 1, "worker": job.nodes - 1},
        "nprocPerNode": str(job.procs_per_node),
        "ports": [{"name": "pytorchjob-port", "containerPort": PORT, "protocol": "TCP"}],
        "restartPolicy": _restart_policy(job),
        "runPolicy": _run_policy(job, environment),
    }
    if job.elastic:
        values["elastic"] = {
            "minReplicas": job.elastic.min_nodes,
            "maxReplicas": job.elastic.max_nodes,
            "maxRestarts": _MAX_RESTARTS,
            "rdzvBackend": "c10d",
        }
    return values


def _restart_policy(job: Job) -> str:
    """Our entrypoint says by its exit code whether a retry can help; other launchers do not."""
    if job.retries == 0:
        return "Never"
    own = job.launcher == "trainwright" and not job.entrypoint.argv
    return "ExitCode" if own else "OnFailure"


def _run_policy(job: Job, environment: Environment) -> dict[str, Data]:
    # Running frees the GPUs of workers that hang after the master is done, and keeps finished
    # pods for their logs. There is no TTL: it deletes the object, and GitOps would train again.
    policy: dict[str, Data] = {"cleanPodPolicy": "Running", "backoffLimit": job.retries}
    if job.max_duration is not None:
        policy["activeDeadlineSeconds"] = job.max_duration
    if job.queue and environment.queueing == "volcano":
        policy["schedulingPolicy"] = {"queue": job.queue}
    # Kueue owns `suspend`: a value in git would evict a running job at every sync.
    if not (job.queue and environment.queueing == "kueue"):
        policy["suspend"] = job.state == "suspended"
    return policy


def _longest_suffix(job: Job) -> str:
    if job.elastic:
        return f"-worker-{job.elastic.max_nodes - 1}"
    return "-master-0" if job.nodes == 1 else max("-master-0", f"-worker-{job.nodes - 2}", key=len)


def _unsupported(job: Job, environment: Environment) -> Iterator[Unsupported]:
    if job.state == "suspended" and job.queue and environment.queueing == "kueue":
        yield Unsupported(
            "state",
            "a job in a Kueue queue cannot be suspended from git: Kueue owns the field",
            "Use state: cancelled, or stop the queue (stopPolicy of the LocalQueue).",
        )


TARGET = Target(
    name="pytorchjob",
    api_version="kubeflow.org/v1",
    kind="PyTorchJob",
    summary="Kubeflow training operator v1: fixed and elastic PyTorch jobs.",
    template="pytorchjob.yaml",
    values=_values,
    longest_suffix=_longest_suffix,
    unsupported=_unsupported,
)
