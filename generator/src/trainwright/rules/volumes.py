"""Volumes and their mounts: what is mounted is there, and what is there is mounted."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import mappings, text
from trainwright.pods import code
from trainwright.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, error, pod, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.specs.upstream import upstream

_VOLUMES = "https://kubernetes.io/docs/concepts/storage/volumes/"
_MOUNTING = ("volumeMounts", "volumeDevices")


def _mounts(container: Container) -> Iterator[tuple[Pointer, str]]:
    """The volume that each mount names, and where."""
    for field in _MOUNTING:
        for index, mount in enumerate(mappings(container.body.get(field))):
            yield Pointer(container.pointer) / field / index, text(mount.get("name"))


def _containers(template: PodTemplate) -> tuple[Container, ...]:
    return (*template.containers, *template.ephemeral)


@error(
    id="TW725",
    summary="Every mount names a volume of the pod.",
    effect="The API server refuses a Pod, a Deployment and a Job; anything else is accepted and "
    "waits for pods that are refused.",
    remedy="Add the volume, or correct the name of the mount.",
    spec=Pointer("/volumes"),
    source=_VOLUMES,
    per_pod=True,
    passes=pod("volumeMounts: [{name: data, mountPath: /data}]", ", volumes: [{name: data}]"),
    fails=pod("volumeMounts: [{name: dta, mountPath: /data}]", ", volumes: [{name: data}]"),
)
def mount_without_volume(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        if template.partial:
            continue
        known = {*template.claimed} | {text(volume.get("name")) for _, volume in template.volumes}
        for container in _containers(template):
            for pointer, name in _mounts(container):
                if name and name not in known:
                    message = f'{container.name} mounts "{name}", there is no such volume'
                    yield Hit(pointer, message, Pointer.of("volumes", name))


@warning(
    id="TW726",
    summary="Every volume of a pod is mounted by a container.",
    effect="What the volume holds is in no container, and the pod waits for it all the same.",
    remedy="Mount it where it is needed, or remove it.",
    spec=Pointer("/volumes"),
    source=_VOLUMES,
    per_pod=True,
    passes=pod("volumeMounts: [{name: data, mountPath: /data}]", ", volumes: [{name: data}]"),
    fails=pod("image: a", ", volumes: [{name: data}]"),
)
def unused_volume(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        mounted = {name for c in _containers(template) for _, name in _mounts(c)}
        for pointer, volume in template.volumes if not template.partial else ():
            name = text(volume.get("name"))
            if name and name not in mounted:
                message = f'no container mounts the volume "{name}"'
                yield Hit(pointer, message, Pointer.of("volumes", name))


# Minor versions of Kubernetes: alpha in the first, beta and off in 33, beta and on in the last.
_IMAGES = upstream("kubernetes/image-volumes")


@warning(
    id="TW730",
    summary="Volumes of images are mounted where the cluster has them without a feature gate.",
    effect="The API server drops the volume's source, or refuses the pod.",
    remedy="Turn the feature gate ImageVolume on for the API server and every kubelet, and declare "
    "it in kubernetes.features of environment.yaml; or put the files into the image or a claim.",
    spec=Pointer("/volumes"),
    source="https://kubernetes.io/docs/tasks/configure-pod-container/image-volumes/",
    per_pod=True,
    passes=pod("image: a", ", volumes: [{name: d, image: {reference: a}}]"),
    passes_in='kubernetes: {version: "1.35"}',
    fails=pod("image: a", ", volumes: [{name: d, image: {reference: a}}]"),
    fails_in='kubernetes: {version: "1.33"}',
)
def image_volume_unavailable(subject: Subject) -> Iterator[Hit]:
    version = subject.environment.kubernetes_version
    if _IMAGES.is_on(version, subject.environment.kubernetes_features):
        return
    mounts = f"mounts them with the feature gate {_IMAGES.gate} alone"
    if not _IMAGES.holds(version):
        mounts = f"has none: {_IMAGES.since} is the first that mounts them"
    for template in subject.pod_templates:
        for pointer, volume in template.volumes:
            if "image" in volume:
                name = text(volume.get("name"))
                ours = name == code.NAME
                message = f'"{name}" is a volume of an image, and Kubernetes {version} {mounts}'
                spec = Pointer("/code/image") if ours else Pointer.of("volumes", name)
                yield Hit(f"{pointer}/image", message, spec)


@error(
    id="TW750",
    summary="Every volume of a pod has one source.",
    effect="The API server refuses a Pod, a Deployment and a Job; anything else is accepted and "
    "waits for pods that are refused.",
    remedy="Keep one of them: in a podPatch, remove the other with null.",
    by_hand="Keep one of them.",
    spec=Pointer("/volumes"),
    source=_VOLUMES,
    per_pod=True,
    passes=pod("image: a", ", volumes: [{name: d, emptyDir: {}}]"),
    fails=pod("image: a", ", volumes: [{name: d, emptyDir: {}, hostPath: {path: /a}}]"),
)
def volume_of_several_sources(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        for pointer, volume in template.volumes:
            sources = [key for key, source in volume.items() if isinstance(source, dict)]
            if len(sources) > 1:
                name = text(volume.get("name"))
                message = f'the volume "{name}" has {len(sources)} sources: {", ".join(sources)}'
                yield Hit(pointer, message, Pointer.of("volumes", name))


RULES = defined_in(globals())
