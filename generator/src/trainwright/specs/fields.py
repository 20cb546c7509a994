"""What the schemas say of a field: its description, its values, and what may be in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.validation import schema

Kind = str  # of a file that people write: "job", "environment", "defaults", "ledger", "lock"
_CHOICES = ("allOf", "anyOf", "oneOf")
_DEEP = 12  # references that lead to references


@dataclass(frozen=True, slots=True)
class Field:
    """A position in a file, with every schema that describes it, the nearest first."""

    parts: tuple[tuple[str, Mapping[str, Data]], ...]  # each with the file that it is in

    def _first(self, key: str) -> Data:
        return next((part[key] for _, part in self.parts if key in part), None)

    @property
    def title(self) -> str:
        return str(self._first("title") or "")

    @property
    def description(self) -> str:
        return str(self._first("description") or "")

    @property
    def default(self) -> Data:
        return self._first("default")

    @property
    def examples(self) -> Sequence[Data]:
        return self._first("examples") or ()

    @property
    def choices(self) -> tuple[Data, ...]:
        """The values that it may have, where these are few."""
        values = self._first("enum")
        if values is None and any("const" in part for _, part in self.parts):
            values = [self._first("const")]
        if values is None and self._first("type") == "boolean":
            values = [True, False]
        return tuple(values or ())

    @property
    def meanings(self) -> dict[str, str]:
        """What each of the values that it may have means, where the schema describes them."""
        part = next((part for _, part in self.parts if "enum" in part), {})
        return dict(zip(part.get("enum", ()), part.get("enumDescriptions", ()), strict=False))

    @property
    def shape(self) -> str:
        """How a value is written: "object", "array", or "" for a value on the line of its key."""
        kind = self._first("type")
        if kind in ("object", "array"):
            return str(kind)
        return "object" if any("properties" in part for _, part in self.parts) else ""

    @property
    def refused(self) -> frozenset[str]:
        """The keys that the field may not have here, though others of its kind may."""
        names = (part.get("propertyNames", {}) for _, part in self.parts)
        return frozenset(key for name in names for key in name.get("not", {}).get("enum", ()))

    @property
    def keys(self) -> dict[str, Field]:
        """The keys that it may have by name, in the order of the schema."""
        fields: dict[str, Field] = {}
        for file, part in self.parts:
            for key, inner in part.get("properties", {}).items():
                earlier = fields[key].parts if key in fields else ()
                fields[key] = Field((*earlier, *_parts(file, inner)))
        return fields

    def below(self, key: str) -> Field:
        """Return the field of a key in this one, or of an item if this is a list."""
        if key in (keys := self.keys):
            return keys[key]
        parts: list[tuple[str, Mapping[str, Data]]] = []
        for file, part in self.parts:
            for name in ("additionalProperties", "items"):
                if isinstance(inner := part.get(name), Mapping):
                    parts += _parts(file, inner)
        return Field(tuple(parts))


@cache
def field(kind: Kind, pointer: Pointer) -> Field:
    """Return what the schemas say about a position in a kind of file."""
    if not pointer:
        name = f"{kind}.schema.json"
        return Field(tuple(_parts(name, schema.contract(name))))
    return field(kind, pointer.parent).below(pointer.last)


def _parts(
    file: str, part: Mapping[str, Data], depth: int = 0
) -> Iterator[tuple[str, Mapping[str, Data]]]:
    """A schema with all that it refers to."""
    yield file, part
    if depth > _DEEP:
        return
    reference = part.get("$ref")
    if isinstance(reference, str):
        other, _, inside = reference.partition("#")
        target = _found(other or file, inside)
        yield from _parts(other or file, target, depth + 1)
    for name in _CHOICES:
        for inner in part.get(name, ()):
            if isinstance(inner, Mapping):
                yield from _parts(file, inner, depth + 1)


def _found(file: str, inside: str) -> Mapping[str, Data]:
    if not file.endswith(".schema.json") or "/" in file:
        return {}
    node: Data = schema.contract(file)
    for key in Pointer(inside).parts:
        node = node.get(key, {}) if isinstance(node, Mapping) else {}
    return node if isinstance(node, Mapping) else {}
