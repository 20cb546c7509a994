"""For code scanning: SARIF 2.1.0 whose positions are the lines people wrote.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

from collections import Counter
from urllib.parse import quote

from trainwright import __version__
from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Location, Severity
from trainwright.datatypes.same import digest
from trainwright.reports.report import HOME, Report, dump, help_uri, rule
from trainwright.reports.style import Style

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render(report: Report, _style: Style) -> str:
    fired = {finding.rule: finding for finding in report.findings}
    rules = sorted(fired)
    ordinals: Counter[str] = Counter()
    data = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "Trainwright",
                        "informationUri": HOME,
                        "semanticVersion": __version__,
                        "rules": [_rule(fired[rule_id]) for rule_id in rules],
                    }
                },
                "originalUriBaseIds": {"%SRCROOT%": {"description": {"text": "The repository."}}},
                "columnKind": "unicodeCodePoints",
                "results": [_result(report, f, rules, ordinals) for f in report.findings],
            }
        ],
    }
    return dump(data)


def _rule(finding: Finding) -> Data:
    described = rule(finding)
    full = f"{described.summary} {described.effect}".strip()
    return {
        "id": described.id,
        "name": described.name,
        "shortDescription": {"text": described.summary},
        "fullDescription": {"text": full},
        "helpUri": help_uri(described.id),
        "help": {"text": described.remedy, "markdown": described.remedy},
        "defaultConfiguration": {"level": _LEVELS.get(described.severity, "none")},
    }


def _result(report: Report, finding: Finding, rules: list[str], ordinals: Counter[str]) -> Data:
    result: Data = {
        "ruleId": finding.rule,
        "ruleIndex": rules.index(finding.rule),
        "level": _LEVELS[finding.severity],
        "message": _message(f"{finding.message}. {finding.remedy}"),
        "locations": [{"physicalLocation": _location(finding.place)}],
        "partialFingerprints": {"primaryLocationLineHash": _hash(report, finding, ordinals)},
    }
    related = [r for r in finding.related if r.place]
    if related:
        result["relatedLocations"] = [
            {
                "id": index,
                "physicalLocation": _location(r.place),
                "message": _message(f"{r.label}: {r.text}"),
            }
            for index, r in enumerate(related)
            if r.place
        ]
    return result


def _message(text: str) -> Data:
    """Text as a message without links: `[x](y)` would be one (SARIF 2.1.0, section 3.11.6)."""
    return {"text": text.replace("](", "\\](")}


def _location(place: Location) -> Data:
    return {
        "artifactLocation": {"uri": quote(place.file, errors="replace"), "uriBaseId": "%SRCROOT%"},
        "region": {"startLine": place.line, "startColumn": place.column},
    }


def _hash(report: Report, finding: Finding, ordinals: Counter[str]) -> str:
    """Stays the same when lines above are added or removed, so that alerts are not reopened."""
    line = (report.line(finding.place) or "").strip()
    text = f"{finding.rule}\0{finding.place.file}\0{line}"
    key = digest(text.encode(errors="replace"))[:16]
    ordinals[key] += 1
    return f"{key}:{ordinals[key]}"
