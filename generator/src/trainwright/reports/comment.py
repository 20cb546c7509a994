"""Comments on pull requests: cutting text to what fits, and escaping what people wrote."""

from __future__ import annotations

import html as escaping
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from trainwright.datatypes.listing import more, plural
from trainwright.findings.visibility import visible

_Item = TypeVar("_Item")

LIMIT = 65_536  # characters of a GitHub comment
_DIFF = 10_000  # characters of one diff
_TEXT = 600  # characters of one of its lines
ICONS = {"error": "❌", "warning": "⚠️", "note": "💬"}  # by severity


def fitting(parts: Sequence[str], room: int) -> tuple[Sequence[str], int]:
    """The first parts that fit, and how much room they take."""
    used = 0
    for index, part in enumerate(parts):
        if used + len(part) > room:
            return parts[:index], used
        used += len(part)
    return parts, used


def some(parts: Sequence[str], room: int, what: str = "", rest: str = "{}") -> str:
    """The first parts that fit, and `rest` with how many more there are."""
    shown, _ = fitting(parts, room)
    left = len(parts) - len(shown)
    return "".join((*shown, *([rest.format(more(left, what))] if left else [])))


def left_out(*dropped: tuple[int, str, str]) -> str:
    """Return a note on what a comment has no room for, from counts with singular and plural."""
    parts = [
        plural(count, singular, plural_form)
        for count, singular, plural_form in dropped
        if count > 0
    ]
    return f"\n_Left out to fit a comment: {', '.join(parts)}._\n" if parts else ""


def details(summary: str, inside: str) -> str:
    """Text that folds away."""
    return f"\n<details><summary>{summary}</summary>\n\n{inside}\n</details>\n"


def by_turns(items: Iterable[_Item], whose: Callable[[_Item], object]) -> list[_Item]:
    """Return the first item of each owner, then each second one: no owner crowds out others."""
    before = Counter[object]()
    turns: list[tuple[int, _Item]] = []
    for item in items:
        owner = whose(item)
        turns.append((before[owner], item))
        before[owner] += 1
    return [item for _, item in sorted(turns, key=lambda turn: turn[0])]


def shortened(text: str, most: int) -> str:
    """Return text on one line, hidden characters spelled; of a long one a part and its length."""
    shown = visible(text[:most]).replace("\t", " ")
    whole = len(text) <= most and len(shown) <= most
    return shown if whole else f"{shown[:most]}… ({len(text):,} characters)"


_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~>-])")


# Mentions, bare URLs, emoji names and issue numbers, as they look in text that is already escaped.
_LINKED = re.compile(
    r"@|:(?=//)|:(?=(?:[a-z+\\][a-z0-9_+\\-]{0,60}|100|1234):)|www(?=\.)|#(?=[0-9])|(?i:\bgh)(?=\\-[0-9])"
)


def cell(text: str, most: int = 1000) -> str:
    """Return text escaped for Markdown, tables and HTML, with @mentions and links disabled."""
    escaped = _SPECIAL.sub(r"\\\1", shortened(text, most))
    escaped = escaped.replace("&", "&amp;").replace("<", "&lt;")
    unlinked = _LINKED.sub("\\g<0>\u2060", escaped)
    return unlinked.replace("$", "&#36;")  # of mathematics, in which a % hides what follows


def prose(text: str, most: int = 1000) -> str:
    """Return a sentence as `cell` does, with what it has between backticks as code."""
    parts = shortened(text, most).split("`")
    spans = parts[1::2]
    if len(parts) % 2 == 0 or not all(part.strip() and "|" not in part for part in spans):
        return cell(text, most)
    turns = (f"`{part}`" if index % 2 else cell(part, 2 * most) for index, part in enumerate(parts))
    return "".join(turns)


def fenced(diff: Iterable[str]) -> str:
    """A diff, as far as there is room, between fences that nothing in it can close."""
    lines, size = list[str](), 0
    for line in diff:
        shown = shortened(line, _TEXT)
        size += len(shown) + 1
        if size > _DIFF:
            lines.append("... and more: run the command below")
            break
        lines.append(shown)
    longest = max((len(run) for run in re.findall(r"`+", "\n".join(lines))), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join((f"{fence}diff", *lines, f"{fence}\n")) if lines else ""


def html(text: str) -> str:
    escaped = escaping.escape(shortened(text, 1000))
    return escaped.replace("@", "&#64;").replace("|", "&#124;").replace("$", "&#36;")


def code(text: str, most: int = 1000) -> str:
    return shortened(text, most).replace("`", "'")
