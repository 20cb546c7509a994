"""Which kinds come to be in an environment, and what Kueue writes into those it starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trainwright.kinds import TARGETS
from trainwright.kinds.target import Target
from trainwright.model import Environment

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

# Group and kind of what comes with a run of any target that is a Kubernetes object.
_SUPPORTING = (
    ("", "ConfigMap"),
    ("", "PersistentVolumeClaim"),
    ("", "ServiceAccount"),
    ("external-secrets.io", "ExternalSecret"),
    ("monitoring.coreos.com", "PodMonitor"),
    ("networking.k8s.io", "NetworkPolicy"),
)
_POD_GROUPS = {"volcano": "scheduling.volcano.sh", "coscheduling": "scheduling.x-k8s.io"}


@dataclass(frozen=True, slots=True)
class Queued:
    """Where Kueue writes in a kind, as JSON pointers: the suspend field, and its pod templates.

    A run has exactly the replicas and the one replicated job that the chart gives it.
    Facts: kubernetes-sigs/kueue v0.19.2, pkg/podset and pkg/controller/jobs.
    """

    suspend: str
    templates: tuple[str, ...] = ()


QUEUED = {
    "PyTorchJob": Queued(
        "/spec/runPolicy/suspend",
        (
            "/spec/pytorchReplicaSpecs/Master/template",
            "/spec/pytorchReplicaSpecs/Worker/template",
        ),
    ),
    "TrainJob": Queued("/spec/suspend"),  # the rest goes into a list item of Kueue's own
    "JobSet": Queued("/spec/suspend", ("/spec/replicatedJobs/0/template/spec/template",)),
    "Job": Queued("/spec/suspend", ("/spec/template",)),
}
PLACEMENT = ("nodeSelector", "tolerations", "schedulingGates")  # of a flavor and its topology


def training(*environments: Environment) -> tuple[Target, ...]:
    """The environments' targets that a GitOps engine applies, in the order of the registry."""
    names = {name for environment in environments for name in environment.targets}
    return tuple(t for t in TARGETS.values() if t.name in names and not t.envelope)


def group(target: Target) -> str:
    """`batch` of batch/v1."""
    return target.api_version.rpartition("/")[0]


def rendered(*environments: Environment) -> tuple[tuple[str, str], ...]:
    """Group and kind of everything that may be rendered in these environments, sorted."""
    targets = training(*environments)
    jobs = ((group(target), target.kind) for target in targets)
    return tuple(sorted({*jobs, *supporting(*environments)}))


def supporting(*environments: Environment) -> tuple[tuple[str, str], ...]:
    """Group and kind of what may come with runs, sorted."""
    return tuple(sorted({kind for place in environments for kind in _supporting(place)}))


def _supporting(environment: Environment) -> Iterator[tuple[str, str]]:
    yield from _SUPPORTING
    targets = {target.kind: target for target in training(environment)}
    if "Job" in targets:
        yield "", "Service"
    trainer = targets.get("TrainJob")
    if trainer and not environment.targets[trainer.name].runtime:
        yield group(trainer), "TrainingRuntime"
    if environment.queueing in _POD_GROUPS and {"Job", "JobSet"} & set(targets):
        yield _POD_GROUPS[environment.queueing], "PodGroup"
