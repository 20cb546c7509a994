"""Write the schemas of Kubernetes' own kinds: those of each minor version, each definition once.

python scripts/kubernetes_schemas.py [--check]

They are those of the package kubernetes-validate, which has two trees of 10 MB for each version,
without descriptions. Fields that take a few words have these, as the API server does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from generated import ROOT, main
from kubernetes_values import VALUES

FILE = ROOT / "generator/src/trainwright/documents/validation/kubernetes_schemas.json"
COMMAND = "python scripts/kubernetes_schemas.py"
_SOURCE = f"The OpenAPI of Kubernetes (Apache-2.0), by `{COMMAND}`. Do not edit."
_TREE = "v{}.0-local-strict"  # refuses unknown fields

Definitions = dict[str, Any]


def _trees() -> Path:
    package = find_spec("kubernetes_validate")
    assert package is not None
    assert package.origin is not None
    return Path(package.origin).parent / "kubernetes-json-schema"


def _versions() -> list[str]:
    """Every minor version, oldest first."""
    start, _, end = _TREE.partition("{}")
    names = (path.name for path in _trees().glob(_TREE.format("*")))
    versions = (name.removeprefix(start).removesuffix(end) for name in names)
    return sorted(versions, key=lambda version: int(version.partition(".")[2]))


def _definitions(version: str) -> Definitions:
    text = (_trees() / _TREE.format(version) / "_definitions.json").read_text(encoding="utf-8")
    definitions: Definitions = json.loads(text)["$defs"]
    return definitions


def _undescribed(schema: Any) -> Any:
    """A schema without the texts that describe it; a field may have that name."""
    if isinstance(schema, dict):
        return {
            key: _undescribed(value)
            for key, value in schema.items()
            if not (key == "description" and isinstance(value, str))
        }
    return [_undescribed(item) for item in schema] if isinstance(schema, list) else schema


def _worded(name: str, schema: Definitions) -> Definitions:
    """A definition whose fields take the words that the API server does."""
    for field, words in VALUES.get(name, {}).items():
        if field in schema.get("properties", {}):
            schema["properties"][field]["enum"] = [*words, None]
    return schema


def _spans(versions: list[str]) -> Iterator[tuple[str, list[list[Any]]]]:
    """The definitions by name: each with the first and the last version that have it like this."""
    by_name: dict[str, list[list[Any]]] = {}
    for number, version in enumerate(versions):
        for name, described in _definitions(version).items():
            schema, spans = _worded(name, _undescribed(described)), by_name.setdefault(name, [])
            if spans and spans[-1][1] == number - 1 and spans[-1][2] == schema:
                spans[-1][1] = number
            else:
                spans.append([number, number, schema])
    for name in sorted(by_name):
        yield name, [[versions[a], versions[b], schema] for a, b, schema in by_name[name]]


def text() -> str:
    """The file, with one line for each definition and span."""
    versions = _versions()
    lines = []
    for name, spans in _spans(versions):
        inner = ",\n".join(json.dumps(span, separators=(",", ":")) for span in spans)
        lines.append(f"{json.dumps(name)}:[\n{inner}]")
    head = json.dumps({"source": _SOURCE, "versions": versions})
    return f'{head[:-1]},\n"definitions":{{\n' + ",\n".join(lines) + "}}\n"


if __name__ == "__main__":
    main(__doc__, FILE, text(), COMMAND)
