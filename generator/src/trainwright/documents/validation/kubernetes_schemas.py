"""Kubernetes' own kinds: their JSON Schemas by minor version, and when fields came and went.

`scripts/kubernetes_schemas.py` writes the schemas: each distinct definition once, with the versions
that it is the same in.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.pointer import Pointer

VERSIONS = tuple(f"1.{minor}" for minor in range(29, 38))  # those that users may choose
NEWEST = VERSIONS[-1]
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
URI = "https://trainwright.io/kubernetes/_definitions.json"
POD_TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
CORE = "io.k8s.api.core.v1."
_HERE = "#/$defs/"


@cache
def _schemas() -> Mapping[str, Data]:
    loaded: dict[str, Data] = json.loads(Path(__file__).with_suffix(".json").read_bytes())
    return loaded


@cache
def definitions(version: str) -> Mapping[str, Data]:
    """Return every definition of a minor version, under $defs: some 400 KB, unknown fields refused.

    Raise SourceError for a version without schemas.
    """
    order = {minor: number for number, minor in enumerate(available())}
    if version not in order:
        raise SourceError(f"no schemas for Kubernetes {version}, only for {', '.join(order)}")
    wanted = order[version]
    selected: dict[str, Data] = {}
    for name, spans in _schemas()["definitions"].items():
        for first, last, schema in spans:
            if order[first] <= wanted <= order[last]:
                selected[name] = schema
    return {"$schema": _DIALECT, "$id": URI, "$defs": selected}


def reachable(version: str, *names: str) -> Mapping[str, Data]:
    """Return the named definitions and those that they refer to: compiling all takes longer."""
    by_name = definitions(version)["$defs"]
    reached: dict[str, Data] = {}
    ahead = [name for name in names if name in by_name]
    while ahead:
        name = ahead.pop()
        if name not in reached:
            reached[name] = by_name[name]
            ahead += references(by_name[name])
    return {"$id": URI, "$defs": reached}


def field(version: str, type_: str, name: str) -> Mapping[str, Data] | None:
    """Return the schema of one field of a pod's type ("PodSpec", "Container"), or None if the
    Kubernetes version has no such field.
    """
    schema = _fields(version, f"{CORE}{type_}").get(name)
    return None if schema is None else _absolute(schema)


def _absolute(schema: Data) -> Data:
    """Return a schema that works in any file: its references name the file they refer to."""
    if isinstance(schema, Mapping):
        absolute = {key: _absolute(value) for key, value in schema.items()}
        if isinstance(target := schema.get("$ref"), str) and target.startswith(_HERE):
            absolute["$ref"] = f"{URI}{target}"
        return absolute
    return [_absolute(item) for item in schema] if isinstance(schema, list) else schema


def references(schema: Data) -> Iterator[str]:
    """Yield the names of all definitions that a schema refers to directly."""
    ahead = [schema]  # recursion takes twice as long, for each schema that is compiled
    while ahead:
        part = ahead.pop()
        if isinstance(part, dict):
            target = part.get("$ref")
            if isinstance(target, str) and _HERE in target:
                yield target.partition(_HERE)[2].partition("/")[0]
            ahead += part.values()
        elif isinstance(part, list):
            ahead += part


@cache
def merge_keys(version: str) -> Mapping[str, str]:
    """Return the merge key of each list in a pod template that a strategic merge patch merges.

    A list's name is enough: lists of a pod with the same name have the same merge key. Lists of
    scalars, such as finalizers, have none.
    """
    keys: dict[str, str] = {}
    for definition in reachable(version, POD_TEMPLATE)["$defs"].values():
        for name, field in definition.get("properties", {}).items():
            merged = "merge" in field.get("x-kubernetes-patch-strategy", "").split(",")
            if merged and (key := field.get("x-kubernetes-patch-merge-key")):
                keys[name] = key
    return keys


@cache
def kinds(version: str) -> Mapping[tuple[str, str], str]:
    """Return the definition of every kind that a version serves, by apiVersion and kind."""
    by_kind = {}
    for name, schema in definitions(version)["$defs"].items():
        for served in schema.get("x-kubernetes-group-version-kind", ()):
            group = f"{served['group']}/" if served["group"] else ""
            key = (f"{group}{served['version']}", served["kind"])
            if "apiVersion" in schema.get("properties", {}):
                by_kind[key] = name
    return by_kind


def available() -> tuple[str, ...]:
    """Return every minor version with schemas, oldest first: more than users may choose."""
    return tuple(_schemas()["versions"])


def _minor(version: str) -> int:
    return int(version.partition(".")[2])


def when_kind(api_version: str, kind: str, version: str) -> str:
    """Return when a kind that a version lacks came or went, or "" if no version has it."""
    having = [v for v in available() if (api_version, kind) in kinds(v)]
    return _when(having, version)


def when_core(type_: str, name: str, version: str) -> str:
    """Return when a field of a type of pods came or went, or "" if no version has it."""
    return when_field(f"{CORE}{type_}", name, version)


def when_field(definition: str, field: str, version: str) -> str:
    """Return when a field that a version lacks came or went, or "" if no version has it."""
    return _when([v for v in available() if field in _fields(v, definition)], version)


def _fields(version: str, definition: str) -> Mapping[str, Data]:
    fields: Mapping[str, Data] = (
        definitions(version)["$defs"].get(definition, {}).get("properties", {})
    )
    return fields


def _when(having: list[str], version: str) -> str:
    later = [v for v in having if _minor(v) > _minor(version)]
    earlier = [v for v in having if _minor(v) < _minor(version)]
    if later:
        return f"it comes with Kubernetes {later[0]}, this is {version}"
    if earlier:
        gone = f"{earlier[-1].partition('.')[0]}.{_minor(earlier[-1]) + 1}"
        return f"it went away in Kubernetes {gone}, this is {version}"
    return ""


def definition_at(root: Mapping[str, Data], pointer: str, version: str) -> str:
    """Return the name of the definition of the mapping at a pointer; empty if it has none."""
    by_name = definitions(version)["$defs"]
    node, name = followed(root, root, by_name)
    for key in Pointer(pointer).parts:
        below = node.get("properties", {}).get(key)
        for keyword in ("items", "additionalProperties"):
            if not isinstance(below, Mapping):
                below = node.get(keyword)
        if not isinstance(below, Mapping):
            return ""
        node, name = followed(below, root, by_name)
    return name


def followed(
    node: Mapping[str, Data], root: Mapping[str, Data], by_name: Mapping[str, Data]
) -> tuple[Mapping[str, Data], str]:
    """Return the schema behind a node's references, and its name if it is one of Kubernetes."""
    name = ""
    while isinstance(target := node.get("$ref"), str) and _HERE in target:
        where, _, target_name = target.partition(_HERE)
        own = root.get("$defs", {})
        if not where and target_name in own:
            node = own[target_name]
        elif target_name in by_name:
            node, name = by_name[target_name], target_name
        else:
            break
    return node, name
