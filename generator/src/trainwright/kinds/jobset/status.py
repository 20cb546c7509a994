"""What the status of a JobSet means.

Facts: kubernetes-sigs/jobset v0.12.0, api/jobset/v1alpha2/jobset_types.go and
pkg/controllers/jobset_controller.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainwright.groupkind import GroupKind
from trainwright.kinds import indexed_status
from trainwright.kinds.state import Phase, State, Status, holding, status_of
from trainwright.model import Data

_JOB = GroupKind("batch", "Job")


def _judge(body: Mapping[str, Data]) -> State:
    spec, status = body.get("spec") or {}, status_of(body)
    jobs = status.get("replicatedJobsStatus")
    counted = replace(
        indexed_status.of_jobs(jobs, restarts=status.get("restarts", 0)),
        total=sum(_pods(group) for group in spec.get("replicatedJobs") or ()),
    )
    waits = "JobSet has not made its Jobs yet" if jobs is None else ""
    if counted.phase is Phase.RESTARTING:
        why = holding(status.get("conditions")).get("RestartingJobSet", {})
        counted = replace(counted, reason=why.get("reason") or "", message=why.get("message") or "")
    return indexed_status.by_conditions(body, counted, succeeded="Completed", waits=waits)


def _jobs(body: Mapping[str, Data]) -> tuple[tuple[GroupKind, str], ...]:
    """The Jobs that make its pods."""
    name = body["metadata"]["name"]
    return tuple(
        (_JOB, f"{name}-{group['name']}-{index}")
        for group in (body.get("spec") or {}).get("replicatedJobs") or ()
        for index in range(group.get("replicas", 1))
    )


def _pods(group: Mapping[str, Data]) -> int:
    job = group["template"]["spec"]
    pods: int = job.get("completions") or job.get("parallelism") or 1
    return pods * int(group.get("replicas", 1))


STATUS = Status(judge=_judge, makes=_jobs)
