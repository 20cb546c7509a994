"""Labels and annotations by which objects make requests to Kueue."""

from __future__ import annotations

from collections.abc import Container

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
TOPOLOGY = tuple(
    f"kueue.x-k8s.io/podset-{which}-topology"
    for which in ("required", "preferred", "unconstrained")
)
SLICE = ("kueue.x-k8s.io/podset-slice-required-topology", "kueue.x-k8s.io/podset-slice-size")
LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
MIN_PARALLELISM = "kueue.x-k8s.io/job-min-parallelism"
EQUAL_COMPLETIONS = "kueue.x-k8s.io/job-completions-equal-parallelism"
ELASTIC = "kueue.x-k8s.io/elastic-job"
MAX_SECONDS = "kueue.x-k8s.io/max-exec-time-seconds"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
GROUP = "kueue.x-k8s.io/podset-group-name"


def sliced(annotations: Container[str]) -> bool:
    """Whether annotations of a pod request a topology of slices."""
    return any(name in annotations for name in (*SLICE, LAYERS))
