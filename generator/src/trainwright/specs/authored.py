"""Where a job spec sets what a rendered pod has, so that findings can point at that line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainwright.datatypes.data import Data, mapping, mappings, text
from trainwright.datatypes.job import CONTAINERS
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents.validation.kubernetes_fields import CONTAINER, POD, Place

# Lists of a pod that are mappings by name in a job, and fields whose items a job
# does not write as a pod does.
_BY_NAME = ("volumes", "volumeMounts", "volumeDevices", "env", "resourceClaims")
_OTHERWISE = ("args", "command", "envFrom", "imagePullSecrets", "ports", "tolerations")


def of_pod(at: Pointer, pod: Mapping[str, Data]) -> Pointer:
    """Return the field of a job that sets a position in a pod's spec, or "" if none does.
    Containers have their own fields.
    """
    return _field(at, pod, POD)


def of_training(at: Pointer, container: Mapping[str, Data]) -> Pointer:
    """Return the field of a job that sets a position in the container that trains."""
    if at.within("/resources/claims"):
        return Pointer("/resourceClaims")
    return _field(at, container, CONTAINER)


def _field(at: Pointer, body: Mapping[str, Data], table: Mapping[str, Place]) -> Pointer:
    field, *rest = at.parts or ("",)
    place = table[field].at if field in table else Pointer()
    if not place or field in _OTHERWISE or not rest:
        return place
    if field in _BY_NAME:
        name = text(mapping(lookup(body, Pointer.of(field, rest[0]))).get("name"))
        return Pointer(place / name + Pointer.of(*rest[1:])) if name else place
    return Pointer(place + Pointer.of(*rest))


_RENDERED = "initContainers"  # of a pod


def of_container(
    pointer: str, manifests: Sequence[Manifest], spec: Mapping[str, Data]
) -> Pointer | None:
    """Return the spec's pointer for a pointer into the manifests, or None if that is not in an init
    container or sidecar that the spec has.

    The pods of a TrainJob are in its runtime, so that any manifest may have the container.
    """
    parts = Pointer(pointer).parts
    if _RENDERED not in parts[:-1]:
        return None
    at = parts.index(_RENDERED) + 1
    index = int(parts[at]) if parts[at].isdecimal() else -1
    for containers in (pod_containers for m in manifests for pod_containers in _containers(m.body)):
        if 0 <= index < len(containers):
            return of_init_container(containers[index], Pointer.of(*parts[at + 1 :]), spec)
    return None


def _containers(node: Data) -> Iterator[list[Mapping[str, Data]]]:
    """Every list of init containers below a value."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key == _RENDERED:
                yield mappings(value)
            else:
                yield from _containers(value)
    elif isinstance(node, list):
        for item in node:
            yield from _containers(item)


def of_init_container(
    container: Mapping[str, Data], inside: Pointer, spec: Mapping[str, Data]
) -> Pointer | None:
    """Return the spec's pointer for a position in an init container or sidecar, or None if the spec
    has no such container.
    """
    name = text(container.get("name"))
    at = next((Pointer.of(f, name) for f in CONTAINERS if name in mapping(spec.get(f))), None)
    if at is None or not inside:
        return at
    field, *rest = inside.parts
    item = lookup(container, Pointer.of(*inside.parts[:2])) if rest else None
    called = text(mapping(item).get("name"))
    if field == "env" and called:
        secret = at / "secrets" / called
        return secret if lookup(spec, secret) is not None else at / "env" / called
    if field == "volumeMounts" and called:
        return at / "mounts" / called
    if field == "securityContext":
        return Pointer(at / "security" + Pointer.of(*rest))
    return Pointer(at + inside)
