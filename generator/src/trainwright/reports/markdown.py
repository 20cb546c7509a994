"""For pull requests and step summaries: a verdict, a table, and details that fold away."""

from __future__ import annotations

import html
import re

from trainwright.model import Finding
from trainwright.reports.report import Format, Report, help_uri, visible

LIMIT = 65_536  # characters of a GitHub comment
_ROOM = 400  # kept free for saying what was left out
_ICONS = {"error": "❌", "warning": "⚠️", "note": "💬"}


def render(report: Report) -> str:
    head = f"### Trainwright: {_cell(report.verdict)}\n"
    foot = f"\n_Reproduce with_ `{_code(report.command)}`\n"
    room = LIMIT - len(head) - len(foot) - _ROOM
    rows = [_row(finding) for finding in report.by_weight]
    details = [_details(report, finding) for finding in report.by_weight]
    table = ["\n| | rule | where | what |\n|---|---|---|---|\n", *rows] if rows else []
    shown, used = _fitting(table, room)
    folded, _ = _fitting(details, room - used if len(shown) == len(table) else 0)
    left = []
    if len(shown) < len(table):
        left.append(f"{len(table) - len(shown)} rows")
    if len(folded) < len(details):
        left.append(f"the details of {len(details) - len(folded)} findings")
    dropped = f"\n_Left out to fit a comment: {' and '.join(left)}._\n" if left else ""
    return "".join((head, *shown, *folded, dropped, foot))


def _fitting(parts: list[str], room: int) -> tuple[list[str], int]:
    """The first parts that fit, and how much room they take."""
    used = 0
    for index, part in enumerate(parts):
        if used + len(part) > room:
            return parts[:index], used
        used += len(part)
    return parts, used


def _row(finding: Finding) -> str:
    rule = f"[{finding.rule}]({help_uri(finding.rule)})"
    where = "`{}`".format(_code(str(finding.place)).replace("|", "\\|"))
    icon = _ICONS[finding.severity.value]
    return f"| {icon} | {rule} | {where} | {_cell(finding.message)} |\n"


def _details(report: Report, finding: Finding) -> str:
    line = report.line(finding.place)
    lines = [f"{r.label}: {r.text} {r.place or ''}".rstrip() for r in finding.related]
    lines += [f"effect: {finding.effect}"] if finding.effect else []
    lines += [f"help: {finding.remedy}"]
    said = "".join(f"- {_cell(text)}\n" for text in lines)
    source = f"\n<pre>{_html(line.strip()[:200])}</pre>\n" if line else ""
    summary = f"{finding.rule} {_html(finding.subject or finding.place.file)}"
    return f"\n<details><summary>{summary}</summary>\n{source}\n{said}\n</details>\n"


_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~>-])")


_LINKED = re.compile(r"@|:(?=//)|www(?=\.)")  # mentions and bare addresses


def _cell(text: str) -> str:
    """Text that Markdown, tables, HTML and @mentions leave alone."""
    escaped = _SPECIAL.sub(r"\\\1", visible(text[:1000]).replace("\t", " "))
    escaped = escaped.replace("&", "&amp;").replace("<", "&lt;")
    return _LINKED.sub("\\g<0>\u2060", escaped)


def _html(text: str) -> str:
    escaped = html.escape(visible(text[:1000]).replace("\t", " "))
    return escaped.replace("@", "&#64;").replace("|", "&#124;")


def _code(text: str) -> str:
    return visible(text[:1000]).replace("`", "'").replace("\t", " ")


FORMAT = Format("markdown", "for pull requests: a verdict, a table, folded details", render)
