"""Kubeflow PyTorchJob v1: the installed base, and the only Kubeflow kind with elastic min and max.

Facts: kubeflow/trainer v1.9.4, pkg/apis/kubeflow.org/v1 and pkg/controller.v1/pytorch.
"""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Elastic, Job
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds import facts, queueing
from trainwright.kinds.pytorchjob import KIND
from trainwright.kinds.target import (
    Deviation,
    Meeting,
    Target,
    Unsupported,
    fixed_nodes,
    one_process,
    own_rendezvous,
)
from trainwright.objects.pods import command
from trainwright.objects.pods.references import Variable
from trainwright.rule_model.upstream import upstream

# The operator's default; named, or the Service it makes is invalid.
PORT: int = upstream("training-operator/rendezvous-port").value

# The ranks of a node that is taken away fail those of the others, which their agents count as a
# restart; only nodes that join are not counted. So the number has to leave room for a long life on
# preemptible nodes; upstream's own elastic example uses it.
# https://docs.pytorch.org/docs/stable/elastic/quickstart.html
_MAX_RESTARTS = 100


def _values(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    values: dict[str, Data] = {
        "replicas": {"master": 0, "worker": job.nodes}
        if job.elastic
        else {"master": 1, "worker": job.nodes - 1},
        "nprocPerNode": str(job.procs_per_node),
        "ports": [{"name": "pytorchjob-port", "containerPort": PORT, "protocol": "TCP"}],
        "restartPolicy": command.restart_policy(job),
        "runPolicy": _run_policy(job, environment),
        **({"podAnnotations": queueing.ONE_GROUP} if _split(job) and job.topology else {}),
    }
    if job.elastic:
        values["elastic"] = {
            "minReplicas": job.elastic.min_nodes,
            "maxReplicas": job.elastic.max_nodes,
            "maxRestarts": _MAX_RESTARTS,
            "rdzvBackend": "c10d",
        }
        if job.elastic.recovery:
            values["command"] = command.command_line(job, options=_live(job.elastic))
    return values


def _meeting(job: Job, environment: Environment, name: str) -> Meeting:
    """Return where the rendezvous is: at the master, or at an elastic job's first worker."""
    first = f"{name}-worker-0" if job.elastic else f"{name}-master-0"
    return Meeting(first, str(PORT), Variable("RANK"))


def _split(job: Job) -> bool:
    """Whether Kueue sees two pod sets, the master and its workers."""
    return not job.elastic and job.nodes > 1


def _live(elastic: Elastic) -> tuple[str, ...]:
    return f"--nnodes={elastic.min_nodes}:{elastic.max_nodes}", "--recovery=live"


def _run_policy(job: Job, environment: Environment) -> dict[str, Data]:
    """Return how the operator ends, retries, queues and suspends a run."""
    # Running frees the GPUs of workers that hang after the master is done, and keeps finished
    # pods for their logs. There is no TTL: it deletes the object, and GitOps would train again.
    policy: dict[str, Data] = {"cleanPodPolicy": "Running", "backoffLimit": job.retries}
    if job.max_duration is not None:
        policy["activeDeadlineSeconds"] = job.max_duration
    scheduling: dict[str, Data] = {}
    if job.queue and environment.queueing == "volcano":
        scheduling["queue"] = job.queue
    if job.gang and queueing.gang_scheduler(job, environment):
        scheduling["minAvailable"] = job.elastic.min_nodes if job.elastic else job.nodes
    if scheduling:
        policy["schedulingPolicy"] = scheduling
    return policy | queueing.suspend(job, environment)


def _longest_suffix(job: Job) -> str:
    if job.elastic:
        return f"-worker-{job.elastic.max_nodes - 1}"
    return "-master-0" if job.nodes == 1 else max("-master-0", f"-worker-{job.nodes - 2}", key=len)


def _unsupported(job: Job, environment: Environment) -> Iterator[Unsupported]:
    yield from queueing.unsuspendable(job, environment)
    yield from one_process(job)
    yield from fixed_nodes(job)
    if job.elastic:
        yield from own_rendezvous(job, "elasticPolicy has the rendezvous of an elastic job")
    if _split(job):
        yield from queueing.ungroupable(job, environment)
    if job.elastic and job.launcher == "python" and job.entrypoint.launched:
        yield Unsupported(
            Pointer("/launcher"),
            "nodes come and go through torch's elastic agent, which python does not start",
            "Use launcher trainwright or torchrun, or set nodes instead of elastic.",
        )
    if job.elastic and job.elastic.recovery and not command.starts_runtime(job):
        yield Unsupported(
            Pointer("/elastic/recovery"),
            "live recovery is the entrypoint's, and this job does not start it",
            "Use launcher: trainwright with a script or a module, or recovery: restart.",
        )


TARGET = Target(
    of=KIND,
    summary="Kubeflow training operator v1: fixed and elastic PyTorch jobs.",
    template="pytorchjob.yaml",
    container="pytorch",
    values=_values,
    longest_suffix=_longest_suffix,
    unsupported=_unsupported,
    facts=(*facts.PODS, facts.QUEUEING),
    deviations=(
        Deviation(
            about="Success",
            text="The master alone decides whether a run succeeded, and of an elastic one any "
            "worker. Elsewhere all pods have to succeed.",
            fields=("/success",),
            when=lambda job, _: job.nodes > 1 or job.elastic is not None,
        ),
        Deviation(
            about="Elastic jobs",
            text=f"torch's agent restarts the ranks up to {_MAX_RESTARTS} times, since a "
            "node that goes fails the ranks of the others, which counts as one. "
            "`launcherOptions: {max-restarts: 3}` sets another number.",
            fields=("/pods/*/program/options/max-restarts",),
            when=lambda job, _: job.elastic is not None,
        ),
        Deviation(
            about="Retries",
            text="A lost pod is restarted by itself, and the others as they fail with it.",
        ),
        Deviation(
            about="Restarts in a pod",
            text="With another launcher than the image's entrypoint a container that fails is "
            "started again in its pod, and finds an emptyDir as it was.",
            fields=("/pods/*/restart/keeps/*",),
            when=lambda job, _: command.restart_policy(job) == "OnFailure",
        ),
    ),
    meeting=_meeting,
    elastic=True,
    restricted_needs="a hardened init container of the operator: see TW120",
    controller_labels=tuple(
        f"training.kubeflow.org/{name}"
        for name in ("operator-name", "job-name", "job-role", "replica-type", "replica-index")
    ),
)
