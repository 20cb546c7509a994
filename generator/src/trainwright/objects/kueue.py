"""Labels and annotations by which Kueue is asked for something."""

from __future__ import annotations

from trainwright.objects.subject import Subject
from trainwright.pods.template import PodTemplate

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"
TOPOLOGY = tuple(
    f"kueue.x-k8s.io/podset-{which}-topology"
    for which in ("required", "preferred", "unconstrained")
)
SLICE = ("kueue.x-k8s.io/podset-slice-required-topology", "kueue.x-k8s.io/podset-slice-size")
LAYERS = "kueue.x-k8s.io/podset-slice-required-topology-constraints"
GROUP = "kueue.x-k8s.io/podset-group-name"


def version_of(subject: Subject) -> tuple[int, ...]:
    """The cluster's Kueue, as numbers; nothing when the environment does not say."""
    return tuple(int(n) for n in subject.environment.kueue_version.split(".") if n.isdigit())


def sliced(template: PodTemplate) -> bool:
    return any(name in template.annotations for name in (*SLICE, LAYERS))
