"""What waits for what: the fields of Kueue and of gang schedulers that several targets share."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.model import Data, Environment, Job
from trainwright.targets.target import Unsupported

# The scheduler's name as each project's own chart installs it.
_SCHEDULERS = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}

# Kueue places each pod set by itself, and two of one group in one domain of the topology.
# https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/
_GROUP_NAME = "kueue.x-k8s.io/podset-group-name"
ONE_GROUP = {_GROUP_NAME: "ranks"}
_GROUPS_SINCE = (0, 13)


def in_kueue(job: Job, environment: Environment) -> bool:
    """Whether Kueue decides when the job starts."""
    return bool(job.queue) and environment.queueing == "kueue"


def gang_scheduler(job: Job, environment: Environment) -> str:
    """The scheduler that starts all pods together or none; empty when Kubernetes' own does."""
    asked = job.gang or (job.queue and environment.queueing == "volcano")
    return _SCHEDULERS.get(environment.queueing, "") if asked else ""


def suspend(job: Job, environment: Environment) -> dict[str, Data]:
    """The run policy's `suspend`. Kueue owns it: in git it would evict a running job at a sync."""
    return {} if in_kueue(job, environment) else {"suspend": job.state == "suspended"}


def unsuspendable(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Refuses to suspend from git what Kueue starts and stops."""
    if job.state == "suspended" and in_kueue(job, environment):
        yield Unsupported(
            "state",
            "a job in a Kueue queue cannot be suspended from git: Kueue owns the field",
            "Use state: cancelled, or stop the queue (stopPolicy of the LocalQueue).",
        )


def ungroupable(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Refuses a topology for two pod sets where Kueue cannot place them together."""
    asked = environment.kueue_version if job.topology else ""
    version = tuple(int(part) for part in asked.split(".") if part)
    if version and version < _GROUPS_SINCE:
        yield Unsupported(
            "topology",
            f"Kueue {environment.kueue_version} places the master and the workers each by itself: "
            f"{_GROUP_NAME} came with 0.13",
            "Use target trainjob or jobset, whose pods are one set, or a newer Kueue.",
        )


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
