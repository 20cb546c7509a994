"""Labels and annotations by which Kueue is asked for something."""

from __future__ import annotations

from collections.abc import Container

from trainwright.datatypes.model import Environment

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
TOPOLOGY = tuple(
    f"kueue.x-k8s.io/podset-{which}-topology"
    for which in ("required", "preferred", "unconstrained")
)
SLICE = ("kueue.x-k8s.io/podset-slice-required-topology", "kueue.x-k8s.io/podset-slice-size")
LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
GROUP = "kueue.x-k8s.io/podset-group-name"


def version_of(environment: Environment) -> tuple[int, ...]:
    """The cluster's Kueue, as numbers; nothing when the environment does not say."""
    return tuple(int(n) for n in environment.kueue_version.split(".") if n.isdigit())


def sliced(annotations: Container[str]) -> bool:
    """Whether annotations of a pod ask for a topology of slices."""
    return any(name in annotations for name in (*SLICE, LAYERS))
