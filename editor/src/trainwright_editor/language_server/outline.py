"""The structure of a file: symbols, folding, and the values that it inherits."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from trainwright.authoring.place import Place, job_at, kind_of
from trainwright.authoring.text import Entry, Position, Span, Text
from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer, leaves, lookup
from trainwright.documents.validation.violation import show
from trainwright.specs.fields import field
from trainwright.specs.merge import BUILT_IN, Layered

if TYPE_CHECKING:
    from trainwright.authoring.session import Session

_COMMENT = re.compile(r"\s*#")
_SHOWN = 4  # inherited values that fit beside a line
_LONGEST = 24  # characters of one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """A key and what is below it."""

    name: str
    detail: str
    span: Span
    key: Span
    shape: str
    children: tuple[Symbol, ...]


def symbols(text: Text) -> tuple[Symbol, ...]:
    """The keys of a file."""
    below: dict[Pointer, list[Entry]] = {}
    for entry in text.entries:
        below.setdefault(entry.pointer.parent, []).append(entry)
    return tuple(_symbol(text, entry, below) for entry in below.get(Pointer(), ()))


def _symbol(text: Text, entry: Entry, below: Mapping[Pointer, list[Entry]]) -> Symbol:
    inside = () if entry.shape in ("scalar", "alias") else below.get(entry.pointer, ())
    scalar = entry.shape == "scalar" and entry.value.start.line == entry.value.end.line
    return Symbol(
        name=entry.pointer.last or '""',
        detail=text.written(entry.value) if scalar else "",
        span=entry.span,
        key=entry.key or Span(entry.value.start, entry.value.start),
        shape=entry.shape,
        children=tuple(_symbol(text, child, below) for child in inside),
    )


def folds(text: Text) -> Iterator[tuple[int, int, bool]]:
    """Yield the first and last line of what can be folded, and whether it is a comment."""
    for entry in text.entries:
        start, end = entry.span.start.line, entry.span.end.line
        if entry.value.end.column == 0 and end > start:  # a literal block ends on the next line
            end -= 1
        if end > start:
            yield start, end, False
    first = None
    for number, line in enumerate((*text.lines, "")):
        if _COMMENT.match(line):
            first = number if first is None else first
        elif first is not None:
            if number - 1 > first:
                yield first, number - 1, True
            first = None


# --- inherited values ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Hint:
    """An inlay hint after the line of a mapping's key: what the mapping inherits."""

    at: Position
    label: str
    tooltip: str


def hints(session: Session, path: str, span: Span) -> Iterator[Hint]:
    """Yield a hint for each mapping of a job in `span`: the values that it inherits."""
    place = Place(session, path, span.start)
    spec = job_at(place)
    if spec is None or kind_of(path) != "job":
        return
    mappings = [e for e in place.text.entries if e.shape == "mapping" and not e.flow]
    name = place.text.by_pointer.get(Pointer("/name"))
    if name is not None and name.span.start.line in _lines(span):
        yield from _hint(place.text, spec, Pointer(), name.span.start.line)
    for entry in mappings:
        line = entry.span.start.line
        if line in _lines(span) and entry.key is not None and entry.value.start.line > line:
            yield from _hint(place.text, spec, entry.pointer, line)


def _lines(span: Span) -> range:
    return range(span.start.line, span.end.line + 1)


def _hint(text: Text, spec: Layered, pointer: Pointer, line: int) -> Iterator[Hint]:
    inherited = lookup(spec.data, pointer)
    if not isinstance(inherited, Mapping):
        return
    inherited_values = [
        (pointer / key, value)
        for key, value in inherited.items()
        if pointer / key not in text.by_pointer and (pointer or key not in _OF_THE_FILE)
    ]
    set_by = [
        (at, value)
        for at, value in inherited_values
        if spec.setter(at).label != BUILT_IN or pointer
    ]
    if not set_by:
        return
    shown = [_short(at, value) for at, value in set_by[:_SHOWN]]
    more = f", {len(set_by) - _SHOWN} more" if len(set_by) > _SHOWN else ""
    at = Position(line, len(text.line(line)))
    yield Hint(at, f"inherits {', '.join(shown)}{more}", "  \n".join(_long(spec, set_by)))


_OF_THE_FILE = frozenset({"apiVersion", "kind", "name", "extends", "description", "waivers"})


def _short(at: Pointer, value: Data) -> str:
    if isinstance(value, Mapping):
        return f"{at.last}: {{…}}"
    text = show(value)
    return f"{at.last}: {text if len(text) <= _LONGEST else text[: _LONGEST - 1] + '…'}"


def _long(spec: Layered, values: list[tuple[Pointer, Data]]) -> Iterator[str]:
    for pointer, value in values:
        for at, leaf in leaves(value, pointer):
            yield f"`{at.dotted}: {show(leaf)}` of {spec.setter(at).label}"


def describe(session: Session, path: str) -> str:
    """Return what a file is, for a list of symbols."""
    document = session.text(path).document
    return (
        str(document.data.get("description") or "")
        if document
        else field(kind_of(path), Pointer()).title
    )
