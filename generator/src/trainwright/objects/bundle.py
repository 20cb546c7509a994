"""Objects that are read and applied together, with indexes made once for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TypeVar, cast

from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.manifest import Manifest

Value = TypeVar("Value")


class Bundle(tuple[Manifest, ...]):
    """Manifests in the order they were read, indexed, since there may be thousands of them."""

    @cached_property
    def by_kind(self) -> Mapping[GroupKind, tuple[Manifest, ...]]:
        """The manifests of each kind."""
        grouped: dict[GroupKind, list[Manifest]] = {}
        for manifest in self:
            grouped.setdefault(manifest.group_kind, []).append(manifest)
        return {kind: tuple(manifests) for kind, manifests in grouped.items()}

    @cached_property
    def times(self) -> Counter[tuple[str, str, str, str]]:
        """Return how often each identity occurs."""
        return Counter(manifest.identity for manifest in self)

    @cached_property
    def _by_name(self) -> Mapping[tuple[GroupKind, str], tuple[Manifest, ...]]:
        grouped: dict[tuple[GroupKind, str], list[Manifest]] = {}
        for manifest in self:
            grouped.setdefault((manifest.group_kind, manifest.name), []).append(manifest)
        return {key: tuple(manifests) for key, manifests in grouped.items()}

    @cached_property
    def _derived(self) -> dict[object, object]:
        return {}

    def derived(self, compute: Callable[[Bundle], Value]) -> Value:
        """Return what a function computes from all objects; it is called once and cached."""
        if compute not in self._derived:
            self._derived[compute] = compute(self)
        return cast(Value, self._derived[compute])

    def named(self, kind: GroupKind, name: str, namespace: str = "") -> Manifest | None:
        """Return the object of a kind and name, or None; an empty namespace agrees with any."""
        return next(self._named(kind, name, namespace), None)

    def _named(self, kind: GroupKind, name: str, namespace: str) -> Iterator[Manifest]:
        for manifest in self._by_name.get((kind, name), ()):
            if not namespace or manifest.namespace in ("", namespace):
                yield manifest
