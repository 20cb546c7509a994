"""Comments on pull requests: how much fits, and what people's text must not do there."""

from __future__ import annotations

import html as escaping
import re
from collections.abc import Sequence

from trainwright.findings.visibility import visible

LIMIT = 65_536  # characters of a GitHub comment
ICONS = {"error": "❌", "warning": "⚠️", "note": "💬"}  # by severity


def fitting(parts: Sequence[str], room: int) -> tuple[Sequence[str], int]:
    """The first parts that fit, and how much room they take."""
    used = 0
    for index, part in enumerate(parts):
        if used + len(part) > room:
            return parts[:index], used
        used += len(part)
    return parts, used


_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~>-])")


_LINKED = re.compile(r"@|:(?=//)|www(?=\.)")  # mentions and bare addresses


def cell(text: str) -> str:
    """Text that Markdown, tables, HTML and @mentions leave alone."""
    escaped = _SPECIAL.sub(r"\\\1", visible(text[:1000]).replace("\t", " "))
    escaped = escaped.replace("&", "&amp;").replace("<", "&lt;")
    return _LINKED.sub("\\g<0>\u2060", escaped)


def fenced(diff: str) -> str:
    """A diff between fences that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", diff)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}diff\n{diff}\n{fence}\n"


def html(text: str) -> str:
    escaped = escaping.escape(visible(text[:1000]).replace("\t", " "))
    return escaped.replace("@", "&#64;").replace("|", "&#124;")


def code(text: str) -> str:
    return visible(text[:1000]).replace("`", "'").replace("\t", " ")
