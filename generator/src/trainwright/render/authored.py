"""Where a spec has what a rule finds in an init container or sidecar of a rendered pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainwright.datatypes.model import Data, Manifest
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.datatypes.tolerant import mapping, mappings, text

FIELDS = ("initContainers", "sidecars")  # of a spec
_RENDERED = "initContainers"  # of a pod


def of_container(
    pointer: str, manifests: Sequence[Manifest], spec: Mapping[str, Data]
) -> Pointer | None:
    """Where the spec has what a pointer into the manifests means; None where that is in no such
    container, or in one that the spec does not have.

    The pods of a TrainJob are in its runtime, so that any manifest may have the container.
    """
    parts = Pointer(pointer).parts
    if _RENDERED not in parts[:-1]:
        return None
    at = parts.index(_RENDERED) + 1
    index = int(parts[at]) if parts[at].isdecimal() else -1
    for containers in (found for m in manifests for found in _containers(m.body)):
        if 0 <= index < len(containers):
            return _written(containers[index], parts[at + 1 :], spec)
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


def _written(
    container: Mapping[str, Data], inside: tuple[str, ...], spec: Mapping[str, Data]
) -> Pointer | None:
    name = text(container.get("name"))
    at = next((Pointer.of(f, name) for f in FIELDS if name in mapping(spec.get(f))), None)
    if at is None or not inside:
        return at
    field, *rest = inside
    item = lookup(container, Pointer.of(*inside[:2])) if rest else None
    called = text(mapping(item).get("name"))
    if field == "env" and called:
        found = at / "secrets" / called
        return found if lookup(spec, found) is not None else at / "env" / called
    if field == "volumeMounts" and called:
        return at / "mounts" / called
    if field == "securityContext":
        return Pointer(at / "security" + Pointer.of(*rest))
    return Pointer(at + Pointer.of(*inside))
