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


def render(plan: Plan, style: Style) -> str:
    lines = AuthoredLines(plan.sources)
    changes = plan.listed
    sides = ((change, change.after or change.before) for change in plan.changes)
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
        "changes": list(_changes(plan, lines)),
        "shared": [_shared(plan, file, lines) for file in plan.shared_files],
        "findings": [
            finding_data(item, lines, queues)
            for item in (*plan.underived, *by_weight(plan.findings))
        ],
    }
    return document(
        "plan",
        f"Plan: {headline.verdict(plan)}",
        style,
        data,
        verdict=headline.verdict(plan),
        tone="danger" if plan.blocked else "",
        facts=_facts(plan, style),
        uses=_uses(plan),
        notes=[
            *words.outside(plan),
            *words.notes(plan),
            *words.amounts(plan),
        ],
        objects=[_object(change) for change in plan.objects],
    )


def _facts(plan: Plan, style: Style) -> list[tuple[str, str]]:
    facts = [("into", style.against), ("base", plan.base[:10])]
    facts.append(("head", plan.head[:10] or "working tree"))
    return [*facts, ("behind", plural(plan.behind, "commit"))] if plan.behind else facts


def _uses(plan: Plan) -> Data:
    """The table of pools, queues and budgets, for the template."""
    used = table.table(plan)
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


def _changes(plan: Plan, lines: AuthoredLines) -> Iterator[Data]:
    """Yield the data of each change, similar ones together; the riskiest ones get diffs first."""
    room = _DIFFS
    groups = enumerate(alike(plan.listed))
    for number, change in ((number, it) for number, group in groups for it in group.changes):
        currency = plan.currency(change.file.environment)
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


def _shared(plan: Plan, file: SharedFileImpact, lines: AuthoredLines) -> Data:
    kept = words.keeping(plan, file)
    return {
        "file": file.file,
        "reach": "; ".join(filter(None, (words.reach(file), kept))),
        "causes": [cause_data(cause, lines) for cause in file.causes],
    }
