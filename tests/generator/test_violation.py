"""What is said to be wrong with data, held against a second implementation of JSON Schema."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from trainwright.cli import main
from trainwright.datatypes.data import Data
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation import schema
from trainwright.documents.validation.schema import Schema

ROOT = Path(__file__).parents[2]
JOBS = sorted((ROOT / "environments").glob("*/jobs/*.yaml"))
ENVIRONMENTS = sorted((ROOT / "environments").glob("*/environment.yaml"))
OBJECTS = sorted((ROOT / "environments").glob("*/rendered/*/*.yaml"))
# Keywords whose violations are told below the value that breaks them, or for all keys at once.
ELSEWHERE = ("anyOf", "oneOf", "additionalProperties", "unevaluatedProperties")
ODD: tuple[Data, ...] = (None, True, -1, 1.5, 10**30, "", "Ä b", "9" * 300, [], [{}], {})


def _read(file: Path) -> list[Data]:
    return list(yaml.load_all(file.read_bytes(), Loader=yaml.CSafeLoader))


def kinds() -> Iterator[tuple[Schema, Data]]:
    for file in OBJECTS:
        for body in _read(file):
            if body and body.get("kind") in ("PyTorchJob", "TrainingJob", "JobSet", "TrainJob"):
                yield schema.kind(body["kind"], "1.34"), body


CASES = [
    *((schema.job_file(), *_read(file)) for file in JOBS),
    *((schema.environment_file(), *_read(file)) for file in ENVIRONMENTS),
    *kinds(),
]


@pytest.mark.parametrize("seed", range(8))
def test_every_violation_that_another_implementation_finds(seed: int) -> None:
    chance = random.Random(seed)
    refused = 0
    for against, data in CASES:
        for _ in range(6):
            broken = copy.deepcopy(data)
            for _ in range(chance.randrange(1, 4)):
                damage(broken, chance)
            wanted = set(judged(against, broken))
            found = against.explain(broken)
            refused += bool(found)
            assert bool(found) == bool(wanted), broken
            at = {v.pointer.rpartition("/")[0] if v.key else v.pointer for v in found}
            mistyped = {pointer for pointer, keyword in wanted if keyword == "type"}
            for pointer, keyword in wanted:
                if keyword in ELSEWHERE:
                    assert any(p.startswith(pointer) for p in at), (pointer, found)
                elif keyword == "type" or pointer not in mistyped:
                    assert pointer in at, (pointer, keyword, found)
            pointers = tuple(pointer for pointer, _ in wanted)
            assert all(p.startswith(pointers) for p in at), (at, wanted)
    assert refused > len(CASES)  # most of what was broken is refused


def judged(against: Schema, data: Data) -> Iterator[tuple[str, str]]:
    """The pointer and keyword of every error, by jsonschema."""
    resources = ((uri, {**body, "$schema": DRAFT}) for uri, body in against.resources)
    registry: Registry[Any] = Registry().with_resources(
        (uri, DRAFT202012.create_resource(body)) for uri, body in resources
    )
    validator = jsonschema.Draft202012Validator(dict(against.root), registry=registry)
    for error in validator.iter_errors(data):
        pointer = "".join(
            f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in error.absolute_path
        )
        yield pointer, str(error.validator)


DRAFT = "https://json-schema.org/draft/2020-12/schema"


def damage(data: Data, chance: random.Random) -> None:
    """Puts something odd in the place of a value, under a new key, or nothing at all."""
    places = list(containers(data))
    where = chance.choice(places)
    if isinstance(where, list):
        where.append(copy.deepcopy(chance.choice(ODD)))
        return
    key = chance.choice([*where, "unkown", "Bad Name"])
    if chance.random() < 0.2:
        where.pop(key, None)
    else:
        where[key] = copy.deepcopy(chance.choice(ODD))


def containers(data: Data) -> Iterator[Any]:
    if isinstance(data, dict | list):
        yield data
        for child in data.values() if isinstance(data, dict) else data:
            yield from containers(child)


@pytest.mark.parametrize("key", ["", "007", "+7", "~", "a/b", "0"])
def test_a_key_that_validators_spell_otherwise_is_found(key: str) -> None:
    data = {**yaml.safe_load(JOBS[0].read_text()), "env": {key: []}}
    assert {v.pointer for v in schema.job_file().explain(data)} == {Pointer.of("env", key)}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"nodes": 10**30}, "nodes is 1000000000000000000000000000000, it must be at most"),
        ({"name": "\ud800"}, "the file is refused"),  # no text that JSON could carry
    ],
)
def test_what_json_cannot_carry(wrong: dict[str, Data], message: str) -> None:
    data = {**yaml.safe_load(JOBS[0].read_text()), **wrong}
    assert any(message in violation.message for violation in schema.job_file().explain(data))


def test_a_field_that_is_refused_whatever_it_holds() -> None:
    refusing = Schema({"properties": {"type": False, "b": {"additionalProperties": False}}}, ())
    found = refusing.explain({"type": 1, "b": {"c": 1}})
    assert [(v.pointer, v.key) for v in found] == [("/b/c", "c"), ("/type", "")]


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, "null"),
        (True, "a boolean: true"),
        ([1], "a list"),
        ({"a": 1}, "a mapping"),
        ({}, "a mapping"),
    ],
)
def test_a_quantity_of_another_type_is_told_the_types(value: Data, found: str) -> None:
    quantity = {"oneOf": [{"type": ["string", "null"]}, {"type": ["number", "null"]}]}
    limits = Schema({"properties": {"limits": {"additionalProperties": quantity}}}, ())
    (violation,) = limits.explain({"limits": {"nvidia.com/gpu": value}})
    assert violation.message == (
        f'limits["nvidia.com/gpu"] must be a string or a number, found {found}'
    )
    assert violation.remedy


@pytest.mark.parametrize("value", [1, {}, [], None])
@pytest.mark.parametrize("keyword", [{"not": {}}, {"oneOf": [{}, {}]}, {"not": {"type": "string"}}])
def test_no_message_lacks_what_it_speaks_of(keyword: dict[str, Data], value: Data) -> None:
    for violation in Schema({"properties": {"a": keyword}}, ()).explain({"a": value}):
        assert not violation.message.endswith(": ")


@pytest.mark.parametrize(
    ("text", "message", "remedy"),
    [
        ("env: {A: {configMap: a}}", "env.A has configMap without key", "Add key."),
        ("env: {A: {key: a}}", "env.A has key without configMap", "Add configMap."),
        (
            "env: {A: {}}",
            "env.A needs one of: field, resource, configMap with key",
            "Write one of ",
        ),
        (
            "env: {A: {field: metadata.name, key: a}}",
            "env.A.key means nothing without configMap",
            "",
        ),
    ],
)
def test_what_is_begun_is_named_by_what_it_lacks(text: str, message: str, remedy: str) -> None:
    data = {"apiVersion": "trainwright.io/v1alpha1", "kind": "JobSpec", "name": "a"}
    violations = schema.effective_job().explain({**data, **yaml.safe_load(text)})
    (found,) = [one for one in violations if one.pointer.within("/env")]
    assert found.message == message
    assert found.remedy.startswith(remedy)


@pytest.mark.parametrize(
    ("text", "key", "refused"),
    [
        ("pools: {p: {defaults: {pooling: 1}}}", "pooling", "pool"),
        ("pools: {p: {defaults: {state_nodes: 1}}}", "state_nodes", "state"),
        ("defaults: {names_nodes: 1}", "names_nodes", "name"),
    ],
)
def test_keys_that_a_mapping_refuses_are_not_offered(text: str, key: str, refused: str) -> None:
    data: dict[str, Data] = {
        "apiVersion": "trainwright.io/v1alpha1",
        "kind": "Environment",
        "namespace": "a",
    }
    data |= {"kubernetes": {"version": "1.34"}, "targets": {"job": {}}, **yaml.safe_load(text)}
    (found,) = schema.environment_file().explain(data)
    assert found.key == key
    assert "`trainwright explain job` lists all keys." in found.remedy
    assert refused not in re.findall(r"\w+", found.remedy.partition(";")[0])


def test_the_name_of_a_pool_is_none_of_a_folder() -> None:
    data = {"apiVersion": "trainwright.io/v1alpha1", "kind": "JobSpec", "pool": "H100"}
    found = next(each for each in schema.job_file().explain(data) if each.pointer == "/pool")
    assert found.message == 'pool is "H100", which is not a valid name of a pool'
    assert found.remedy == "Write `pool: h100`."


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("callbacks: [a]", "`trainwright explain job` lists all keys. Options of the program are "
         "written in flags."),
        ("warmup: 5", "`trainwright explain job` lists all keys. If it is an option of the "
         "program, write `flags: {warmup: 5}`."),
        ("batch: [8]", "The nearest known key is podPatch; `trainwright explain job` lists all "
         "keys. Options of the program are written in flags."),
        ("security: {foo: 1}", "`trainwright explain job security` lists all keys."),
        ("gitops: {foo: 1}", "`trainwright explain environment gitops` lists all keys."),
        ("metrics: {foo: 1}", "Known keys: port."),
        ("image: {repository: a, tag: b, nodes: 3}", "Write `nodes: 3` at the top: it is of the whole job."),
        ("resources: {envFrom: [{secretRef: {name: a}}]}",
         "Write envFrom at the top: it is of the whole job."),
    ],
)  # fmt: skip
def test_of_many_keys_the_nearest_are_named(text: str, remedy: str) -> None:
    of_job: dict[str, Data] = {
        "apiVersion": "trainwright.io/v1alpha1",
        "kind": "JobSpec",
        "name": "a",
    }
    of_environment: dict[str, Data] = {
        "apiVersion": "trainwright.io/v1alpha1",
        "kind": "Environment",
        "namespace": "a",
        "kubernetes": {"version": "1.34"},
        "targets": {"job": {}},
    }
    written = yaml.safe_load(text)
    file = schema.environment_file() if "gitops" in written else schema.job_file()
    found = file.explain({**(of_environment if "gitops" in written else of_job), **written})
    assert [one.remedy for one in found if one.key] == [remedy]
    (command,) = re.findall("`trainwright ([^`]+)`", remedy) or ["explain job"]
    assert CliRunner().invoke(main, command.split()).exit_code == 0


@pytest.mark.parametrize(
    ("text", "remedies"),
    [
        (
            "restartPolicy: Never",
            ["Remove it: a run that fails begins again as often as retries allows."],
        ),
        ("replicas: 2", ["Write `nodes: 2`."]),
        ("terminationGracePeriodSeconds: 5", ['Write `gracePeriod: "5s"`.']),
        ("serviceAccountName: a", ["Write `serviceAccount: a`."]),
        (
            "env: {A: {secretKeyRef: {name: a, key: b}}}",
            ["Write `secrets: {A: {name: a, key: b}}`."],
        ),
        ("envFrom: [{configMapRef: {name: a}}]", ["Write `configMap: a`."]),
        (
            "volumes: {v: {secret: {secretName: a, defaultMode: '0400'}, mountPath: /v}}",
            ["Write 0o400, or 256: without the o it is text."],
        ),
    ],
)
def test_what_kubernetes_calls_otherwise_is_named(text: str, remedies: list[str]) -> None:
    data = {"apiVersion": "trainwright.io/v1alpha1", "kind": "JobSpec", "name": "a"}
    written = yaml.safe_load(text)
    violations = schema.effective_job().explain({**data, **written})
    (key,) = written
    assert [one.remedy for one in violations if one.pointer.within(f"/{key}")] == remedies
