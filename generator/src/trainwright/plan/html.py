"""The HTML format: one offline file with the verdict, each job's diff, capacity and findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import ValueChange
from trainwright.datatypes.listing import plural
from trainwright.plan import headline, table, words
from trainwright.plan.alike import alike
from trainwright.plan.model import (
    Action,
    JobChange,
    ObjectChange,
    Plan,
    SharedFileImpact,
)
from trainwright.reports.page import AuthoredLines, document, finding_data, placed
from trainwright.reports.report import by_weight
from trainwright.reports.style import Style
from trainwright.reports.values import change_line

# All diffs of a page together, in characters: compressed they are a tenth of it.
_DIFFS = 4_000_000
_DANGER = frozenset(
    {Action.REJECTED, Action.BROKEN, Action.DELETED, Action.LEFT, Action.MIXED, Action.IGNORED}
)
_WARNING = frozenset({Action.CANCELLED, Action.NEW_RUN, Action.OUTDATED})


def render(review: Plan, style: Style) -> str:
    lines = AuthoredLines(review.sources)
    changes = review.listed
    sides = ((change, change.after or change.before) for change in review.changes)
    queues = {str(change.file): run.queue for change, run in sides if run}
    data = {
        "environments": sorted({change.file.environment for change in changes}),
        "actions": [
            {"name": action.value, "count": count}
            for action, count in sorted(
                Counter(change.action for change in changes).items(), key=lambda item: item[0].risk
            )
        ],
        "hours": max((change.asked.hours.high for change in changes), default=0),
        "changes": list(_changes(review, lines)),
        "shared": [_shared(review, file, lines) for file in review.blast],
        "findings": [
            finding_data(item, lines, queues)
            for item in (*review.underived, *by_weight(review.findings))
        ],
    }
    return document(
        "plan",
        f"Plan: {headline.verdict(review)}",
        style,
        data,
        verdict=headline.verdict(review),
        tone="danger" if review.blocked else "",
        facts=_facts(review, style),
        uses=_uses(review),
        notes=[
            *words.outside(review),
            *words.notes(review),
            *words.amounts(review),
        ],
        objects=[_object(change) for change in review.objects],
    )


def _facts(review: Plan, style: Style) -> list[tuple[str, str]]:
    facts = [("into", style.against), ("base", review.base[:10])]
    facts.append(("head", review.head[:10] or "working tree"))
    return [*facts, ("behind", plural(review.behind, "commit"))] if review.behind else facts


def _uses(review: Plan) -> Data:
    """The table of pools, queues and budgets, for the template."""
    used = table.table(review)
    return {
        "heads": used.heads,
        "rows": [
            {"cells": [*zip(used.heads, row, strict=True)], "tone": "danger" if short else ""}
            for row, short in zip(used.rows, used.short, strict=True)
        ],
    }


def _object(change: ObjectChange) -> Data:
    return {
        "label": words.changed_object(change),
        "environment": change.environment,
        "place": str(change.place),
    }


def _changes(review: Plan, lines: AuthoredLines) -> Iterator[Data]:
    """Yield the data of each change, similar ones together; the riskiest ones get diffs first."""
    room = _DIFFS
    groups = enumerate(alike(review.listed))
    for number, change in ((number, it) for number, group in groups for it in group.changes):
        currency = review.currency(change.file.environment)
        files: list[Data] | None = list(_files(change)) if room > 0 else None
        if files:
            room -= sum(len(line) for file in files for line in file["lines"])
        yield {
            "group": number,
            "job": str(change.file),
            "environment": change.file.environment,
            "action": change.action.value,
            "tone": _tone(change.action),
            "why": change.why,
            "asked": words.signed(change.asked, currency),
            "hours": max(0, change.asked.hours.high),
            "runs": "; ".join(_runs(change)),
            "causes": [cause_data(cause, lines) for cause in change.causes],
            "files": files,
        }


def _runs(change: JobChange) -> Iterator[str]:
    """Yield what the new run starts that the previous one did not."""
    if image := words.image(change):
        yield f"image {image}"
    yield from words.runs(change)


def _tone(action: Action) -> str:
    if action in _DANGER:
        return "danger"
    return "warning" if action in _WARNING else "good"


def _files(change: JobChange) -> Iterator[Data]:
    """The hunks of each manifest that changes."""
    for path, (_, _, *hunks) in words.diffs(change):
        yield {"name": path, "lines": hunks}


def cause_data(cause: ValueChange, lines: AuthoredLines) -> Data:
    """A changed value for the script of a page, with its authored line."""
    return {"text": change_line(cause), **placed(cause.place, lines)}


def _shared(review: Plan, file: SharedFileImpact, lines: AuthoredLines) -> Data:
    kept = words.keeping(review, file)
    return {
        "file": file.file,
        "reach": "; ".join(filter(None, (words.reach(file), kept))),
        "causes": [cause_data(cause, lines) for cause in file.causes],
    }
