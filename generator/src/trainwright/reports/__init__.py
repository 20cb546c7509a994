"""Reports of findings, and the formats in which they are written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.pointer import Pointer
from trainwright.findings.credentials import redact
from trainwright.reports.report import Report
from trainwright.reports.style import Style, written

# What each is for, in the order in which they are listed. Each has a module.
FORMATS = {
    "text": "for people: the authored line, what it causes, what to do",
    "json": "for programs: a versioned envelope with every field",
    "sarif": "for code scanning: SARIF 2.1.0 at the authored positions",
    "github": "for GitHub Actions: annotations, within the limits of a step",
    "junit": "for test dashboards: JUnit XML, a case a job",
    "markdown": "for pull requests: a verdict, a table, folded details",
}


def redacted(finding: Finding) -> Finding:
    """Return a finding with everything that looks like a credential redacted."""
    return replace(
        finding,
        message=redact(finding.message),
        note=redact(finding.note),
        path=without_credentials(finding.path),
        pointer=without_credentials(Pointer(finding.pointer)),
        related=tuple(replace(r, text=redact(r.text)) for r in finding.related),
    )


def without_credentials(pointer: Pointer) -> Pointer:
    """Return a pointer whose keys, such as the name of a flag, are no credentials."""
    return Pointer.of(*map(redact, pointer.parts)) if redact(pointer) != pointer else pointer


def _moved(
    findings: Iterable[Finding], sources: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[Location, int]]:
    """The columns of places behind something that is hidden, in the line as it is shown."""
    for place in {finding.place for finding in findings}:
        lines = sources.get(place.file, ())
        if place.line <= len(lines):
            before = lines[place.line - 1][: place.column - 1]
            if redact(before) != before:
                yield place, len(redact(before)) + 1


def _shown(
    findings: tuple[Finding, ...], sources: Mapping[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """The lines that findings point at, redacted; all others are empty."""
    if not findings:
        return {file: ("",) * len(lines) for file, lines in sources.items()}
    from trainwright.findings.redaction import redact_lines  # a clean report quotes no file

    named = {finding.place.file for finding in findings}
    safe = {file: redact_lines(lines) for file, lines in sources.items() if file in named}
    shown = {file: [""] * len(lines) for file, lines in sources.items()}
    for place in {finding.place for finding in findings}:
        lines = safe.get(place.file, [])
        if place.line <= len(lines):
            shown[place.file][place.line - 1] = lines[place.line - 1]
    return {file: tuple(lines) for file, lines in shown.items()}


def write(
    findings: tuple[Finding, ...],
    sources: Mapping[str, tuple[str, ...]],
    output: str,
    *,
    checked: tuple[str, ...],
    command: str,
    color: bool,
    noun: str = "job",
) -> str:
    """Render findings in one of the formats, with what looks like a credential redacted.

    `sources` are the lines of the files that the findings are in. `checked` is what was looked at,
    and `noun` what one of those is called.
    """
    report = Report(
        findings=tuple(map(redacted, findings)),
        sources=_shown(findings, sources),
        checked=checked,
        columns=dict(_moved(findings, sources)),
        noun=noun,
    )
    return written("reports", output, report, Style(command=command, color=color))
