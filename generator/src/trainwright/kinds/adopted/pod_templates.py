"""Where an object of any kind has its pod templates, by their shape."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.roles import roles
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.template import PodTemplate


def of_any_kind(manifest: Manifest, _around: Bundle) -> Iterator[PodTemplate]:
    """Yield the pod templates of an object, each with how many pods are made of it."""
    for role in roles(manifest.body):
        at = role.pointer.removesuffix("/spec")
        yield PodTemplate(at, {"spec": role.spec}, role.name, role.pods)
