"""Lists that are maps or sets: items that the server takes for one and the same.

https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.model import Data
from trainwright.datatypes.pointer import Pointer
from trainwright.specs import kubernetes_schemas
from trainwright.specs.kubernetes_values import KEY_DEFAULTS
from trainwright.specs.violation import Violation

_REMEDY = "Keep one of them."
_Path = tuple[str | int, ...]


@dataclass(slots=True)
class _Node:
    """What a schema says of a value, its references followed."""

    properties: Mapping[str, Data]
    more: Data  # the schema of other keys
    items: Data
    sort: str = ""  # map or set
    keys: Sequence[str] = ()
    defaults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ListMaps:
    """The lists of a kind whose items have keys, or are a set.

    `root` is a JSON Schema or that of a CRD, which may refer to definitions of Kubernetes. Nodes
    are kept by identity, since every object of the kind passes the same few.
    """

    root: Mapping[str, Data]
    version: str
    _nodes: dict[int, _Node] = field(default_factory=dict)

    def repeated(self, data: Data) -> tuple[Violation, ...]:
        """Every item that has the keys of one before it, or is equal to one where it is a set."""
        found: list[Violation] = []
        self._walk(self.root, data, (), found)
        return tuple(found)

    def _walk(self, schema: Data, data: Data, path: _Path, found: list[Violation]) -> None:
        if not isinstance(schema, dict):  # as parsed; the abstract class is slow
            return
        node = self._nodes.get(id(schema)) or self._read(schema)
        if isinstance(data, dict):
            for key, value in data.items():
                if isinstance(value, dict | list) and value:
                    below = node.properties.get(key, node.more)
                    self._walk(below, value, (*path, key), found)
        elif isinstance(data, list):
            if node.sort and len(data) > 1:
                found += _same(node, data, path)
            for index, item in enumerate(data):
                if isinstance(item, dict | list):
                    self._walk(node.items, item, (*path, index), found)

    def _read(self, schema: Mapping[str, Data]) -> _Node:
        known = kubernetes_schemas.definitions(self.version)["$defs"]
        followed, _ = kubernetes_schemas.followed(schema, self.root, known)
        items = followed.get("items")
        name = ""
        if isinstance(items, Mapping):
            _, name = kubernetes_schemas.followed(items, self.root, known)
        sort = followed.get("x-kubernetes-list-type")
        self._nodes[id(schema)] = node = _Node(
            followed.get("properties", {}),
            followed.get("additionalProperties"),
            items,
            sort if sort in ("map", "set") else "",
            followed.get("x-kubernetes-list-map-keys", ()),
            KEY_DEFAULTS.get(name, {}),
        )
        return node


def _same(node: _Node, data: Sequence[Data], path: _Path) -> list[Violation]:
    if node.sort == "map" and not node.defaults and _distinct(node.keys, data):
        return []
    found, seen = [], dict[str, int]()
    for index, item in enumerate(data):
        key = _keys(item, node) if node.sort == "map" else json.dumps(item, default=str)
        first = seen.setdefault(key, index)
        if key and first != index:
            at = Pointer.of(*path, index)
            message = f"{at.dotted} repeats item {first} of the list: {key}"
            found.append(Violation(at, message, _REMEDY))
    return found


def _distinct(keys: Sequence[str], data: Sequence[Data]) -> bool:
    """Whether the keys of all items differ, which they mostly do."""
    try:
        return len({tuple(map(item.get, keys)) for item in data}) == len(data)
    except (AttributeError, TypeError):  # what is not an item, or not a key
        return False


def _keys(item: Data, node: _Node) -> str:
    """What an item is known by, as people read it; empty where it has none of its keys."""
    values = {key: item.get(key) for key in node.keys} if isinstance(item, dict) else {}
    if all(value is None for value in values.values()):
        return ""
    values = {key: node.defaults.get(key) if v is None else v for key, v in values.items()}
    return ", ".join(f"{key} {json.dumps(value, default=str)}" for key, value in values.items())
