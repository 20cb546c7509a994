"""Where a JobSet has its pod templates, in a manifest of any origin."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.indexed_pod_templates import replicated
from trainwright.kinds.jobset import KIND
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.template import PodTemplate


def _jobset(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    yield from replicated(manifest.spec, "/spec")


TEMPLATES = {KIND.group_kind: _jobset}
