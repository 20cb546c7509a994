"""Findings as LSP diagnostics: a range, the related positions, where to read more."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lsprotocol import types

from trainwright.authoring.text import Position, Span
from trainwright.datatypes.finding import Finding, Location, Severity
from trainwright.findings import diagnostics as dx
from trainwright.findings.visibility import visible
from trainwright.reports.report import help_uri

if TYPE_CHECKING:
    from trainwright.authoring.session import Session

_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}
_UNNECESSARY = frozenset({dx.SAME_AS_INHERITED.id, dx.UNREAD.id})

To = Callable[[str, Span], types.Location]  # a path and a span, for the client


def diagnostic(session: Session, finding: Finding, to: To) -> types.Diagnostic:
    """A finding about a file of the session."""
    related = [
        types.DiagnosticRelatedInformation(
            location=located(session, other.place, to),
            message=visible(f"{other.label}: {other.text}"),
        )
        for other in finding.related
        if other.place is not None
    ]
    tags = [types.DiagnosticTag.Unnecessary] if finding.rule in _UNNECESSARY else None
    return types.Diagnostic(
        range=located(session, finding.place, to).range,
        severity=_SEVERITIES[finding.severity],
        code=finding.rule,
        code_description=types.CodeDescription(href=help_uri(finding.rule)),
        source="trainwright",
        message="\n".join(map(visible, _sentences(finding))),
        related_information=related or None,
        tags=tags,
    )


def _sentences(finding: Finding) -> list[str]:
    lines = [finding.message, finding.note, finding.effect]
    lines += [f"help: {finding.remedy}"] if finding.remedy else []
    return [line for line in lines if line]


def located(session: Session, place: Location, to: To) -> types.Location:
    """Return the location of what is written at the position that a finding names."""
    span = session.text(place.file).token(Position(place.line - 1, place.column - 1))
    return to(place.file, span)
