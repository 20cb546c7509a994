"""Tests in shell scripts, such as `[ -z "$X" ]`: whether they hold, if their words are known."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from operator import eq, ge, gt, le, lt, ne
from typing import TYPE_CHECKING, TypeAlias

from trainwright.datatypes.data import digits

if TYPE_CHECKING:
    from tree_sitter import Node

# Returns the text of a word, or None where only the running script knows it.
Expand: TypeAlias = "Callable[[Node], str | None]"
_OPERATORS = (
    ("-eq", eq),
    ("-ne", ne),
    ("-lt <", lt),
    ("-le <=", le),
    ("-gt >", gt),
    ("-ge >=", ge),
)
_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    sign: compare for signs, compare in _OPERATORS for sign in signs.split()
}


def holds(node: Node, expand: Expand) -> bool | None:
    """Return whether a test holds, or None if that is not known."""
    if node.type in ("test_command", "parenthesized_expression"):
        inside = node.named_children
        return holds(inside[0], expand) if len(inside) == 1 else None
    if node.type == "unary_expression":
        return _unary(node, expand)
    if node.type == "binary_expression" and len(node.children) == 3:
        return _binary(node, expand)
    return None


def _unary(node: Node, expand: Expand) -> bool | None:
    sign, operand = _text(node.children[0]), node.children[-1]
    if sign == "!":
        inside = holds(operand, expand)
        return None if inside is None else not inside
    value = expand(operand) if sign in ("-z", "-n") else None
    return None if value is None else (value == "") is (sign == "-z")


def _binary(node: Node, expand: Expand) -> bool | None:
    left, sign, right = node.children[0], _text(node.children[1]), node.children[2]
    if sign in ("&&", "||"):
        operands = (holds(left, expand), holds(right, expand))
        decisive = sign == "||"
        if decisive in operands:
            return decisive
        return None if None in operands else not decisive
    first, second = expand(left), expand(right)
    if first is None or second is None:
        return None
    if sign in ("=", "==", "!="):
        is_equal = fnmatchcase(first, second) if right.type != "string" else first == second
        return is_equal is (sign != "!=")
    number, other = digits(first), digits(second)
    if sign in _NUMBERS and number is not None and other is not None:
        return _NUMBERS[sign](number, other)
    return None


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace").strip()
