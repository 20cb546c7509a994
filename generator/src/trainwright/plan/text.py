"""For people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.datatypes.model import Finding, Severity
from trainwright.findings import diagnostics as dx
from trainwright.findings.visibility import visible
from trainwright.plan import words
from trainwright.plan.format import Format, Style
from trainwright.plan.model import Cause, JobChange, Plan
from trainwright.reports.terminal import table

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
    return "".join(f"{line}\n" for line in _lines(review, style))


def _lines(review: Plan, style: Style) -> Iterator[str]:
    for finding in review.underived:
        yield style.paint(visible(words.forged(finding)), "red")
    yield visible(words.verdict(review))
    for line in words.unrendered(review):
        yield style.paint(visible(line), "yellow")
    if review.behind:
        yield f"{style.against} has {review.behind} commits more, which are not looked at"
    for change in review.listed:
        yield ""
        yield from _change(change, style)
    yield from _objects(review)
    findings = [finding for finding in review.findings if _is_shown(finding)]
    if findings:
        yield ""
    for finding in findings:
        severity = finding.severity.value
        rule = style.paint(
            f"{severity}[{finding.rule}]", "red" if severity == "error" else "yellow"
        )
        yield f"{rule}: {visible(f'{finding.message}  ({finding.place})')}"
    if review.blast:
        yield ""
        for blast in review.blast:
            yield visible(f"{blast.file} {words.reach(blast)}")
            yield from _causes(blast.causes)
    fits = [
        (environment.name, fit.what, words.fitting(fit))
        for environment in review.changing
        for fit in environment.fits
    ]
    if fits:
        yield ""
        yield table(
            ("environment", "capacity", "if all run at once"), fits, color=style.color
        ).rstrip("\n")


def _objects(review: Plan) -> Iterator[str]:
    if review.objects:
        yield ""
    for one in review.objects:
        yield visible(f"{one.environment}  {one.object} is {one.action}  ({one.place})")


_ASKED = (dx.CEL.id, dx.CEL_SKIPPED.id, dx.PLACED_BY_FLAVOR.id)


def _is_shown(finding: Finding) -> bool:
    """Errors, what definitions say of a change, and what is left out of what is rendered."""
    return finding.severity is Severity.ERROR or finding.rule in _ASKED


def _change(change: JobChange, style: Style) -> Iterator[str]:
    action = style.paint(change.action.value, _COLORS.get(change.action.value, ""))
    yield f"{visible(str(change.file))}  {action}: {visible(change.why)}"
    yield from _causes(change.causes)
    asked = words.signed(change.asked)
    if change.asked.nodes or change.asked.gpus or change.asked.hours or change.asked.unbounded:
        yield f"  requests {asked}"
    if words.image(change):
        yield visible(f"  image {words.image(change)}")
    yield from (f"  {visible(line)}" for line in words.runs(change))


def _causes(causes: Sequence[Cause]) -> Iterator[str]:
    for cause in causes[:_MOST]:
        yield visible(f"  {words.cause(cause)}  ({cause.place})")
    if len(causes) > _MOST:
        yield f"  and {len(causes) - _MOST} more"


_MOST = 8  # causes shown of one job or file

FORMAT = Format("text", "for people at a terminal", render)
