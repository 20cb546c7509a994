"""What the API server's own validation refuses and the schemas of Kubernetes do not say.

The facts are those of validation.go of each API group, and a check here refuses nothing that it
accepts: https://github.com/kubernetes/kubernetes/tree/master/pkg/apis. Tables of checks by type
are in `pods`, `volumes` and `objects`; what holds for every type is here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.model import Data
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.tolerant import mapping
from trainwright.objects.forms import is_template
from trainwright.rules.api_server import objects, pods, volumes
from trainwright.rules.field_checks import Check, Problem, filled
from trainwright.specs import kubernetes_schemas

_TABLES = (pods, volumes, objects)
_CORE = "io.k8s.api.core.v1."
# Required, and empty all the same.
_MAY_BE_EMPTY = {"HTTPHeader": ("value",), "Sysctl": ("value",)}
_ELSEWHERE = {"PodSpec": ("containers", "initContainers", "ephemeralContainers")}


@dataclass(frozen=True, slots=True)
class Cluster:
    """The version of Kubernetes, and whether its schemas say which words a field takes."""

    version: str
    worded: bool = False


def named(type_: str) -> str:
    """The definition of a type of pods ("PodSpec", "Container")."""
    return f"{_CORE}{type_}"


def problems(definition: str, body: Data, cluster: Cluster) -> Iterator[Problem]:
    """What is refused in a value of a type, and where in it.

    The pods of an object and the containers of a pod are not looked into: they may stand
    elsewhere.
    """
    yield from _walk(definition, body, Pointer(), cluster)


def _walk(definition: str, body: Data, at: Pointer, cluster: Cluster) -> Iterator[Problem]:
    if isinstance(body, list):
        for index, item in enumerate(body):
            yield from _walk(definition, item, at / index, cluster)
    elif isinstance(body, dict):
        for check in _checks(definition, cluster):
            for where, message in check(body):
                yield Pointer(at + where), message
        below = _fields(definition, cluster.version)
        for key, value in body.items():
            if isinstance(value, dict | list) and (type_of := below.get(key)):
                yield from _walk(type_of, value, at / key, cluster)


@cache
def _checks(definition: str, cluster: Cluster) -> tuple[Check, ...]:
    minor = int(cluster.version.partition(".")[2])
    name = _short(definition)
    found = [check for table in _TABLES for check in table.CHECKS.get(name, ())]
    found += [make(minor) for table in _TABLES for make in table.CHECKS_BY_MINOR.get(name, ())]
    required = _required(definition, cluster.version)
    words = {} if cluster.worded else _words(definition, cluster.version)
    return (*([filled(*required)] if required else ()), *([_among(words)] if words else ()), *found)


def _short(definition: str) -> str:
    return definition.rpartition(".")[2]


def _schema(definition: str, version: str) -> Mapping[str, Data]:
    return mapping(kubernetes_schemas.definitions(version)["$defs"].get(definition))


def _required(definition: str, version: str) -> tuple[str, ...]:
    """The texts that a type requires: that they are there is left to the schema."""
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
    """One of the words of a field, where the schema of the object says text."""

    def check(body: Mapping[str, Data]) -> Iterator[Problem]:
        for field, known in words.items():
            value = body.get(field)
            if isinstance(value, str) and value not in known and not is_template(value):
                among = ", ".join(filter(None, known))
                yield Pointer.of(field), f'{field}: "{value}" is not one of {among}'

    return check


@cache
def _fields(definition: str, version: str) -> Mapping[str, str]:
    """The fields of a type that hold mappings of another: which it is."""
    found = {}
    elsewhere = _ELSEWHERE.get(_short(definition), ("status",))
    for key, schema in mapping(_schema(definition, version).get("properties")).items():
        name = next(kubernetes_schemas.references(schema), "")
        if name and name != named("PodSpec") and key not in elsewhere:
            found[key] = name
    return found
