"""What the status of a RayJob means.

Facts: ray-project/kuberay v1.7.0, ray-operator/apis/ray/v1/rayjob_types.go and
controllers/ray/rayjob_controller.go. `jobStatus` is Ray's word for the program, and
`jobDeploymentStatus` KubeRay's for all of it: a program that failed may be tried again.
"""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.datatypes.data import Data, amount, mapping, mappings, text
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.rayjob.pod_templates import pod_templates
from trainwright.kinds.state import Phase, State, Status, status_of

_PHASES: Mapping[str, tuple[Phase, str]] = {
    "": (Phase.PENDING, "KubeRay has not seen it yet"),
    "Initializing": (Phase.PENDING, "its cluster is not ready yet"),
    "Waiting": (Phase.PENDING, "it waits for someone to submit its program"),
    "Running": (Phase.RUNNING, ""),
    "Complete": (Phase.SUCCEEDED, ""),
    "Failed": (Phase.FAILED, ""),
    "ValidationFailed": (Phase.FAILED, ""),
    "Suspending": (Phase.SUSPENDED, ""),
    "Suspended": (Phase.SUSPENDED, ""),
    "Retrying": (Phase.RESTARTING, ""),
}


def _state_of(body: Mapping[str, Data]) -> State:
    spec, status = mapping(body.get("spec")), status_of(body)
    word = text(status.get("jobDeploymentStatus"))
    phase, message = _PHASES.get(word, (Phase.PENDING, ""))
    if phase is Phase.PENDING and spec.get("suspend"):
        phase, message = Phase.SUSPENDED, ""
    if phase is Phase.SUCCEEDED and status.get("jobStatus") == "STOPPED":
        phase, message = Phase.FAILED, "the program was stopped"
    return State(
        phase=phase,
        reason=text(status.get("reason")) or word,
        message=text(status.get("message")) or message,
        ready=_ready(mapping(status.get("rayClusterStatus"))),
        total=sum(template.replicas for template in pod_templates(Manifest(body=body))),
        restarts=amount(status.get("failed"), 0),
        since=text(status.get("endTime")),
    )


def _ready(cluster: Mapping[str, Data]) -> int:
    """Return how many nodes are ready: the head by its condition, which KubeRay sets since 1.3."""
    conditions = {
        condition.get("type"): condition.get("status")
        for condition in mappings(cluster.get("conditions"))
    }
    has_address = bool(mapping(cluster.get("head")).get("podIP"))  # all that 1.2 says
    head = conditions.get("HeadPodReady", "True" if has_address else "") == "True"
    return amount(cluster.get("readyWorkerReplicas"), 0) + int(
        head or cluster.get("state") == "ready"
    )


def _makes(body: Mapping[str, Data]) -> tuple[tuple[GroupKind, str], ...]:
    name = text(status_of(body).get("rayClusterName"))
    cluster = ((GroupKind("ray.io", "RayCluster"), name),) if name else ()
    return (*cluster, (GroupKind("batch", "Job"), text(mapping(body.get("metadata")).get("name"))))


def _pod_labels(body: Mapping[str, Data]) -> tuple[tuple[str, str], ...]:
    """Return the label of the nodes: only the submitter's pod has the name of the RayJob."""
    name = text(status_of(body).get("rayClusterName"))
    return (("ray.io/cluster", name),) if name else ()


STATUS = Status(
    state_of=_state_of,
    waits={"wait-gcs-ready": "waits until Ray's head answers"},
    makes=_makes,
    pod_labels=_pod_labels,
)
