"""For programs: a versioned envelope that schemas/report.schema.json describes."""

from __future__ import annotations

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Location, Severity
from trainwright.reports.report import Report, help_uri, rule
from trainwright.reports.style import Style, document


def render(report: Report, style: Style) -> str:
    return document(
        "Report",
        {
            "reporter": "trainwright check",
            "command": style.command,
            "checked": list(report.checked),
            "summary": {f"{severity.value}s": report.count(severity) for severity in _COUNTED},
            "results": [finding_data(finding) for finding in report.findings],
        },
    )


_COUNTED = (Severity.ERROR, Severity.WARNING, Severity.NOTE)


def place_of(place: Location) -> Data:
    """A position as the schemas of reports and plans have it."""
    return {"file": place.file, "line": place.line, "column": place.column}


def finding_data(finding: Finding) -> Data:
    """A finding as every machine-readable report has it: `$defs/finding` of its schema."""
    result: Data = {
        "rule": finding.rule,
        "name": rule(finding).name,
        "severity": finding.severity.value,
        "place": place_of(finding.place),
        "message": finding.message,
        "remedy": finding.remedy,
        "help": help_uri(finding.rule),
    }
    optional = {
        "subject": finding.subject,
        "path": finding.path.dotted,
        "note": finding.note,
        "effect": finding.effect,
        "manifest": finding.manifest,
        "pointer": finding.pointer,
    }
    result |= {key: value for key, value in optional.items() if value}
    if finding.related:
        result["related"] = [
            {"label": r.label, "text": r.text, **({"place": place_of(r.place)} if r.place else {})}
            for r in finding.related
        ]
    return result
