"""Fields of rendered pods that an API server silently drops, since the CRD has no such fields.

The data is generated from the CRDs: pruned.json in the folder of each kind that has one.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#field-pruning
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, entries
from trainwright.kinds import OWNERS
from trainwright.kinds.kind import Kind
from trainwright.rule_model.upstream import numbers

Patterns: TypeAlias = Mapping[str, "Patterns"]  # by key, `*` for any; what is pruned is empty


@dataclass(frozen=True, slots=True)
class Pruned:
    """A field of a pod that an API server drops.

    `pod` is where the pod's spec is in the object, and `field` where the field is in that spec.
    """

    pod: Pointer
    field: Pointer

    @property
    def pointer(self) -> Pointer:
        """Where the field is in the object."""
        return Pointer(self.pod + self.field)


def are_versioned(manifest: Manifest) -> bool:
    """Whether the dropped fields depend on the version of an operator."""
    kind = OWNERS.get(manifest.group_kind)
    return kind is not None and len(_table(kind).get(manifest.kind, {})) > 1


def pruned(manifest: Manifest, version: str) -> Iterator[Pruned]:
    """Yield the pod fields of an object that the API server prunes by the CRD of this version of
    the operator, or of the newest known one if no version is given.
    """
    kind = OWNERS.get(manifest.group_kind)
    for pods, fields in _definition(kind, manifest.kind, version) if kind else ():
        for pod, spec in _at(manifest.body, pods, Pointer()):
            yield from (Pruned(pod, field) for field, _ in _at(spec, fields, Pointer()))


@cache
def _definition(kind: Kind, name: str, version: str) -> tuple[tuple[Patterns, Patterns], ...]:
    """Return where an object has pod specs, and the fields that a CRD's pods lack there.

    Return () for a version that is newer than the table.
    """
    by_version = _table(kind).get(name, {})
    versions = sorted(by_version, key=numbers)
    wanted = numbers(version or versions[-1]) if versions else ()
    if not versions or (versions[-1] and wanted > numbers(versions[-1])):
        return ()  # nothing is known of a definition newer than those in the table
    used = next((v for v in reversed(versions) if numbers(v) <= wanted), versions[0])
    return tuple((_tree([pods]), _tree(fields)) for pods, fields in by_version[used].items())


@cache
def _table(kind: Kind) -> Mapping[str, Mapping[str, Mapping[str, list[str]]]]:
    file = Path(sys.modules[kind.package].__file__ or "").with_name("pruned.json")
    return json.loads(file.read_bytes()) if file.is_file() else {}


def _tree(patterns: list[str]) -> Patterns:
    root: dict[str, Data] = {}
    for pattern in patterns:
        node = root
        for key in Pointer(pattern).parts:
            node = node.setdefault(key, {})
    return root


def _at(value: Data, patterns: Patterns, at: Pointer) -> Iterator[tuple[Pointer, Data]]:
    """Yield every part of a value that matches a pattern, after its pointer."""
    if not patterns:
        yield at, value
        return
    for key, below in patterns.items():
        for name, part in entries(value, key):
            yield from _at(part, below, at / name)
