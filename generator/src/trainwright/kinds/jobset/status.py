"""What the status of a JobSet means.

Facts: kubernetes-sigs/jobset v0.12.0, api/jobset/v1alpha2/jobset_types.go and
pkg/controllers/jobset_controller.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data, amount, mapping
from trainwright.datatypes.groupkind import GroupKind
from trainwright.kinds import indexed_status
from trainwright.kinds.indexed_pod_templates import ReplicatedJob, completions, replicated_jobs
from trainwright.kinds.state import Phase, State, Status, holding, status_of

_JOB = GroupKind("batch", "Job")


def _state_of(body: Mapping[str, Data]) -> State:
    status = status_of(body)
    jobs = status.get("replicatedJobsStatus")
    counted = replace(
        indexed_status.of_jobs(jobs, restarts=_restarts(status)),
        total=sum(job.replicas * completions(job.spec) for job in _replicated(body)),
    )
    waits = "JobSet has not made its Jobs yet" if jobs is None else ""
    if counted.phase is Phase.RESTARTING:
        why = holding(status.get("conditions")).get("RestartingJobSet", {})
        counted = replace(counted, reason=why.get("reason") or "", message=why.get("message") or "")
    return indexed_status.by_conditions(body, counted, succeeded="Completed", waits=waits)


def _restarts(status: Mapping[str, Data]) -> int:
    """Return the number of restarts: of the whole set, or in place (the highest attempt of a pod).

    `previousInPlaceRestartAttempt` is one less than that while pods restart.
    https://github.com/kubernetes-sigs/jobset/blob/v0.13.0/pkg/controllers/in_place_restart.go
    """
    current = amount(status.get("currentInPlaceRestartAttempt"), 0)
    previous = amount(status.get("previousInPlaceRestartAttempt"), -1)
    return max(amount(status.get("restarts"), 0), current, previous + 1)


def _jobs(body: Mapping[str, Data]) -> tuple[tuple[GroupKind, str], ...]:
    """Return the kind and name of the Jobs that make a JobSet's pods."""
    name = body["metadata"]["name"]
    return tuple(
        (_JOB, f"{name}-{job.name}-{index}")
        for job in _replicated(body)
        for index in range(job.replicas)
    )


def _replicated(body: Mapping[str, Data]) -> Iterator[ReplicatedJob]:
    return replicated_jobs(mapping(body.get("spec")), "/spec")


STATUS = Status(state_of=_state_of, makes=_jobs)
