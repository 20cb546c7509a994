"""Structural schemas of CRDs: as strict JSON Schema, and how the API server prepares objects.

https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from trainwright.datatypes.data import Data
from trainwright.datatypes.pointer import without

Structural: TypeAlias = Mapping[str, Data]

_KEPT = (
    "title description enum pattern format minimum maximum minLength maxLength minItems maxItems "
    "minProperties maxProperties uniqueItems multipleOf required"
).split()
_INT32 = {"minimum": -(2**31), "maximum": 2**31 - 1}


def strict(schema: Structural, metadata: Mapping[str, Data]) -> dict[str, Data]:
    """Return a CRD's schema as JSON Schema that refuses what `kubectl --validate=strict` would.

    `metadata` is the schema of every object's metadata, which a CRD leaves to the server.
    """
    root = _closed(schema, metadata)
    own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}
    root["properties"] = {**root.get("properties", {}), **own, "metadata": metadata}
    root["required"] = list(dict.fromkeys([*root.get("required", ()), "apiVersion", "kind"]))
    return root


def _closed(schema: Structural, metadata: Mapping[str, Data]) -> dict[str, Data]:
    """Return one level as JSON Schema, closed unless the CRD preserves unknown fields."""
    result = _checks(schema)
    properties: dict[str, Mapping[str, Data]] = {
        name: _closed(field, metadata) for name, field in schema.get("properties", {}).items()
    }
    if schema.get("x-kubernetes-embedded-resource"):
        own = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": metadata}
        properties = {**own, **properties}
        result["required"] = sorted({*result.get("required", ()), "apiVersion", "kind"})
    if properties:
        result["properties"] = properties
    more = schema.get("additionalProperties")
    if isinstance(more, Mapping):
        result["additionalProperties"] = _closed(more, metadata)
    elif schema.get("type") == "object" and not keeps_unknown(schema) and more is not True:
        result["additionalProperties"] = False
    if isinstance(schema.get("items"), Mapping):
        result["items"] = _closed(schema["items"], metadata)
    return result


def without_patterns(schema: Data) -> Data:
    """Return a JSON Schema without its regular expressions, some of which only Go reads."""
    return without(schema, lambda key, value: key == "pattern" and isinstance(value, str))


def keeps_unknown(schema: Structural) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _checks(schema: Structural) -> dict[str, Data]:
    """Return the JSON Schema for a level's value itself, without that for its fields."""
    result = {key: schema[key] for key in _KEPT if key in schema}
    if "description" in result:  # wrapped over lines; the first sentence becomes a remedy
        result["description"] = " ".join(str(result["description"]).split())
    if schema.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    elif "type" in schema:
        result["type"] = schema["type"]
    if schema.get("nullable") and "type" in result:
        types = result["type"] if isinstance(result["type"], list) else [result["type"]]
        result["type"] = [*types, "null"]
        if "enum" in result:
            result["enum"] = [*result["enum"], None]
    result = _bounded(result, schema)
    if schema.get("x-kubernetes-list-type") == "set":
        result["uniqueItems"] = True
    for key in ("allOf", "anyOf", "oneOf"):
        # For int-or-string, the alternatives only repeat the type that is set above.
        if key in schema and not schema.get("x-kubernetes-int-or-string"):
            result[key] = [_inside(part) for part in schema[key]]
    if isinstance(schema.get("not"), Mapping):
        result["not"] = _inside(schema["not"])
    return result


def _bounded(result: dict[str, Data], schema: Structural) -> dict[str, Data]:
    if schema.get("format") == "int32":
        result = {**_INT32, **result}
    for bound in ("Minimum", "Maximum"):  # OpenAPI 3.0 says it with a boolean
        if schema.get(f"exclusive{bound}") is True and bound.lower() in result:
            result[f"exclusive{bound}"] = result.pop(bound.lower())
    return result


def _inside(schema: Structural) -> dict[str, Data]:
    """Return a part of allOf, anyOf, oneOf or not: it checks values and describes no fields."""
    result = _checks(schema)
    if "properties" in schema:
        result["properties"] = {k: _inside(v) for k, v in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            result[key] = _inside(schema[key])
    return result


def prepared(value: Data, schema: Structural) -> Data:
    """Return the value as the server validates it: meaningless nulls dropped, defaults set."""
    if isinstance(value, Mapping):
        fields = schema.get("properties", {})
        more = schema.get("additionalProperties")
        done = {}
        for key, field in value.items():
            child = fields.get(key, more if isinstance(more, Mapping) else None)
            if child is None:
                done[key] = field
            elif field is not None or child.get("nullable"):
                done[key] = prepared(field, child)
        for key, child in fields.items():
            if key not in done and "default" in child:
                done[key] = prepared(child["default"], child)
        return done
    if isinstance(value, list) and isinstance(schema.get("items"), Mapping):
        return [prepared(item, schema["items"]) for item in value]
    return value
