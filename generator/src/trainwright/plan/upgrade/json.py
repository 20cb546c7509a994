"""For programs: a versioned envelope that schemas/upgrade.schema.json describes."""

from __future__ import annotations

from trainwright.datatypes.data import Data
from trainwright.plan.upgrade.model import FindingChange, Release, Upgrade
from trainwright.reports.json import place_of
from trainwright.reports.style import Style, document


def render(upgrade: Upgrade, style: Style) -> str:
    runs = upgrade.runs
    return document(
        "Upgrade",
        {
            "command": style.command,
            "from": _release(upgrade.before),
            "to": _release(upgrade.after),
            "blocked": upgrade.blocked,
            "runs": {
                "kept": list(runs.kept),
                "changed": list(runs.changed),
                "started": list(runs.started),
                "pending": list(runs.pending),
                "refused": dict(sorted(runs.refused.items())),
            },
            "nextRuns": {
                "same": upgrade.same,
                "differences": [
                    {"jobs": list(difference.jobs), "diff": list(difference.diff)}
                    for difference in upgrade.differences
                ],
                "dropped": list(upgrade.dropped),
                "gained": list(upgrade.gained),
            },
            "findings": [_finding(change) for change in upgrade.findings],
        },
    )


def _release(release: Release) -> Data:
    return {"trainwright": release.tool, "chart": release.chart}


def _finding(change: FindingChange) -> Data:
    finding = change.finding
    return {
        "change": change.kind,
        "rule": finding.rule,
        "before": change.before.value if change.before else None,
        "after": change.after.value if change.after else None,
        "subject": finding.subject,
        "place": place_of(finding.place),
        "path": finding.pointer,
        "message": finding.message,
        "remedy": finding.remedy,
    }
