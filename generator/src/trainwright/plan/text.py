"""For people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from trainwright.datatypes.finding import Severity, ValueChange
from trainwright.datatypes.listing import first, plural
from trainwright.findings import diagnostics as dx
from trainwright.findings.visibility import visible
from trainwright.plan import headline, words
from trainwright.plan import table as tables
from trainwright.plan.alike import Alike, alike
from trainwright.plan.model import Plan
from trainwright.reports.report import fairly
from trainwright.reports.style import Style, finding_line
from trainwright.reports.terminal import table
from trainwright.reports.values import change_line

_COLORS = {"danger": "red", "warning": "yellow", "": ""}


def render(plan: Plan, style: Style) -> str:
    files = _files(plan, style) if style.files else ()
    return "".join(f"{line}\n" for line in (*_lines(plan, style), *files))


def _lines(plan: Plan, style: Style) -> Iterator[str]:
    never = any(change.cannot_start for change in plan.changes)
    yield style.paint(visible(headline.verdict(plan)), "red" if never else "")
    for line in (*map(words.forged, plan.underived), *words.outside(plan)):
        yield style.paint(visible(line), "red")
    yield from (finding_line(finding, style.paint) for finding in words.errors(plan))
    yield from (style.paint(visible(line), "yellow") for line in words.notes(plan))
    yield from map(visible, words.amounts(plan))
    if plan.behind:
        more = plural(plan.behind, "more commit")
        yield f"{style.against} has {more}, whose changes are not looked at"
    used = tables.table(plan)
    if used.rows:
        yield ""
        yield table(used.heads, used.texts, color=style.color).rstrip("\n")
    yield from filter(None, (words.bound(plan),))
    for group in alike(plan.listed):
        yield ""
        yield from _change(group, style, plan.currency(group.first.file.environment))
    yield from _objects(plan)
    yield from _findings(plan, style)
    if plan.shared_files:
        yield ""
        for shared in plan.shared_files:
            yield visible(f"{shared.file} {words.reach(shared)}")
            if kept := words.keeping(plan, shared):
                yield visible(f"  {kept}")
            yield from _causes(shared.causes)


def _files(plan: Plan, style: Style) -> Iterator[str]:
    for change in plan.changes:
        yield from map(style.differing, words.diff(change))
    for changed in plan.objects:
        yield from map(style.differing, words.object_diff(changed))


def _objects(plan: Plan) -> Iterator[str]:
    if plan.objects:
        yield ""
    yield from map(visible, words.moved_objects(plan))
    for change in (it for it in plan.objects if it.action != "moved"):
        what = words.changed_object(change)
        yield visible(f"{change.environment}  {what}  ({change.place})")
        yield from (visible(f"  {effect}") for effect in change.effects)
        yield from _causes(change.values)


def _findings(plan: Plan, style: Style) -> Iterator[str]:
    """Yield what was asked for, and the first warnings, some of each file; errors came first."""
    found = [finding for finding in plan.findings if finding.severity is not Severity.ERROR]
    asked = [finding for finding in found if finding.rule in _ASKED]
    others = [finding for finding in found if finding.rule not in _ASKED]
    warnings = fairly(finding for finding in others if finding.severity is Severity.WARNING)
    if asked or warnings:
        yield ""
    yield from (finding_line(finding, style.paint) for finding in asked)
    show = partial(finding_line, paint=style.paint)
    yield from first(warnings, _MOST_WARNINGS, show, "warnings: see `trainwright check`")


# A CRD's reports, and fields that are left to a ResourceFlavor.
_ASKED = (dx.CEL.id, dx.CEL_SKIPPED.id, dx.PLACED_BY_FLAVOR.id)
_MOST_WARNINGS = 20


def _change(group: Alike, style: Style, currency: str) -> Iterator[str]:
    change = group.first
    what, why = words.happens(change)
    action = style.paint(what, _COLORS[change.concern.tone])
    clause, *further = words.clauses(visible(why))
    yield f"{visible(group.name)}  {action}: {clause}"
    yield from (f"  {it}" for it in further)
    if same := words.same(", ".join(group.others), group.commands):
        yield visible(f"  {same}")
    yield from _causes(change.causes)
    if request := words.signed(group.asked, currency):
        yield f"  requests {request}"
    yield from (f"  {visible(line)}" for line in words.runs(change))


def _causes(causes: Sequence[ValueChange]) -> Iterator[str]:
    for line in first(causes, _MOST, lambda cause: f"{change_line(cause)}  ({cause.place})"):
        yield f"  {visible(line)}"


_MOST = 8  # causes shown of one job or file
