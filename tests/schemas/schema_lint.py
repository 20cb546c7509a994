"""Finds what is wrong with a JSON Schema although it is a valid one: keywords that do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator
from referencing import Registry

_ANNOTATIONS = {
    "$schema",
    "$id",
    "$ref",
    "$defs",
    "title",
    "description",
    "examples",
    "default",
    "deprecated",
    "enumDescriptions",  # what an editor shows of each value
}
_ANY = {"type", "enum", "const", "allOf", "anyOf", "oneOf", "not", "if", "then", "else"}
_BY_TYPE = {
    "string": {"minLength", "maxLength", "pattern", "format"},
    "number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
    "array": {
        *("items", "minItems", "maxItems", "uniqueItems", "prefixItems", "contains"),
        *(
            "x-kubernetes-list-type",
            "x-kubernetes-list-map-keys",
        ),  # as a CRD has them, list_maps.py
    },
    "object": {
        *("properties", "required", "additionalProperties", "patternProperties", "propertyNames"),
        *("minProperties", "maxProperties", "dependentRequired", "unevaluatedProperties"),
    },
}
_BY_TYPE["integer"] = _BY_TYPE["number"]
_MAPS = ("properties", "patternProperties", "$defs")
_SINGLE = ("items", "additionalProperties", "propertyNames", "not", "if", "then", "else")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")


def lint(schema: dict[str, Any], registry: Registry[Any]) -> list[str]:
    """One line for each finding, with the JSON pointer of the subschema."""
    used = {f"#/$defs/{name}" for name in _references(schema)}
    found = [
        f"/$defs/{name}: nothing refers to it"
        for name in schema.get("$defs", {})
        if f"#/$defs/{name}" not in used
    ]
    return [*found, *_lint(schema, "", schema, registry)]


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str) and node["$ref"].startswith("#/$defs/"):
            yield node["$ref"].removeprefix("#/$defs/")
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for item in node:
            yield from _references(item)


def _lint(node: Any, at: str, root: dict[str, Any], registry: Registry[Any]) -> Iterator[str]:
    if not isinstance(node, dict):
        return
    yield from _keywords(node, at)
    yield from _required(node, at)
    yield from _samples(node, at, root, registry)
    for keyword in _MAPS:
        for name, child in node.get(keyword, {}).items():
            where = f"{at}/{keyword}/{name}"
            described = isinstance(child, dict) and ("description" in child or "$ref" in child)
            if keyword == "properties" and not described:
                yield f"{where}: no description"
            yield from _lint(child, where, root, registry)
    for keyword in _SINGLE:
        yield from _lint(node.get(keyword), f"{at}/{keyword}", root, registry)
    for keyword in _LISTS:
        for index, child in enumerate(node.get(keyword, [])):
            yield from _lint(child, f"{at}/{keyword}/{index}", root, registry)


def _keywords(node: dict[str, Any], at: str) -> Iterator[str]:
    known = _ANNOTATIONS | _ANY | set().union(*_BY_TYPE.values())
    types = node.get("type", list(_BY_TYPE))
    fitting = set().union(
        *(_BY_TYPE.get(t, set()) for t in ([types] if isinstance(types, str) else types))
    )
    for keyword in node:
        if keyword not in known:
            yield f"{at}: {keyword} is no keyword"
        elif keyword not in _ANNOTATIONS | _ANY | fitting:
            yield f"{at}: {keyword} does nothing for type {types}"
    if len(node.get("enumDescriptions", [])) != len(node.get("enum", [])) and (
        "enumDescriptions" in node
    ):
        yield f"{at}: enumDescriptions has not one for each value"
    if node.get("type") == "object" and "properties" in node and "additionalProperties" not in node:
        yield f"{at}: unknown keys are let through"


def _required(node: dict[str, Any], at: str) -> Iterator[str]:
    properties = node.get("properties")
    if properties is not None and node.get("type") == "object":
        for name in node.get("required", []):
            if name not in properties:
                yield f"{at}: {name} is required but not among the properties"


def _samples(
    node: dict[str, Any], at: str, root: dict[str, Any], registry: Registry[Any]
) -> Iterator[str]:
    samples = [("example", e) for e in node.get("examples", [])]
    samples += [("default", node["default"])] if "default" in node else []
    if not samples:
        return
    # In the place where it stands, so that references keep their meaning.
    validator = Draft202012Validator({"$ref": f"{root['$id']}#{_escaped(at)}"}, registry=registry)
    for kind, sample in samples:
        for error in validator.iter_errors(sample):
            yield f"{at}: the {kind} {sample!r} is not valid: {error.message}"


def _escaped(pointer: str) -> str:
    return pointer.replace("%", "%25").replace("^", "%5E").replace("$", "$")
