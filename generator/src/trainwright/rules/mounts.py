"""Mounts inside others, mounts that a container runtime cannot make, and what drivers need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, dig, mapping, mappings, text
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.objects.pods.storage import normal
from trainwright.objects.pods.template import PodTemplate, once
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject

_FILES = "trainwright-files"  # the volume of a run's own files
_KEYED = ("configMap", "secret")
_READ_ONLY = (*_KEYED, "projected", "downwardAPI", "image")


@dataclass(frozen=True, slots=True)
class _Mount:
    """One mount of a container: its path and volume, and the position where it is written."""

    path: str
    pointer: Pointer
    name: str
    body: Mapping[str, Data]
    volume: Mapping[str, Data]

    @property
    def spec(self) -> Pointer:
        if self.name == _FILES:
            return Pointer.of("files", self.path)
        return Pointer.of("volumes", self.name)

    @property
    def said(self) -> str:
        return f"the file {self.path}" if self.is_file else f'"{self.name}" at {self.path}'

    @property
    def is_file(self) -> bool:
        """Whether the mount is a single key of a ConfigMap or Secret, by its subPath."""
        part = text(self.body.get("subPath")).rstrip("/")
        for kind in _KEYED:
            source = mapping(self.volume.get(kind))
            if part and kind in self.volume:
                paths = [text(item.get("path")) for item in mappings(source.get("items"))]
                return not any(path.startswith(f"{part}/") for path in paths)
        return False

    @property
    def is_read_only(self) -> bool:
        claim = dig(self.volume, "persistentVolumeClaim", "readOnly")
        return (
            self.body.get("readOnly") is True
            or claim is True
            or any(kind in self.volume for kind in _READ_ONLY)
        )


@once
def _mounts(template: PodTemplate) -> tuple[list[_Mount], ...]:
    """The mounts of each container."""
    return tuple(_read(template))


def _read(template: PodTemplate) -> Iterator[list[_Mount]]:
    volumes = {text(volume.get("name")): volume for _, volume in template.volumes}
    for container in (*template.containers, *template.ephemeral):
        mounts = []
        for index, mount in enumerate(mappings(container.body.get("volumeMounts"))):
            name, written = text(mount.get("name")), text(mount.get("mountPath"))
            at = Pointer(container.pointer) / "volumeMounts" / index
            if written:
                path = normal(written).replace("//", "/").rstrip("/")
                mounts.append(_Mount(path, at, name, mount, volumes.get(name, {})))
        yield mounts


def _inside(mounts: list[_Mount]) -> Iterator[tuple[_Mount, _Mount]]:
    """Yield each mount that is inside others, with the innermost of those."""
    folders = [(other, f"{other.path}/") for other in mounts if other.path]
    for mount in mounts:
        if around := [other for other, folder in folders if mount.path.startswith(folder)]:
            yield mount, max(around, key=lambda other: len(other.path))


# Folders that the kernel fills: no mount point can be created there. What a pod mounts from its
# node exists already.
_OF_THE_KERNEL = ("/proc", "/sys")
_OF_DEVICES = "/dev"


@error("TW741", spec=Pointer("/volumes"), per_pod=True, special=True)
def impossible_mount(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        for mounts in _mounts(template):
            for mount, around in _inside(mounts):
                if around.is_file:
                    message = f"{mount.said} is below the file {around.path}"
                    yield Hit(mount.pointer, message, mount.spec, also=(around.spec,))
            for mount in mounts:
                if not mount.path:
                    message = f'"{mount.name}" is mounted at /, in the place of the whole image'
                    yield Hit(mount.pointer, message, mount.spec)
                if folder := _of_the_kernel(mount):
                    message = f"{mount.said} is in {folder}, which the kernel fills"
                    yield Hit(mount.pointer, message, mount.spec)


def _of_the_kernel(mount: _Mount) -> str:
    if not mount.path.startswith((*_OF_THE_KERNEL, _OF_DEVICES)) or "hostPath" in mount.volume:
        return ""
    closed = (*_OF_THE_KERNEL, _OF_DEVICES) if mount.is_file else _OF_THE_KERNEL
    return next((folder for folder in closed if f"{mount.path}/".startswith(f"{folder}/")), "")


@warning("TW742", spec=Pointer("/volumes"), per_pod=True, special=True)
def mount_in_read_only_volume(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        for mounts in _mounts(template):
            for mount, around in _inside(mounts):
                if around.is_read_only and not around.is_file:
                    message = f"{mount.said} is inside {around.said}, which is read-only"
                    yield Hit(mount.pointer, message, mount.spec, also=(around.spec,))


_GCSFUSE = "gcsfuse.csi.storage.gke.io"
_ANNOTATION = "gke-gcsfuse/volumes"
_SIDECAR = "gke-gcsfuse-sidecar"


@warning("TW743", about=(_GCSFUSE,), spec=Pointer("/volumes"), per_pod=True)
def missing_gcsfuse_annotation(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        names = [container.name for container in template.containers]
        annotated = str(template.annotations.get(_ANNOTATION)).lower() == "true"
        if annotated or template.partial or _SIDECAR in names:
            continue
        for pointer, volume in template.volumes:
            if dig(volume, "csi", "driver") == _GCSFUSE:
                name = text(volume.get("name"))
                message = f'"{name}" is a bucket, and the pod lacks the annotation {_ANNOTATION}'
                yield Hit(f"{pointer}/csi", message, Pointer.of("volumes", name, "csi"))


RULES = defined_in(globals())
