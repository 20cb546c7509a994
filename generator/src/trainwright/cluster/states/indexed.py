"""The counts that a JobSet keeps of its Jobs, and a TrainJob of its JobSet's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.cluster.states.state import Phase, State
from trainwright.model import Data


def of_jobs(jobs: Sequence[Mapping[str, Data]] | None, *, restarts: int = 0) -> State:
    """The phase that counts of child Jobs show, which are Jobs and not pods.

    A Job counts as ready once all its pods are.
    """
    counts = {
        name: sum(job.get(name, 0) for job in jobs or ())
        for name in ("active", "ready", "succeeded", "failed")
    }
    if counts["ready"]:
        phase = Phase.RUNNING
    elif restarts or counts["failed"]:
        phase = Phase.RESTARTING
    else:
        phase = Phase.PENDING
    return State(phase=phase, restarts=restarts)
