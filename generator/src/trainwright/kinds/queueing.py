"""Queueing: the fields of Kueue and of gang schedulers that several targets share."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.groupkind import PODGROUP_OF_PLUGINS, PODGROUP_OF_VOLCANO, GroupKind
from trainwright.datatypes.job import Job
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.target import Deviation, Unsupported
from trainwright.objects.kueue import GROUP
from trainwright.rule_model.upstream import upstream

# The scheduler's name as each project's own chart installs it.
_SCHEDULERS = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}
_POD_GROUPS = {"volcano": PODGROUP_OF_VOLCANO, "coscheduling": PODGROUP_OF_PLUGINS}

# Kueue places each pod set on its own, but sets of one group in one domain of the topology.
# https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
ONE_GROUP = {GROUP: "ranks"}
_GROUPS = upstream("kueue/podset-groups")


def in_kueue(job: Job, environment: Environment) -> bool:
    """Whether Kueue decides when the job starts."""
    return bool(job.queue) and environment.queueing == "kueue"


def gang_scheduler(job: Job, environment: Environment) -> str:
    """Return the scheduler that starts all pods together or none; empty for Kubernetes' own."""
    is_needed = job.gang or (job.queue and environment.queueing == "volcano")
    return _SCHEDULERS.get(environment.queueing, "") if is_needed else ""


def unschedulable(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Yield a problem if schedulerName is not the scheduler that the job's gang or queue needs."""
    gang = gang_scheduler(job, environment)
    if gang and job.scheduler_name not in ("", gang):
        field = "gang" if job.gang else "queue"
        yield Unsupported(
            Pointer("/schedulerName"),
            f"{field} needs the scheduler {gang}, and schedulerName is {job.scheduler_name}",
            f"Write `schedulerName: {gang}`, or remove it (schedulerName: null).",
        )


def suspend(job: Job, environment: Environment) -> dict[str, Data]:
    """Return the run policy's `suspend`, or nothing in a queue: Kueue owns it there.

    In git it would evict a running job at a sync.
    """
    return {} if in_kueue(job, environment) else {"suspend": job.state == "suspended"}


def unsuspendable(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Refuse to suspend a job from git if Kueue starts and stops it."""
    if job.state == "suspended" and in_kueue(job, environment):
        yield Unsupported(
            Pointer("/state"),
            "a job in a Kueue queue cannot be suspended from git: Kueue owns the field",
            "Set spec.active: false in its Workload, which in Argo CD is the action hold; or stop "
            "the whole queue (stopPolicy: HoldAndDrain of its LocalQueue); or give up the run: "
            f"`trainwright cancel {environment.name}/{job.name}`, with --orphan and the command "
            "that it prints where the GitOps engine deletes nothing.",
        )


def ungroupable(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Refuse a topology for two pod sets if Kueue cannot place them together."""
    version = environment.kueue.version if job.topology else ""
    if version and not _GROUPS.holds(version):
        yield Unsupported(
            Pointer("/topology"),
            f"Kueue {version} places the master and the workers each by itself: "
            f"{GROUP} came with {_GROUPS.since}",
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
TOLERATED = Deviation(
    about="Kueue",
    text="In a Kueue queue the pool's tolerations are left out (TW025): those of the flavor "
    "replace them in every attempt after the first, and the pods would not be schedulable any "
    "more. The node selector stays: labels of the flavor are added to it.",
    fields=("/pods/*/placement/tolerations/**",),
    when=in_kueue,
)
_AGAIN = "once Kueue has admitted the run, the API refuses to apply the same file again"
_REPLACED = "the flavor's replace them in every attempt after the first, whose pods stay Pending"


def unplaceable(job: Job, left: Collection[str]) -> Iterator[Unsupported]:
    """Refuse placement by the job itself, of the fields that are left to a ResourceFlavor."""
    why = _AGAIN if "nodeSelector" in left else _REPLACED
    for path, what, value in (
        ("nodeSelector", "a node selector", job.node_selector),
        ("tolerations", "tolerations", job.tolerations),
    ):
        if value and path in left:
            other = ", or use target trainjob" if path == "nodeSelector" else ""
            yield Unsupported(
                Pointer.of(path),
                f"{what} of its own in a Kueue queue: {why}",
                f"Leave it to the ResourceFlavor ({path}: null), or choose a queue whose flavor "
                f"has it{other}.",
            )


# The pod labels that Kueue writes; any other value is a conflict.
_WRITTEN = tuple(f"kueue.x-k8s.io/{name}" for name in upstream("kueue/writes-placement").value)


def unlabelled(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Refuse labels of pods that are Kueue's."""
    for label in _WRITTEN if in_kueue(job, environment) else ():
        for field, labels in (("labels", job.labels), ("podLabels", job.pod_labels)):
            if label in labels:
                yield Unsupported(
                    Pointer.of(field, label),
                    f"{label} is written by Kueue: a run that has another value never starts",
                    f"Remove it ({label}: null).",
                )


def pod_groups(environment: Environment) -> tuple[GroupKind, ...]:
    """Return the kind of the gangs that such targets render, if any."""
    kind = _POD_GROUPS.get(environment.queueing)
    return (kind,) if kind else ()


def pod_group(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    """Return chart values of a gang for targets whose controller makes no PodGroup of its own.

    The pods name their group by an annotation or label: https://volcano.sh/en/docs/podgroup/ and
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
