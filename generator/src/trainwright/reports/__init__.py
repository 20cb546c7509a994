"""The formats of a report, in the order they are listed: one is its module and its line here."""

from __future__ import annotations

from trainwright.plan import Plan
from trainwright.reports import github, json, junit, markdown, sarif, text
from trainwright.reports.report import Format, Report

FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        text.FORMAT,
        json.FORMAT,
        sarif.FORMAT,
        github.FORMAT,
        junit.FORMAT,
        markdown.FORMAT,
    )
}


def render(plan: Plan, output: str, *, command: str, color: bool) -> str:
    """A plan's findings in one of the formats."""
    report = Report(
        findings=plan.findings,
        sources=plan.sources,
        checked=tuple(str(job) for job in plan.jobs),
        command=command,
        color=color,
    )
    return FORMATS[output].render(report)
