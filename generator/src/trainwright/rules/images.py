"""Images: the same bytes on every rank, today and after a restart."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.groupkind import TRAININGRUNTIME
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import text
from trainwright.pods.image_reference import split
from trainwright.pods.template import Container
from trainwright.rule_model.rule import defined_in, error, pod
from trainwright.rule_model.subject import Hit, Subject

# Tags that are moved by convention, so that a restarted rank may run other code.
_MOVING = frozenset(["latest", "main", "master", "dev", "nightly", "edge", "stable"])


def _images(subject: Subject) -> Iterator[tuple[Container, str]]:
    for container in subject.containers:
        image = text(container.body.get("image"))
        if image:
            yield container, image


@error(
    id="TW709",
    summary="Images have a digest, or a tag that is not moved.",
    effect="Master and workers, or a rank and its restarted self, run different code.",
    remedy="Set image.tag to a version, or image.digest.",
    by_hand="Name a version or a digest.",
    spec=Pointer("/image"),
    source="https://kubernetes.io/docs/concepts/containers/images/",
    per_pod=True,
    passes=pod("image: 'registry.example.com:5000/ml/train:1.4.0'"),
    fails=pod("image: 'registry.example.com:5000/ml/train'"),
)
def mutable_image_tag(subject: Subject) -> Iterator[Hit]:
    for container, image in _images(subject):
        _, tag, digest = split(image)
        if "$" in image:  # of a template that is filled in before it is applied
            continue
        if not digest and (not tag or tag in _MOVING):
            what = f"has the moving tag {tag!r}" if tag else "has no tag"
            yield Hit(f"{container.pointer}/image", f"{image} {what}")


@error(
    id="TW715",
    summary="Where the environment requires digests, every image has one.",
    effect="What runs is not what was reviewed, once the tag is moved.",
    remedy="Set image.digest to the sha256 of the tested image.",
    by_hand="Name the image by the sha256 of the tested one, as in train@sha256:….",
    spec=Pointer("/image"),
    source="https://kubernetes.io/docs/concepts/containers/images/#image-names",
    per_pod=True,
    passes=pod(f"image: 'ml/train:1@sha256:{'0' * 64}'"),
    passes_in="images: {requireDigest: true}",
    fails=pod("image: 'ml/train:1'"),
    fails_in="images: {requireDigest: true}",
)
def missing_digest(subject: Subject) -> Iterator[Hit]:
    for container, image in _images(subject):
        if subject.environment.require_digest and not split(image)[2]:
            name = subject.environment.name
            yield Hit(f"{container.pointer}/image", f"{image} has no digest, which {name} requires")


@error(
    id="TW716",
    summary="Images come from the registries that the environment allows.",
    effect="The cluster refuses or cannot pull the image, or runs code of unknown origin.",
    remedy="Copy the image to an allowed registry, or add its prefix to images.registries.",
    spec=Pointer("/image/repository"),
    source="https://kubernetes.io/docs/concepts/containers/images/",
    per_pod=True,
    passes=pod("image: 'registry.example.com/ml/train:1'"),
    passes_in="images: {registries: [registry.example.com/]}",
    fails=pod("image: 'docker.io/ml/train:1'"),
    fails_in="images: {registries: [registry.example.com/]}",
)
def registry_not_allowed(subject: Subject) -> Iterator[Hit]:
    allowed = subject.environment.registries
    for container, image in _images(subject):
        if allowed and not image.startswith(allowed):
            message = f"{split(image)[0]} is not below {' or '.join(allowed)}"
            yield Hit(f"{container.pointer}/image", message)


@error(
    id="TW727",
    summary="Every container has an image.",
    effect="The API server refuses a Pod, a Deployment and a Job; anything else is accepted and "
    "waits for pods that are refused.",
    remedy="Set image.",
    by_hand="Set the image of the container.",
    spec=Pointer("/image"),
    source="https://kubernetes.io/docs/concepts/containers/images/",
    per_pod=True,
    passes=pod("image: 'registry.example.com/ml/train:1'"),
    fails=pod("command: [python, train.py]"),
)
def missing_image(subject: Subject) -> Iterator[Hit]:
    if subject.kind.group == TRAININGRUNTIME.group:  # runtime and job complete each other
        return
    for template in subject.pod_templates:
        for container in template.containers if not template.partial else ():
            if not container.body.get("image"):
                yield Hit(container.pointer, f"{container.name or 'a container'} has no image")


RULES = defined_in(globals())
