"""Values that a JSON Schema accepts, drawn from the schema itself: patterns, limits and all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st

Schema = Mapping[str, Any]
_LARGE = 2**63 - 1  # where nothing says how much is too much


class Drawing:
    """Strategies for the parts of one schema file; `own` are by JSON pointer instead."""

    def __init__(self, root: Schema, own: Mapping[str, st.SearchStrategy[Any]] | None = None):
        self._root = root
        self._own = own or {}
        self._drawn: list[str] = []  # definitions around the one at hand

    def of(self, schema: Schema, pointer: str = "") -> st.SearchStrategy[Any]:
        if pointer in self._own:
            return self._own[pointer]
        if "$ref" in schema:
            return self._named(schema["$ref"], pointer)
        if "const" in schema:
            return st.just(schema["const"])
        if "enum" in schema:
            return st.sampled_from(schema["enum"])
        kinds = schema.get("type", "object")
        names = [kinds] if isinstance(kinds, str) else kinds
        return st.one_of(*(self._typed(name, schema, pointer) for name in names))

    def _named(self, name: str, pointer: str) -> st.SearchStrategy[Any]:
        if name in self._drawn:  # part of itself: one level is enough
            return st.booleans() | st.integers(0, 9) | st.text("ab", max_size=4)
        self._drawn.append(name)
        found = self.of(resolved(self._root, name), pointer)
        self._drawn.pop()
        return found

    def _typed(self, name: str, schema: Schema, pointer: str) -> st.SearchStrategy[Any]:
        if name == "object":
            return self._mapping(schema, pointer)
        if name == "array":
            items = self.of(schema["items"], f"{pointer}/*")
            unique = repr if schema.get("uniqueItems") else None
            return st.lists(items, min_size=schema.get("minItems", 0), max_size=3, unique_by=unique)
        if name == "string":
            return _text(
                schema.get("pattern", ""), schema.get("minLength", 0), schema.get("maxLength", 400)
            )
        if name == "boolean":
            return st.booleans()
        low, high = schema.get("minimum", -_LARGE), schema.get("maximum", _LARGE)
        if name == "integer":
            return st.sampled_from([low, high]) | st.integers(low, high)
        return st.floats(allow_nan=False, allow_infinity=False)

    def _mapping(self, schema: Schema, pointer: str) -> st.SearchStrategy[Any]:
        fields = {
            key: self.of(part, f"{pointer}/{key}")
            for key, part in schema.get("properties", {}).items()
        }
        rest = schema.get("additionalProperties")
        if not isinstance(rest, Mapping):
            return st.fixed_dictionaries({}, optional=fields)
        names = self.of(schema["propertyNames"])
        return st.dictionaries(names, self.of(rest, f"{pointer}/*"), max_size=3)


def resolved(root: Schema, reference: str) -> Schema:
    """What a reference of a schema to a part of itself leads to."""
    part: Any = root
    for key in reference.rpartition("#/")[2].split("/"):
        part = part[key]
    found: Schema = part
    return found


@cache
def _text(pattern: str, shortest: int, longest: int) -> st.SearchStrategy[str]:
    """Text of a pattern, without the control characters that no YAML of ours may have."""
    drawn = st.from_regex(re.compile(pattern), fullmatch=True) if pattern else st.text()
    possible = drawn.filter(lambda text: shortest <= len(text) <= longest)
    return possible.filter(lambda text: not _CONTROL.search(text) and text.isprintable())


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\ufffe\uffff\ud800-\udfff]")
