"""The report that every format renders, and what the formats share."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cache
from typing import TYPE_CHECKING

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Location, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.listing import plural
from trainwright.findings.diagnostics import DIAGNOSTICS, Diagnostic
from trainwright.findings.visibility import LOG_COMMAND, UNSEEN
from trainwright.reports.comment import by_turns

if TYPE_CHECKING:
    from trainwright.rule_model.edit import EditRule
    from trainwright.rule_model.rule import Rule

    AnyRule = Rule | EditRule | Diagnostic

HOME = "https://github.com/trainwright/trainwright"
COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "blue"}
WEIGHT = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Findings in order of position, with the lines they point into and what was looked at."""

    findings: tuple[Finding, ...]
    sources: Mapping[str, tuple[str, ...]]
    checked: tuple[str, ...]  # "env/job"
    columns: Mapping[Location, int] = field(default_factory=dict)  # where hiding text moved them
    noun: str = "job"  # what was looked at

    def line(self, place: Location) -> str | None:
        """The authored line at a place, or None when it cannot be shown."""
        lines = self.sources.get(place.file, ())
        return lines[place.line - 1] if 0 < place.line <= len(lines) else None

    @property
    def by_weight(self) -> tuple[Finding, ...]:
        return by_weight(self.findings)

    def count(self, severity: Severity) -> int:
        return Counter(finding.severity for finding in self.findings)[severity]

    @property
    def verdict(self) -> str:
        """One line: "2 errors, 1 warning in 3 jobs", or that all is well."""
        jobs = plural(len(self.checked), self.noun)
        counts = [(self.count(severity), severity.value) for severity in WEIGHT]
        parts = [plural(number, word) for number, word in counts if number]
        return f"{', '.join(parts) or 'no findings'} in {jobs}"


def by_weight(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings with the most severe first, and by position among equals."""
    return tuple(sorted(findings, key=lambda f: (WEIGHT[f.severity], f.order)))


def fairly(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """As by weight, but the first of each file before the second of any: for where not all fit."""
    turns = by_turns(by_weight(findings), lambda f: (f.severity, f.place.file))
    return tuple(sorted(turns, key=lambda f: WEIGHT[f.severity]))


@cache
def every_rule() -> dict[str, AnyRule]:
    """Rules and diagnostics by their ids, in order."""
    from trainwright.rules.edits.outcomes import EDIT_RULES
    from trainwright.rules.registry import RULES  # 80 ms, and many reports have no findings

    every: dict[str, AnyRule] = {**DIAGNOSTICS, **RULES, **EDIT_RULES}
    return dict(sorted(every.items()))


def rule(finding: Finding) -> AnyRule:
    """The rule or diagnostic that a finding belongs to."""
    return every_rule()[finding.rule]


def help_uri(rule_id: str) -> str:
    """Where a rule is documented."""
    return f"{HOME}/blob/main/docs/rules/{rule_id}.md"


_CONTROL_IN_JSON = re.compile(rf"[{UNSEEN}]|{LOG_COMMAND}")


def cells(text: str) -> int:
    """How many columns of a terminal a text takes: letters of some scripts take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # 15 ms, and few texts need it

    return cell_len(text)


def dump(data: Data) -> str:
    """Return readable JSON in which invisible characters and log commands are escaped.

    Half of a surrogate pair becomes U+FFFD: strict parsers refuse even its escape.
    """
    text = json.dumps(data, indent=2, ensure_ascii=False)
    return _CONTROL_IN_JSON.sub(lambda match: _escaped(match.group()), text) + "\n"


def _escaped(character: str) -> str:
    if "\ud800" <= character <= "\udfff":
        return "\\ufffd"
    units = character.encode("utf-16-be").hex()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))
