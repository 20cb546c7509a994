"""Values as CEL sees them in Kubernetes: typed by their schema, fields under escaped names.

https://kubernetes.io/docs/reference/using-api/cel/#escaping
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from trainwright.datatypes.data import Data
from trainwright.datatypes.manifest import IDENTIFYING
from trainwright.manifests.structural import Structural

_RESERVED = frozenset(
    "true false null in as break const continue else for function if import let loop package "
    "namespace return var void while".split()
)
_ESCAPES = (("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__"))
_NAMES = ("name", "generateName")  # all that rules may read of an object's own metadata


def convert(value: Data, schema: Structural, *, root: bool, sort: bool) -> Data:
    """Return a value as rules read it. With `sort`, for comparing two values, lists of type set or
    map are sorted: their order means nothing, and the server's `==` ignores it.
    """
    if isinstance(value, Mapping):
        return _object(value, schema, root=root, sort=sort)
    if isinstance(value, list):
        items = schema.get("items")
        if not isinstance(items, Mapping):
            return value
        if sort and schema.get("x-kubernetes-list-type") in ("set", "map"):
            value = sorted(value, key=lambda item: repr(key(schema, item) or item))
        return [convert(item, items, root=False, sort=sort) for item in value]
    return _scalar(value, schema)


def key(schema: Structural, item: Data) -> tuple[str, ...] | None:
    """Return the values of the keys that identify an item of a list map, or None if it has none."""
    names = schema.get("x-kubernetes-list-map-keys")
    if not names or not isinstance(item, Mapping):
        return None
    return tuple(repr(item.get(name)) for name in names)


def _object(value: Mapping[str, Data], schema: Structural, *, root: bool, sort: bool) -> Data:
    fields = schema.get("properties", {})
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping):
        return {k: convert(v, more, root=False, sort=sort) for k, v in value.items()}
    if not fields and not root:
        return dict(value)
    done: dict[str, Data] = {}
    for name, child in fields.items():
        if name in value:
            field = convert(value[name], child, root=False, sort=sort)
            done |= {name: field, _escaped(name): field}
    if root or schema.get("x-kubernetes-embedded-resource"):
        metadata = value.get("metadata")
        own_metadata = metadata if isinstance(metadata, Mapping) else {}
        done |= {k: value[k] for k in IDENTIFYING if k in value}
        done["metadata"] = {
            **done.get("metadata", {}),
            **{k: own_metadata[k] for k in _NAMES if k in own_metadata},
        }
    return done


def _escaped(name: str) -> str:
    if name in _RESERVED:
        return f"__{name}__"
    for plain, escape in _ESCAPES:
        name = name.replace(plain, escape)
    return name


def _scalar(value: Data, schema: Structural) -> Data:
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if schema.get("format") == "byte" and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            return value
    return value
