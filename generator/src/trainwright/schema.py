"""JSON Schemas: jsonschema-rs decides in microseconds, jsonschema explains a refusal."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import jsonschema_rs

from trainwright import credentials, kube
from trainwright.errors import SourceError
from trainwright.model import Data

if TYPE_CHECKING:
    from referencing import Registry


class _Error(Protocol):
    """A jsonschema.ValidationError, as far as explanations read it."""

    validator: str
    validator_value: Any
    instance: Any
    schema: Mapping[str, Any]
    message: str
    context: list[_Error]
    absolute_path: Sequence[str | int]
    absolute_schema_path: Sequence[str | int]


FOLDER = Path(__file__).parent / "schemas"
_BASE = "https://trainwright.io/schemas/v1alpha1"


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which data breaks a schema.

    `pointer` is the offending value, or the mapping when something is missing from it; `key` is
    set when the key itself is what is wrong; `missing` when it is absent.
    """

    pointer: str
    message: str
    remedy: str
    key: str = ""
    missing: str = ""


Resources: TypeAlias = tuple[tuple[str, Mapping[str, Data]], ...]  # schemas by their $id


def _compiled(root: Mapping[str, Data], resources: Resources) -> jsonschema_rs.Validator:
    registry = jsonschema_rs.Registry([(uri, dict(body)) for uri, body in resources])
    return jsonschema_rs.validator_for(dict(root), registry=registry)


@dataclass(frozen=True)
class Schema:
    """One schema with everything it refers to.

    `gate` is what compiles it, unless it is compiled for itself; `part` is the key under which
    that expects the data.
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
        """Every violation, worded for the person who wrote the data; empty when valid."""
        if self.accepts(data):
            return ()
        validator = _explainer()(self.root, registry=self._registry)
        errors = [cast(_Error, error) for error in validator.iter_errors(data)]
        mistyped = {tuple(e.absolute_path) for e in errors if e.validator == "type"}
        found = {
            violation
            for error in errors
            if error.validator == "type" or tuple(error.absolute_path) not in mistyped
            for violation in _violations(error)
        }
        if not found:  # refused by the gate, so it must not pass for want of words
            found = {Violation("", "the file is refused", "Hold it against the schema.")}
        return tuple(sorted(found, key=lambda v: (v.pointer, v.key, v.missing, v.message)))

    @cached_property
    def _registry(self) -> Registry:
        from referencing import Registry  # as slow as jsonschema
        from referencing.jsonschema import DRAFT202012

        # Without its $schema, at which jsonschema would go back to its own validator.
        bare = ((u, {k: v for k, v in b.items() if k != "$schema"}) for u, b in self.resources)
        return Registry().with_resources((u, DRAFT202012.create_resource(b)) for u, b in bare)


@cache
def _explainer() -> Any:
    """jsonschema's validator (60 ms, so only after a failure), as strict as the gate.

    Python's `$` lets a trailing newline through where JSON Schema's does not.
    """
    from jsonschema import Draft202012Validator, ValidationError, validators

    def pattern(_: Any, wanted: str, value: Data, schema: Data) -> Iterator[ValidationError]:
        if isinstance(value, str) and not _fits(wanted, value):
            yield ValidationError(f"{value!r} does not match {wanted!r}")

    extend: Any = validators.extend  # has no types
    return extend(Draft202012Validator, {"pattern": pattern})


def _fits(pattern: str, value: str) -> bool:
    try:
        return re.search(pattern.replace("$", r"\Z"), value) is not None
    except re.error:  # Python knows less than the gate, \p{L} for one
        return bool(jsonschema_rs.is_valid({"pattern": pattern}, value))


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
}


@cache
def _contract_gate() -> jsonschema_rs.Validator:
    """All that people write, compiled at once: each alone would compile the job's fields again."""
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


def job_file() -> Schema:
    """A job spec as people write it: inherited keys may be absent."""
    return _contract("job")


def effective_job() -> Schema:
    """A job spec after merging: everything must be there."""
    return _contract("effective")


def environment_file() -> Schema:
    return _contract("environment")


def defaults_file() -> Schema:
    return _contract("defaults")


def ledger_file() -> Schema:
    return _contract("ledger")


def image_lock() -> Schema:
    return _contract("lock")


@cache
def chart_values() -> Schema:
    """The chart's own values.schema.json, which plain Helm enforces too."""
    path = FOLDER.parent / "chart" / "values.schema.json"
    return Schema(json.loads(path.read_text(encoding="utf-8")), ())


@cache
def kind(name: str, kubernetes_version: str) -> Schema:
    """The schema of an emitted kind ("PyTorchJob") whose pods follow one Kubernetes minor."""
    return with_kubernetes(_load(f"kinds/{name.lower()}.schema.json"), kubernetes_version)


def with_kubernetes(root: Mapping[str, Data], version: str) -> Schema:
    """A schema that refers to definitions of a Kubernetes minor."""
    return Schema(root, ((kube.URI, kube.reachable(version, *kube.references(root))),))


def dated(violation: Violation, root: Mapping[str, Data], version: str) -> Violation:
    """A violation that also says when a field of Kubernetes came or went.

    Only of fields that these definitions have in some minor: others were never there.
    """
    if not violation.key:
        return violation
    definition = kube.definition_at(root, violation.pointer.rpartition("/")[0], version)
    when = kube.when_field(definition, violation.key, version) if definition else ""
    if not when:
        return violation
    remedy = "Remove it, or raise the Kubernetes version that the manifests are for."
    if "went away" in when:
        remedy = "Remove it, and use what took its place."
    return replace(violation, message=f"{violation.message}: {when}", remedy=remedy)


# --- explanations ------------------------------------------------------------------------------


def _pointer(path: Iterable[str | int]) -> str:
    return "".join(f"/{str(key).replace('~', '~0').replace('/', '~1')}" for key in path)


def _violations(error: _Error) -> Iterator[Violation]:
    pointer = _pointer(error.absolute_path)
    keyword = str(error.validator)
    if "propertyNames" in error.absolute_schema_path:
        yield from _bad_key(error, pointer)
    elif keyword in ("anyOf", "oneOf") and error.context:
        yield from _best_branch(error, pointer)
    else:
        yield from _EXPLAIN.get(keyword, _other)(error, pointer)


def _name(pointer: str) -> str:
    tokens = [t.replace("~1", "/").replace("~0", "~") for t in pointer.split("/")[1:]]
    return ".".join(tokens) or "the file"


def show(value: Data) -> str:
    """A value as people wrote it, short enough for one line."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _shown(pointer: str, value: Data) -> str:
    """The same, unless the name of the field says that it holds a credential."""
    field = pointer.rpartition("/")[2]
    return credentials.HIDDEN if credentials.named(field, str(value)) else show(value)


def _kind(value: Data) -> str:
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}
    for python, name in names.items():
        if isinstance(value, python):
            return name
    return {dict: "a mapping", list: "a list", type(None): "null"}.get(type(value), "a value")


def _article(json_type: str) -> str:
    return {
        "object": "a mapping",
        "array": "a list",
        "string": "a string",
        "integer": "an integer",
        "number": "a number",
        "boolean": "true or false",
        "null": "null",
    }[json_type]


def _examples(schema: Mapping[str, Data]) -> str:
    examples = [show(e) for e in schema.get("examples", []) if not isinstance(e, dict | list)]
    return f"For example {' or '.join(examples[:2])}." if examples else ""


def _described(schema: Mapping[str, Data]) -> str:
    description = str(schema.get("description", "")).split(". ")[0].rstrip(".")
    parts = (f"{description}." if description else "", _examples(schema))
    return " ".join(part for part in parts if part)


def _type(error: _Error, pointer: str) -> Iterator[Violation]:
    wanted = error.validator_value
    types = [wanted] if isinstance(wanted, str) else list(wanted)
    types = [name for name in types if name != "null"] or types  # it is allowed, never what to do
    value = error.instance
    expected = " or ".join(_article(t) for t in types)
    scalar = not isinstance(value, dict | list) and value is not None
    message = f"{_name(pointer)} must be {expected}, found {_kind(value)}"
    remedy = _described(error.schema)
    if scalar:
        message += f": {_shown(pointer, value)}"
    if types == ["string"] and scalar:
        remedy = "Quote it, so that it stays the text that is written here."
    elif isinstance(value, str) and set(types) & {"integer", "number", "boolean"}:
        remedy = (
            f"Write it without quotes. {remedy}" if value.strip("-.0123456789") == "" else remedy
        )
    yield Violation(pointer, message, remedy.strip() or f"Write {expected}.")


def _unknown_keys(error: _Error, pointer: str) -> Iterator[Violation]:
    known = list(error.schema.get("properties", {}))
    for key in error.instance:
        if key in known or any(_matches(p, key) for p in error.schema.get("patternProperties", {})):
            continue
        where = f" in {_name(pointer)}" if pointer else ""
        near = difflib.get_close_matches(key, known, n=1, cutoff=0.75)
        remedy = (
            f'Did you mean "{near[0]}"?' if near else f"Known keys: {', '.join(sorted(known))}."
        )
        child = f"{pointer}{_pointer([key])}"
        yield Violation(child, f'unknown key "{key}"{where}', remedy, key=key)


def _matches(pattern: str, key: str) -> bool:
    return re.search(pattern, key) is not None


def _bad_key(error: _Error, pointer: str) -> Iterator[Violation]:
    key = error.instance
    yield Violation(
        f"{pointer}{_pointer([key])}",
        f'"{key}" is no valid name in {_name(pointer)}',
        _described(error.schema) or f"Names must match {error.validator_value}.",
        key=str(key),
    )


def _required(error: _Error, pointer: str) -> Iterator[Violation]:
    for key in error.validator_value:
        if key in error.instance:
            continue
        field = error.schema.get("properties", {}).get(key, {})
        name = f"{_name(pointer)}.{key}" if pointer else key
        remedy = f"Add {name}. {_described(field)}".strip()
        yield Violation(pointer, f"{name} is missing", remedy, missing=key)


def _enum(error: _Error, pointer: str) -> Iterator[Violation]:
    allowed = [str(value) for value in error.validator_value]
    near = difflib.get_close_matches(str(error.instance), allowed, n=1, cutoff=0.6)
    hint = f'Did you mean "{near[0]}"? ' if near else ""
    message = f"{_name(pointer)} is {show(error.instance)}"
    yield Violation(pointer, message, f"{hint}It must be one of: {', '.join(allowed)}.")


def _pattern(error: _Error, pointer: str) -> Iterator[Violation]:
    described = _described(error.schema)
    if "integer" in error.schema.get("type", "") and str(error.instance).isdigit():
        message = f"{_name(pointer)} is the string {_shown(pointer, error.instance)}"
        yield Violation(pointer, message, f"Write {error.instance} without quotes.")
        return
    what = str(error.schema.get("title", "")).lower() or f"text matching {error.validator_value}"
    found = _shown(pointer, error.instance)
    message = f"{_name(pointer)} is {found}, which is no valid {what}"
    yield Violation(pointer, message, described or f"It must match {error.validator_value}.")


def _limit(words: str) -> Callable[[_Error, str], Iterator[Violation]]:
    def explain(error: _Error, pointer: str) -> Iterator[Violation]:
        shown = error.instance if isinstance(error.instance, int | float) else ""
        size = f" is {shown}, it" if shown != "" else ""
        message = f"{_name(pointer)}{size} must {words} {error.validator_value}"
        yield Violation(pointer, message, _described(error.schema) or "Change the value.")

    return explain


def _const(error: _Error, pointer: str) -> Iterator[Violation]:
    wanted = show(error.validator_value)
    message = f"{_name(pointer)} is {show(error.instance)}, expected {wanted}"
    yield Violation(pointer, message, f"Write {wanted}.")


def _other(error: _Error, pointer: str) -> Iterator[Violation]:
    message = f"{_name(pointer)}: {error.message[:200]}"
    yield Violation(pointer, message, _described(error.schema) or "Correct the value.")


def _best_branch(error: _Error, pointer: str) -> Iterator[Violation]:
    """What keeps the value from the alternative that it comes closest to.

    Alternatives that only differ in which key must be there are named together instead.
    """
    alternatives = [e for e in error.context or () if e.validator == "required"]
    if len(alternatives) == len(error.context or ()):
        keys = [str(key) for e in alternatives for key in e.validator_value]
        message = f"{_name(pointer)} needs one of: {', '.join(dict.fromkeys(keys))}"
        yield Violation(pointer, message, _described(error.schema) or f"Write {keys[0]}.")
        return
    if not error.context:
        yield from _other(error, pointer)
        return
    from jsonschema.exceptions import best_match, relevance

    best = cast(_Error, best_match([error], key=relevance))  # type: ignore[list-item]
    yield from _EXPLAIN.get(str(best.validator), _other)(best, _pointer(best.absolute_path))


def _one_too_many(error: _Error, pointer: str) -> Iterator[Violation]:
    """`oneOf` with more than one match, `maxProperties: 1`: keys that exclude each other."""
    branches = error.validator_value if isinstance(error.validator_value, list) else []
    known = {key for branch in branches for key in branch.get("required", ())}
    present = error.instance if isinstance(error.instance, dict) else {}
    keys = ", ".join(key for key in present if not known or key in known)
    message = f"{_name(pointer)} has keys that exclude each other: {keys}"
    remedy = "Keep one; write null to remove an inherited one. " + _described(error.schema)
    yield Violation(pointer, message, remedy.strip())


_EXPLAIN: dict[str, Callable[[_Error, str], Iterator[Violation]]] = {
    "type": _type,
    "additionalProperties": _unknown_keys,
    "unevaluatedProperties": _unknown_keys,
    "required": _required,
    "enum": _enum,
    "const": _const,
    "pattern": _pattern,
    "minimum": _limit("be at least"),
    "maximum": _limit("be at most"),
    "exclusiveMinimum": _limit("be more than"),
    "minLength": _limit("have a length of at least"),
    "maxLength": _limit("have a length of at most"),
    "minItems": _limit("have at least this many items:"),
    "maxItems": _limit("have at most this many items:"),
    "minProperties": _limit("have at least this many keys:"),
    "oneOf": _one_too_many,
    "maxProperties": _one_too_many,
    "not": _one_too_many,
}
