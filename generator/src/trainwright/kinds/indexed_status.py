"""The counts that a JobSet keeps of its Jobs, and a TrainJob of its JobSet's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainwright.datatypes.data import Data, amount, mapping, mappings
from trainwright.kinds.state import Phase, State, first, holding, status_of, suspended


def of_jobs(jobs: Sequence[Mapping[str, Data]] | None, *, restarts: int = 0) -> State:
    """Return the state that counts of child Jobs show, which count Jobs and not pods.

    A Job counts as ready once all its pods are.
    """
    counts = {
        name: sum(amount(job.get(name), 0) for job in mappings(jobs))
        for name in ("active", "ready", "succeeded", "failed")
    }
    if counts["ready"]:
        phase = Phase.RUNNING
    elif restarts or counts["failed"]:
        phase = Phase.RESTARTING
    else:
        phase = Phase.PENDING
    return State(phase=phase, restarts=restarts)


def by_conditions(body: Mapping[str, Data], counted: State, *, succeeded: str, waits: str) -> State:
    """Return the failed, succeeded or suspended state that the object shows, else the counted one.

    `succeeded` is the condition of success; `waits` is why there are no counts yet, if so.
    """
    held = holding(status_of(body).get("conditions"))
    over = first(held, (("Failed", Phase.FAILED), (succeeded, Phase.SUCCEEDED)), counted)
    if over:
        return over
    if mapping(body.get("spec")).get("suspend"):
        return suspended(held, counted)
    return replace(counted, reason="NoStatus", message=waits) if waits else counted
