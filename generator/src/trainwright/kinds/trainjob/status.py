"""What the status of a TrainJob means, in Kubeflow Trainer 2.0 to 2.3.

Facts: kubeflow/trainer v2.3.0, pkg/apis/trainer/v1alpha1/trainjob_types.go and
pkg/controller/trainjob_controller.go. There is no Running condition; a resumed job keeps a
Suspended one that is False (kubeflow/trainer#3666).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data, integer, mapping, mappings, text
from trainwright.datatypes.groupkind import GroupKind
from trainwright.kinds import indexed_status
from trainwright.kinds.state import State, Status, status_of

_SET, _JOB = GroupKind("jobset.x-k8s.io", "JobSet"), GroupKind("batch", "Job")


def _state_of(body: Mapping[str, Data]) -> State:
    spec, status = mapping(body.get("spec")), status_of(body)
    jobs = status.get("jobsStatus")
    counted = replace(
        indexed_status.of_jobs(jobs), total=integer(mapping(spec.get("trainer")).get("numNodes"))
    )
    waits = "Trainer has not made its JobSet yet" if jobs is None else ""
    return indexed_status.by_conditions(body, counted, succeeded="Complete", waits=waits)


def _made(body: Mapping[str, Data]) -> tuple[tuple[GroupKind, str], ...]:
    """Return the TrainJob's JobSet and the Jobs of that: Trainer allows one per group."""
    name = body["metadata"]["name"]
    groups = [text(group.get("name")) for group in mappings(status_of(body).get("jobsStatus"))]
    return ((_SET, name), *((_JOB, f"{name}-{group}-0") for group in groups))


STATUS = Status(state_of=_state_of, makes=_made)
