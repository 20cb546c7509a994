"""Where a Toy has its pod template."""

from collections.abc import Iterator

from trainwright.datatypes.data import amount, mapping
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.toy import KIND
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.template import PodTemplate


def pod_template(manifest: Manifest) -> PodTemplate:
    spec = mapping(manifest.body.get("spec"))
    pod = mapping(spec.get("template"))
    return PodTemplate("/spec/template", pod, "Toy", amount(spec.get("size")))


def _toy(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    yield pod_template(manifest)


TEMPLATES = {KIND.group_kind: _toy}
