"""For people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from trainwright.datatypes.finding import Finding, Severity, ValueChange
from trainwright.datatypes.listing import first, plural
from trainwright.findings import diagnostics as dx
from trainwright.findings.visibility import visible
from trainwright.plan import headline, words
from trainwright.plan import table as uses
from trainwright.plan.alike import Alike, alike
from trainwright.plan.model import Plan
from trainwright.reports.report import fairly
from trainwright.reports.style import Style, finding_line
from trainwright.reports.terminal import table
from trainwright.reports.values import change_line

_COLORS = {
    "rejected": "red",
    "broken": "red",
    "deleted": "red",
    "left running": "red",
    "mixed": "red",
    "ignored": "yellow",
    "cancelled": "yellow",
    "new run": "yellow",
    "starts": "green",
}


def render(review: Plan, style: Style) -> str:
    files = _files(review, style) if style.files else ()
    return "".join(f"{line}\n" for line in (*_lines(review, style), *files))


def _lines(review: Plan, style: Style) -> Iterator[str]:
    for line in (*map(words.forged, review.underived), *words.outside(review)):
        yield style.paint(visible(line), "red")
    yield visible(headline.verdict(review))
    yield from (style.paint(visible(line), "yellow") for line in words.notes(review))
    yield from map(visible, words.amounts(review))
    if review.behind:
        more = plural(review.behind, "more commit")
        yield f"{style.against} has {more}, whose changes are not looked at"
    used = uses.table(review)
    if used.rows:
        yield ""
        yield table(used.heads, used.rows, color=style.color).rstrip("\n")
    for group in alike(review.listed):
        yield ""
        yield from _change(group, style, review.currency(group.first.file.environment))
    yield from _objects(review)
    yield from _findings(review, style)
    if review.blast:
        yield ""
        for blast in review.blast:
            yield visible(f"{blast.file} {words.reach(blast)}")
            if kept := words.keeping(review, blast):
                yield visible(f"  {kept}")
            yield from _causes(blast.causes)


def _files(review: Plan, style: Style) -> Iterator[str]:
    for change in review.changes:
        yield from map(style.differing, words.diff(change))


def _objects(review: Plan) -> Iterator[str]:
    if review.objects:
        yield ""
    for change in review.objects:
        what = words.changed_object(change)
        yield visible(f"{change.environment}  {what}  ({change.place})")


def _findings(review: Plan, style: Style) -> Iterator[str]:
    """Yield errors, what was asked for, and the first warnings, some of each file."""
    asked = [finding for finding in review.findings if _is_asked(finding)]
    others = [finding for finding in review.findings if not _is_asked(finding)]
    warnings = fairly(finding for finding in others if finding.severity is Severity.WARNING)
    if asked or warnings:
        yield ""
    yield from (finding_line(finding, style.paint) for finding in asked)
    show = partial(finding_line, paint=style.paint)
    yield from first(warnings, _MOST_WARNINGS, show, "warnings: see `trainwright check`")


_ASKED = (dx.CEL.id, dx.CEL_SKIPPED.id, dx.PLACED_BY_FLAVOR.id)
_MOST_WARNINGS = 20


def _is_asked(finding: Finding) -> bool:
    """Whether a finding is an error, a CRD's report, or on fields left to a ResourceFlavor."""
    return finding.severity is Severity.ERROR or finding.rule in _ASKED


def _change(group: Alike, style: Style, currency: str) -> Iterator[str]:
    change = group.first
    action = style.paint(change.action.value, _COLORS.get(change.action.value, ""))
    yield f"{visible(group.name)}  {action}: {visible(change.why)}"
    if same := words.same(", ".join(group.others), group.commands):
        yield visible(f"  {same}")
    yield from _causes(change.causes)
    if request := words.signed(group.asked, currency):
        yield f"  requests {request}"
    if words.image(change):
        yield visible(f"  image {words.image(change)}")
    yield from (f"  {visible(line)}" for line in words.runs(change))


def _causes(causes: Sequence[ValueChange]) -> Iterator[str]:
    for line in first(causes, _MOST, lambda cause: f"{change_line(cause)}  ({cause.place})"):
        yield f"  {visible(line)}"


_MOST = 8  # causes shown of one job or file
