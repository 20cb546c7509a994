"""Lists that are maps or sets: items that the API server takes to be duplicates.

https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field
from typing import NamedTuple

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation import kubernetes_schemas
from trainwright.documents.validation.violation import Violation

_REMEDY = "Keep one of them."
# What the server writes where a key of a list's items is absent, by definition.
KEY_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    f"io.k8s.api.core.v1.{name}": {"protocol": "TCP"} for name in ("ContainerPort", "ServicePort")
}
_Path = tuple["_Path", str | int] | None  # the way above, and the last step


@dataclass(slots=True)
class _Node:
    """A schema with its references resolved, and how items of its list are identified."""

    schema: Mapping[str, Data]
    sort: str = ""  # map or set
    keys: Sequence[str] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)
    below: _Below | None = None  # once it is needed


class _Below(NamedTuple):
    """The parts of a value's schema that may contain a map or a set at any depth."""

    fields: Mapping[str, _Node | None]
    more: _Node | None  # other keys
    items: _Node | None


@dataclass(frozen=True)
class ListMaps:
    """The lists of a kind whose items have keys, or are a set.

    `root` is a JSON Schema or that of a CRD, which may refer to definitions of Kubernetes. Nodes
    are kept by identity, since every object of the kind passes the same few.
    """

    root: Mapping[str, Data]
    version: str
    _nodes: dict[int, _Node] = field(default_factory=dict)

    def repeated(self, data: Data, known: Collection[int] = ()) -> tuple[Violation, ...]:
        """Return a violation for each item with an earlier one's keys, or in a set its value. No
        value is looked into whose `id` is known.
        """
        violations: list[Violation] = []
        self._walk(self._node(self.root), data, None, known, violations)
        return tuple(violations)

    def _walk(
        self,
        node: _Node,
        data: Data,
        path: _Path,
        known: Collection[int],
        violations: list[Violation],
    ) -> None:
        """Add the violations of all lists in some data, by what a schema says of them."""
        fields, more, items = node.below or self._below(node)
        if isinstance(data, dict):
            for key, value in data.items():
                if isinstance(value, (dict, list)) and value:
                    below = fields.get(key, more)
                    if below is not None and id(value) not in known:
                        self._walk(below, value, (path, key), known, violations)
        elif isinstance(data, list):
            if node.sort and len(data) > 1:
                violations += _same(node, data, path)
            for index, item in enumerate(data if items is not None else ()):
                if items is not None and isinstance(item, (dict, list)):
                    self._walk(items, item, (path, index), known, violations)

    def _below(self, node: _Node) -> _Below:
        schema = node.schema
        properties = mapping(schema.get("properties"))
        node.below = _Below(
            {key: self._concerned(below) for key, below in properties.items()},
            self._concerned(schema.get("additionalProperties")),
            self._concerned(schema.get("items")),
        )
        return node.below

    def _concerned(self, schema: Data) -> _Node | None:
        """Return a schema's node, or None if no list in its values can be a map or a set."""
        return self._node(schema) if self._has_lists(schema, set()) else None

    def _has_lists(self, schema: Data, seen: set[int]) -> bool:
        if not isinstance(schema, dict) or id(schema) in seen:
            return False
        seen.add(id(schema))
        node = self._node(schema)
        inside = (node.schema.get(key) for key in ("additionalProperties", "items"))
        below = (*mapping(node.schema.get("properties")).values(), *inside)
        return bool(node.sort) or any(self._has_lists(each, seen) for each in below)

    def _node(self, schema: Mapping[str, Data]) -> _Node:
        return self._nodes.get(id(schema)) or self._read(schema)

    def _read(self, schema: Mapping[str, Data]) -> _Node:
        by_name = kubernetes_schemas.definitions(self.version)["$defs"]
        followed, _ = kubernetes_schemas.followed(schema, self.root, by_name)
        items = followed.get("items")
        name = ""
        if isinstance(items, Mapping):
            _, name = kubernetes_schemas.followed(items, self.root, by_name)
        sort = followed.get("x-kubernetes-list-type")
        self._nodes[id(schema)] = node = _Node(
            followed,
            sort if sort in ("map", "set") else "",
            followed.get("x-kubernetes-list-map-keys", ()),
            KEY_DEFAULTS.get(name, {}),
        )
        return node


def _same(node: _Node, data: Sequence[Data], path: _Path) -> list[Violation]:
    """Return a violation for each item of a list that repeats another one."""
    if node.sort == "map" and not node.defaults and _distinct(node.keys, data):
        return []
    violations, seen = [], dict[str, int]()
    for index, item in enumerate(data):
        key = _keys(item, node) if node.sort == "map" else json.dumps(item, default=str)
        first = seen.setdefault(key, index)
        if key and first != index:
            at = Pointer.of(*_steps(path), index)
            message = f"{at.dotted} repeats item {first} of the list: {key}"
            violations.append(Violation(at, message, _REMEDY))
    return violations


def _steps(path: _Path) -> Iterator[str | int]:
    if path is not None:
        above, step = path
        yield from _steps(above)
        yield step


def _distinct(keys: Sequence[str], data: Sequence[Data]) -> bool:
    """Whether the keys of all items differ, which they mostly do."""
    try:
        return len({tuple(map(item.get, keys)) for item in data}) == len(data)
    except (AttributeError, TypeError):  # what is not an item, or not a key
        return False


def _keys(item: Data, node: _Node) -> str:
    """Return an item's identifying keys as text, or "" if it has none of them."""
    values = {key: item.get(key) for key in node.keys} if isinstance(item, dict) else {}
    if all(value is None for value in values.values()):
        return ""
    values = {key: node.defaults.get(key) if v is None else v for key, v in values.items()}
    return ", ".join(f"{key} {json.dumps(value, default=str)}" for key, value in values.items())
