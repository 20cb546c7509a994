"""Every example in YAML: a spec, an environment or a part of one is as the schemas have it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import jsonschema
import pytest
import yaml
from referencing import Registry, Resource

from documentation import ROOT, Block, blocks, pages

SCHEMAS = ROOT / "schemas"
_FILES = {
    "JobSpec": "job.schema.json",
    "Environment": "environment.schema.json",
    "Defaults": "defaults.schema.json",
    "Ledger": "ledger.schema.json",
}
_ELLIPSES = (  # what an example shortens, with what stands for it
    (re.compile(r"sha256:…"), "sha256:" + "0" * 64),
    (re.compile(r"\b[0-9a-f]{6}…"), "e" * 64),
)
_MISTAKEN = "docs/tutorial.md"  # on purpose: test_tutorial.py looks at what is found
EXAMPLES = [
    block
    for page in pages()
    for block in blocks(page)
    if block.language == "yaml" and block.page != _MISTAKEN
]


def _schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / name).read_text(encoding="utf-8"))
    return found


REGISTRY: Registry[Any] = Registry().with_resources(
    (schema["$id"], Resource.from_contents(schema))
    for schema in map(_schema, (path.name for path in SCHEMAS.glob("*.json")))
)


def _part(name: str) -> dict[str, Any]:
    """A schema of some fields of a file, none of which has to be there."""
    whole = _schema(name)
    if name == "job.schema.json":
        return {"$ref": f"{whole['$id']}#/$defs/fields"}
    return {
        "$id": whole["$id"],
        **{key: value for key, value in whole.items() if key not in ("required", "allOf")},
    }


def _problems(schema: Mapping[str, Any], data: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator(schema, registry=REGISTRY)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(data)]


def _of_a_job(data: Mapping[str, Any]) -> bool:
    return set(data) <= set(_schema("job.schema.json")["$defs"]["fields"]["properties"])


def _of_an_environment(data: Mapping[str, Any]) -> bool:
    return set(data) <= set(_schema("environment.schema.json")["properties"])


@pytest.mark.parametrize("block", EXAMPLES, ids=lambda block: block.place)
def test_an_example_is_valid(block: Block) -> None:
    text = block.text
    for pattern, whole in _ELLIPSES:
        text = pattern.sub(whole, text)
    for data in yaml.load_all(text, Loader=yaml.CSafeLoader):
        if isinstance(data, dict) and data.get("kind") in _FILES:
            schema: Mapping[str, Any] = _schema(_FILES[data["kind"]])
        elif not isinstance(data, dict):  # a step of a workflow
            continue
        elif _of_an_environment(data):
            schema = _part("environment.schema.json")
        elif _of_a_job(data):
            schema = _part("job.schema.json")
        else:  # a Kubernetes object, a workflow, a settings file or a job of GitLab
            assert {"apiVersion", "jobs", "repos", "plan"} & set(data), block.place
            continue
        problems = _problems(schema, data)
        assert problems == [], block.place


def test_most_examples_are_of_what_people_write() -> None:
    """The test above finds them, rather than taking them for something else."""
    found = [yaml.load(b.text, Loader=yaml.CSafeLoader) for b in EXAMPLES if "\n---" not in b.text]
    ours = [d for d in found if isinstance(d, dict) and (_of_a_job(d) or _of_an_environment(d))]
    assert len(ours) > 25
