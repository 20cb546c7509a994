"""Where a TrainingJob has its pod template, in a manifest of any origin."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.kinds.trainingjob import KIND
from trainwright.model import Manifest
from trainwright.objects.bundle import Bundle
from trainwright.pods.template import PodTemplate
from trainwright.tolerant import amount, dig, mapping


def _trainingjob(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    spec = mapping(manifest.body.get("spec"))
    replica = spec.get("replicaSpecs")
    if isinstance(replica, dict):
        # Lattice takes pods away and starts others whenever it resizes a job.
        resized = spec.get("minSize") != spec.get("maxSize")
        limit = dig(spec, "runPolicy", "backoffLimit")
        yield PodTemplate(
            "/spec/replicaSpecs/template",
            mapping(replica.get("template")),
            "Worker",
            amount(spec.get("maxSize")),
            retried=resized or bool(limit),
        )


TEMPLATES = {KIND.group_kind: _trainingjob}
