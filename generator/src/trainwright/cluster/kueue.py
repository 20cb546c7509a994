"""Why a run waits in a Kueue queue, from the Workload that Kueue keeps of it, in Kueue's words.

Facts: kubernetes-sigs/kueue v0.19.2, apis/kueue/v1beta2/workload_types.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.cluster.client import Cluster, Resource
from trainwright.cluster.errors import NoKind
from trainwright.cluster.pods import clean
from trainwright.model import Data

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
# Kueue 0.14 and later store v1beta2; earlier ones have only v1beta1, of the same shape here.
_VERSIONS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")


def workloads(cluster: Cluster, namespace: str) -> list[Data]:
    """Every Workload of a namespace; none where Kueue is not installed."""
    for version in _VERSIONS:
        try:
            return cluster.all(Resource(api_version=version, plural="workloads"), namespace)
        except NoKind:
            continue
    return []


def of(body: Mapping[str, Data], found: Sequence[Mapping[str, Data]]) -> Mapping[str, Data] | None:
    """The Workload that Kueue made for an object."""
    uid = body["metadata"].get("uid")
    for one in found:
        if any(o.get("uid") == uid for o in one["metadata"].get("ownerReferences") or ()):
            return one
    return None


def reason(workload: Mapping[str, Data] | None, queue: str) -> tuple[str, str]:
    """Why it is not admitted, as a word and a sentence; empty when it is."""
    if workload is None:
        return "NoWorkload", f"Kueue has taken no notice of it, in the queue {queue}"
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    said = {c["type"]: c for c in status.get("conditions") or ()}

    def holds(name: str) -> bool:
        return bool(said.get(name, {}).get("status") == "True")

    quota = said.get("QuotaReserved", {})
    if holds("Admitted") or holds("Finished"):
        found = "", ""
    elif spec.get("active") is False:
        found = "Deactivated", _message(said, "Evicted") or "its Workload is not active"
    elif holds("QuotaReserved"):
        found = "AdmissionChecks", _checks(status) or "quota is reserved, checks are not done"
    elif quota.get("message"):
        found = _word(quota), clean(quota["message"])
    elif holds("Evicted"):
        found = said["Evicted"].get("reason") or "Evicted", _message(said, "Evicted")
    else:
        found = "Queued", f"Kueue has not looked at it yet, in the queue {queue}"
    return found


def _word(quota: Mapping[str, Data]) -> str:
    """Kueue's `Pending` says less than the message; other reasons say more."""
    found: str = quota.get("reason") or "Pending"
    return "Quota" if found == "Pending" else found


def _message(said: Mapping[str, Mapping[str, Data]], name: str) -> str:
    return clean(said.get(name, {}).get("message") or "")


def _checks(status: Mapping[str, Data]) -> str:
    waiting = [
        f"{check['name']}: {check.get('message') or check.get('state', 'Pending')}"
        for check in status.get("admissionChecks") or ()
        if check.get("state") != "Ready"
    ]
    return clean("; ".join(waiting))
