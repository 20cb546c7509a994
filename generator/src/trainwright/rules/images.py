"""Images: the same bytes on every rank, today and after a restart."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import text
from trainwright.datatypes.groupkind import TRAININGRUNTIME
from trainwright.datatypes.pointer import Pointer
from trainwright.objects.pods.image_reference import split
from trainwright.objects.pods.template import Container
from trainwright.rule_model.rule import defined_in, error
from trainwright.rule_model.subject import Hit, Subject

# Tags that are moved by convention, so that a restarted rank may run other code.
_MOVING = frozenset(["latest", "main", "master", "dev", "nightly", "edge", "stable"])


def _images(subject: Subject) -> Iterator[tuple[Container, str]]:
    for container in subject.containers:
        image = text(container.body.get("image"))
        if image:
            yield container, image


@error("TW709", spec=Pointer("/image"), per_pod=True, special=True)
def mutable_image_tag(subject: Subject) -> Iterator[Hit]:
    for container, image in _images(subject):
        _, tag, digest = split(image)
        if "$" in image:  # of a template that is filled in before it is applied
            continue
        if not digest and (not tag or tag in _MOVING):
            what = f"has the moving tag {tag!r}" if tag else "has no tag"
            yield Hit(f"{container.pointer}/image", f"{image} {what}")


@error("TW715", spec=Pointer("/image"), per_pod=True)
def missing_digest(subject: Subject) -> Iterator[Hit]:
    required = subject.environment.require_digest
    for container, image in _images(subject) if required else ():
        if not split(image)[2]:
            name = subject.environment.name
            yield Hit(f"{container.pointer}/image", f"{image} has no digest, which {name} requires")


@error("TW716", spec=Pointer("/image/repository"), per_pod=True)
def registry_not_allowed(subject: Subject) -> Iterator[Hit]:
    allowed = subject.environment.registries
    for container, image in _images(subject) if allowed else ():
        if not image.startswith(allowed):
            message = f"{split(image)[0]} is not below {' or '.join(allowed)}"
            yield Hit(f"{container.pointer}/image", message)


@error("TW727", spec=Pointer("/image"), per_pod=True, special=True)
def missing_image(subject: Subject) -> Iterator[Hit]:
    if subject.kind.group == TRAININGRUNTIME.group:  # runtime and job complete each other
        return
    for template in subject.pod_templates:
        for container in template.containers if not template.partial else ():
            if not container.body.get("image"):
                yield Hit(container.pointer, f"{container.name or 'a container'} has no image")


RULES = defined_in(globals())
