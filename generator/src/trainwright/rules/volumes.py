"""Volumes and their mounts: every mount has its volume, and every volume is mounted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import mappings, text
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.pointer import Pointer
from trainwright.objects.pods import code
from trainwright.objects.pods.template import Container, PodTemplate
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rule_model.upstream import upstream

_MOUNTING = ("volumeMounts", "volumeDevices")


def _mounts(container: Container) -> Iterator[tuple[str, int, str]]:
    """The field and the index of each mount, and the volume that it names."""
    for field in _MOUNTING:
        for index, mount in enumerate(mappings(container.body.get(field))):
            yield field, index, text(mount.get("name"))


def _containers(template: PodTemplate) -> tuple[Container, ...]:
    return (*template.containers, *template.ephemeral)


# Volumes that operators add to pods, which a container may mount by name.
# kubeflow/mpi-operator v0.7.0, pkg/controller/mpi_job_controller.go; ray-project/kuberay v1.7.0,
# ray-operator/controllers/ray/common/pod.go
_OF_RAY = frozenset({"shared-mem", "ray-logs", "ray-tls", "ray-token", "gcs-storage"})
_ADDED: Mapping[GroupKind, frozenset[str]] = {
    GroupKind("kubeflow.org", "MPIJob"): frozenset({"mpi-job-config", "ssh-auth"}),
    **{GroupKind("ray.io", f"Ray{kind}"): _OF_RAY for kind in ("Job", "Cluster", "Service")},
}
# Volumes for the sidecar that GKE adds where a bucket is mounted.
# https://cloud.google.com/kubernetes-engine/docs/how-to/cloud-storage-fuse-csi-driver-sidecar
_OF_SIDECAR = ("gke-gcsfuse-tmp", "gke-gcsfuse-buffer", "gke-gcsfuse-cache")


@error("TW725", spec=Pointer("/volumes"), per_pod=True, special=True)
def mount_without_volume(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        if template.partial:
            continue
        volumes = {*template.claimed} | {text(volume.get("name")) for _, volume in template.volumes}
        volumes |= _ADDED.get(subject.kind, frozenset())
        for container in _containers(template):
            for field, index, name in _mounts(container):
                if name and name not in volumes:
                    pointer = Pointer(container.pointer) / field / index
                    message = f'{container.name} mounts "{name}", there is no such volume'
                    yield Hit(pointer, message, Pointer.of("volumes", name))


@warning("TW726", spec=Pointer("/volumes"), per_pod=True, special=True)
def unused_volume(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        mounted = {name for c in _containers(template) for *_, name in _mounts(c)}
        for pointer, volume in template.volumes if not template.partial else ():
            name = text(volume.get("name"))
            if name and name not in mounted and name not in _OF_SIDECAR:
                message = f'no container mounts the volume "{name}"'
                yield Hit(pointer, message, Pointer.of("volumes", name))


# Minor versions of Kubernetes: alpha in the first, beta and off in 33, beta and on in the last.
_IMAGES = upstream("kubernetes/image-volumes")


@warning("TW730", spec=Pointer("/volumes"), per_pod=True, special=True)
def image_volume_unavailable(subject: Subject) -> Iterator[Hit]:
    if not any("image" in volume for t in subject.pod_templates for _, volume in t.volumes):
        return
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


@error("TW750", spec=Pointer("/volumes"), per_pod=True, special=True)
def volume_of_several_sources(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        for pointer, volume in template.volumes:
            sources = [key for key, source in volume.items() if isinstance(source, dict)]
            if len(sources) > 1:
                name = text(volume.get("name"))
                message = f'the volume "{name}" has {len(sources)} sources: {", ".join(sources)}'
                yield Hit(pointer, message, Pointer.of("volumes", name))


RULES = defined_in(globals())
