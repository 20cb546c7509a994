"""What a shell script starts, by tree-sitter's parse alone: nothing is run.

Variables have the values that the script itself assigns, in order. A variable that it never
assigns is empty in tests and defaults, as if nothing exported it. What only the running script
can know stays as it is written, with its dollar sign.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from posixpath import normpath
from typing import TYPE_CHECKING, TypeAlias

from trainwright.datatypes.frozen import dataclass
from trainwright.importing.shell_tests import holds
from trainwright.kinds.reading import ImportingError

if TYPE_CHECKING:
    from tree_sitter import Node

_MISSING = (
    "shell scripts are read by tree-sitter: pip install 'trainwright[slurm]' "
    "(tree-sitter, tree-sitter-bash)"
)
_LOOPS = {"for_statement", "c_style_for_statement", "while_statement"}
_BRANCHES = {"elif_clause", "else_clause"}
_ARGUMENTS = {"$@", "$*", "${@}"}  # of the script; a job has none
_READING = {"read", "readarray", "mapfile", "getopts"}  # into variables
# Variables that a login or Slurm sets, whatever the script does.
_OF_LOGIN = re.compile(
    r"HOME|USER|LOGNAME|PATH|PWD|SHELL|HOSTNAME|TMPDIR|LANG|\w+_PATH|SLURM\w*|CUDA\w*|CONDA\w*"
)
_DEEPEST_CALL = 8
# What the output of a pipeline of commands would be, or None where that is not known.
Substitute: TypeAlias = Callable[[Sequence[tuple[str, ...]]], str | None]
Value: TypeAlias = str | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """One command that a script starts, its words expanded as far as they are known.

    `environment` has the variables that the script has exported by then, and those in front of the
    command; `set_at` are line and column of what sets a variable. `block` is what encloses it
    ("if", "a loop"), empty if it is sure to run once. `writes` is the file that its output goes to.
    The script does not wait for a command in the `background`.
    """

    words: tuple[str, ...]
    line: int
    column: int
    environment: Mapping[str, str] = field(default_factory=dict)
    set_at: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    block: str = ""
    writes: str = ""
    background: bool = False


def commands(
    text: str, variables: Mapping[str, str], substitute: Substitute
) -> tuple[ShellCommand, ...]:
    """Return the commands of a script in their order, given the variables that it starts with."""
    try:
        from tree_sitter import Language, Parser
        from tree_sitter_bash import language
    except ModuleNotFoundError as error:
        raise ImportingError(_MISSING) from error
    root = Parser(Language(language())).parse(_braced(text).encode()).root_node
    script = _Script(dict(variables), substitute)
    return tuple(script.run(root, ""))


class _Script:
    """The variables of a script from one command to the next."""

    def __init__(self, variables: dict[str, Value], substitute: Substitute):
        self._variables = variables
        self._undecided: set[str] = set()  # variables whose value depends on what is not known
        self._exported: dict[str, None] = {}
        self._set_at: dict[str, tuple[int, int]] = {}
        self._functions: dict[str, Node] = {}
        self._written: dict[str, tuple[str, ...]] = {}  # the last command that wrote each file
        self._arguments: tuple[str, ...] | None = None  # of the function that is called
        self._calls = 0
        self._substitute = substitute
        self._assigning: Mapping[str, Callable[[Node], object]] = {
            "variable_assignment": self._assign,
            "declaration_command": self._declare,
            "unset_command": self._unset,
            "function_definition": self._define,
        }
        self._running: Mapping[str, Callable[[Node, str], Iterator[ShellCommand]]] = {
            "command": self._called,
            "if_statement": self._if,
            "list": self._list,
            "case_statement": self._case,
            **dict.fromkeys(_LOOPS, self._loop),
        }

    def run(self, node: Node, block: str) -> Iterator[ShellCommand]:
        """Yield the commands below a node, and take its assignments."""
        if node.type in self._assigning:
            self._assigning[node.type](node)
        elif node.type in self._running:
            yield from self._running[node.type](node, block)
        elif node.type not in ("comment", "heredoc_redirect", "file_redirect", "test_command"):
            yield from self._all(node.named_children, block)

    def _set(self, name: str, value: Value) -> None:
        self._variables[name] = value
        self._undecided.discard(name)

    def _forget(self, name: str) -> None:
        """Take note that a variable has a value, which is not known."""
        self._variables.pop(name, None)
        self._undecided.add(name)

    def _unset(self, node: Node) -> None:
        for child in node.named_children:
            self._variables.pop(_text(child), None)

    def _define(self, node: Node) -> None:
        self._functions[_text(node.named_children[0])] = node.named_children[-1]

    def _case(self, node: Node, _block: str) -> Iterator[ShellCommand]:
        return self._unsure(node.named_children, "case")

    def _all(self, nodes: Sequence[Node], block: str) -> Iterator[ShellCommand]:
        for node in nodes:
            yield from self.run(node, block)

    def _unsure(self, nodes: Sequence[Node], block: str) -> Iterator[ShellCommand]:
        """Run commands that may not run: what they assign is unknown afterwards."""
        before = dict(self._variables)
        yield from self._all(nodes, block)
        for name in {*before, *self._variables}:
            if before.get(name) != self._variables.get(name):
                self._forget(name)

    def _if(self, node: Node, block: str) -> Iterator[ShellCommand]:
        """Run the branch that is taken, or all of those that may be."""
        unsure: list[Node] = []
        for condition, body in _branches(node):
            taken = True if condition is None else self._holds(condition)
            if condition is not None and taken is None:
                yield from self.run(condition, block)
            if taken and not unsure:
                yield from self._all(body, block)
                return
            if taken is not False:
                unsure += body
            if taken:
                break
        yield from self._unsure(unsure, "if")

    def _list(self, node: Node, block: str) -> Iterator[ShellCommand]:
        """Run `a && b` and `a || b`: a command that is no test is taken to succeed."""
        first, second = node.named_children[0], node.named_children[-1]
        succeeds = self._succeeds(first)
        yield from self.run(first, block)
        if succeeds is None:
            yield from self._unsure([second], "if")
        elif succeeds is _is_and(node):
            yield from self.run(second, block)

    def _succeeds(self, node: Node) -> bool | None:
        if node.type == "test_command":
            return self._holds(node)
        if node.type != "list":
            return True
        first = self._succeeds(node.named_children[0])
        return self._succeeds(node.named_children[-1]) if first is _is_and(node) else first

    def _loop(self, node: Node, block: str) -> Iterator[ShellCommand]:
        """Run the body of a loop once, if it may run at all."""
        head = node.named_children[0]
        if node.type == "for_statement":
            values = node.named_children[1:-1]
            if values and all(_text(value).strip('"') in _ARGUMENTS for value in values):
                return
            self._forget(_text(head))
        elif self._holds(head) is False or _text(head).startswith("getopts "):
            return
        yield from self._unsure(node.named_children, "a loop")

    def _holds(self, node: Node) -> bool | None:
        return holds(node, self._tested) if node.type == "test_command" else None

    def _tested(self, node: Node) -> str | None:
        """Return the text of a word in a test; None if only the running script knows it."""
        text = _text(node).strip('"')
        if text in ("$#", "${#}"):
            return "0"
        name = re.fullmatch(r"\$\{?(\w+)(?::?-)?\}?", text)
        if name and self._is_unset(name[1]):
            return ""
        value = self._string(node)
        return None if "$" in value or "`" in value else value

    def _is_unset(self, name: str) -> bool:
        """Whether nothing gives a variable a value, as far as the script shows."""
        if name.isdecimal():
            return not self._arguments or int(name) > len(self._arguments)
        taken = name in self._variables or name in self._undecided
        return not taken and not _OF_LOGIN.fullmatch(name)

    def _called(self, node: Node, block: str) -> Iterator[ShellCommand]:
        """Yield a command, or those of the function that it calls."""
        command = self._command(node, block)
        name = command.words[0] if command.words else ""
        if command.writes:
            self._written[normpath(command.writes)] = command.words
        if name in _READING:
            self._read(node, command.words[1:])
        if name not in self._functions or self._calls >= _DEEPEST_CALL:
            yield command
            return
        before, self._arguments = self._arguments, command.words[1:]
        self._calls += 1
        yield from self.run(self._functions[name], block)
        self._calls -= 1
        self._arguments = before

    def _read(self, node: Node, words: Sequence[str]) -> None:
        """Set the variables that a command reads from a file, if what wrote that file is known."""
        lines = self._lines(node)
        for word in filter(_NAME.fullmatch, words):
            if lines is None:
                self._forget(word)
            else:
                self._set(word, lines)

    def _lines(self, node: Node) -> tuple[str, ...] | None:
        for source in _redirected(node, "<"):
            called = [self._written.get(normpath(self._string(source)), ())]
            if source.type == "process_substitution":
                called = self._commands_in(source)
            text = self._substitute(called) if called[0] else None
            return None if text is None else tuple(text.split())
        return None

    def _command(self, node: Node, block: str) -> ShellCommand:
        own: dict[str, str] = {}
        set_at: dict[str, tuple[int, int]] = {}
        words: list[str] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = self._assignment(child)
                own[name], set_at[name] = _joined(value), _start(child)
            elif child.type not in ("file_redirect", "herestring_redirect"):
                inner = child.named_children[0] if child.type == "command_name" else child
                words += self._words(inner)
        if words[:1] == ["export"]:
            self._export(words[1:], _start(node))
        line, column = _start(node)
        return ShellCommand(
            words=tuple(words),
            line=line,
            column=column,
            environment={**dict(self._environment()), **own},
            set_at={**self._set_at, **set_at},
            block=block,
            writes=next(map(self._string, _redirected(node, ">", ">>", "&>", ">|")), ""),
            background=_is_in_background(node),
        )

    def _environment(self) -> Iterator[tuple[str, str]]:
        for name in self._exported:
            if name in self._variables:
                yield name, _joined(self._variables[name])
            elif name in self._undecided:
                yield name, f"${name}"

    def _declare(self, node: Node) -> None:
        exports = node.children[0].type == "export" or b" -x" in (node.text or b"")
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, _ = self._assign(child)
                if exports:
                    self._exported[name] = None
            elif child.type == "variable_name" and exports:
                self._exported[_text(child)] = None

    def _export(self, words: Sequence[str], at: tuple[int, int]) -> None:
        for word in words:
            name, equals, value = word.partition("=")
            self._exported[name] = None
            if equals:
                self._set(name, value)
                self._set_at[name] = at

    def _assign(self, node: Node) -> tuple[str, Value]:
        name, value = self._assignment(node)
        self._set(name, value)
        self._set_at[name] = _start(node)
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
        """Return the words that an argument becomes: an unquoted expansion is split."""
        several = self._several(node)
        if several is not None:
            return list(several)
        text = self._string(node)
        if node.type in ("simple_expansion", "expansion", "command_substitution"):
            return _WORDS.findall(text)
        return [text]

    def _several(self, node: Node) -> tuple[str, ...] | None:
        """Return the items of an array where all of them are named, "${ARGS[@]}", else None."""
        inner = node.named_children[0] if node.type == "string" and _is_alone(node) else node
        if _text(inner) in _ARGUMENTS:
            return self._arguments or ()
        if inner.type != "expansion" or not _ALL_ITEMS.fullmatch(_text(inner)):
            return None
        subscript = inner.named_children[0]
        name = _text(subscript.named_children[0])
        items = self._variables.get(name, None if name in self._undecided else ())
        return items if isinstance(items, tuple) else None

    def _string(self, node: Node) -> str:
        """Return the text of a node, with everything in it expanded that is known."""
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
        """Return the children of a node expanded, with the text between them."""
        quoted = node.type == "string"
        raw = node.text or b""
        start = node.start_byte
        at, end = (1, len(raw) - 1) if quoted else (0, len(raw))
        texts = []
        for child in node.named_children:
            begin = child.start_byte - start + _blanks(child)
            texts += [_plain(raw[at:begin], quoted), self._piece(child, quoted=quoted)]
            at = child.end_byte - start
        return "".join([*texts, _plain(raw[at:end], quoted)])

    def _piece(self, node: Node, *, quoted: bool) -> str:
        if quoted and node.type == "string_content":
            return _plain(node.text or b"", quoted)
        return self._string(node)

    def _argument(self, name: str) -> str:
        """Return an argument of the function that is called, by its number, or ""."""
        return dict(enumerate(self._arguments or (), 1)).get(int(name), "")

    def _variable(self, node: Node, name: str) -> str:
        if name.isdecimal() and name != "0" and self._arguments is not None:
            return self._argument(name)
        value = self._variables.get(name)
        if isinstance(value, tuple):  # of an array, the first item
            return value[0] if value else ""
        return _text(node) if value is None else value

    def _expansion(self, node: Node) -> str:
        match = re.fullmatch(
            r"\$\{(\w+|[@*])(?:\[(\w+|[@*])\])?(?:(:?[-=+])(.*))?\}", _text(node), re.DOTALL
        )
        if match is None:
            return self._length(node)
        name, index, sign, _ = match.groups()
        value = self._variables.get(name)
        if isinstance(value, tuple) and index and index.isdecimal():
            return value[int(index)] if int(index) < len(value) else ""
        if index == "0" and isinstance(value, str):
            return value
        if sign:
            return self._default(node, name, sign.lstrip(":"), value)
        return self._variable(node, name)

    def _length(self, node: Node) -> str:
        """Return the number of items of an array: `${#nodes[@]}`."""
        match = re.fullmatch(r"\$\{#(\w+)\[[@*]\]\}", _text(node))
        value = self._variables.get(match[1]) if match else None
        return str(len(value)) if isinstance(value, tuple) else _text(node)

    def _default(self, node: Node, name: str, sign: str, value: Value | None) -> str:
        words = [child for child in node.named_children if child.type != "variable_name"]
        if not value and (name in self._undecided or _ALWAYS_SET.fullmatch(name)):
            return _text(node)
        other = "".join(map(self._string, words))
        if sign == "+":
            return other if value else ""
        if not value and name not in ("@", "*") and sign == "=":
            self._variables[name] = other
        if name.isdecimal() and self._arguments:
            value = self._argument(name)
        return _joined(value) if value else other

    def _substituted(self, node: Node) -> str:
        called = self._commands_in(node)
        if called == [("pwd",)]:
            return _joined(self._variables.get("PWD", "$PWD"))
        value = self._substitute(called)
        return _text(node) if value is None else value

    def _commands_in(self, node: Node) -> list[tuple[str, ...]]:
        """Return the commands of a substitution, which changes no variables outside of it."""
        called: list[tuple[str, ...]] = []
        for child in node.named_children:
            inner = _Script(dict(self._variables), self._substitute)
            inner._undecided = {*self._undecided}
            called += [command.words for command in inner.run(child, "")]
        return called

    def _arithmetic(self, node: Node) -> str:
        text = _text(node)[3:-2] if _text(node).startswith("$((") else _text(node)

        def value(match: re.Match[str]) -> str:
            if match[1] not in self._variables and not self._is_unset(match[1]):
                return match[0]
            joined = _joined(self._variables.get(match[1], "0"))
            return "0" if _NAME.fullmatch(joined) else joined  # of a variable that there is not

        return number(re.sub(r"\$?\{?([A-Za-z_]\w*)\}?", value, text)) or _text(node)


_NAME = re.compile(r"[A-Za-z_][\w-]*")
# Words, which may contain a substitution whose value is not known.
_WORDS = re.compile(r"(?:\$\([^()]*(?:\([^()]*\)[^()]*)*\)|`[^`]*`|\$\{[^{}]*\}|\S)+")
_UNBRACED = re.compile(
    # An unclosed quote runs to the end of the text: to look for each one's end would be quadratic.
    r"""("(?:\\.|[^"\\])*+\\?(?:"|\Z)|'[^']*(?:'|\Z)|(?<!\S)\#[^\n]*)|(?<=[\w,:/=.@+%^-])\$([A-Za-z_]\w*|\$(?!\())""",
    re.DOTALL,
)
_NAMES = {"$": "BASHPID"}
_ALL_ITEMS = re.compile(r"\$\{\w+\[[@*]\]\}")
_BLANKS = re.compile(rb"(?:\\\n|[ \t\n])*")
_ALWAYS_SET = re.compile(r"HOME|USER|LOGNAME|PATH|PWD|SHELL|HOSTNAME")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def number(text: str) -> str | None:
    """Return the value of whole numbers that are added, multiplied or divided, else None."""
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


def _braced(text: str) -> str:
    """Return the script with braces around variables within a word, which the parser needs, and
    a name for the number of the process, which has none that can stand in them.
    """
    return _UNBRACED.sub(lambda match: match[1] or f"${{{_NAMES.get(match[2], match[2])}}}", text)


def _branches(node: Node) -> Iterator[tuple[Node | None, list[Node]]]:
    """Yield the condition of each branch of an `if`, None for `else`, and what it runs."""
    conditions = node.children_by_field_name("condition")
    if node.type == "else_clause":
        yield None, node.named_children
        return
    rest = [c for c in node.named_children if c not in conditions]
    yield conditions[0] if conditions else None, [c for c in rest if c.type not in _BRANCHES]
    for clause in rest:
        if clause.type in _BRANCHES:
            yield from _branches(clause)


def _redirected(node: Node, *signs: str) -> Iterator[Node]:
    """Yield the files from or to which a command is redirected by one of the signs."""
    parent = node.parent
    beside = parent.named_children if parent and parent.type == "redirected_statement" else []
    for child in (inner for outer in (node, *beside) for inner in (outer, *outer.children)):
        if child.type == "file_redirect" and child.children[0].type in signs:
            yield child.named_children[-1]


def _is_and(node: Node) -> bool:
    """Whether a list is `a && b`, and not `a || b`."""
    return any(child.type == "&&" for child in node.children)


def _is_in_background(node: Node) -> bool:
    """Whether a command, or the pipeline or list that it is part of, is followed by `&`."""
    while node.parent is not None and node.parent.type in (
        "redirected_statement",
        "pipeline",
        "list",
    ):
        node = node.parent
    following = node.next_sibling
    return following is not None and following.type == "&"


def _plain(raw: bytes, quoted: bool) -> str:
    """Return text between expansions: in quotes, a backslash escapes only a few characters."""
    text = raw.decode(errors="replace")
    return re.sub(r'\\(["\\$`\n])', lambda m: m[1].strip("\n"), text) if quoted else text


def _is_alone(node: Node) -> bool:
    """Whether a quoted string consists of a single expansion."""
    inside = node.named_children
    return len(inside) == 1 and len(inside[0].text or b"") + 2 == len(node.text or b"")


def _blanks(node: Node) -> int:
    """Return how many leading blanks the parser adds to an expansion that follows another one."""
    text = node.text or b""
    return 0 if node.type == "string_content" else len(_BLANKS.match(text)[0])  # type: ignore[index]


def _start(node: Node) -> tuple[int, int]:
    """Return the line and column at which a node begins, both from 1."""
    row, column = node.start_point
    return row + 1, column + 1


def _text(node: Node) -> str:
    return (node.text or b"")[_blanks(node) :].decode(errors="replace")
