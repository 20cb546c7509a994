"""For a browser: one file with the verdict, each job's diff, capacity and findings, offline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from trainwright.findings.redaction import redact_lines
from trainwright.model import Data, Finding, Location
from trainwright.plan import words
from trainwright.plan.format import Format, Style
from trainwright.plan.model import (
    Action,
    CapacityCheck,
    Cause,
    EnvironmentPlan,
    JobChange,
    Plan,
    SharedFileImpact,
)
from trainwright.reports.page import document
from trainwright.reports.report import by_weight, help_uri, rule

# All diffs of a page together, in characters: compressed they are a tenth of it.
_DIFFS = 4_000_000
_DANGER = frozenset(
    {Action.REJECTED, Action.BROKEN, Action.DELETED, Action.LEFT, Action.MIXED, Action.IGNORED}
)
_WARNING = frozenset({Action.CANCELLED, Action.NEW_RUN, Action.HELD})


def render(review: Plan, style: Style) -> str:
    lines = _Lines(review.sources)
    changes = [change for change in review.changes if change.action is not Action.HELD]
    data = {
        "link": style.link if style.link.startswith(("https://", "http://")) else "",
        "environments": sorted({change.file.environment for change in changes}),
        "actions": [
            {"action": action.value, "count": count}
            for action, count in sorted(
                Counter(change.action for change in changes).items(), key=lambda one: one[0].risk
            )
        ],
        "hours": max((change.asked.hours.high for change in changes), default=0),
        "changes": list(_changes(changes, lines)),
        "shared": [_shared(file, lines) for file in review.blast],
        "findings": [_finding(finding, lines) for finding in by_weight(review.findings)],
    }
    return document(
        "plan",
        f"Plan: {words.verdict(review)}",
        data,
        verdict=words.verdict(review),
        tone="danger" if review.blocked else "",
        facts=_facts(review, style),
        environments=[_environment(found) for found in review.environments],
        command=style.command,
    )


def _facts(review: Plan, style: Style) -> list[tuple[str, str]]:
    facts = [("into", style.against), ("base", review.base[:10])]
    facts.append(("head", review.head[:10] or "working tree"))
    return [*facts, ("behind", f"{review.behind} commits")] if review.behind else facts


@dataclass(frozen=True)
class _Lines:
    """Authored lines as they may be shown; a file is looked at once."""

    sources: Mapping[str, tuple[str, ...]]

    @cached_property
    def _shown(self) -> dict[str, list[str]]:
        return {}

    def at(self, place: Location) -> str:
        """The line at a place; empty where there is none."""
        if place.file not in self._shown:
            self._shown[place.file] = redact_lines(self.sources.get(place.file, ()))
        lines = self._shown[place.file]
        return lines[place.line - 1].strip() if 0 < place.line <= len(lines) else ""


def _environment(found: EnvironmentPlan) -> Data:
    return {
        "name": found.name,
        "jobs": f"{found.jobs:,} job{'' if found.jobs == 1 else 's'}",
        "asked": ", ".join(words.asked(found.asked, sign=True)),
        "bars": [_bar(fit) for fit in found.fits],
    }


def _bar(fit: CapacityCheck) -> Data:
    """Shares, in percent, of whatever is larger: what is there, or what is asked for."""
    whole = max(fit.has, fit.most, fit.need) or 1
    return {
        "what": fit.what,
        "said": words.fitting(fit),
        "tone": "danger" if fit.short else "",
        "need": round(100 * fit.need / whole, 2),
        "most": round(100 * fit.most / whole, 2),
        "limit": round(100 * fit.has / whole, 2),
    }


def _changes(changes: list[JobChange], lines: _Lines) -> Iterator[Data]:
    """The riskiest first, whose diffs are the first to have room."""
    room = _DIFFS
    for change in changes:
        files: list[Data] | None = list(_files(change)) if room > 0 else None
        if files:
            room -= sum(len(line) for file in files for line in file["lines"])
        yield {
            "job": str(change.file),
            "environment": change.file.environment,
            "action": change.action.value,
            "tone": _tone(change.action),
            "why": change.why,
            "asked": ", ".join(words.asked(change.asked, sign=True)),
            "hours": max(0, change.asked.hours.high),
            "image": words.image(change),
            "causes": [_cause(cause, lines) for cause in change.causes],
            "files": files,
        }


def _tone(action: Action) -> str:
    if action in _DANGER:
        return "danger"
    return "warning" if action in _WARNING else "good"


def _files(change: JobChange) -> Iterator[Data]:
    """The hunks of each manifest that changes."""
    for path, (_, _, *hunks) in words.diffs(change):
        yield {"name": path, "lines": hunks}


def _cause(cause: Cause, lines: _Lines) -> Data:
    return {"text": words.cause(cause), **_place(cause.place, lines)}


def _place(place: Location, lines: _Lines) -> dict[str, Data]:
    return {"file": place.file, "line": place.line, "authored": lines.at(place)}


def _shared(file: SharedFileImpact, lines: _Lines) -> Data:
    return {
        "file": file.file,
        "reach": words.reach(file),
        "causes": [_cause(cause, lines) for cause in file.causes],
    }


def _finding(finding: Finding, lines: _Lines) -> Data:
    return {
        "rule": finding.rule,
        "name": rule(finding).name,
        "help": help_uri(finding.rule),
        "severity": finding.severity.value,
        "message": finding.message,
        "effect": finding.effect,
        "remedy": finding.remedy,
        **_place(finding.place, lines),
    }


FORMAT = Format(
    "html", "for a browser: one file with diffs, capacity and findings, offline", render
)
