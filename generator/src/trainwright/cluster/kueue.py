"""Why a run waits in a Kueue queue, from its Workload, in Kueue's words.

Facts: kubernetes-sigs/kueue v0.19.2, apis/kueue/v1beta2/workload_types.go and, for workloads that
are alike, pkg/workload/workload.go and pkg/cache/queue/cluster_queue.go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.cluster.client import Cluster, Resource
from trainwright.cluster.errors import NoKind
from trainwright.cluster.pods import clean
from trainwright.datatypes.data import Data

# Kueue 0.14 and later store v1beta2; earlier ones have only v1beta1, of the same shape here.
_VERSIONS = ("kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1")


def workloads(cluster: Cluster, namespace: str) -> list[Data]:
    """Return every Workload of a namespace; an empty list if Kueue is not installed."""
    for version in _VERSIONS:
        try:
            return cluster.all(Resource(api_version=version, plural="workloads"), namespace)
        except NoKind:
            continue
    return []


def workload_for(
    body: Mapping[str, Data], candidates: Sequence[Mapping[str, Data]]
) -> Mapping[str, Data] | None:
    """Return the Workload that Kueue made for an object, or None."""
    uid = body["metadata"].get("uid")
    for workload in candidates:
        if any(o.get("uid") == uid for o in workload["metadata"].get("ownerReferences") or ()):
            return workload
    return None


def reason(
    workload: Mapping[str, Data] | None, queue: str, all_: Sequence[Mapping[str, Data]] = ()
) -> tuple[str, str]:
    """Return why a Workload is not admitted, as a word and a sentence; both empty when it is.

    `all_` are the Workloads of its namespace: of several with the same shape, Kueue evaluates the
    first only, and leaves the others without a condition.
    """
    if workload is None:
        return "NoWorkload", f"Kueue has taken no notice of it, in the queue {queue}"
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    conditions = _conditions(workload)

    def holds(name: str) -> bool:
        return bool(conditions.get(name, {}).get("status") == "True")

    quota = conditions.get("QuotaReserved", {})
    if holds("Admitted") or holds("Finished"):
        explanation = "", ""
    elif spec.get("active") is False:
        message = clean(conditions.get("Evicted", {}).get("message") or "")
        explanation = "Deactivated", message or "its Workload is not active"
    elif holds("QuotaReserved"):
        explanation = "AdmissionChecks", _checks(status) or "quota is reserved, checks are not done"
    elif holds("Evicted"):
        explanation = _evicted(conditions["Evicted"], quota)
    elif quota.get("message") and _BYPASSED not in quota["message"]:
        explanation = _word(quota), clean(quota["message"])
    else:
        explanation = _of_its_like(workload, all_) or (_word(quota) if quota else "Queued", _UNSAID)
    return explanation


def _evicted(condition: Mapping[str, Data], quota: Mapping[str, Data]) -> tuple[str, str]:
    """Return why a Workload was evicted ("Preempted"), and a message with what it waits for now."""
    why, since = (clean(entry.get("message") or "") for entry in (condition, quota))
    waits = since if _BYPASSED not in since and since not in why else ""
    return condition.get("reason") or "Evicted", "; ".join(filter(None, (why, waits)))


# Kueue does not evaluate a workload of a shape that has just failed (0.17 and later).
_BYPASSED = "an equivalent workload"
_UNSAID = (
    "Kueue gives no reason: it is not evaluated yet, or waits with a workload of the same shape"
)


def _of_its_like(
    workload: Mapping[str, Data], others: Sequence[Mapping[str, Data]]
) -> tuple[str, str] | None:
    """Return the reason and message of a pending workload of the same shape in the same queue,
    which hold for this one too; None if there is none."""
    wanted = _shape(workload)
    for other in others:
        quota = _conditions(other).get("QuotaReserved", {})
        message = quota.get("message") or ""
        pending = quota.get("status") == "False" and message and _BYPASSED not in message
        if pending and _shape(other) == wanted:
            name = other["metadata"]["name"]
            return _word(quota), clean(
                f"{message} (reported for {name}, a workload of the same shape)"
            )
    return None


# What Kueue compares of the pods. pkg/util/pod/pod.go, SpecShape
_PLACED = ("nodeSelector", "affinity", "tolerations", "runtimeClassName", "priority",
           "topologySpreadConstraints", "overhead", "resourceClaims", "resources")  # fmt: skip


def _shape(workload: Mapping[str, Data]) -> Data:
    """Return what decides whether a workload fits: queue, priority, and its pods' requests."""
    spec = workload.get("spec") or {}
    return (
        spec.get("queueName"),
        spec.get("priority"),
        [_of_set(s) for s in spec.get("podSets") or ()],
    )


def _of_set(pods: Mapping[str, Data]) -> Data:
    spec = (pods.get("template") or {}).get("spec") or {}
    counted = [pods.get(key) for key in ("name", "count", "minCount", "topologyRequest")]
    requested = [
        [((c.get("resources") or {}).get("requests"), c.get("ports")) for c in spec.get(kind) or ()]
        for kind in ("initContainers", "containers")
    ]
    return counted, requested, [spec.get(field) for field in _PLACED]


# Where Kueue's feature gate UnadmittedWorkloadsObservability is off the reason is only `Pending`,
# and the message shows which of the gate's reasons it is. pkg/scheduler/flavorassigner
_GRANULAR = (
    ("insufficient unused quota", "WaitingForQuota"),
    ("> maximum capacity", "ExceedsMaxQuota"),
    ("doesn't allow to fit", "TopologyPlacementFailed"),
    ("doesn't match node affinity", "NoMatchingFlavor"),
    ("untolerated taint", "NoMatchingFlavor"),
)


def _word(quota: Mapping[str, Data]) -> str:
    word_of_quota: str = quota.get("reason") or "Pending"
    if word_of_quota != "Pending":
        return word_of_quota
    message = quota.get("message") or ""
    return next((word for part, word in _GRANULAR if part in message), word_of_quota)


def _conditions(workload: Mapping[str, Data]) -> dict[str, Mapping[str, Data]]:
    return {c["type"]: c for c in (workload.get("status") or {}).get("conditions") or ()}


def _checks(status: Mapping[str, Data]) -> str:
    waiting = [
        f"{check['name']}: {check.get('message') or check.get('state', 'Pending')}"
        for check in status.get("admissionChecks") or ()
        if check.get("state") != "Ready"
    ]
    return clean("; ".join(waiting))
