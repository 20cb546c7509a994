"""The JSON Schemas of everything people write and Kubernetes takes, compiled when first needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TypeAlias

import jsonschema_rs

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import PATCH
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation import kubernetes_schemas
from trainwright.documents.validation.violation import Violation

FOLDER = Path(__file__).parents[2] / "schemas"
_BASE = "https://trainwright.io/schemas/v1alpha1"

Resources: TypeAlias = tuple[tuple[str, Mapping[str, Data]], ...]  # schemas by their $id


def _compiled(root: Mapping[str, Data], resources: Resources) -> jsonschema_rs.Validator:
    registry = jsonschema_rs.Registry([(uri, dict(body)) for uri, body in resources])
    return jsonschema_rs.validator_for(dict(root), registry=registry)


@dataclass(frozen=True)
class Schema:
    """One schema with everything it refers to.

    `gate` returns the validator that it is compiled into with other schemas, unless it is compiled
    alone; `part` is the key under which that validator expects the data.
    """

    root: Mapping[str, Data]
    resources: Resources
    gate: Callable[[], jsonschema_rs.Validator] | None = None
    part: str = ""

    @cached_property
    def _own_gate(self) -> jsonschema_rs.Validator:
        return _compiled(self.root, self.resources)

    @cached_property
    def defect(self) -> str:
        """Why the schema itself cannot be used; empty when it can."""
        try:
            _ = self._own_gate
        except (ValueError, jsonschema_rs.ValidationError) as error:
            return str(error).partition("\n")[0]
        return ""

    def accepts(self, data: Data) -> bool:
        """Whether the data is valid; some 10 µs for a job."""
        try:
            if self.gate:
                return bool(self.gate().is_valid({self.part: data}))
            return bool(self._own_gate.is_valid(data))
        except (ValueError, UnicodeError):  # numbers or text that JSON cannot carry
            return False

    def explain(self, data: Data) -> tuple[Violation, ...]:
        """Return every violation, worded for the person who wrote the data; () if it is valid."""
        if self.accepts(data):
            return ()
        from trainwright.documents.validation import failure, schema_errors  # most data is valid

        wrapped, below = ({self.part: data}, 1) if self.gate else (data, 0)
        gate = self.gate() if self.gate else self._own_gate
        try:
            errors = gate.iter_errors(failure.without_empty_keys(wrapped))
            return schema_errors.violations(
                errors, failure.SchemaInput(wrapped, self._by_uri, below)
            )
        except (ValueError, UnicodeError) as error:
            remedy = "Write it so that it can also be written as JSON."
            return (Violation(Pointer(), f"the file is refused: {error}", remedy),)

    @cached_property
    def _by_uri(self) -> Mapping[str, Mapping[str, Data]]:
        own = str(self.root.get("$id", ""))
        return {"": self.root, own: self.root, **dict(self.resources)}


@cache
def _load(name: str) -> Mapping[str, Data]:
    try:
        loaded: Mapping[str, Data] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    except OSError as error:
        raise SourceError(f"cannot read the schema {name}: {error}") from error
    return loaded


_CONTRACT = {
    "job": "job.schema.json",
    "effective": "job.schema.json#/$defs/effective",
    "environment": "environment.schema.json",
    "defaults": "defaults.schema.json",
    "ledger": "ledger.schema.json",
    "lock": "lock.schema.json",
    "run": "run.schema.json",
}


@cache
def _contract_gate() -> jsonschema_rs.Validator:
    """Return one validator of all that people write: alone, each would compile a job's fields."""
    parts = {part: {"$ref": f"{_BASE}/{reference}"} for part, reference in _CONTRACT.items()}
    return _compiled({"properties": parts}, _contract_resources())


@cache
def _contract_resources() -> Resources:
    names = sorted({reference.partition("#")[0] for reference in _CONTRACT.values()})
    return tuple((str(_load(name)["$id"]), _load(name)) for name in names)


@cache
def _contract(part: str) -> Schema:
    root = {"$ref": f"{_BASE}/{_CONTRACT[part]}"}
    return Schema(root, _contract_resources(), _contract_gate, part)


def contract(name: str) -> Mapping[str, Data]:
    """Return a schema of what people write, by the name of its file."""
    return _load(name)


def job_file() -> Schema:
    """Return the schema of a job spec as people write it: inherited keys may be absent."""
    return _contract("job")


def effective_job() -> Schema:
    """Return the schema of a job spec after merging, which must be complete."""
    return _contract("effective")


def environment_file() -> Schema:
    return _contract("environment")


def defaults_file() -> Schema:
    return _contract("defaults")


def ledger_file() -> Schema:
    return _contract("ledger")


def image_lock() -> Schema:
    return _contract("lock")


def run_record() -> Schema:
    return _contract("run")


@cache
def run_goodput() -> Schema:
    """Return the schema of what the runtime reports of a run."""
    return Schema(_load("run-goodput.schema.json"), ())


@cache
def chart_values() -> Schema:
    """Return the chart's own values.schema.json, which plain Helm enforces too."""
    path = FOLDER.parent / "chart" / "values.schema.json"
    return Schema(json.loads(path.read_text(encoding="utf-8")), ())


@cache
def kind(name: str, kubernetes_version: str) -> Schema:
    """Return the schema of an emitted kind ("PyTorchJob") whose pods follow a Kubernetes minor."""
    return with_kubernetes(_load(f"kinds/{name.lower()}.schema.json"), kubernetes_version)


@cache
def core_field(type_: str, name: str, key: str, depth: int, version: str) -> Schema | None:
    """Return a schema for a field of a pod's type ("PodSpec", "dnsConfig") in a Kubernetes minor
    version, as value of a key below `depth` mappings; None if the version lacks the field.
    """
    field_schema = kubernetes_schemas.field(version, type_, name)
    if field_schema is None:
        return None
    root: dict[str, Data] = {"properties": {key: field_schema}}
    for _ in range(depth):
        root = {"additionalProperties": root}
    return with_kubernetes(root, version)


@cache
def pod_template(version: str) -> Schema:
    """Return the schema of a pod patch for a Kubernetes minor version, under the patch's key."""
    definition = {"$ref": f"{kubernetes_schemas.URI}#/$defs/{kubernetes_schemas.POD_TEMPLATE}"}
    return with_kubernetes({"properties": {PATCH: definition}}, version)


def with_kubernetes(root: Mapping[str, Data], version: str) -> Schema:
    """Return a schema that refers to definitions of a Kubernetes minor."""
    return Schema(
        root,
        (
            (
                kubernetes_schemas.URI,
                kubernetes_schemas.reachable(version, *kubernetes_schemas.references(root)),
            ),
        ),
    )


def dated(violation: Violation, root: Mapping[str, Data], version: str) -> Violation:
    """Return a violation, with when a field of Kubernetes came or went added to its message.

    Only for fields that the definitions have in some minor version: others never existed.
    """
    if not violation.key:
        return violation
    definition = kubernetes_schemas.definition_at(root, violation.pointer.parent, version)
    when = kubernetes_schemas.when_field(definition, violation.key, version) if definition else ""
    if not when:
        return violation
    remedy = "Remove it, or raise the Kubernetes version that the manifests are for."
    if "went away" in when:
        remedy = "Remove it, and use what took its place."
    return replace(violation, message=f"{violation.message}: {when}", remedy=remedy)
