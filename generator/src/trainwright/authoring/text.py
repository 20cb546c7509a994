"""The text of a file that is being typed: where its keys and values are, broken or not."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from itertools import islice
from math import inf
from typing import Literal

from yaml.nodes import MappingNode, Node, SequenceNode

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents import yamlio
from trainwright.documents.yamlio import Document
from trainwright.documents.yamltext import LINE_BREAK
from trainwright.specs.load import read_spec

_REPAIRS = 24  # lines that may be left out before the rest is given up
_TOKEN = re.compile(r"[^\s,\[\]{}:#]+:?[^\s,\[\]{}:#]*")


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A line and a column from 0, the latter in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Span:
    """From one position up to another."""

    start: Position
    end: Position

    def __contains__(self, at: Position) -> bool:
        return self.start <= at <= self.end


def position(text: str, offset: int) -> Position:
    """Return where a character of a text is."""
    before = LINE_BREAK.split(text[:offset])
    return Position(len(before) - 1, len(before[-1]))


def offset(text: str, at: Position) -> int:
    """Return how many characters come before a position."""
    start = 0
    for _ in range(at.line):
        line_break = LINE_BREAK.search(text, start)
        if line_break is None:
            return len(text)
        start = line_break.end()
    return min(start + at.column, len(text))


Shape = Literal["mapping", "sequence", "scalar", "alias"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A value in a file, and the key in front of it; items of a list have no key."""

    pointer: Pointer
    key: Span | None
    value: Span
    shape: Shape
    flow: bool

    @property
    def span(self) -> Span:
        return Span((self.key or self.value).start, max(self.value.end, self.value.start))


@dataclass(frozen=True, slots=True)
class Text:
    """A file as far as it can be understood: the lines that keep it from being parsed left out."""

    path: str
    lines: tuple[str, ...]
    document: Document | None
    entries: tuple[Entry, ...] = ()
    by_pointer: dict[Pointer, Entry] = field(default_factory=dict)

    def value(self, pointer: str) -> Data:
        """Return the value at a pointer, or None, also of a file that nothing is understood of."""
        return lookup(self.document.data, pointer) if self.document else None

    def line(self, number: int) -> str:
        return self.lines[number] if 0 <= number < len(self.lines) else ""

    def at(self, position: Position) -> Entry | None:
        """Return the innermost entry whose key or scalar is at a position."""
        innermost = None
        for entry in self.entries:
            on_key = entry.key is not None and position in entry.key
            if on_key or (entry.shape in ("scalar", "alias") and position in entry.value):
                innermost = entry
        return innermost

    def around(self, position: Position) -> Entry | None:
        """Return the innermost entry around a position, or None."""
        innermost = None
        for entry in self.entries:
            if position in entry.span:
                innermost = entry
        return innermost

    def written(self, span: Span) -> str:
        """Return the text of a span that is on one line."""
        return self.line(span.start.line)[span.start.column : span.end.column]

    def token(self, at: Position) -> Span:
        """Return the span of the key or value at a position, cut at the end of its line."""
        line = self.line(at.line)
        entry = self.at(at)
        for span in (entry.key, entry.value) if entry else ():
            if span is not None and span.start == at:
                return Span(at, min(span.end, Position(at.line, len(line))))
        match = _TOKEN.match(line, at.column)
        stop = match.end() if match else len(line.rstrip())
        return Span(at, Position(at.line, max(stop, min(at.column + 1, len(line)))))


def read(path: str, raw: bytes) -> Text:
    """Parse a text; if it is broken, parse what remains without the lines that break it."""
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = tuple(LINE_BREAK.split(text))
    kept, parsed = list(lines), _parsed(path, lines)
    for _ in range(_REPAIRS):
        if isinstance(parsed, Document):
            entries = tuple(_entries(yamlio.compose("\n".join(kept)), Pointer()))
            return Text(path, lines, parsed, entries, {e.pointer: e for e in entries})
        tries = [_without(kept, number) for number in _suspects(kept, parsed)]
        if not tries:
            break
        # Keep the attempt with which the parser gets farthest: it often stops after the mistake.
        outcomes = [(_parsed(path, attempt), attempt) for attempt in tries]
        parsed, kept = max(outcomes, key=lambda outcome: _reached(outcome[0]))
    return Text(path, lines, None)


def _parsed(path: str, lines: Sequence[str]) -> Document | Finding:
    outcome = read_spec(path, "\n".join(lines).encode("utf-8", "replace"))
    return outcome if isinstance(outcome, Document) else outcome[0]


def _reached(outcome: Document | Finding) -> float:
    """Return the line up to which a text can be understood."""
    return inf if isinstance(outcome, Document) else outcome.place.line


def _suspects(lines: Sequence[str], finding: Finding) -> list[int]:
    """Return the indexes of suspect lines: where the parser stopped, and the nonblank one above."""
    start = min(finding.place.line, len(lines)) - 1
    written = (number for number in range(start, -1, -1) if lines[number].strip())
    return list(islice(written, 2))


def _without(lines: Sequence[str], number: int) -> list[str]:
    return [*lines[:number], "", *lines[number + 1 :]]


def _entries(node: Node, pointer: Pointer) -> Iterator[Entry]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key.value, str):
                yield from _entry(pointer / key.value, key, value)
    elif isinstance(node, SequenceNode):
        for index, item in enumerate(node.value):
            yield from _entry(pointer / index, None, item)


def _entry(pointer: Pointer, key: Node | None, value: Node) -> Iterator[Entry]:
    key_span = _span(key) if key is not None else None
    elsewhere = key_span is not None and _span(value).start < key_span.end
    if elsewhere and key_span is not None:  # an alias, whose marks are those of its anchor
        yield Entry(
            pointer=pointer,
            key=key_span,
            value=Span(key_span.end, key_span.end),
            shape="alias",
            flow=False,
        )
        return
    shape: Shape = "scalar"
    if isinstance(value, MappingNode | SequenceNode):
        shape = "mapping" if isinstance(value, MappingNode) else "sequence"
    flow = bool(getattr(value, "flow_style", False))
    yield Entry(pointer=pointer, key=key_span, value=_span(value), shape=shape, flow=flow)
    yield from _entries(value, pointer)


def _span(node: Node) -> Span:
    start, end = node.start_mark, node.end_mark
    assert start is not None
    assert end is not None
    stop = Position(end.line, end.column)
    if isinstance(node, MappingNode | SequenceNode) and not node.flow_style and node.value:
        last = node.value[-1]  # a block itself reaches over the comments and lines behind it
        inner = _span(last[1] if isinstance(last, tuple) else last)
        stop = inner.end
    return Span(Position(start.line, start.column), max(stop, Position(start.line, start.column)))
