"""What the status of a Kubernetes Job means.

Facts: kubernetes pkg/controller/job/job_controller.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data, amount, integer, mapping, text
from trainwright.kinds.state import Phase, State, Status, first, holding, status_of, suspended


def _state_of(body: Mapping[str, Data]) -> State:
    spec, status = mapping(body.get("spec")), status_of(body)
    failed = amount(status.get("failed"), 0)  # pods, and each but the last was started again
    counted = State(
        phase=Phase.PENDING,
        ready=amount(status.get("ready"), 0),
        total=integer(spec.get("completions")) or integer(spec.get("parallelism")) or 1,
        restarts=failed,
    )
    held = holding(status.get("conditions"))
    # FailureTarget: it has failed, and its last pods are being stopped.
    ends = (("Failed", Phase.FAILED), ("FailureTarget", Phase.FAILED))
    over = first(held, (*ends, ("Complete", Phase.SUCCEEDED)), counted)
    if over:
        return over
    if spec.get("suspend"):
        return suspended(held, counted)
    if counted.ready:
        return replace(counted, phase=Phase.RUNNING, since=text(status.get("startTime")))
    if failed:
        return replace(counted, phase=Phase.RESTARTING)
    return counted


STATUS = Status(state_of=_state_of)
