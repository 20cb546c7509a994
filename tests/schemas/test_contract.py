"""Every field that may be written is read, and every field that is read may be written."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainwright.datatypes.environment import (
    Budget,
    ChartSource,
    Destination,
    Environment,
    GitOps,
    Kueue,
    Node,
    Pool,
    Repository,
    WaitForPodsReady,
)
from trainwright.datatypes.fields import spelled
from trainwright.datatypes.job import (
    Checkpoint,
    Elastic,
    Entrypoint,
    ExternalSecret,
    Image,
    Job,
    Lattice,
    Metrics,
    Resources,
    SecretKey,
    Security,
    Topology,
)
from trainwright.datatypes.volumes import Claim

ROOT = Path(__file__).parents[2]
JOB = json.loads((ROOT / "schemas/job.schema.json").read_text())
ENVIRONMENT = json.loads((ROOT / "schemas/environment.schema.json").read_text())
FIELDS = JOB["$defs"]["fields"]["properties"]
PLACES = ENVIRONMENT["properties"]
ENVELOPE = {"apiVersion", "kind", "description"}

# The part of a schema, the class that holds it, what only people read, and what is not written
# there; "a.b" is written for a field that is flattened into the class.
READ: list[tuple[str, dict[str, Any], type, set[str], set[str], dict[str, str]]] = [
    (
        "job",
        FIELDS,
        Job,
        {*ENVELOPE, "extends"},
        {"environment", "source", "namespace", "role"},
        {},
    ),
    ("image", FIELDS["image"], Image, set(), set(), {}),
    ("entrypoint", FIELDS["entrypoint"], Entrypoint, set(), set(), {}),
    ("elastic", FIELDS["elastic"], Elastic, set(), set(), {}),
    (
        "resources",
        FIELDS["resources"],
        Resources,
        {"limits", "requests"},
        set(),
        {
            f"{kind}{name[0].upper()}{name[1:]}": f"{kind}s.{name}"
            for kind in ("limit", "request")
            for name in ("cpu", "memory", "ephemeralStorage")
        },
    ),
    ("checkpoint", FIELDS["checkpoint"], Checkpoint, set(), set(), {}),
    ("security", FIELDS["security"], Security, set(), set(), {}),
    ("lattice", FIELDS["lattice"], Lattice, set(), set(), {}),
    ("topology", FIELDS["topology"], Topology, set(), set(), {}),
    ("metrics", FIELDS["metrics"], Metrics, set(), set(), {}),
    (
        "claim",
        JOB["$defs"]["volume"]["properties"]["create"],
        Claim,
        set(),
        set(),
        {},
    ),
    (
        "external",
        FIELDS["secrets"]["additionalProperties"]["properties"]["external"],
        ExternalSecret,
        set(),
        set(),
        {},
    ),
    (
        "secrets",
        FIELDS["secrets"]["additionalProperties"],
        SecretKey,
        set(),
        set(),
        {},
    ),
    (
        "environment",
        PLACES,
        Environment,
        {*ENVELOPE, "kubernetes", "images", "defaults"},
        {
            "name",
            "place",
            "kubernetesVersion",
            "kubernetesFeatures",
            "multiKueueQueues",
            "kubeContext",
            "requireDigest",
            "registries",
            "gitSync",
        },
        {},
    ),
    ("kueue", PLACES["kueue"], Kueue, set(), set(), {}),
    (
        "waitForPodsReady",
        PLACES["kueue"]["properties"]["waitForPodsReady"],
        WaitForPodsReady,
        set(),
        set(),
        {},
    ),
    ("budget", PLACES["budget"], Budget, set(), set(), {}),
    ("gitops", PLACES["gitops"], GitOps, set(), set(), {}),
    (
        "repository",
        PLACES["gitops"]["properties"]["repository"],
        Repository,
        set(),
        set(),
        {},
    ),
    ("chart", PLACES["gitops"]["properties"]["chart"], ChartSource, set(), set(), {}),
    (
        "destination",
        PLACES["gitops"]["properties"]["destination"],
        Destination,
        set(),
        set(),
        {},
    ),
    (
        "pool",
        PLACES["pools"]["additionalProperties"],
        Pool,
        {"description", "defaults"},
        {"name"},
        {},
    ),
    (
        "node",
        PLACES["pools"]["additionalProperties"]["properties"]["node"],
        Node,
        set(),
        set(),
        {},
    ),
]


def _names(schema: dict[str, Any]) -> Iterator[str]:
    for name, child in schema.get("properties", schema).items():
        yield name
        if name in ("limits", "requests"):
            yield from (f"{name}.{inner}" for inner in child["properties"])


@pytest.mark.parametrize(
    ("schema", "cls", "unread", "unwritten", "flat"),
    [r[1:] for r in READ],
    ids=[r[0] for r in READ],
)
def test_the_schema_names_what_the_code_reads(
    schema: dict[str, Any], cls: Any, unread: set[str], unwritten: set[str], flat: dict[str, str]
) -> None:
    held = {spelled(field.name) for field in dataclasses.fields(cls)}
    assert unwritten <= held
    assert {flat.get(name, name) for name in held - unwritten} == set(_names(schema)) - unread


def test_shipped_files_name_the_schema_of_their_kind() -> None:
    """The first line is what gives an editor completion and checks."""
    kinds = {"JobSpec": "job", "Environment": "environment", "Defaults": "defaults"}
    base = ROOT / "environments"
    files = [
        path for path in base.rglob("*.yaml") if not {"rendered", "ledger.yaml"} & {*path.parts}
    ]
    assert len(files) > 25
    for path in files:
        text = path.read_text(encoding="utf-8")
        reference = text.partition("\n")[0].removeprefix("# yaml-language-server: $schema=")
        name = f"{kinds[yaml.safe_load(text)['kind']]}.schema.json"
        assert (path.parent / reference).resolve() == ROOT / "schemas" / name, path


def test_shipped_specs_are_short() -> None:
    """Ten lines are the aim: what is common belongs into the base and the environment."""
    for path in (ROOT / "environments").glob("*/jobs/*.yaml"):
        limit = 16 if path.parts[-3] == "base" else 12
        assert len(path.read_text(encoding="utf-8").splitlines()) <= limit, path
