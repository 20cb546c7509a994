"""Where a Job has its pod template, in a manifest of any origin."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import amount, mapping
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.indexed_pod_templates import BACKOFF_LIMIT
from trainwright.kinds.job import KIND
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.template import PodTemplate


def pod_template(manifest: Manifest) -> PodTemplate:
    spec = manifest.spec
    return PodTemplate(
        "/spec/template",
        mapping(spec.get("template")),
        "Worker",
        amount(spec.get("parallelism")),
        retried=amount(spec.get("backoffLimit"), BACKOFF_LIMIT) != 0,
    )


def _job(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    yield pod_template(manifest)


TEMPLATES = {KIND.group_kind: _job}
