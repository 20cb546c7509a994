"""Redaction of credentials in whole texts, since some credentials take several lines."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from io import StringIO
from itertools import accumulate

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.findings.credentials import (
    HIDDEN,
    Found,
    credentials,
    given,
    hide,
    named,
    redact_names,
    suspicious,
)
from trainwright.findings.visibility import visible

# A key and its value on a line of block YAML, or of JSON as programs indent it.
_ENTRY = re.compile(r"""(?P<indent>\s*+(?:-\s++)*+)["']?(?P<key>[\w./-]++)["']?\s*+:\s++(?=\S)""")
# One inside of braces whose value has no quotes, and so may have blanks.
_FLOW = re.compile(
    r"""(?P<before>[{,]\s*["']?(?P<key>[\w./-]+)["']?:\s+)
        (?P<value>[^\s,{}\[\]"'|>&*#][^,{}\[\]]*)""",
    re.VERBOSE,
)
_SCALAR = r""""(?:[^"\\]|\\.)*+"|'(?:[^']|'')*+'|[^,{}\[\]"'\s][^,{}\[\]"']{0,500}+"""
# An entry of env in braces, in either order of its keys.
_NAMED = re.compile(
    rf"""(?P<before>["']?\bname["']?:\s*["']?(?P<name>[\w.-]+)["']?\s*,\s*["']?value["']?:\s*+)
        (?P<value>{_SCALAR})""",
    re.VERBOSE,
)
_NAMED_BEHIND = re.compile(
    rf"""(?P<before>["']?\bvalue["']?:\s*)(?P<value>{_SCALAR})
        (?=,\s*["']?name["']?:\s*["']?(?P<name>[\w.-]+))""",
    re.VERBOSE,
)
# An item of a list in block YAML, or of one in JSON.
_ITEM = re.compile(r"""\s*+(?:-\s++|(?="))(?=[^\s{\[])""")
_OPTION = re.compile(r"--?(?P<name>[A-Za-z0-9][\w.-]*)")
_BLOCK = re.compile(r"[|>][-+0-9]*(?:\s+#.*)?")
_CLOSED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""")
_COMMENT = re.compile(r"\s*(?:#.*)?")


@dataclass(frozen=True, slots=True)
class _Part:
    """A line split before and after `value`, with the key and indent if it is an entry."""

    before: str
    value: str
    after: str
    key: str = ""
    indent: int = 0

    @property
    def bare(self) -> str:
        return self.value.strip("\"'")


def redact_lines(lines: Sequence[str]) -> list[str]:
    """Return the lines of a YAML or JSON file without credentials; the number of lines stays."""
    if not suspicious("\n".join(lines)):
        return list(lines)
    texts = [line.rstrip("\r\n") for line in lines]
    ends = [line[len(text) :] for line, text in zip(lines, texts, strict=True)]
    shown = _without(texts, credentials("\n".join(texts)))
    whole = _hidden(shown)
    return [
        (_covered(text) if number in whole else _shown(shown, number)) + ends[number]
        for number, text in enumerate(shown)
    ]


def _without(texts: Sequence[str], spans: Iterable[Found]) -> list[str]:
    """Return the lines without the credentials in their joined text, which may span lines."""
    within: dict[int, list[Found]] = {}
    starts = [0, *accumulate(len(text) + 1 for text in texts)]
    for start, end, kind in spans:
        number = bisect_right(starts, start) - 1
        while number < len(texts) and starts[number] < end:
            at, text = starts[number], texts[number]
            first = max(start - at, len(text) - len(text.lstrip()))
            last = min(end - at, len(text))
            if first < last:
                within.setdefault(number, []).append(Found(first, last, kind))
            number += 1
    return [hide(text, within.get(number, ())) for number, text in enumerate(texts)]


def redact_words(words: Sequence[Data]) -> list[Data]:
    """Return a list, such as a command, without the credentials that its items form together."""
    texts = [word if isinstance(word, str) else "" for word in words]
    hidden = _without(texts, credentials("\n".join(texts)))
    shown: list[Data] = []
    option = None
    for word, before, after in zip(words, texts, hidden, strict=True):
        by_name = option and not before.startswith("-") and given(option["name"], before)
        shown.append(HIDDEN if by_name and before else after if after != before else word)
        option = _OPTION.fullmatch(before)
    return shown


def _visible(line: str) -> str:
    """Return a line with invisible characters spelled out; its line break stays."""
    text = line.rstrip("\r\n")
    return visible(text) + line[len(text) :]


def of_words(words: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield each credential that words form together: the index of its first word, and its kind."""
    starts = [0, *accumulate(len(word) + 1 for word in words)]
    for credential in credentials("\n".join(words)):
        yield bisect_right(starts, credential.start) - 1, credential.kind


def unified_diff(
    before: Sequence[str], after: Sequence[str], *, old: str, new: str, context: int = 3
) -> Iterator[str]:
    """Yield a unified diff in which credentials are hidden, but still count as different.

    A hunk alone does not show which keys its lines belong to, so whole files are redacted. Lines
    end with a newline if the given ones do.
    """
    end = "\n" if any(line.endswith("\n") for line in (*before, *after)) else ""
    shown: list[str] = []
    numbers: dict[tuple[str, str], int] = {}

    def numbered(lines: Sequence[str]) -> Iterator[str]:
        for pair in zip(lines, redact_lines(lines), strict=True):
            if pair not in numbers:
                numbers[pair] = len(shown)
                shown.append(pair[1])
            yield str(numbers[pair])

    was, now = list(numbered(before)), list(numbered(after))
    diff = difflib.unified_diff(was, now, old, new, "", "", context, end)
    for number, line in enumerate(diff):
        header = number < 2 or line.startswith("@@")
        yield line if header else line[0] + _visible(shown[int(line[1:])])


def text_diff(before: str | None, after: str | None, *, old: str, new: str) -> Iterator[str]:
    """Yield the lines of a unified diff of a file, as git writes it; None is a file that is not
    there. Credentials are hidden.
    """
    diff = unified_diff(
        *(StringIO(text, newline="\n").readlines() for text in (before or "", after or "")),
        old=old if before is not None else "/dev/null",
        new=new if after is not None else "/dev/null",
    )
    for number, line in enumerate(diff):
        yield line.removesuffix("\n")
        if not line.endswith("\n") and number > 1 and not line.startswith("@@"):
            yield "\\ No newline at end of file"


_LINES = 1 << 14  # cached lines: rendered files have the same ones again and again


@lru_cache(_LINES)
def _entry(line: str) -> _Part | None:
    match = _ENTRY.match(line)
    return _part(line, match, match["key"], len(match["indent"])) if match else None


@lru_cache(_LINES)
def _item(line: str) -> _Part | None:
    match = _ITEM.match(line)
    return _part(line, match) if match else None


def _part(line: str, match: re.Match[str], key: str = "", indent: int = 0) -> _Part:
    """Return a line split behind a pattern's match, with the trailing comma of JSON split off."""
    value = line[match.end() :].rstrip()
    value = value.removesuffix(",") or value
    at = match.end() + len(value)
    return _Part(line[: match.end()], value, line[at:], key, indent)


def _hidden(lines: Sequence[str]) -> frozenset[int]:
    """Return the numbers of lines that only continue a credential begun on an earlier line."""
    numbers: set[int] = set()
    depth = -1  # how deep the lines of a value are at least
    for number, line in enumerate(lines):
        if depth >= 0 and (_indent(line) > depth or not line.strip()):
            numbers.add(number)
        else:
            depth = _depth(lines, number)
    return frozenset(numbers)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" -"))


def _depth(lines: Sequence[str], number: int) -> int:
    """Return the indent below which a credential's value continues, or -1 if it is one line."""
    entry = _entry(lines[number])
    if entry is None or not _gives_away(lines, number, entry):
        return -1
    value = entry.value
    goes_on = _BLOCK.fullmatch(value) or (value[0] in "\"'" and not _CLOSED.match(value))
    return entry.indent if goes_on or value[0] not in "\"'" else -1


def _gives_away(lines: Sequence[str], number: int, entry: _Part) -> bool:
    """Whether the key of a value, or the name beside it, means that it is a credential."""
    key, value = entry.key.rpartition(".")[2], entry.bare
    if value.startswith(("{", "*")):  # not a scalar
        return False
    if key != "value":
        return named(key, value)
    return any(named(name, value) for name in _names(lines, number, entry.indent))


def _names(lines: Sequence[str], number: int, indent: int) -> Iterator[str]:
    """Yield the values of `name` directly above and below a line, at the same indent."""
    for step in (-1, 1):
        at = number + step
        while 0 <= at < len(lines) and _COMMENT.fullmatch(lines[at]):
            at += step
        beside = _entry(lines[at]) if 0 <= at < len(lines) else None
        if beside is not None and beside.key == "name" and beside.indent == indent:
            yield beside.bare


def _shown(lines: Sequence[str], number: int) -> str:
    line = lines[number]
    entry = _entry(line)
    if entry is not None and _gives_away(lines, number, entry):
        return f"{entry.before}{HIDDEN}{_behind(entry)}"
    item = _item(line)
    if item is not None and _behind_option(lines, number, item):
        return f"{item.before}{HIDDEN}{item.after}"
    return _inline(line)


@lru_cache(_LINES)
def _inline(line: str) -> str:
    """Return a line without the credentials whose names are on it."""
    for pattern in (_NAMED, _NAMED_BEHIND):
        line = pattern.sub(lambda m: _hide(m, m["name"]), line)
    return redact_names(_FLOW.sub(lambda m: _hide(m, m["key"].rpartition(".")[2]), line))


def _behind_option(lines: Sequence[str], number: int, item: _Part) -> bool:
    """Whether the item of a list is the value of an option that is the item before it."""
    above = _item(lines[number - 1]) if number else None
    option = _OPTION.fullmatch(above.bare) if above else None
    return option is not None and not item.bare.startswith("-") and given(option["name"], item.bare)


def _behind(entry: _Part) -> str:
    """Return what follows a value: the comment behind its quotes, and the comma of JSON."""
    closed = _CLOSED.match(entry.value)
    return redact_names(entry.value[closed.end() :] if closed else "") + entry.after


def _hide(match: re.Match[str], name: str) -> str:
    value = match["value"].strip()
    return f"{match['before']}{HIDDEN}" if named(name, value.strip("\"'")) else str(match[0])


def _covered(text: str) -> str:
    """Return the line with everything after its indentation hidden."""
    inside = text.lstrip()
    return text[: len(text) - len(inside)] + (HIDDEN if inside else "")
