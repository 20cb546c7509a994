"""Whole texts without what looks like a credential: some of them take several lines."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from trainwright.datatypes.model import Data
from trainwright.findings.credentials import HIDDEN, given, named, redact, suspicious

_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
# A key and its value on a line of block YAML, or of JSON as programs indent it.
_ENTRY = re.compile(
    r"""(?P<before>(?P<indent>\s*(?:-\s+)*)["']?(?P<key>[\w./-]+)["']?\s*:\s+)
        (?P<value>\S.*?)(?P<after>,?\s*)""",
    re.VERBOSE,
)
# One inside of braces whose value has no quotes, and so may have blanks.
_FLOW = re.compile(
    r"""(?P<before>[{,]\s*["']?(?P<key>[\w./-]+)["']?:\s+)
        (?P<value>[^\s,{}\[\]"'|>&*#][^,{}\[\]]*)""",
    re.VERBOSE,
)
_SCALAR = r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^,{}\[\]"']+"""
# An entry of env in braces, in either order of its keys.
_NAMED = re.compile(
    rf"""(?P<before>["']?\bname["']?:\s*["']?(?P<name>[\w.-]+)["']?\s*,\s*["']?value["']?:\s*)
        (?P<value>{_SCALAR})""",
    re.VERBOSE,
)
_NAMED_BEHIND = re.compile(
    rf"""(?P<before>["']?\bvalue["']?:\s*)(?P<value>{_SCALAR})
        (?=,\s*["']?name["']?:\s*["']?(?P<name>[\w.-]+))""",
    re.VERBOSE,
)
# An item of a list in block YAML, or of one in JSON.
_ITEM = re.compile(r"""(?P<before>\s*(?:-\s+|(?=")))(?P<value>[^\s{\[].*?)(?P<after>,?\s*)""")
_OPTION = re.compile(r"--?(?P<name>[A-Za-z0-9][\w.-]*)")
_BLOCK = re.compile(r"[|>][-+0-9]*(?:\s+#.*)?")
_CLOSED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""")
_COMMENT = re.compile(r"\s*(?:#.*)?")


def redact_lines(lines: Sequence[str]) -> list[str]:
    """The lines of a file of YAML or JSON, each as it may be shown: their number stays."""
    if not suspicious("\n".join(lines)):
        return list(lines)
    whole = _hidden(lines)
    return [
        _covered(line) if number in whole else _shown(lines, number)
        for number, line in enumerate(lines)
    ]


def redact_words(words: Sequence[Data]) -> list[Data]:
    """The items of a list, such as a command, without the values of options that give them away."""
    shown: list[Data] = []
    option = None
    for word in words:
        value = word if isinstance(word, str) else ""
        hide = option is not None and not value.startswith("-") and given(option["name"], value)
        shown.append(HIDDEN if hide and value else word)
        option = _OPTION.fullmatch(value)
    return shown


def unified_diff(
    before: Sequence[str], after: Sequence[str], *, old: str, new: str, context: int = 3
) -> Iterator[str]:
    """A unified diff in which credentials are hidden, but still count as different.

    A hunk alone does not say what its lines belong to, so whole files are redacted. Lines end as
    those that were given do.
    """
    end = "\n" if any(line.endswith("\n") for line in (*before, *after)) else ""
    shown: list[str] = []
    numbers: dict[tuple[str, str], int] = {}

    def known(lines: Sequence[str]) -> Iterator[str]:
        for pair in zip(lines, redact_lines(lines), strict=True):
            if pair not in numbers:
                numbers[pair] = len(shown)
                shown.append(pair[1])
            yield str(numbers[pair])

    found = difflib.unified_diff([*known(before)], [*known(after)], old, new, "", "", context, end)
    for number, line in enumerate(found):
        header = number < 2 or line.startswith("@@")
        yield line if header else line[0] + shown[int(line[1:])]


def _value(line: str) -> re.Match[str] | None:
    return _ENTRY.fullmatch(line.rstrip("\r\n"))


def _bare(value: str) -> str:
    return value.strip("\"'")


def _hidden(lines: Sequence[str]) -> frozenset[int]:
    """The numbers of the lines that only go on with what an earlier line begins to show."""
    found: set[int] = set()
    within = False  # a private key
    depth = -1  # how deep the lines of a value are at least
    for number, line in enumerate(lines):
        if within or (depth >= 0 and (_indent(line) > depth or not line.strip())):
            found.add(number)
        else:
            depth = _depth(lines, number)
        begins = [match.end() for match in _KEY_BEGIN.finditer(line)]
        ends = [match.end() for match in _KEY_END.finditer(line)]
        if begins or ends:
            within = max(begins, default=-1) > max(ends, default=-1)
    return frozenset(found)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" -"))


def _depth(lines: Sequence[str], number: int) -> int:
    """How deep a credential's value goes on below its line; -1 where it ends on it."""
    entry = _value(lines[number])
    if entry is None or not _gives_away(lines, number, entry):
        return -1
    value = entry["value"]
    goes_on = _BLOCK.fullmatch(value) or (value[0] in "\"'" and not _CLOSED.match(value))
    return len(entry["indent"]) if goes_on or value[0] not in "\"'" else -1


def _gives_away(lines: Sequence[str], number: int, entry: re.Match[str]) -> bool:
    """Whether the key of a value, or the name beside it, says that it is a credential."""
    key, value = entry["key"].rpartition(".")[2], _bare(entry["value"])
    if value.startswith(("{", "*")):  # not a scalar
        return False
    if key != "value":
        return named(key, value)
    return any(named(name, value) for name in _names(lines, number, len(entry["indent"])))


def _names(lines: Sequence[str], number: int, indent: int) -> Iterator[str]:
    """What stands as `name` directly above or below a line, at the same depth."""
    for step in (-1, 1):
        at = number + step
        while 0 <= at < len(lines) and _COMMENT.fullmatch(lines[at].rstrip("\r\n")):
            at += step
        beside = _value(lines[at]) if 0 <= at < len(lines) else None
        if beside is not None and beside["key"] == "name" and len(beside["indent"]) == indent:
            yield _bare(beside["value"])


def _shown(lines: Sequence[str], number: int) -> str:
    line = lines[number]
    entry = _value(line)
    ended = line[len(line.rstrip("\r\n")) :]
    if entry is not None and _gives_away(lines, number, entry):
        return f"{entry['before']}{HIDDEN}{_behind(entry)}{ended}"
    item = _ITEM.fullmatch(line.rstrip("\r\n"))
    if item is not None and _behind_option(lines, number, item):
        return f"{item['before']}{HIDDEN}{item['after']}{ended}"
    for pattern in (_NAMED, _NAMED_BEHIND):
        line = pattern.sub(lambda m: _hide(m, m["name"]), line)
    return redact(_FLOW.sub(lambda m: _hide(m, m["key"].rpartition(".")[2]), line))


def _behind_option(lines: Sequence[str], number: int, item: re.Match[str]) -> bool:
    """Whether the item of a list is the value of an option that is the item before it."""
    above = _ITEM.fullmatch(lines[number - 1].rstrip("\r\n")) if number else None
    option = _OPTION.fullmatch(_bare(above["value"])) if above else None
    value = _bare(item["value"])
    return option is not None and not value.startswith("-") and given(option["name"], value)


def _behind(entry: re.Match[str]) -> str:
    """The comma of JSON, and the comment behind a value in quotes."""
    closed = _CLOSED.match(entry["value"])
    rest = entry["value"][closed.end() :] if closed else ""
    return redact(rest) + str(entry["after"])


def _hide(match: re.Match[str], name: str) -> str:
    value = match["value"].strip()
    return f"{match['before']}{HIDDEN}" if named(name, _bare(value)) else str(match[0])


def _covered(line: str) -> str:
    """A line of which nothing is shown but where it begins and ends, and what follows a key."""
    text = line.rstrip("\r\n")
    end = _KEY_END.search(text)
    behind = redact(text[end.end() :]) if end else ""
    inside = text.strip()
    start = len(text) - len(text.lstrip())
    return f"{text[:start]}{HIDDEN if inside else ''}{behind}{line[len(text) :]}"
