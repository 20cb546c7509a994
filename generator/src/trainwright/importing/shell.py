"""What a shell script starts, found without running it: tree-sitter reads it, and nothing is run.

Variables have the values that the script itself gives them, one after the other. What only the
running script can know stays as it is written, with its dollar sign.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from trainwright.datatypes.frozen import dataclass
from trainwright.kinds.reading import ImportingError

if TYPE_CHECKING:
    from tree_sitter import Node

_MISSING = (
    "shell scripts are read by tree-sitter: pip install 'trainwright[slurm]' "
    "(tree-sitter, tree-sitter-bash)"
)
_BLOCKS = {
    "if_statement": "if",
    "elif_clause": "if",
    "else_clause": "if",
    "for_statement": "a loop",
    "c_style_for_statement": "a loop",
    "while_statement": "a loop",
    "case_statement": "case",
    "function_definition": "a function",
    "subshell": "a subshell",
}
# What the output of a pipeline of commands would be, or None where that is not known.
Substitute: TypeAlias = Callable[[Sequence[tuple[str, ...]]], str | None]
Value: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """One command that a script starts, its words expanded as far as they are known.

    `environment` are the variables that the script exports by then, and those in front of the
    command. `block` is what it stands in ("if", "a loop"), empty at the top of the script.
    """

    words: tuple[str, ...]
    line: int
    column: int
    environment: Mapping[str, str] = field(default_factory=dict)
    block: str = ""


def commands(
    text: str, variables: Mapping[str, str], substitute: Substitute
) -> tuple[ShellCommand, ...]:
    """Return the commands of a script in their order, given the variables that it starts with."""
    try:
        from tree_sitter import Language, Parser
        from tree_sitter_bash import language
    except ModuleNotFoundError as error:
        raise ImportingError(_MISSING) from error
    root = Parser(Language(language())).parse(text.encode()).root_node
    script = _Script(dict(variables), substitute)
    return tuple(script.run(root, ""))


class _Script:
    """The variables of a script from one command to the next."""

    def __init__(self, variables: dict[str, Value], substitute: Substitute):
        self._variables = variables
        self._exported: dict[str, None] = {}
        self._substitute = substitute

    def run(self, node: Node, block: str) -> Iterator[ShellCommand]:
        """Yield the commands below a node, and take its assignments."""
        if node.type == "command":
            yield self._command(node, block)
        elif node.type == "variable_assignment":
            self._assign(node)
        elif node.type == "declaration_command":
            self._declare(node)
        elif node.type not in ("comment", "heredoc_redirect", "file_redirect"):
            inside = _BLOCKS.get(node.type, block)
            for child in node.named_children:
                yield from self.run(child, inside)

    def _command(self, node: Node, block: str) -> ShellCommand:
        own: dict[str, str] = {}
        words: list[str] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = self._assignment(child)
                own[name] = _joined(value)
            elif child.type not in ("file_redirect", "herestring_redirect"):
                inner = child.named_children[0] if child.type == "command_name" else child
                words += self._words(inner)
        if words[:1] == ["export"]:
            self._export(words[1:])
        row, column = node.start_point
        known = {name: self._variables.get(name) for name in self._exported}
        exported = {name: _joined(value) for name, value in known.items() if value is not None}
        return ShellCommand(
            words=tuple(words),
            line=row + 1,
            column=column + 1,
            environment={**exported, **own},
            block=block,
        )

    def _declare(self, node: Node) -> None:
        exports = node.children[0].type == "export" or b" -x" in (node.text or b"")
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, _ = self._assign(child)
                if exports:
                    self._exported[name] = None
            elif child.type == "variable_name" and exports:
                self._exported[_text(child)] = None

    def _export(self, words: Sequence[str]) -> None:
        for word in words:
            name, equals, value = word.partition("=")
            self._exported[name] = None
            if equals:
                self._variables[name] = value

    def _assign(self, node: Node) -> tuple[str, Value]:
        name, value = self._assignment(node)
        self._variables[name] = value
        return name, value

    def _assignment(self, node: Node) -> tuple[str, Value]:
        name_node, *rest = node.named_children
        name = _text(name_node).partition("[")[0]
        value: Value = ""
        if rest and rest[0].type == "array":
            value = tuple(w for child in rest[0].named_children for w in self._words(child))
        elif rest:
            value = self._string(rest[0])
        if any(child.type == "+=" for child in node.children):
            value = _added(self._variables.get(name, ""), value)
        return name, value

    def _words(self, node: Node) -> list[str]:
        """The words that an argument becomes: an expansion without quotes is split."""
        several = self._several(node)
        if several is not None:
            return list(several)
        text = self._string(node)
        if node.type in ("simple_expansion", "expansion", "command_substitution"):
            return text.split() if not text.startswith("$") else [text]
        return [text]

    def _several(self, node: Node) -> tuple[str, ...] | None:
        """The items of an array where all of them are named: "${ARGS[@]}"; None elsewhere."""
        inner = node.named_children[0] if node.type == "string" and _is_alone(node) else node
        if _text(inner) in ("$@", "$*", "${@}"):
            return ()  # the script's own arguments, of which a job has none
        if inner.type != "expansion" or ("[@]" not in _text(inner) and "[*]" not in _text(inner)):
            return None
        subscript = inner.named_children[0]
        known = self._variables.get(_text(subscript.named_children[0]))
        return known if isinstance(known, tuple) else None

    def _string(self, node: Node) -> str:
        """The text of a node, with everything in it expanded that is known."""
        text = _text(node)
        if node.type in ("raw_string", "ansi_c_string"):
            return text[text.index("'") + 1 : -1]
        if node.type == "simple_expansion":
            return self._variable(node, text[1:])
        expand = {
            "expansion": self._expansion,
            "command_substitution": self._substituted,
            "arithmetic_expansion": self._arithmetic,
            "string": self._pieces,
            "concatenation": self._pieces,
            "command_name": self._pieces,
        }.get(node.type)
        return expand(node) if expand else re.sub(r"\\(.)", r"\1", text.replace("\\\n", ""))

    def _pieces(self, node: Node) -> str:
        """The expanded children, and what stands between them."""
        quoted = node.type == "string"
        raw = node.text or b""
        start = node.start_byte
        at, end = (1, len(raw) - 1) if quoted else (0, len(raw))
        found = []
        for child in node.named_children:
            begin = child.start_byte - start + _blanks(child)
            found += [raw[at:begin].decode(errors="replace"), self._piece(child, quoted=quoted)]
            at = child.end_byte - start
        return "".join([*found, raw[at:end].decode(errors="replace")])

    def _piece(self, node: Node, *, quoted: bool) -> str:
        if quoted and node.type == "string_content":
            return re.sub(r'\\(["\\$`\n])', lambda m: m[1].strip("\n"), _text(node))
        return self._string(node)

    def _variable(self, node: Node, name: str) -> str:
        if name.isdecimal():
            return ""
        value = self._variables.get(name)
        return _text(node) if value is None else _joined(value)

    def _expansion(self, node: Node) -> str:
        match = re.fullmatch(
            r"\$\{(\w+|[@*])(?:\[(\w+|[@*])\])?(?:(:?[-=+])(.*))?\}", _text(node), re.DOTALL
        )
        if match is None:
            return _text(node)
        name, index, sign, _ = match.groups()
        value = self._variables.get(name)
        if isinstance(value, tuple) and index and index.isdecimal():
            return value[int(index)] if int(index) < len(value) else ""
        if index == "0" and isinstance(value, str):
            return value
        if sign:
            return self._default(node, name, sign.lstrip(":"), value)
        return self._variable(node, name)

    def _default(self, node: Node, name: str, sign: str, value: Value | None) -> str:
        words = [child for child in node.named_children if child.type != "variable_name"]
        other = "".join(map(self._string, words))
        if sign == "+":
            return other if value else ""
        if not value and name not in ("@", "*") and sign == "=":
            self._variables[name] = other
        return _joined(value) if value else other

    def _substituted(self, node: Node) -> str:
        called: list[tuple[str, ...]] = []
        for child in node.named_children:
            inner = _Script(dict(self._variables), self._substitute)
            called += [command.words for command in inner.run(child, "")]
        value = self._substitute(called)
        return _text(node) if value is None else value

    def _arithmetic(self, node: Node) -> str:
        text = _text(node)[3:-2] if _text(node).startswith("$((") else _text(node)

        def value(match: re.Match[str]) -> str:
            known = _joined(self._variables.get(match[1], "0"))
            return "0" if _NAME.fullmatch(known) else known  # of a variable that there is not

        return number(re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", value, text)) or _text(node)


_NAME = re.compile(r"[A-Za-z_][\w-]*")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def number(text: str) -> str | None:
    """The value of whole numbers that are added, multiplied or divided; None for anything else."""
    try:
        return str(_evaluated(ast.parse(text.strip().replace("/", "//")[:200], mode="eval").body))
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def _evaluated(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_evaluated(node.left), _evaluated(node.right))
    raise ValueError("not a sum")


def _added(before: Value, value: Value) -> Value:
    if isinstance(before, tuple) or isinstance(value, tuple):
        first = before if isinstance(before, tuple) else tuple(filter(None, [before]))
        return (*first, *(value if isinstance(value, tuple) else (value,)))
    return before + value


def _joined(value: Value) -> str:
    return " ".join(value) if isinstance(value, tuple) else value


def _is_alone(node: Node) -> bool:
    """Whether a string in quotes is one expansion and nothing else."""
    inside = node.named_children
    return len(inside) == 1 and len(inside[0].text or b"") + 2 == len(node.text or b"")


def _blanks(node: Node) -> int:
    """How many blanks the parser counts to an expansion that stands behind another one."""
    text = node.text or b""
    return 0 if node.type == "string_content" else len(text) - len(text.lstrip(b" \t\n"))


def _text(node: Node) -> str:
    return (node.text or b"")[_blanks(node) :].decode(errors="replace")
