"""The formats of a report, in the order they are listed: one is its module and its line here."""

from __future__ import annotations

from dataclasses import replace

from trainwright.credentials import redact
from trainwright.model import Finding
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


def _redacted(finding: Finding) -> Finding:
    """A finding whose words carry nothing that looks like a credential."""
    return replace(
        finding,
        message=redact(finding.message),
        note=redact(finding.note),
        related=tuple(replace(r, text=redact(r.text)) for r in finding.related),
    )


def render(plan: Plan, output: str, *, command: str, color: bool) -> str:
    """A plan's findings in one of the formats."""
    report = Report(
        findings=tuple(map(_redacted, plan.findings)),
        sources={file: tuple(map(redact, lines)) for file, lines in plan.sources.items()},
        checked=tuple(str(job) for job in plan.jobs),
        command=command,
        color=color,
    )
    return FORMATS[output].render(report)
