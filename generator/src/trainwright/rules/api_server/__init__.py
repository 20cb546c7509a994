"""What the API server's own validation refuses, although the schemas of Kubernetes accept it.

The facts are those of validation.go of each API group, and a check here refuses nothing that it
accepts: https://github.com/kubernetes/kubernetes/tree/master/pkg/apis. Checks of single
fields are rows of field_checks.json; those of several are in `pods`, `volumes` and `objects`, by
type; what holds for every type is here.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.frozen import cached_property, dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation import kubernetes_schemas
from trainwright.objects.forms import is_template
from trainwright.rules.api_server import objects, pods, volumes
from trainwright.rules.field_checks import Check, Problem, about, filled, is_about, made, unwrapped

_TABLES = (pods, volumes, objects)
_OF_FIELDS = Path(__file__).with_name("field_checks.json")
# Required, and empty all the same.
_MAY_BE_EMPTY = {"HTTPHeader": ("value",), "Sysctl": ("value",)}
_ELSEWHERE = {"PodSpec": ("containers", "initContainers", "ephemeralContainers")}


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Kubernetes version, and whether its schemas list the values that a field may have."""

    version: str
    worded: bool = False


def named(type_: str) -> str:
    """The definition of a type of pods ("PodSpec", "Container")."""
    return f"{kubernetes_schemas.CORE}{type_}"


def problems(definition: str, body: Data, cluster: Cluster) -> list[Problem]:
    """Return what is refused in a value of a type, and where in it.

    Not checked are the pods of an object and the containers of a pod, which may be defined
    elsewhere.
    """
    return _problems(_type(definition, cluster), body)


def _problems(of: _Type, body: Data) -> list[Problem]:
    if isinstance(body, list):
        return [
            (Pointer(Pointer.of(index) + at), message)
            for index, item in enumerate(body)
            for at, message in _problems(of, item)
        ]
    if not isinstance(body, dict):
        return []
    checks, below = of.concerning(body)
    all_problems = [problem for check in checks for problem in check(body)]
    for key, type_ in below:
        value = body[key]
        if isinstance(value, (dict, list)) and (inner := _problems(type_, value)):
            all_problems += ((Pointer(Pointer.of(key) + at), message) for at, message in inner)
    return all_problems


_Concerning = tuple[tuple[Check, ...], tuple[tuple[str, "_Type"], ...]]
_MOST = 4096


@dataclass(frozen=True)
class _Type:
    """The checks of a type, and the types of its fields, by the keys that a value has.

    Values of a type mostly have the same few keys: pods and their containers of one origin do.
    """

    definition: str
    cluster: Cluster
    _by_keys: dict[tuple[str, ...], _Concerning] = dataclasses.field(default_factory=dict)

    def concerning(self, body: Mapping[str, Data]) -> _Concerning:
        keys = tuple(body)
        cached = self._by_keys.get(keys)
        if cached is None:
            if len(self._by_keys) >= _MOST:
                self._by_keys.clear()
            cached = self._by_keys[keys] = self._concerning(body)
        return cached

    def _concerning(self, body: Mapping[str, Data]) -> _Concerning:
        fields = self._fields
        return (
            tuple(unwrapped(check) for check in self._checks if is_about(check, body)),
            tuple((key, _type(fields[key], self.cluster)) for key in body if key in fields),
        )

    @cached_property
    def _checks(self) -> tuple[Check, ...]:
        return _checks(self.definition, self.cluster)

    @cached_property
    def _fields(self) -> Mapping[str, str]:
        return _fields(self.definition, self.cluster.version)


@cache
def _type(definition: str, cluster: Cluster) -> _Type:
    return _Type(definition, cluster)


def _checks(definition: str, cluster: Cluster) -> tuple[Check, ...]:
    minor = int(cluster.version.partition(".")[2])
    name = _short(definition)
    checks = [made(row) for row in _of_fields().get(name, ())]
    checks += [check for table in _TABLES for check in table.CHECKS.get(name, ())]
    checks += [make(minor) for table in _TABLES for make in table.CHECKS_BY_MINOR.get(name, ())]
    required = _required(definition, cluster.version)
    words = {} if cluster.worded else _words(definition, cluster.version)
    return (
        *([filled(*required)] if required else ()),
        *([_among(words)] if words else ()),
        *checks,
    )


@cache
def _of_fields() -> Mapping[str, Sequence[Sequence[Data]]]:
    """The checks of single fields, by the type that has them."""
    rows: Mapping[str, Sequence[Sequence[Data]]] = json.loads(_OF_FIELDS.read_text("utf-8"))
    return rows


def _short(definition: str) -> str:
    return definition.rpartition(".")[2]


def _schema(definition: str, version: str) -> Mapping[str, Data]:
    return mapping(kubernetes_schemas.definitions(version)["$defs"].get(definition))


def _required(definition: str, version: str) -> tuple[str, ...]:
    """Return the text fields of a type that must not be empty; the schema has them required."""
    schema = _schema(definition, version)
    without = _MAY_BE_EMPTY.get(_short(definition), ())
    return tuple(
        field
        for field in schema.get("required", ())
        if "string" in schema["properties"][field].get("type", ())
        and "enum" not in schema["properties"][field]
        and field not in without
    )


def _words(definition: str, version: str) -> Mapping[str, tuple[Data, ...]]:
    fields = mapping(_schema(definition, version).get("properties"))
    return {
        key: tuple(field["enum"])
        for key, field in fields.items()
        if "enum" in field and key not in ("apiVersion", "kind")
    }


def _among(words: Mapping[str, tuple[Data, ...]]) -> Check:
    """Return a check that fields have one of their values, where the schema allows any string."""

    @about(*words)
    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        for field, accepted in words.items():
            value = body.get(field)
            if isinstance(value, str) and value not in accepted and not is_template(value):
                among = ", ".join(filter(None, accepted))
                yield Pointer.of(field), f'{field}: "{value}" is not one of {among}'

    return check


def _fields(definition: str, version: str) -> Mapping[str, str]:
    """Return the fields of a type that hold values of another type, each with that type."""
    types = {}
    elsewhere = _ELSEWHERE.get(_short(definition), ("status",))
    for key, schema in mapping(_schema(definition, version).get("properties")).items():
        name = next(kubernetes_schemas.references(schema), "")
        if name and name != named("PodSpec") and key not in elsewhere:
            types[key] = name
    return types
