"""What waits for what: the fields of Kueue and of gang schedulers that several targets share."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.groupkind import PODGROUP_OF_PLUGINS, PODGROUP_OF_VOLCANO, GroupKind
from trainwright.datatypes.model import Data, Environment, Job
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.target import Deviation, Unsupported
from trainwright.objects.kueue import GROUP

# The scheduler's name as each project's own chart installs it.
_SCHEDULERS = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}
_POD_GROUPS = {"volcano": PODGROUP_OF_VOLCANO, "coscheduling": PODGROUP_OF_PLUGINS}

# Kueue places each pod set by itself, and two of one group in one domain of the topology.
# https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
ONE_GROUP = {GROUP: "ranks"}
_GROUPS_SINCE = (0, 13)


def in_kueue(job: Job, environment: Environment) -> bool:
    """Whether Kueue decides when the job starts."""
    return bool(job.queue) and environment.queueing == "kueue"


def gang_scheduler(job: Job, environment: Environment) -> str:
    """The scheduler that starts all pods together or none; empty when Kubernetes' own does."""
    asked = job.gang or (job.queue and environment.queueing == "volcano")
    return _SCHEDULERS.get(environment.queueing, "") if asked else ""


def unschedulable(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Refuses a scheduler beside the one that the job's gang or queue needs."""
    gang = gang_scheduler(job, environment)
    if gang and job.scheduler_name not in ("", gang):
        asked = "gang" if job.gang else "queue"
        yield Unsupported(
            Pointer("/schedulerName"),
            f"{asked} needs the scheduler {gang}, and schedulerName is {job.scheduler_name}",
            f"Remove one of them (schedulerName: null, or {asked}: null).",
        )


def suspend(job: Job, environment: Environment) -> dict[str, Data]:
    """The run policy's `suspend`. Kueue owns it: in git it would evict a running job at a sync."""
    return {} if in_kueue(job, environment) else {"suspend": job.state == "suspended"}


def unsuspendable(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Refuses to suspend from git what Kueue starts and stops."""
    if job.state == "suspended" and in_kueue(job, environment):
        yield Unsupported(
            Pointer("/state"),
            "a job in a Kueue queue cannot be suspended from git: Kueue owns the field",
            "Use state: cancelled; or set spec.active: false in its Workload, which in Argo CD is "
            "the action hold; or stop the whole queue (stopPolicy: HoldAndDrain of its "
            "LocalQueue).",
        )


def ungroupable(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Refuses a topology for two pod sets where Kueue cannot place them together."""
    asked = environment.kueue_version if job.topology else ""
    version = tuple(int(part) for part in asked.split(".") if part)
    if version and version < _GROUPS_SINCE:
        yield Unsupported(
            Pointer("/topology"),
            f"Kueue {environment.kueue_version} places the master and the workers each by itself: "
            f"{GROUP} came with 0.13",
            "Use target trainjob or jobset, whose pods are one set, or a newer Kueue.",
        )


PLACED = Deviation(
    about="Kueue",
    text="In a Kueue queue the pool's node selector and tolerations are left out (TW025): the "
    "ResourceFlavor's are written when it admits a run, and from then on the API refuses a file "
    "with others. Affinity stays: Kueue's sources write none, but it was not tried on a server.",
    fields=("/pods/*/placement/nodeSelector/**", "/pods/*/placement/tolerations/**"),
    when=in_kueue,
)
_PLACEMENT = (("nodeSelector", "a node selector"), ("tolerations", "tolerations"))


def unplaceable(job: Job) -> Iterator[Unsupported]:
    """Refuses placement by the job itself where its file could not be applied again."""
    for (path, what), asked in zip(_PLACEMENT, (job.node_selector, job.tolerations), strict=True):
        if asked:
            yield Unsupported(
                Pointer.of(path),
                f"{what} of its own in a Kueue queue: once Kueue has admitted the run, the API "
                "refuses to apply the same file again",
                f"Leave it to the ResourceFlavor ({path}: null), choose a queue whose flavor has "
                "such nodes, or use target trainjob.",
            )


# What Kueue writes into the labels of pods; any other value is a conflict.
# kubernetes-sigs/kueue@v0.19.2:pkg/podset/podset.go
_WRITTEN = tuple(
    f"kueue.x-k8s.io/{name}" for name in ("podset", "local-queue-name", "cluster-queue-name", "tas")
)


def unlabelled(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Refuses labels of pods that are Kueue's."""
    for label in _WRITTEN if in_kueue(job, environment) else ():
        for field, labels in (("labels", job.labels), ("podLabels", job.pod_labels)):
            if label in labels:
                yield Unsupported(
                    Pointer.of(field, label),
                    f"{label} is written by Kueue: a run that has another value never starts",
                    f"Remove it ({label}: null).",
                )


def pod_groups(environment: Environment) -> tuple[GroupKind, ...]:
    """The kind of the gangs that such targets render."""
    kind = _POD_GROUPS.get(environment.queueing)
    return (kind,) if kind else ()


def pod_group(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    """Chart values of a gang for targets whose controller makes no PodGroup of its own.

    The pods say which group they belong to: https://volcano.sh/en/docs/podgroup/ and
    https://github.com/kubernetes-sigs/scheduler-plugins/tree/master/pkg/coscheduling
    """
    if not gang_scheduler(job, environment):
        return {}
    if environment.queueing == "volcano":
        return {
            "podGroup": {
                "policy": "volcano",
                "minMember": job.nodes,
                "queue": job.queue or "default",
            },
            "podAnnotations": {"scheduling.k8s.io/group-name": name},
        }
    return {
        "podGroup": {"policy": "coscheduling", "minMember": job.nodes},
        "podLabels": {"scheduling.x-k8s.io/pod-group": name},
    }
