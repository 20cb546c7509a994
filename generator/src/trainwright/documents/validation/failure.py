"""What a validator of JSON Schema found wrong, with the schema, the keyword and the value."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any
from urllib.parse import urljoin

import jsonschema_rs

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer, lookup

Schemas = Mapping[str, Mapping[str, Data]]  # by their $id; the root also under ""


@dataclass(frozen=True, slots=True)
class Failure:
    """A schema keyword that a value violates: `wanted` is the keyword's value in `schema`.

    `branches` are the failures below the alternatives of anyOf and oneOf, one after the other.
    """

    path: tuple[str, ...]
    keyword: str
    wanted: Any
    schema: Mapping[str, Data]
    instance: Data
    message: str  # the validator's own words
    names: bool = False  # whether the value is the key of something
    branches: tuple[Failure, ...] = ()
    excluded: frozenset[str] = frozenset()  # names that the mapping may not have
    parent: Mapping[str, Data] = field(default_factory=dict)  # the mapping that has the value


@dataclass(frozen=True, slots=True)
class SchemaInput:
    """The data given to a validator; its first `below` levels were added for the validator."""

    data: Data
    schemas: Schemas
    below: int = 0


# Stands for empty keys, which the validator omits from its paths. No YAML that is read has it.
_EMPTY = "\x00"


def without_empty_keys(data: Data) -> Data:
    """Return the data with a stand-in for empty keys, which a validator's paths would lack."""
    return _renamed(data, "", _EMPTY)


def _renamed(data: Data, old: str, new: str) -> Data:
    if isinstance(data, Mapping):
        return {
            new if key == old else key: _renamed(value, old, new) for key, value in data.items()
        }
    if isinstance(data, list):
        return [_renamed(item, old, new) for item in data]
    return new if old and data == old else data


def _keys(data: Data, path: tuple[str | int, ...]) -> Iterator[str]:
    """Yield the keys on a validator's path as the data has them: it takes 007 and +7 for 7."""
    for step in path:
        key = "" if step == _EMPTY else str(step)
        if isinstance(step, int) and isinstance(data, Mapping) and key not in data:
            key = next((name for name in data if _number(name) == step), key)
        yield key
        data = lookup(data, Pointer.of(key))


def _number(key: str) -> int | None:
    return int(key) if re.fullmatch(r"\+?[0-9]{1,19}", key) else None


_KINDS = jsonschema_rs.ValidationErrorKind
CLOSING = ("additionalProperties", "unevaluatedProperties")


def failure_of(error: jsonschema_rs.ValidationError, look: SchemaInput) -> Failure:
    """Return an error of the validator with the schema, the keyword and its value."""
    kind: Any = error.kind  # the class of each keyword has fields of its own
    inner = getattr(kind, "error", None)  # propertyNames: what is wrong with the name
    at = inner or error
    schema, keyword = _keyword(at, look.schemas)
    path = tuple(_keys(look.data, tuple(error.instance_path)))
    instance = _renamed(at.instance, _EMPTY, "")
    if isinstance(kind, _KINDS.FalseSchema):
        if keyword in CLOSING:  # it speaks of what is in the mapping instead
            instance = lookup(look.data, Pointer.of(*path)) or {}
        else:  # named after the field that must not be there
            keyword = "false"
    # Where several alternatives match, the others do not explain the failure.
    branches = [] if isinstance(kind, _KINDS.OneOfMultipleValid) else getattr(kind, "context", [])
    return Failure(
        path=path[look.below :],
        keyword=keyword,
        wanted=schema.get(keyword),
        schema=schema,
        instance=instance,
        message=at.message,
        names=inner is not None,
        branches=tuple(failure_of(each, look) for failed in branches for each in failed),
        excluded=_excluded(look.schemas, path[look.below :]) if keyword in CLOSING else frozenset(),
        parent=_mapping_at(look.data, path[:-1]),
    )


def _mapping_at(data: Data, path: tuple[str, ...]) -> Mapping[str, Data]:
    value = lookup(data, Pointer.of(*path))
    return value if isinstance(value, Mapping) else {}


def _excluded(schemas: Schemas, path: tuple[str, ...]) -> frozenset[str]:
    """Return the keys that a mapping must not have although the schema it refers to has them."""
    root, excluded = schemas.get("", {}), frozenset[str]()
    nodes = list(_chain(root, root, schemas))
    for key in path:
        below = (
            (file_root, node.get("properties", {}).get(key, node.get("additionalProperties")))
            for file_root, node in nodes
        )
        root, inner = next((pair for pair in below if isinstance(pair[1], Mapping)), (root, {}))
        nodes = list(_chain(root, inner, schemas))
    for _, node in nodes:
        excluded |= frozenset(node.get("propertyNames", {}).get("not", {}).get("enum", ()))
    return excluded


def _chain(
    root: Mapping[str, Data], node: Mapping[str, Data], schemas: Schemas
) -> Iterator[tuple[Mapping[str, Data], Mapping[str, Data]]]:
    """Yield a schema and those that it refers to, each with the document that it is in."""
    for _ in range(_MOST_REFERENCES):
        yield root, node
        uri, _, fragment = str(node.get("$ref", "#")).partition("#")
        if uri:
            root = schemas.get(urljoin(str(root.get("$id", "")), uri), {})
        if not uri and not fragment:
            return
        node = lookup(root, fragment) or {}


_MOST_REFERENCES = 8  # in one chain


def _keyword(
    error: jsonschema_rs.ValidationError, schemas: Schemas
) -> tuple[Mapping[str, Data], str]:
    """Return the failing schema and its keyword; both empty for `false` and in lists of schemas."""
    schema: Any = schemas[(error.absolute_keyword_location or "").partition("#")[0]]
    *way, keyword = error.schema_path  # from where the document begins that the last $ref names
    for step in way:
        schema = schema[step]
    return (
        (schema, keyword) if isinstance(keyword, str) and isinstance(schema, Mapping) else ({}, "")
    )


def closest(failure: Failure) -> Failure:
    """Return the deepest failure; of several, one in an alternative for values of this type.

    Where two come equally close, what they are alternatives of.
    """
    while failure.branches:
        closest, *others = heapq.nsmallest(2, failure.branches, key=_distance)
        if others and _distance(closest) == _distance(others[0]):
            break
        failure = closest
    return failure


def _distance(failure: Failure) -> tuple[int, bool, bool]:
    alternatives = failure.keyword in ("anyOf", "oneOf")
    return -len(failure.path), not alternatives, not _has_type(failure)


def _has_type(failure: Failure) -> bool:
    types = failure.schema.get("type")
    return types is not None and jsonschema_rs.is_valid({"type": types}, failure.instance)
