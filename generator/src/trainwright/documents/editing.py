"""Edits of one value of a YAML file that people write, in place: all other bytes stay.

ruamel.yaml's round trip realigns comments, normalizes indentation and the spaces of flow
mappings, and drops CRLF. So the text is cut at the positions that the parser notes, and the result
is parsed again: if it is not the intended data, the file is not touched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from yaml.nodes import MappingNode, Node, SequenceNode

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer, with_value, without_value
from trainwright.documents import yamlio
from trainwright.documents.yamlio import Document

_BOM = "\ufeff"
_DURATION = re.compile(r"(?:[0-9]+[dhms])+")  # a string to every YAML reader, quoted or not


class EditError(TrainwrightError):
    """The file cannot be changed without touching more than the requested value."""


def put(file: str, raw: bytes, pointer: str, value: Data, *, note: str = "") -> bytes:
    """Return the file with a value set, in the style it is written in; a missing key is added.

    A `note` becomes the comment behind a key that is added. Raise EditError if the value cannot be
    set without changing others.
    """
    text = _text(raw)
    wanted = with_value(_data(file, raw), Pointer(pointer), value)
    for candidate in _puts(_Source(text), Pointer(pointer).parts, value, note):
        if _says(file, _bytes(raw, candidate), wanted):
            return _bytes(raw, candidate)
    shown = yamlio.inline(value)
    raise EditError(
        f"{file}: {Pointer(pointer).dotted} cannot be set here alone; write {shown} by hand"
    )


def drop(file: str, raw: bytes, pointer: str) -> bytes:
    """Return the file without a key and any block that this leaves empty. Raise EditError."""
    data, source = _data(file, raw), _Source(_text(raw))
    path = Pointer(pointer).parts
    while len(path) > 1 and source.alone(path):
        path = path[:-1]
    entry = source.find(path)
    if entry is not None:
        without = _bytes(raw, source.without(entry))
        if _says(file, without, without_value(data, Pointer.of(*path))):
            return without
    raise EditError(f"{file}: {Pointer(pointer).dotted} cannot be removed alone; do it by hand")


def lift(file: str, raw: bytes, key: str) -> bytes:
    """Return the file with what is in a top-level mapping at the top itself. Raises EditError."""
    data, source = _data(file, raw), _Source(_text(raw))
    entry, inside = source.find((key,)), data.get(key)
    if entry is not None and isinstance(inside, Mapping) and not entry.elsewhere:
        rest = without_value(data, Pointer.of(key))
        lifted = _bytes(raw, source.lifted(entry))
        if not rest.keys() & inside.keys() and _says(file, lifted, {**rest, **inside}):
            return lifted
    raise EditError(f"{file}: what is in {key} cannot be moved to the top alone; do it by hand")


def note(raw: bytes, pointer: str) -> str:
    """Return the comment after a value on its line, without the hash, or "" if there is none."""
    source = _Source(_text(raw))
    entry = source.find(Pointer(pointer).parts)
    if entry is None or entry.elsewhere:
        return ""
    rest = source.rest_of_line(entry.end).strip()
    return rest.removeprefix("#").strip() if rest.startswith("#") else ""


# --- the text as nodes ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Entry:
    """A key and its value in a mapping, by the offsets at which they stand."""

    key: Node
    value: Node
    mapping: MappingNode

    @property
    def start(self) -> int:
        return _start(self.key)

    @property
    def elsewhere(self) -> bool:
        """Whether the value is an alias, whose marks are those of its anchor."""
        return _start(self.value) < _stop(self.key)

    @property
    def end(self) -> int:
        return _end(self.value)


def _start(node: Node) -> int:
    assert node.start_mark is not None
    return node.start_mark.index


def _stop(node: Node) -> int:
    assert node.end_mark is not None
    return node.end_mark.index


def _end(node: Node) -> int:
    """Return where a node's last value ends: a block's own end includes trailing comments."""
    if isinstance(node, MappingNode | SequenceNode) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(last[1] if isinstance(last, tuple) else last)
    return _stop(node)


class _Source:
    """A text with its nodes."""

    def __init__(self, text: str):
        self.text = text
        self.root = yamlio.compose(text)
        self.newline = "\r\n" if "\r\n" in text else "\n"

    def entries(self, mapping: MappingNode) -> list[_Entry]:
        return [_Entry(key, value, mapping) for key, value in mapping.value]

    def entry(self, mapping: MappingNode, key: str) -> _Entry | None:
        """Return the entry of a mapping that is written there and not merged in, or None."""
        return next((e for e in self.entries(mapping) if e.key.value == key), None)

    def find(self, path: tuple[str, ...]) -> _Entry | None:
        """Return the entry at a path, or None if it is absent or an alias leads to it."""
        mapping, entry = self.root, None
        for key in path:
            if entry is not None:
                if not isinstance(entry.value, MappingNode) or entry.elsewhere:
                    return None
                mapping = entry.value
            entry = self.entry(mapping, key)
            if entry is None:
                return None
        return entry

    def alone(self, path: tuple[str, ...]) -> bool:
        """Whether an entry is the only one of its block."""
        entry = self.find(path)
        return entry is not None and not entry.mapping.flow_style and len(entry.mapping.value) == 1

    def rest_of_line(self, at: int) -> str:
        return self.text[at : self.line_end(at)]

    def line_end(self, at: int) -> int:
        end = self.text.find("\n", at)
        return len(self.text) if end < 0 else end

    def next_line(self, at: int) -> int:
        """Return where the line after an offset begins: after a literal block, at the offset."""
        return at if self.text[:at].endswith("\n") else min(self.line_end(at) + 1, len(self.text))

    def lifted(self, entry: _Entry) -> str:
        """Return the text with the lines of a mapping in place of its key, without their indent."""
        text, value = self.text, entry.value
        assert isinstance(value, MappingNode)
        start = text.rfind("\n", 0, entry.start) + 1
        first, stop = self.next_line(_stop(entry.key)), self.next_line(entry.end)
        if value.flow_style:
            fields = self.entries(value)
            lines = [text[field.start : field.end] + self.newline for field in fields]
        else:
            indent = fields[0].key.start_mark.column if (fields := self.entries(value)) else 0
            lines = [
                line[indent:] if line.strip() and not line[:indent].strip() else line
                for line in text[first:stop].splitlines(keepends=True)
            ]
        return text[:start] + "".join(lines) + text[stop:]

    def without(self, entry: _Entry) -> str:
        """Return the text without an entry, and without its lines if nothing else is on them."""
        text, entries = self.text, self.entries(entry.mapping)
        index = next(i for i, other in enumerate(entries) if other.key is entry.key)
        if not entry.mapping.flow_style:
            start = text.rfind("\n", 0, entry.start) + 1
            stop = self.next_line(entry.end)
            if stop == len(text) and not text.endswith("\n"):
                start = len(text[:start].removesuffix("\n").removesuffix("\r"))
            return text[:start] + text[stop:]
        stop = entry.end
        if (comment := self.rest_of_line(stop).strip()).startswith("#"):
            stop = self.line_end(text.index(comment, stop)) + 1
        if index:
            return text[: entries[index - 1].end] + text[stop:]
        following = entries[1].start if len(entries) > 1 else stop
        return text[: entry.start] + text[following:]


# --- setting -------------------------------------------------------------------------------------


def _puts(source: _Source, path: tuple[str, ...], value: Data, note: str) -> Iterator[str]:
    """Yield texts in which the value is set in different ways, the most natural first."""
    mapping = source.root
    for depth, key in enumerate(path):
        entry = source.entry(mapping, key)
        rest = path[depth + 1 :]
        nested = with_value(None, Pointer.of(*rest), value)
        if entry is None:
            yield from _inserted(source, mapping, key, nested, note)
            return
        if entry.elsewhere:
            return
        if not rest or not isinstance(entry.value, MappingNode):
            yield from _replaced(source, entry, nested)
            return
        mapping = entry.value


def _replaced(source: _Source, entry: _Entry, value: Data) -> Iterator[str]:
    """Yield the text with another value of an entry, in the styles that may fit."""
    start, end = _start(entry.value), entry.end
    old = source.text[start:end]
    if old.startswith(("&", "!")):  # others may refer to it
        return
    end -= len(old) - len(old.rstrip("\r\n"))  # a literal block reaches to the next line
    before = source.text[_stop(entry.key) : start]
    if not old:
        before += " "
    elif "\n" in before and "#" not in before:  # a block that begins on its own line
        before = ": "
    head, tail = source.text[: _stop(entry.key)] + before, source.text[end:]
    if _many_lines(value) and not entry.mapping.flow_style and not source.rest_of_line(end).strip():
        yield head + _block(source, entry.key, value) + tail
    yield head + _styled(old, value) + tail


def _inserted(
    source: _Source, mapping: MappingNode, key: str, value: Data, note: str
) -> Iterator[str]:
    """Yield the text with a new entry of a mapping, at the places that may fit."""
    entries, text = source.entries(mapping), source.text
    name, behind = yamlio.inline(key), f" # {note}" if note else ""
    if mapping.flow_style:
        written = f"{name}: {yamlio.inline(value)}{behind}{source.newline if note else ''}"
        if not entries:
            at = _start(mapping) + 1
            yield f"{text[:at]}{written}{text[at:]}"
        else:
            at = entries[-1].end
            yield f"{text[:at]}, {written}{text[at:]}"
        return
    assert mapping.start_mark is not None
    indent = " " * mapping.start_mark.column
    for entry in reversed(entries):  # after the last one, or before if that takes in what follows
        shown = _block(source, entry.key, value) if _many_lines(value) else yamlio.inline(value)
        at = source.next_line(_stop(entry.key) if entry.elsewhere else entry.end)
        line = f"{indent}{name}: {shown}{behind}"
        if at == len(text) and not text.endswith("\n"):
            yield f"{text}{source.newline}{line}"
        else:
            yield f"{text[:at]}{line}{source.newline}{text[at:]}"


def _many_lines(value: Data) -> bool:
    return isinstance(value, str) and "\n" in value.rstrip("\n")


def _block(source: _Source, key: Node, value: str) -> str:
    """Return a literal block below a key, without the last line end."""
    assert key.start_mark is not None
    indent = " " * key.start_mark.column
    dumped = yamlio.dump({"k": yamlio.Block(value)}).removeprefix("k: ").removesuffix("\n")
    first, *lines = dumped.split("\n")
    return source.newline.join([first, *(f"{indent}{line}" if line else "" for line in lines)])


def _styled(old: str, value: Data) -> str:
    """Return a value as YAML, quoted like the one that it replaces."""
    if isinstance(value, str) and value.isprintable():
        if _DURATION.fullmatch(old) and _DURATION.fullmatch(value):
            return value
        if old.startswith('"'):
            return json.dumps(value, ensure_ascii=False)
        if old.startswith("'"):
            return "'{}'".format(value.replace("'", "''"))
    return yamlio.inline(value)


# --- what is meant, and whether it is said -------------------------------------------------------


def _text(raw: bytes) -> str:
    return raw.decode("utf-8").removeprefix(_BOM)


def _bytes(like: bytes, text: str) -> bytes:
    return ((_BOM if like.startswith(_BOM.encode()) else "") + text).encode()


def _data(file: str, raw: bytes) -> Data:
    document = yamlio.parse(file, raw)
    if not isinstance(document, Document):
        finding = document[0]
        raise EditError(f"{finding.place}: {finding.message}; run `trainwright check`")
    return document.data


def _says(file: str, raw: bytes, wanted: Data) -> bool:
    """Whether a text parses to the wanted data. Compared as JSON, where 1, 1.0 and true differ."""
    document = yamlio.parse(file, raw)
    if not isinstance(document, Document):
        return False
    present, meant = (json.dumps(data, sort_keys=True) for data in (document.data, wanted))
    return present == meant
