"""Objects that are read and applied together, with indexes made once for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

from trainwright.groupkind import CLUSTERTRAININGRUNTIME, TRAINJOB, GroupKind
from trainwright.model import Manifest
from trainwright.objects.tolerant import mapping, text


class Bundle(tuple[Manifest, ...]):
    """Manifests in the order they were read. Thousands may be in one, so nothing scans them all."""

    @cached_property
    def by_kind(self) -> Mapping[GroupKind, tuple[Manifest, ...]]:
        """The manifests of each kind."""
        found: dict[GroupKind, list[Manifest]] = {}
        for manifest in self:
            found.setdefault(manifest.group_kind, []).append(manifest)
        return {kind: tuple(manifests) for kind, manifests in found.items()}

    @cached_property
    def times(self) -> Counter[tuple[str, str, str, str]]:
        """How often each identity is there."""
        return Counter(manifest.identity for manifest in self)

    @cached_property
    def _by_name(self) -> Mapping[tuple[GroupKind, str], tuple[Manifest, ...]]:
        found: dict[tuple[GroupKind, str], list[Manifest]] = {}
        for manifest in self:
            found.setdefault((manifest.group_kind, manifest.name), []).append(manifest)
        return {key: tuple(manifests) for key, manifests in found.items()}

    @cached_property
    def used_runtimes(self) -> frozenset[tuple[GroupKind, str]]:
        """Kind and name of every training runtime that a TrainJob here refers to."""
        return frozenset(map(runtime_of, self.by_kind.get(TRAINJOB, ())))

    def named(self, kind: GroupKind, name: str, namespace: str = "") -> Manifest | None:
        """The object of a kind and name; a namespace left out on either side agrees with any."""
        return next(self._named(kind, name, namespace), None)

    def _named(self, kind: GroupKind, name: str, namespace: str) -> Iterator[Manifest]:
        for manifest in self._by_name.get((kind, name), ()):
            if not namespace or manifest.namespace in ("", namespace):
                yield manifest


def runtime_of(trainjob: Manifest) -> tuple[GroupKind, str]:
    """Kind and name of the runtime that a TrainJob refers to, defaults filled in."""
    reference = mapping(mapping(trainjob.body.get("spec")).get("runtimeRef"))
    given = CLUSTERTRAININGRUNTIME
    group = text(reference.get("apiGroup")) or given.group
    kind = GroupKind(group, text(reference.get("kind")) or given.kind)
    return kind, text(reference.get("name"))
