"""The only YAML: bytes to plain data with the position of every value, and data back to text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import TypeAlias

import yaml
from yaml.constructor import ConstructorError, SafeConstructor
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.not_as_meant import explanations, is_rest_of_number
from trainwright.documents.yaml_syntax import Fault, explain, missing_space
from trainwright.documents.yamltext import HalfCharacterError, Masked, masked
from trainwright.findings import diagnostics as dx
from trainwright.findings.visibility import hidden

MAX_BYTES = 256 * 1024  # a job spec is some 2 kB; the largest inlined script people have shown, 60
MAX_DEPTH = 64
MAX_VALUES = 20_000  # after aliases are expanded, so that ten lines cannot become a gigabyte

# libyaml's composer recurses in C and takes the process down at some tens of thousands of levels,
# so text that could nest deeper than this is first walked event by event, which does not recurse.
_SUSPICIOUS_DEPTH = 500

Unseen: TypeAlias = tuple[tuple[Location, str], ...]  # where a character is, and its whole line


@dataclass(frozen=True, slots=True)
class Document:
    """One parsed file. Positions are (line, column) from 0, by JSON pointer.

    `places` are where values start, `keys` where their keys do (list items have no key). `above`
    are the lines of the file before the text that was read, where that was only a part of it.
    `written` are the texts of numbers that could be written differently, `blocks` the first
    characters of literal blocks, whose lines are those of the text. `unseen` are the places of
    invisible or confusable characters, in comments too, with their lines.
    """

    file: str
    data: Data
    places: Mapping[str, tuple[int, int]]
    keys: Mapping[str, tuple[int, int]]
    above: int = 0
    written: Mapping[str, str] = field(default_factory=dict)
    blocks: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unseen: Unseen = ()

    def place_in(self, pointer: str, line: int, column: int) -> Location:
        """Return where a character of a text is, or where a text that is not a literal block is."""
        if pointer not in self.blocks:
            return self.place(pointer)
        first, indent = self.blocks[pointer]
        return Location(self.file, self.above + first + line + 1, indent + column + 1)

    def place(self, pointer: str) -> Location:
        """Return where the value is, or the nearest mapping around it that was written."""
        while pointer and pointer not in self.places:
            pointer = Pointer(pointer).parent
        line, column = self.places.get(pointer, (0, 0))
        return Location(self.file, self.above + line + 1, column + 1)

    def key_place(self, pointer: str) -> Location:
        """Return where the key of a value is, for findings about the key itself."""
        if pointer not in self.keys:
            return self.place(pointer)
        line, column = self.keys[pointer]
        return Location(self.file, self.above + line + 1, column + 1)


class _Loader(yaml.CSafeLoader):
    """Scalars as YAML 1.2 and editors read them, minus what loses text.

    PyYAML's own YAML 1.1 makes `no` false, 12:30 the number 750 and 0123 the number 83. Numbers
    with a leading zero, dates, infinities and NaN stay the strings that were written.
    https://yaml.org/spec/1.2.2/#1032-tag-resolution
    """


_STR, _SEQ, _MAP, _MERGE, _NULL, _BOOL, _INT, _FLOAT = (
    f"tag:yaml.org,2002:{kind}"
    for kind in ("str", "seq", "map", "merge", "null", "bool", "int", "float")
)
_Loader.yaml_implicit_resolvers = {}
for _tag, _pattern, _first in (
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        _FLOAT,
        r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?",
        list("-+.0123456789"),
    ),
    (_MERGE, r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), _first)

# Escapes can bring in what YAML itself cannot carry, and JSON readers then disagree.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")

_SCALARS: dict[str, Callable[[str], Data]] = {
    _STR: str,
    _NULL: lambda text: None,
    _BOOL: lambda text: text.lower() == "true",
    _INT: lambda text: int(text, 0),
    _FLOAT: float,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How scalars are read: `loader` gives plain ones a tag, `scalars` turns the text of each tag
    into data.

    `key` turns a key that is no string into one; where it is None such a key is refused. So are
    control characters that escapes bring into strings, unless `controls` allows them.
    """

    loader: type[yaml.CSafeLoader]
    scalars: Mapping[str, Callable[[str], Data]]
    key: Callable[[Data], str] | None = None
    controls: bool = False


CORE = Dialect(loader=_Loader, scalars=_SCALARS)


def parse(file: str, raw: bytes) -> Document | tuple[Finding, ...]:
    """Return the document in a YAML text, which must be one mapping, or findings if it is broken.

    Aliases and merge keys are expanded; values that they bring have the positions of the anchor.
    """
    try:
        text = _masked(_decode(raw, MAX_BYTES), breaks=True)
        _refuse_deep_nesting(text.text)
        parsed = _built(file, _composed(text), _Builder(CORE, 0, MAX_VALUES, text.text))
    except UNREADABLE as error:
        return _unreadable(file, error, raw, 0)
    return replace(parsed, unseen=unseen(file, raw)) if isinstance(parsed, Document) else parsed


def unseen(file: str, raw: bytes) -> Unseen:
    """Return the lines of a text that have an invisible or confusable character."""
    if raw.isascii() and raw.count(b"\r") == raw.count(b"\r\n"):  # YAML has no other controls
        return ()
    try:
        return tuple(_unseen(file, raw.decode("utf-8").removeprefix("\ufeff")))
    except UnicodeDecodeError:  # which is a finding where it is parsed
        return ()


def _unseen(file: str, text: str) -> Iterator[tuple[Location, str]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if character := hidden(line.removesuffix("\r")):
            yield Location(file, number, line.index(character) + 1), line


def documents(
    file: str, raw: bytes, dialect: Dialect, *, above: int = 0, limit: int = MAX_BYTES
) -> Iterator[Document | tuple[Finding, ...]]:
    """Yield every document of a text, whatever its type, or the findings if it is broken.

    The text begins after `above` lines of its file and may have `limit` bytes. Nothing can be read
    after text that is not YAML.
    """
    try:
        text = _masked(_decode(raw, limit).removeprefix("\ufeff"), breaks=False)
        _refuse_deep_nesting(text.text)
        # without aliases there is no value without a character
        most = max(MAX_VALUES, len(text.text))
        loader = dialect.loader(text.text)
        try:
            while loader.check_node():
                node = text.restored(loader.get_node())
                assert node is not None
                yield _built(file, node, _Builder(dialect, above, most))
        finally:
            loader.dispose()
    except UNREADABLE as error:
        yield _unreadable(file, error, raw, above)


def _built(file: str, node: Node, builder: _Builder) -> Document | tuple[Finding, ...]:
    try:
        data = builder.build(node, Pointer(), 0)
    except _Refusal as refusal:
        return (refusal.finding(file, builder.above),)
    if builder.mistakes:
        return tuple(refusal.finding(file, builder.above) for refusal in builder.mistakes)
    return Document(
        file,
        data,
        builder.places,
        builder.keys,
        builder.above,
        written=builder.written,
        blocks=builder.blocks,
    )


def _unreadable(file: str, error: Exception, raw: bytes, above: int) -> tuple[Finding, ...]:
    if isinstance(error, _Refusal):
        return (error.finding(file, above),)
    if isinstance(error, yaml.MarkedYAMLError):
        return (_syntax_finding(file, error, raw, above),)
    if isinstance(error, yaml.YAMLError):
        return (_reader_finding(file, error, raw, above),)
    return (dx.UNSAFE.at(Location(file, above + 1), "the values nest too deeply"),)


class _Refusal(Exception):
    """What is refused, and at which (line, column) from 0."""

    def __init__(self, kind: dx.Diagnostic, message: str, at: tuple[int, int], remedy: str = ""):
        super().__init__(message)
        self.kind, self.message, self.at, self.remedy = kind, message, at, remedy

    def finding(self, file: str, above: int) -> Finding:
        line, column = self.at
        place = Location(file, above + line + 1, column + 1)
        return self.kind.at(place, self.message, remedy=self.remedy)


UNREADABLE = (_Refusal, yaml.YAMLError, RecursionError)


def _decode(raw: bytes, limit: int) -> str:
    if len(raw) > limit:
        raise _Refusal(
            dx.UNSAFE,
            f"the file has {len(raw):,} bytes, the limit is {limit:,}",
            (0, 0),
            "Keep data out of specs: mount it, or put it into the image.",
        )
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        before = raw[: error.start]
        column = error.start - (before.rfind(b"\n") + 1)
        message = f"byte 0x{raw[error.start]:02x} is not UTF-8"
        raise _Refusal(dx.ENCODING, message, (before.count(b"\n"), column)) from None


_BREAK = re.compile(r"\r\n|[\r\n\x85\u2028\u2029]")  # as libyaml counts lines
_BLOCK_INDICATORS = re.compile(r"^[ ?:\-\t]+", re.MULTILINE)


def _refuse_deep_nesting(text: str) -> None:
    indent = max((len(match) for match in _BLOCK_INDICATORS.findall(text)), default=0)
    if text.count("[") + text.count("{") + indent < _SUSPICIOUS_DEPTH:
        return
    try:
        _refuse_deep_events(text)
    except yaml.MarkedYAMLError as error:
        if "nesting depth" in str(error.problem) and error.problem_mark is not None:
            # PyYAML from 6.0.4 on ends there, before it returns what it has read ahead.
            _refuse_deep_events(text[: error.problem_mark.index])
        raise


def _refuse_deep_events(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise _too_deep(event)


def _too_deep(marked: Node | yaml.Event) -> _Refusal:
    message = f"values nest more than {MAX_DEPTH} levels deep"
    return _Refusal(dx.UNSAFE, message, _position(marked))


def _position(marked: Node | yaml.Event) -> tuple[int, int]:
    mark = marked.start_mark
    return (mark.line, mark.column) if mark else (0, 0)


_FILL_IN = (
    "Write its value, or print the file with what fills it in, such as `helm template`; a text "
    "is quoted."
)


def compose(text: str) -> MappingNode:
    """Return the nodes of a text that `parse` accepts; their marks are the places of values."""
    return _composed(_masked(text, breaks=True))


def _masked(text: str, *, breaks: bool) -> Masked:
    try:
        return masked(text, breaks=breaks)
    except HalfCharacterError as error:
        at = error.offset
        where = text.count("\n", 0, at), at - text.rfind("\n", 0, at) - 1
        remedy = "Write the character itself, or both of its escapes."
        raise _Refusal(dx.ENCODING, str(error), where, remedy) from None


def _composed(text: Masked) -> MappingNode:
    loader = _Loader(text.text)
    try:
        node = text.restored(loader.get_node()) if loader.check_node() else None
        if node is None:
            raise _Refusal(dx.SHAPE, "the file is empty", (0, 0))
        if loader.check_node():
            second = loader.get_node()
            at = _position(second) if second else (0, 0)
            raise _Refusal(dx.SHAPE, "a second document starts here", at, "Use one file per spec.")
    finally:
        loader.dispose()
    if not isinstance(node, MappingNode):
        what = "a list" if isinstance(node, SequenceNode) else "a single value"
        meant = missing_space(node.value) if isinstance(node, ScalarNode) else ""
        remedy = f"A colon needs a space behind it: `{meant}`." if meant else ""
        raise _Refusal(dx.SHAPE, f"expected a mapping, found {what}", _position(node), remedy)
    return node


class _Builder:
    """Turns composed nodes into data, noting where each value was written."""

    def __init__(self, dialect: Dialect, above: int, most: int, text: str = "") -> None:
        self.places: dict[str, tuple[int, int]] = {}
        self.keys: dict[str, tuple[int, int]] = {}
        self.written: dict[str, str] = {}
        self.blocks: dict[str, tuple[int, int]] = {}
        self._text = text
        self.mistakes: list[_Refusal] = []
        self.count = 0
        self.above = above
        self._most = most
        self._dialect = dialect
        self._constructor = SafeConstructor()

    def build(self, node: Node, pointer: Pointer, depth: int) -> Data:
        mark = node.start_mark
        self.places[pointer] = (mark.line, mark.column)
        self.count += 1
        if self.count > self._most:
            message = f"aliases expand to more than {self._most:,} values"
            raise _Refusal(dx.UNSAFE, message, (mark.line, mark.column))
        if depth > MAX_DEPTH:
            raise _too_deep(node)
        if isinstance(node, ScalarNode):
            value = self._scalar(node)
            if node.tag == _FLOAT or (node.tag == _INT and str(value) != node.value):
                self.written[pointer] = node.value
            if node.style == "|" and self._text:
                self.blocks[pointer] = self._first_of_block(mark.line + 1)
            return value
        if self._dialect.key is None:
            self.mistakes += (
                _Refusal(dx.SYNTAX, found.message, found.at, found.remedy)
                for found in explanations(node)
            )
        if isinstance(node, MappingNode) and node.tag == _MAP:
            return self._mapping(node, pointer, depth + 1)
        if isinstance(node, SequenceNode) and node.tag == _SEQ:
            return [
                self.build(item, pointer / index, depth + 1)
                for index, item in enumerate(node.value)
            ]
        raise _custom_tag(node)

    def _first_of_block(self, line: int) -> tuple[int, int]:
        """Return the first line of a literal block, and its indentation: that of its first text."""
        filled = (text for text in self._text.split("\n")[line:] if text.strip())
        text = next(filled, "")
        return line, len(text) - len(text.lstrip(" "))

    def _scalar(self, node: ScalarNode) -> Data:
        construct = self._dialect.scalars.get(node.tag)
        if construct is None:
            raise _custom_tag(node)
        try:
            value = construct(node.value)
        except ValueError:
            message = f"{node.value!r} is not a valid {node.tag.rpartition(':')[2]}"
            raise _Refusal(dx.SYNTAX, message, _position(node)) from None
        if not self._dialect.controls and isinstance(value, str):
            _refuse_controls(value, node)
        if isinstance(value, float) and not math.isfinite(value):
            raise _Refusal(dx.SYNTAX, f"{node.value} is not a finite number", _position(node))
        return value

    def _mapping(self, node: MappingNode, pointer: Pointer, depth: int) -> dict[str, Data]:
        pairs = node.value
        if any(key.tag == _MERGE for key, _ in pairs):
            own = [(key, value) for key, value in pairs if key.tag != _MERGE]
            self._note_duplicates(own)
            pairs = self._flatten(node)
        data: dict[str, Data] = {}
        last: tuple[Node, Node] | None = None
        for key_node, value_node in pairs:
            if node.flow_style and is_rest_of_number(key_node, value_node, last):
                continue
            last = key_node, value_node
            key = self._key(key_node)
            child = pointer / key
            if key in data and pairs is node.value:
                self.mistakes.append(self._duplicate(key_node, key, self.keys[child]))
                continue
            mark = key_node.start_mark
            self.keys[child] = (mark.line, mark.column)
            data[key] = self.build(value_node, child, depth)
        return data

    def _key(self, node: Node) -> str:
        if isinstance(node, ScalarNode) and node.tag == _STR:
            return str(node.value)
        if isinstance(node, ScalarNode) and self._dialect.key and node.tag != _NULL:
            return self._dialect.key(self._scalar(node))
        if isinstance(node, ScalarNode) and node.tag in _SCALARS:
            kind = node.tag.rpartition(":")[2]
            message = f"the key {node.value!r} reads as a {kind}, not as a string"
            raise _Refusal(dx.SHAPE, message, _position(node), f'Quote it: "{node.value}".')
        if isinstance(node, MappingNode) and node.flow_style:
            message = "{{…}} is a placeholder of a template, which nothing fills in here"
            raise _Refusal(dx.SHAPE, message, _position(node), _FILL_IN)
        raise _Refusal(dx.SHAPE, "a key must be a plain string", _position(node))

    def _note_duplicates(self, pairs: list[tuple[Node, Node]]) -> None:
        seen: dict[str, tuple[int, int]] = {}
        for key_node, _ in pairs:
            key = self._key(key_node)
            if key in seen:
                self.mistakes.append(self._duplicate(key_node, key, seen[key]))
            seen.setdefault(key, _position(key_node))

    def _duplicate(self, node: Node, key: str, first: tuple[int, int]) -> _Refusal:
        message = f'the key "{key}" is here twice, first on line {self.above + first[0] + 1}'
        return _Refusal(dx.DUPLICATE_KEY, message, _position(node))

    def _flatten(self, node: MappingNode) -> list[tuple[Node, Node]]:
        copy = MappingNode(node.tag, list(node.value), node.start_mark, node.end_mark)
        self._refuse_recursive_merge(copy, set())
        self._constructor.flatten_mapping(copy)
        flattened: list[tuple[Node, Node]] = copy.value
        return flattened

    def _refuse_recursive_merge(self, node: Node, above: set[int]) -> None:
        """Raise _Refusal if merge keys lead from a node to itself, or to one of those `above`."""
        if id(node) in above or len(above) > MAX_DEPTH:
            raise _Refusal(dx.UNSAFE, "a merge key brings in itself", _position(node))
        for key, value in node.value if isinstance(node, MappingNode) else ():
            if key.tag == _MERGE:
                merged = value.value if isinstance(value, SequenceNode) else [value]
                for source in merged:
                    self._refuse_recursive_merge(source, above | {id(node)})


def _refuse_controls(value: str, node: Node) -> None:
    if match := _CONTROL.search(value):
        message = f"the value contains the control character {match.group()!r}"
        raise _Refusal(dx.UNSAFE, message, _position(node), "Remove the character.")


def _custom_tag(node: Node) -> _Refusal:
    tag = node.tag.replace("tag:yaml.org,2002:", "!!")
    return _Refusal(dx.UNSAFE, f"the tag {tag} is not allowed", _position(node))


def _syntax_finding(file: str, error: yaml.MarkedYAMLError, raw: bytes, above: int) -> Finding:
    mark = error.problem_mark or error.context_mark
    place = (
        Location(file, above + mark.line + 1, mark.column + 1)
        if mark
        else Location(file, above + 1)
    )
    problem = error.problem or error.context or "not YAML"
    kind = dx.UNSAFE if isinstance(error, ConstructorError) else dx.SYNTAX
    since = error.context_mark
    if mark and kind is dx.SYNTAX:
        fault = Fault(
            lines=tuple(_BREAK.split(raw.decode("utf-8", "replace").removeprefix("\ufeff"))),
            above=above,
            problem=problem,
            at=(mark.line, mark.column),
            context=error.context or "",
            since=(since.line, since.column) if since else None,
        )
        if explanation := explain(fault):
            place = Location(file, above + explanation.at[0] + 1, explanation.at[1] + 1)
            return kind.at(place, explanation.message, remedy=explanation.remedy)
    aliased = "undefined alias" in problem or "anchor" in problem
    remedy = "Anchors live within one file; use `extends` to share between files."
    return kind.at(place, problem, remedy=remedy if aliased else "")


def _reader_finding(file: str, error: yaml.YAMLError, raw: bytes, above: int) -> Finding:
    """Return a finding at the first control character: libyaml's reader gives no position."""
    text = raw.decode("utf-8", "replace")
    match = re.search(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    if match is None:
        return dx.SYNTAX.at(Location(file, above + 1), " ".join(str(error).split()))
    before = text[: match.start()]
    place = Location(file, above + before.count("\n") + 1, match.start() - before.rfind("\n"))
    return dx.SYNTAX.at(place, f"the control character {match.group()!r} is not allowed in YAML")


def load_rendered(text: str) -> list[dict[str, Data]]:
    """Return the objects of a file that Helm rendered of our own chart, which is trusted.

    Building the data here takes half the time of PyYAML's constructor, in the hottest place.
    """
    return [_plain(node) for node in yaml.compose_all(text, Loader=_Loader)]


def _plain(node: Node | None) -> Data:
    if isinstance(node, MappingNode):
        return {key.value: _plain(value) for key, value in node.value}
    if isinstance(node, SequenceNode):
        return [_plain(item) for item in node.value]
    assert node is not None
    return node.value if node.tag == _STR else _SCALARS[node.tag](node.value)


# --- writing -----------------------------------------------------------------------------------

# Strings every reader takes for strings without quotes. Anything else is quoted: PyYAML and Go
# disagree on 1e3, 0o7, 12:30, y and more, and a promoted tag has been lost that way
# (akuity/kargo#3236).
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./@-]*")
_WORDS = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"])


def plain(data: Data) -> Data:
    """Return data with plain strings: a compiled schema accepts no subclass of `str`."""
    if isinstance(data, str):  # first, as most values are
        return str(data)
    if isinstance(data, Mapping):
        return {str(key): plain(value) for key, value in data.items()}
    return [plain(value) for value in data] if isinstance(data, list | tuple) else data


class Block(str):
    """Text of several lines that people read in place, so it is written as a literal block."""


class _FlowMap(dict[str, Data]):
    """A mapping that is written on one line."""


class _FlowList(list[Data]):
    """A list that is written on one line."""


_WIDTH = 88  # columns of a collection that is written on one line, with its key


def dump(data: dict[str, Data], *, blocks: bool = False, flows: bool = False) -> str:
    """Return block YAML with keys in the order given, read back identically by PyYAML and by Go.

    With `blocks` every text of several lines is a literal block, if it can be one; with `flows`
    what fits on a line is written on one, as people do.
    """
    shaped = _with_blocks(data) if blocks else data
    if flows:
        shaped = {key: _with_flows(value, _WIDTH - len(key) - 2) for key, value in shaped.items()}
    events = _events(shaped)
    text: str = yaml.emit(events, Dumper=yaml.CSafeDumper, width=1_000_000, allow_unicode=True)
    return text


# Text that a literal block would not preserve, by the same rule as in the chart's own helper. It
# takes 2 ms to compile, and few specs have a text of several lines.
_NOT_IN_BLOCKS = (
    r"(?m)\A[ \t\n]|\n\n\Z|^[ \t]+$|[^\t\n -~\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd"
    r"\U00010000-\U0010ffff]"
)


def _with_blocks(data: Data) -> Data:
    if isinstance(data, dict):
        return {key: _with_blocks(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_with_blocks(item) for item in data]
    readable = isinstance(data, str) and "\n" in data and not re.search(_NOT_IN_BLOCKS, data)
    return Block(data) if readable else data


def _with_flows(data: Data, room: int) -> Data:
    """Return data in which each collection that fits into `room` columns is written on one line."""
    if not isinstance(data, dict | list) or not data:
        return data
    if not _has_blocks(data) and len(inline(data)) <= room:
        return _FlowMap(data) if isinstance(data, dict) else _FlowList(data)
    if isinstance(data, list):
        return [_with_flows(item, room - 2) for item in data]
    return {key: _with_flows(value, room - len(key) - 4) for key, value in data.items()}


def _has_blocks(data: Data) -> bool:
    inside = data.values() if isinstance(data, dict) else data if isinstance(data, list) else ()
    return isinstance(data, Block) or any(map(_has_blocks, inside))


def inline(value: Data) -> str:
    """Return a value on one line, valid after any key of a YAML file that people write."""
    events = _events({"k": value}, flow=True)
    text: str = yaml.emit(events, Dumper=yaml.CSafeDumper, width=1_000_000, allow_unicode=True)
    return text[len("{k: ") : -len("}\n")]


# Events carry no state of their own, and a thousand jobs share most of them.
_STREAM_START, _STREAM_END = yaml.StreamStartEvent(), yaml.StreamEndEvent()
_DOCUMENT_START = yaml.DocumentStartEvent(explicit=False)
_DOCUMENT_END = yaml.DocumentEndEvent(explicit=False)
_MAP_START, _MAP_END = (
    {flow: yaml.MappingStartEvent(None, None, True, flow_style=flow) for flow in (False, True)},
    yaml.MappingEndEvent(),
)
_SEQ_START, _SEQ_END = (
    {flow: yaml.SequenceStartEvent(None, None, True, flow_style=flow) for flow in (False, True)},
    yaml.SequenceEndEvent(),
)


def _events(data: Data, *, flow: bool = False) -> list[yaml.Event]:
    events: list[yaml.Event] = [_STREAM_START, _DOCUMENT_START]
    _add_events(data, events.append, flow=flow)
    return [*events, _DOCUMENT_END, _STREAM_END]


def _add_events(data: Data, add: Callable[[yaml.Event], None], *, flow: bool = False) -> None:
    flow = flow or isinstance(data, (_FlowMap, _FlowList))  # a union is slower
    if isinstance(data, dict):
        add(_MAP_START[flow or not data])
        for key, value in data.items():
            add(_string_event(key))
            _add_events(value, add, flow=flow)
        add(_MAP_END)
    elif isinstance(data, (list, tuple)):
        add(_SEQ_START[flow or not data])
        for item in data:
            _add_events(item, add, flow=flow)
        add(_SEQ_END)
    elif isinstance(data, Block):
        add(yaml.ScalarEvent(None, None, (False, True), str(data), style="|"))
    else:
        add(_string_event(data) if isinstance(data, str) else _plain_event(data))


@lru_cache(maxsize=4096)
def _string_event(value: str) -> yaml.ScalarEvent:
    plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
    return yaml.ScalarEvent(None, None, (True, True), value, style=None if plain else '"')


def _plain_event(value: Data) -> yaml.ScalarEvent:
    words = {None: "null", True: "true", False: "false"}
    text = words[value] if value is None or isinstance(value, bool) else _number(value)
    return yaml.ScalarEvent(None, None, (True, False), text)


def _number(value: float) -> str:
    """Return a number that both YAML parsers read alike: PyYAML needs a dot before an exponent."""
    text = repr(value)
    mantissa, exponent, power = text.partition("e")
    if exponent and "." not in mantissa:
        mantissa += ".0"
    return f"{mantissa}{exponent}{power}"
