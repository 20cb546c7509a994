"""For GitHub Actions: workflow commands that become annotations on the changed lines."""

from __future__ import annotations

from collections import Counter

from trainwright.datatypes.finding import Finding, Severity
from trainwright.findings.visibility import visible
from trainwright.reports.report import Report, fairly
from trainwright.reports.style import Style

# How many annotations of one level a step may have; GitHub silently drops the rest.
# https://github.com/actions/toolkit/blob/main/docs/problem-matchers.md#limitations
_MOST = 10
_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def render(report: Report, style: Style) -> str:
    lines: list[str] = []
    shown: Counter[Severity] = Counter()
    few = all(report.count(severity) <= _MOST for severity in Severity)
    for finding in report.by_weight if few else fairly(report.findings):
        shown[finding.severity] += 1
        if shown[finding.severity] <= _MOST:
            lines.append(_annotation(finding))
    left = sum(max(0, number - _MOST) for number in shown.values())
    lines.append(_data(report.verdict))
    if left:
        lines.append(f"{left} more findings are not annotated; run `{_data(style.command)}`.")
    return "\n".join(lines) + "\n"


def _annotation(finding: Finding) -> str:
    place = finding.place
    properties = {
        "file": place.file,
        "line": str(place.line),
        "col": str(place.column),
        "title": f"{finding.rule} {finding.subject}".strip(),
    }
    attributes = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    text = f"{finding.message}. {finding.effect} {finding.remedy}".replace("  ", " ")
    return f"::{_COMMANDS[finding.severity]} {attributes}::{_data(text)}"


def _data(text: str) -> str:
    """Escaped as actions/toolkit escapes the data of a command; the log shows the rest."""
    return visible(text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A"))


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
