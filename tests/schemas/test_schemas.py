"""The contract itself: complete, strict, without inert keywords, and equal to what the code reads."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from schema_lint import lint

from trainwright.documents.validation import kubernetes_schemas, schema
from trainwright.kinds import TARGETS

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "schemas").rglob("*.schema.json"))
SCHEMAS: dict[str, dict[str, Any]] = {
    path.relative_to(ROOT / "schemas").as_posix().removesuffix(".schema.json"): json.loads(
        path.read_text()
    )
    for path in FILES
}
CORPUS = Path(__file__).parent


def _registry(*changed: dict[str, Any]) -> Registry[Any]:
    definitions = kubernetes_schemas.definitions("1.31")
    pairs = [(s["$id"], Resource.from_contents(s)) for s in (*SCHEMAS.values(), *changed)]
    return Registry().with_resources(
        [*pairs, (definitions["$id"], Resource.from_contents(definitions))]
    )


@pytest.mark.parametrize("name", SCHEMAS)
def test_it_is_a_valid_schema_without_inert_parts(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMAS[name]["$id"].endswith(f"/{name}.schema.json")
    assert not [line for line in lint(SCHEMAS[name], _registry()) if not _partial(line)]


def _partial(line: str) -> bool:
    """The second half of the merged spec only adds what must be there."""
    return ("/$defs/effective/" in line and "unknown keys" in line) or line.startswith(
        "/$defs/effective: "
    )


def _set(schema: dict[str, Any], *path: str, to: Any) -> None:
    for key in path[:-1]:
        schema = schema[key]
    schema[path[-1]] = to


FIELDS = ("$defs", "fields", "properties")
MUTATIONS = {
    "mimimum is no keyword": ((*FIELDS, "nodes", "mimimum"), 1),
    "minLength does nothing for type integer": ((*FIELDS, "nodes", "minLength"), 1),
    "minimum does nothing for type string": (("$defs", "duration", "minimum"), 1),
    "enumDescriptions has not one for each value": ((*FIELDS, "state", "enumDescriptions"), ["x"]),
    "no description": ((*FIELDS, "surprise"), {"type": "string"}),
    "the example 0 is not valid": ((*FIELDS, "nodes", "examples"), [0]),
    "the default 'never' is not valid": ((*FIELDS, "state", "default"), "never"),
    "wanted is required but not among": (("$defs", "waiver", "required"), ["wanted"]),
    "nothing refers to it": (("$defs", "orphan"), {"type": "string"}),
    "unknown keys are let through": (
        (*FIELDS, "elastic"),
        {"description": "x", "type": "object", "properties": {}},
    ),
}


@pytest.mark.parametrize(("message", "mutation"), MUTATIONS.items())
def test_the_lint_sees_seeded_mistakes(message: str, mutation: tuple[tuple[str, ...], Any]) -> None:
    path, value = mutation
    mutated = copy.deepcopy(SCHEMAS["job"])
    _set(mutated, *path, to=value)
    assert [line for line in lint(mutated, _registry(mutated)) if message in line]


def test_defaults_in_the_schema_are_those_of_the_lowest_layer() -> None:
    written = yaml.safe_load((ROOT / "generator/src/trainwright/defaults.yaml").read_text())[
        "defaults"
    ]
    del written["apiVersion"], written["kind"]
    fields = SCHEMAS["job"]["$defs"]["fields"]["properties"]
    for name, value in written.items():
        for key, inner in value.items() if isinstance(value, dict) else [(None, value)]:
            field = fields[name]["properties"][key] if key else fields[name]
            assert field["default"] == inner, name


def test_target_names_are_those_of_the_registry() -> None:
    fields = SCHEMAS["job"]["$defs"]["fields"]["properties"]
    assert fields["target"]["enum"] == [*TARGETS, "adopted"]  # the last is no choice
    assert list(SCHEMAS["environment"]["properties"]["targets"]["properties"]) == list(TARGETS)
    for target in TARGETS.values():
        assert SCHEMAS[f"kinds/{target.kind.lower()}"]["title"] == target.kind


CASES = sorted(CORPUS.glob("*valid/*/*.yaml"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.relative_to(CORPUS).as_posix())
def test_corpus(path: Path) -> None:
    text = path.read_text()
    against = {
        "job": schema.job_file,
        "merged": schema.effective_job,
        "environment": schema.environment_file,
        "defaults": schema.defaults_file,
        "ledger": schema.ledger_file,
        "lock": schema.image_lock,
    }[path.parent.name]()
    found = [f"{v.pointer}: {v.message}" for v in against.explain(yaml.safe_load(text))]
    if path.parent.parent.name == "valid":
        assert found == []
    else:
        expected = [
            line.removeprefix("# expect: ")
            for line in text.splitlines()
            if line.startswith("# expect: ")
        ]
        assert expected
        assert found == expected


def test_written_files_are_valid_on_their_own_so_that_editors_agree() -> None:
    written = sorted(path for path in (ROOT / "environments").glob("*/jobs/*.yaml"))
    assert len(written) > 20
    for path in written:
        data = _without_nulls(yaml.safe_load(path.read_text()))
        assert schema.job_file().explain(data) == (), path
        first = path.read_text().splitlines()[0]
        reference = first.removeprefix("# yaml-language-server: $schema=")
        assert (path.parent / reference).resolve() == ROOT / "schemas/job.schema.json"


def _without_nulls(data: Any) -> Any:
    if isinstance(data, dict):
        return {k: _without_nulls(v) for k, v in data.items() if v is not None}
    return data
