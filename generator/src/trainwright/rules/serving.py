"""Pods that serve a model: what is true of trainings is not of them."""

from __future__ import annotations

from trainwright.datatypes.groupkind import GroupKind
from trainwright.objects.pods.launching import launches
from trainwright.objects.pods.template import PodTemplate

# Not StatefulSets, in which people train as well.
_SERVERS = frozenset(
    {
        *(GroupKind("apps", kind) for kind in ("Deployment", "ReplicaSet", "DaemonSet")),
        GroupKind("ray.io", "RayService"),
    }
)


def serves_model(kind: GroupKind, template: PodTemplate) -> bool:
    """Whether an object of a kind is a server: a Deployment, for instance, without a launcher."""
    return kind in _SERVERS and not any(
        launches(container.started) for container in template.trains
    )
