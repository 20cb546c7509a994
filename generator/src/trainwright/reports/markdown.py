"""For pull requests and step summaries: a verdict, a table, and details that fold away."""

from __future__ import annotations

from trainwright.datatypes.finding import Finding
from trainwright.reports.comment import (
    ICONS,
    LIMIT,
    cell,
    code,
    details,
    fitting,
    html,
    left_out,
    prose,
)
from trainwright.reports.report import Report, fairly, help_uri
from trainwright.reports.style import Style

_ROOM = 400  # kept free for saying what was left out


def render(report: Report, style: Style) -> str:
    head = f"### Trainwright: {cell(report.verdict)}\n"
    foot = f"\n_Reproduce with_ `{code(style.command)}`\n"
    room = LIMIT - len(head) - len(foot) - _ROOM
    rows = [_row(finding) for finding in report.by_weight]
    if sum(map(len, rows)) > room:
        rows = [_row(finding) for finding in fairly(report.findings)]
    explained = [_details(report, finding) for finding in report.by_weight]
    table = ["\n| | rule | where | what |\n|---|---|---|---|\n", *rows] if rows else []
    shown, used = fitting(table, room)
    folded, _ = fitting(explained, room - used if len(shown) == len(table) else 0)
    left = left_out(
        (len(table) - len(shown), "row", "rows"),
        (len(explained) - len(folded), "folded finding", "folded findings"),
    )
    return "".join((head, *shown, *folded, left, foot))


def _row(finding: Finding) -> str:
    rule = f"[{finding.rule}]({help_uri(finding.rule)})"
    where = "`{}`".format(code(str(finding.place)).replace("|", "\\|"))
    icon = ICONS[finding.severity.value]
    return f"| {icon} | {rule} | {where} | {prose(finding.message)} |\n"


def _details(report: Report, finding: Finding) -> str:
    line = report.line(finding.place)
    lines = [f"{r.label}: {r.text} {r.place or ''}".rstrip() for r in finding.related]
    lines += [f"effect: {finding.effect}"] if finding.effect else []
    lines += [f"help: {finding.remedy}"]
    items = "".join(f"- {prose(text)}\n" for text in lines)
    source = f"<pre>{html(line.strip()[:200])}</pre>\n\n" if line else ""
    summary = f"{finding.rule} {html(finding.subject or finding.place.file)}"
    return details(summary, f"{source}{items}")
