"""For pull requests and step summaries: a verdict, a table, and details that fold away."""

from __future__ import annotations

from trainwright.datatypes.model import Finding
from trainwright.reports.comment import ICONS, LIMIT, cell, code, fitting, html
from trainwright.reports.report import Format, Report, fairly, help_uri

_ROOM = 400  # kept free for saying what was left out


def render(report: Report) -> str:
    head = f"### Trainwright: {cell(report.verdict)}\n"
    foot = f"\n_Reproduce with_ `{code(report.command)}`\n"
    room = LIMIT - len(head) - len(foot) - _ROOM
    rows = [_row(finding) for finding in report.by_weight]
    if sum(map(len, rows)) > room:
        rows = [_row(finding) for finding in fairly(report.findings)]
    details = [_details(report, finding) for finding in report.by_weight]
    table = ["\n| | rule | where | what |\n|---|---|---|---|\n", *rows] if rows else []
    shown, used = fitting(table, room)
    folded, _ = fitting(details, room - used if len(shown) == len(table) else 0)
    left = []
    if len(shown) < len(table):
        left.append(f"{len(table) - len(shown)} rows")
    if len(folded) < len(details):
        left.append(f"the details of {len(details) - len(folded)} findings")
    dropped = f"\n_Left out to fit a comment: {' and '.join(left)}._\n" if left else ""
    return "".join((head, *shown, *folded, dropped, foot))


def _row(finding: Finding) -> str:
    rule = f"[{finding.rule}]({help_uri(finding.rule)})"
    where = "`{}`".format(code(str(finding.place)).replace("|", "\\|"))
    icon = ICONS[finding.severity.value]
    return f"| {icon} | {rule} | {where} | {cell(finding.message)} |\n"


def _details(report: Report, finding: Finding) -> str:
    line = report.line(finding.place)
    lines = [f"{r.label}: {r.text} {r.place or ''}".rstrip() for r in finding.related]
    lines += [f"effect: {finding.effect}"] if finding.effect else []
    lines += [f"help: {finding.remedy}"]
    items = "".join(f"- {cell(text)}\n" for text in lines)
    source = f"\n<pre>{html(line.strip()[:200])}</pre>\n" if line else ""
    summary = f"{finding.rule} {html(finding.subject or finding.place.file)}"
    return f"\n<details><summary>{summary}</summary>\n{source}\n{items}\n</details>\n"


FORMAT = Format("markdown", "for pull requests: a verdict, a table, folded details", render)
