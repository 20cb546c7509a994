"""What the status of a Lattice TrainingJob means: its stage, and the conditions of one execution.

Facts: lattice-io/lattice, lattice-operator/pkg/apis/breezeml.ai/v1/lattice_types.go and the
reconciler. `Completed` is where a failed job ends as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data, amount, integer, mapping, mappings, text
from trainwright.kinds.state import Phase, State, Status, first, holding, status_of

_STAGES = {
    "Waiting": (Phase.QUEUED, "Lattice has not given it any pods yet"),
    "RequeueCooldown": (
        Phase.QUEUED,
        "its pods stayed pending, so Lattice waits for hours before the next attempt",
    ),
    "Completed": (Phase.RUNNING, "it ended, but its result is not reported yet"),
    "WrongConfiguration": (Phase.FAILED, "Lattice schedules nothing but 1 <= minSize <= maxSize"),
    "Cancelled": (Phase.FAILED, "it was cancelled in Lattice"),
}


def _state_of(body: Mapping[str, Data]) -> State:
    status = status_of(body)
    execution: Mapping[str, Data] = mapping(status.get("execStatus"))
    replicas = mappings([*mapping(execution.get("replicaStatuses")).values()])
    counted = State(
        phase=Phase.PENDING,
        ready=sum(amount(replica.get("active"), 0) for replica in replicas),
        total=_size(body) or integer(mapping(body.get("spec")).get("maxSize")),
    )
    held, stage = holding(execution.get("conditions")), text(status.get("stage"))
    ends = (("Failed", Phase.FAILED), ("Succeeded", Phase.SUCCEEDED))
    over = first(held, ends if stage == "Completed" else ends[:1], counted)
    if over:
        return over
    if stage in _STAGES:
        phase, message = _STAGES[stage]
        return replace(counted, phase=phase, reason=stage, message=message)
    if not stage:
        return replace(counted, reason="NoStatus", message="Lattice has not seen it yet")
    alive = (("Restarting", Phase.RESTARTING), ("Running", Phase.RUNNING))
    return first(held, (*alive, ("Created", Phase.PENDING)), counted) or counted


def _size(body: Mapping[str, Data]) -> int | None:
    """Return the number of pods that Lattice gives the job at present, or None if none yet."""
    return integer(status_of(body).get("currentSize")) or None


STATUS = Status(state_of=_state_of, size=_size)
