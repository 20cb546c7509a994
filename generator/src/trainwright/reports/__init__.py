"""The formats of a report, in the order they are listed: one is its module and its line here."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from trainwright.credentials import redact
from trainwright.model import Finding, Place
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


def _moved(plan: Plan) -> Iterator[tuple[Place, int]]:
    """The columns of places behind something that is hidden, in the line as it is shown."""
    for place in {finding.place for finding in plan.findings}:
        lines = plan.sources.get(place.file, ())
        if place.line <= len(lines):
            before = lines[place.line - 1][: place.column - 1]
            if redact(before) != before:
                yield place, len(redact(before)) + 1


def render(plan: Plan, output: str, *, command: str, color: bool) -> str:
    """A plan's findings in one of the formats."""
    report = Report(
        findings=tuple(map(_redacted, plan.findings)),
        sources={file: tuple(map(redact, lines)) for file, lines in plan.sources.items()},
        checked=tuple(str(job) for job in plan.jobs),
        command=command,
        color=color,
        columns=dict(_moved(plan)),
    )
    return FORMATS[output].render(report)
