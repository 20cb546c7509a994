"""Upstream CRDs as strict JSON Schemas: what a real API server accepts, and nothing beyond."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml


@cache
def validator(path: Path) -> jsonschema_rs.Validator:
    """A validator for the one served version of a CRD file, unknown fields refused."""
    crd = yaml.load(path.read_bytes(), Loader=yaml.CSafeLoader)
    (version,) = [v for v in crd["spec"]["versions"] if v["served"]]
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}
    return jsonschema_rs.Draft202012Validator(schema)


def strict(node: Any) -> Any:
    """The schema with every described object closed, as strict field validation reads it."""
    if isinstance(node, list):
        return [strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    result = {key: strict(value) for key, value in node.items() if key != "description"}
    if node.get("x-kubernetes-int-or-string"):
        result.pop("type", None)
        result["anyOf"] = [{"type": "integer"}, {"type": "string"}]
    if "properties" in node and not node.get("x-kubernetes-preserve-unknown-fields"):
        result["additionalProperties"] = False
    if node.get("nullable") and "type" in result:
        result["type"] = [result["type"], "null"]
    return result


def errors(path: Path, body: Any) -> list[str]:
    """What the CRD refuses in an object."""
    return [f"{e.instance_path}: {e.message}" for e in validator(path).iter_errors(body)]
