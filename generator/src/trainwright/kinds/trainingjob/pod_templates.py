"""Where a TrainingJob has its pod template, in a manifest of any origin."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import amount, dig, mapping
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.trainingjob import KIND
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.template import PodTemplate


def pod_template(manifest: Manifest) -> PodTemplate:
    """Return the pod template of a TrainingJob."""
    spec = manifest.spec
    # Lattice takes pods away and starts others whenever it resizes a job.
    resized = spec.get("minSize") != spec.get("maxSize")
    limit = dig(spec, "runPolicy", "backoffLimit")
    return PodTemplate(
        "/spec/replicaSpecs/template",
        mapping(dig(spec, "replicaSpecs", "template")),
        "Worker",
        amount(spec.get("maxSize")),
        retried=resized or bool(limit),
    )


def _trainingjob(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    if isinstance(manifest.spec.get("replicaSpecs"), dict):
        yield pod_template(manifest)


TEMPLATES = {KIND.group_kind: _trainingjob}
