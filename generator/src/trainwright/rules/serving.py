"""Pods that serve a model: what is true of trainings is not of them."""

from __future__ import annotations

from trainwright.datatypes.groupkind import GroupKind
from trainwright.objects.pods.launching import launches
from trainwright.objects.pods.template import PodTemplate

_RAY_SERVICE = GroupKind("ray.io", "RayService")


def serves_model(kind: GroupKind, template: PodTemplate) -> bool:
    """Whether an object of a kind is a server: a Deployment, for instance, without a launcher."""
    server = kind.group == "apps" or kind == _RAY_SERVICE
    return server and not any(launches(container.started) for container in template.trains)
