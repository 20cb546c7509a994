"""Valid YAML that says something else than it seems to: what was probably meant."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from trainwright.documents.yaml_syntax import (
    Explanation,
    Place,
    missing_colon,
    missing_space,
    shown_pair,
)

_CURLY = re.compile(
    "[\u201c\u201d\u201e\u00ab\u00bb](?P<double>.*)[\u201c\u201d\u00ab\u00bb]"
    "|[\u2018\u2019\u201a](?P<single>.*)[\u2018\u2019]"
)
_CLOSING = ("\u201d", "\u2019", "\u00bb")
_DIGITS = re.compile(r"\d[\d.eE+-]*")
_WHOLE = re.compile(r"-?\d+")
_IN_CURLY = "is in curly quotes, which are part of the text in YAML"


def explanations(node: Node) -> Iterator[Explanation]:
    """Yield what is not as meant directly in a mapping or a list."""
    if isinstance(node, MappingNode):
        last: tuple[Node, Node] | None = None
        for key, value in node.value:
            yield from _of_entry(key, value, last if node.flow_style else None)
            last = key, value
    elif isinstance(node, SequenceNode):
        for item in node.value:
            if straight := _straight(item):
                shown = shown_pair("", item.value, "")
                meant = straight if shown == item.value else "…"
                yield Explanation(f"{shown} {_IN_CURLY}", _at(item), _write(meant))


def is_rest_of_number(key: Node, value: Node, last: tuple[Node, Node] | None) -> bool:
    """Whether an entry of a flow mapping is what follows a decimal comma: the 1 of `{lr: 0,1}`."""
    number = last[1] if last else None
    return (
        isinstance(number, ScalarNode)
        and isinstance(key, ScalarNode)
        and not (number.style or key.style)
        and _has_no_colon(key, value)
        and bool(_WHOLE.fullmatch(number.value) and _DIGITS.fullmatch(key.value))
        and number.end_mark.index + 1 == key.start_mark.index
    )


def _of_entry(key: Node, value: Node, last: tuple[Node, Node] | None) -> Iterator[Explanation]:
    if not isinstance(key, ScalarNode):
        return
    if last and is_rest_of_number(key, value, last):
        yield _decimal_comma(last, key)
    elif _straight(key) or _straight(value):
        yield _in_curly_quotes(key, value)
    elif not key.style and _has_no_colon(key, value):
        yield from _without_colon(key)


def _without_colon(key: ScalarNode) -> Iterator[Explanation]:
    """Yield what `{gpu:8}`, `{gpu 8}` and `{gpu}` mean: keys without a value in YAML."""
    if meant := missing_space(key.value):
        written = meant.replace(": ", ":", 1)  # without a credential's value
        yield Explanation(f'"{written}" has no space behind its colon', _at(key), _write(meant))
    elif meant := missing_colon(key.value):
        written = meant.replace(": ", " ", 1)
        name, _, text = meant.partition(": ")
        if match := _CURLY.fullmatch(text):
            meant = f"{name}: {_quoted(match)}"
        yield Explanation(f'"{written}" has no colon behind its key', _at(key), _write(meant))
    elif key.value.endswith(_CLOSING):
        message = (
            f"a text ends in {key.value[-1]}, which quotes nothing in YAML: its comma ended it"
        )
        yield Explanation(message, _at(key), 'Write " where the text begins and ends.')


def _in_curly_quotes(key: ScalarNode, value: Node) -> Explanation:
    name = json.loads(_straight(key)) if _straight(key) else key.value
    text = value.value if isinstance(value, ScalarNode) else ""
    plain = shown_pair(name, text)  # without a credential's value
    written = text if plain.endswith(text) else "…"
    meant = f"{name}: {_straight(value) or text}" if written == text else plain
    wrong = f"{key.value}: {written}" if _straight(value) else key.value
    meant = meant if text else f"{name}:"
    return Explanation(f"{wrong} {_IN_CURLY}", _at(key), _write(meant))


def _decimal_comma(last: tuple[Node, Node], rest: ScalarNode) -> Explanation:
    key, number = last
    written = f"{number.value},{rest.value}"
    ways = [f"{number.value}.{rest.value}", json.dumps(written)]
    if len(rest.value) == len("000"):
        ways.insert(0, f"{number.value}{rest.value}")
    listed = " or ".join(f"`{key.value}: {way}`" for way in ways)
    message = f'the comma in "{written}" ends the value, and {rest.value} is a key of its own'
    return Explanation(message, _at(key), f"Write {listed}.")


def _straight(node: Node) -> str:
    """Return a plain text in curly quotes with straight ones, or "" for any other."""
    if (
        not isinstance(node, ScalarNode)
        or node.style
        or not (match := _CURLY.fullmatch(node.value))
    ):
        return ""
    return _quoted(match)


def _quoted(match: re.Match[str]) -> str:
    return json.dumps(match["double"] or match["single"] or "", ensure_ascii=False)


def _has_no_colon(key: Node, value: Node) -> bool:
    return not value.value and bool(value.start_mark.index == key.end_mark.index)


def _write(meant: str) -> str:
    return f"Write `{meant}`."


def _at(node: Node) -> Place:
    return node.start_mark.line, node.start_mark.column
