"""Where a RayJob has its pod templates, in a manifest of any origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data, amount, dig, mapping, sequence, text
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.rayjob import KIND
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.template import PodTemplate

CLUSTER = Pointer("/spec/rayClusterSpec")
SUBMITTER = "submitter"


def pod_templates(manifest: Manifest) -> Iterator[PodTemplate]:
    """Yield the templates of the head and of each group of workers."""
    cluster = mapping(manifest.spec.get("rayClusterSpec"))
    retried = bool(manifest.spec.get("backoffLimit"))
    head = dig(cluster, "headGroupSpec", "template")
    if isinstance(head, dict):
        yield replace(
            PodTemplate(CLUSTER / "headGroupSpec" / "template", head, "head", retried=retried),
            entrypoint=text(manifest.spec.get("entrypoint")),
        )
    for index, group in enumerate(sequence(cluster.get("workerGroupSpecs"))):
        template = mapping(group).get("template")
        if isinstance(template, dict):
            yield PodTemplate(
                CLUSTER / "workerGroupSpecs" / index / "template",
                template,
                text(mapping(group).get("groupName")) or "worker",
                _workers(mapping(group)),
                retried=True,
            )


def submitter(manifest: Manifest) -> PodTemplate | None:
    """The template of the pod that submits the program; None if KubeRay makes one of its own."""
    template = manifest.spec.get("submitterPodTemplate")
    if not isinstance(template, dict):
        return None
    return PodTemplate("/spec/submitterPodTemplate", template, SUBMITTER, retried=True)


def _workers(group: Mapping[str, Data]) -> int:
    return amount(group.get("replicas"), 0) * amount(group.get("numOfHosts"), 1)


def _rayjob(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    yield from pod_templates(manifest)
    if (template := submitter(manifest)) is not None:
        yield template


TEMPLATES = {KIND.group_kind: _rayjob}
