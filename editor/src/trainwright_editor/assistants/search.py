"""Search for fields and rules by words of their names and descriptions."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.reports.report import help_uri
from trainwright.rules.registry import RULES
from trainwright.specs.fields import Field, field

_KINDS = ("job", "environment")
_DEEP = 4  # keys in a path
_MOST = 20  # answers


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    text: str
    answer: Data


def search(words: str) -> list[Data]:
    """Return entries with any of the words, by how many they have, then how many in the name."""
    wanted = words.lower().split()

    def weight(entry: _Entry) -> tuple[int, int]:
        name, text = entry.name.lower(), entry.text.lower()
        return sum(word in text for word in wanted), sum(word in name for word in wanted)

    matching = [entry for entry in _entries() if wanted and weight(entry)[0]]
    return [entry.answer for entry in sorted(matching, key=weight, reverse=True)[:_MOST]]


def _entries() -> Iterator[_Entry]:
    for kind in _KINDS:
        yield from _fields(kind, field(kind, Pointer()), Pointer())
    for rule in RULES.values():
        answer = {
            "rule": rule.id,
            "name": rule.name,
            "summary": rule.summary,
            "help": help_uri(rule.id),
        }
        yield _Entry(f"{rule.id} {rule.name}", f"{rule.id} {rule.name} {rule.summary}", answer)


def _fields(kind: str, within: Field, pointer: Pointer) -> Iterator[_Entry]:
    if len(pointer.parts) >= _DEEP:
        return
    for key, inner in within.keys.items():
        path = pointer / key
        answer: dict[str, Data] = {
            "field": path.dotted,
            "of": kind,
            "description": inner.description,
        }
        if inner.choices:
            answer["values"] = list(inner.choices)
        if inner.default is not None:
            answer["default"] = inner.default
        if inner.examples:
            answer["examples"] = list(inner.examples)
        yield _Entry(path.dotted, f"{path.dotted} {inner.title} {inner.description}", answer)
        yield from _fields(kind, inner, path)
