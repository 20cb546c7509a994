"""Text prepared for libyaml: what it would read differently from YAML 1.2 is masked.

Every mask is as long as what it hides, so that all values keep their positions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field, replace

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from trainwright.datatypes.frozen import dataclass

# Line ends in YAML 1.1 and libyaml, which folds them and drops the blanks around them; content in
# YAML 1.2 and JSON. https://yaml.org/spec/1.2.2/#54-line-break-characters
_BREAKS = ("\x85", "\u2028", "\u2029")
LINE_BREAK = re.compile(r"\r\n|\r|\n")  # of YAML, which U+2028 is not
_BYTE_ORDER_MARK = "\ufeff"
_PRIVATE = range(0xE000, 0xF900)  # characters that texts hardly ever have, to stand in for others

# JSON escapes characters beyond 16 bits as surrogate pairs, which libyaml refuses.
_HALF = re.compile(r"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
_MASK = r"\\u0041"  # as a template of `re`: an escape that is read as one character
_ESCAPE = re.compile(
    r"\\u(?P<high>[dD][89abAB]..)\\u(?P<low>[dD][c-fC-F]..)|\\u(?P<half>[dD][89a-fA-F]..)|\\.",
    re.DOTALL,
)


class HalfCharacterError(ValueError):
    """The escape of half a surrogate pair, without the other half, at an offset of the text."""

    def __init__(self, escape: str, offset: int):
        super().__init__(f"the escape {escape} is half of a character, and the other is not there")
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Masked:
    """A text ready for the YAML composer, and what restores the original values in its nodes."""

    text: str
    breaks: dict[int, str] = field(default_factory=dict)  # by the character that stands for one
    pairs: dict[int, str] = field(default_factory=dict)  # values of quoted scalars, by offset

    def restored(self, node: Node | None) -> Node | None:
        """Return a composed node, with its values as they were written."""
        if node is None or not (self.breaks or self.pairs):
            return node
        for scalar in _scalars(node):
            assert scalar.start_mark is not None
            value = self.pairs.get(scalar.start_mark.index, scalar.value)
            scalar.value = str(value).translate(self.breaks)
        return node


def masked(text: str, *, breaks: bool) -> Masked:
    """Return a text without escaped surrogate pairs and, if `breaks` are content, without Unicode
    line breaks; each has a stand-in.

    Raise HalfCharacterError for half a pair, YAMLError for pairs that are escaped outside of YAML.
    """
    if text.startswith(_BYTE_ORDER_MARK):  # which libyaml leaves out when it counts
        rest = masked(text.removeprefix(_BYTE_ORDER_MARK), breaks=breaks)
        return replace(rest, text=_BYTE_ORDER_MARK + rest.text)
    stand_ins: dict[int, str] = {}
    if breaks and any(character in text for character in _BREAKS):
        free = (code for code in _PRIVATE if chr(code) not in text)
        stand_ins = dict(zip(free, _BREAKS, strict=False))
        text = text.translate({ord(real): code for code, real in stand_ins.items()})
    if not _HALF.search(text):
        return Masked(text, stand_ins)
    pairs: dict[int, str] = {}
    parts, done = [], 0
    for start, end in _quoted(_HALF.sub(_MASK, text)):
        inside = text[start:end]
        if _HALF.search(inside):
            at = start + inside.index('"')  # behind an anchor or a tag
            pairs[start] = _value(_joined(text[at:end], at))
            parts += [text[done:start], _HALF.sub(_MASK, inside)]
            done = end
    return Masked("".join([*parts, text[done:]]), stand_ins, pairs)


def _quoted(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each double-quoted scalar: only there do escapes count."""
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.ScalarEvent) and event.style == '"':
            assert event.start_mark is not None
            assert event.end_mark is not None
            yield event.start_mark.index, event.end_mark.index


def _joined(quoted: str, offset: int) -> str:
    """Return a double-quoted scalar with one escape for each surrogate pair."""

    def one(match: re.Match[str]) -> str:
        if match["half"]:
            raise HalfCharacterError(match[0], offset + match.start())
        if not match["high"]:
            return match[0]
        high, low = int(match["high"], 16), int(match["low"], 16)
        return f"\\U{0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00):08x}"

    return _ESCAPE.sub(one, quoted)


def _value(quoted: str) -> str:
    node = yaml.compose(quoted, Loader=yaml.CSafeLoader)
    assert isinstance(node, ScalarNode)
    return str(node.value)


def _scalars(root: Node) -> Iterator[ScalarNode]:
    """Yield every scalar below a node once, keys too, however often it is referred to."""
    seen: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, ScalarNode):
            yield node
        elif isinstance(node, SequenceNode):
            pending += node.value
        elif isinstance(node, MappingNode):
            pending += [part for pair in node.value for part in pair]
