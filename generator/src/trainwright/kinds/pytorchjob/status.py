"""What the status of a PyTorchJob means.

Facts: kubeflow/trainer v1.9.4, pkg/controller.v1/common/{job,status}.go and pkg/util/status.go; the
tests read the status that a real operator wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data, amount, mapping, mappings
from trainwright.kinds.state import Phase, State, Status, first, holding, status_of, suspended


def _state_of(body: Mapping[str, Data]) -> State:
    spec, status = mapping(body.get("spec")), status_of(body)
    replicas = mappings([*mapping(spec.get("pytorchReplicaSpecs")).values()])
    counts = mappings([*mapping(status.get("replicaStatuses")).values()])
    counted = State(
        phase=Phase.PENDING,
        ready=sum(amount(count.get("active"), 0) for count in counts),
        total=sum(amount(replica.get("replicas")) for replica in replicas),
    )
    held = holding(status.get("conditions"))
    over = first(held, (("Failed", Phase.FAILED), ("Succeeded", Phase.SUCCEEDED)), counted)
    if over:
        return over
    # The condition follows the spec at the next reconcile, so the spec is newer.
    if mapping(spec.get("runPolicy")).get("suspend"):
        return suspended(held, counted)
    alive = (("Restarting", Phase.RESTARTING), ("Running", Phase.RUNNING))
    started = first(held, (*alive, ("Created", Phase.PENDING)), counted)
    return started or replace(
        counted, reason="NoStatus", message="the training operator has not seen it yet"
    )


STATUS = Status(
    state_of=_state_of, waits={"init-pytorch": "waits until the name of the master resolves"}
)
