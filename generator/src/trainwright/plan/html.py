"""The HTML format: one offline file with the verdict, each job's diff, capacity and findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import ValueChange
from trainwright.datatypes.listing import plural
from trainwright.plan import headline, table, words
from trainwright.plan.alike import Alike, alike
from trainwright.plan.attention import attention
from trainwright.plan.model import (
    JobChange,
    ObjectChange,
    Plan,
    SharedFileImpact,
)
from trainwright.reports.attention import Attention, by_job, shown
from trainwright.reports.page import AuthoredLines, document, finding_data, placed, rows
from trainwright.reports.report import by_weight
from trainwright.reports.style import Style
from trainwright.reports.values import change_line
from trainwright.specs.demand import Demand

_DIFF_LINES = 500  # of an additional object
# All diffs of a page together, in characters: compressed they are a tenth of it.
_DIFFS = 4_000_000


def render(plan: Plan, style: Style) -> str:
    lines = AuthoredLines(plan.sources)
    changes = plan.listed
    by_risk = sorted(changes, key=lambda change: change.action.risk)
    actions = dict.fromkeys(words.happens(change)[0] for change in by_risk)
    teams = {str(change.file): change.team for change in plan.changes}
    concerns = attention(plan)
    each = list(_changes(plan, lines, by_job(concerns)))
    data = {
        "environments": sorted({change.file.environment for change in changes}),
        "teams": sorted({change.team for change in changes} - {""}),
        "chips": [*dict.fromkeys((*(it.kind for it in concerns if it.of_jobs), *actions))],
        "changes": each,
        "shared": [_shared(plan, file, lines) for file in plan.shared_files],
        "findings": [
            finding_data(item, lines, teams)
            for item in (*plan.underived, *by_weight(plan.findings))
        ],
    }
    return document(
        "plan",
        f"Plan: {headline.verdict(plan)}",
        style,
        data,
        verdict=headline.verdict(plan),
        tone="danger" if plan.blocked or any(it.cannot_start for it in changes) else "",
        summary=_summary(plan),
        facts=_facts(plan, style),
        attention=shown(concerns, "action"),
        uses=_uses(plan),
        amounts=[*filter(None, (words.bound(plan),)), *words.amounts(plan)],
        notes=[
            *words.outside(plan),
            *words.unrendered(plan),
            *words.namespaces(plan),
            *words.removals(plan),
            *words.wiring(plan),
        ],
        objects=[_object(change) for change in plan.objects],
        **rows(each, *_SHOWN),
    )


_SHOWN = (
    *("group", "job", "action", "tone", "concerns", "team", "asked", "together"),
    *("brief", "why", "causes"),
)


def _facts(plan: Plan, style: Style) -> list[tuple[str, str]]:
    facts = [("into", style.against), ("base", plan.base[:10])]
    facts.append(("head", plan.head[:10] or "working tree"))
    return [*facts, ("behind", plural(plan.behind, "commit"))] if plan.behind else facts


def _summary(plan: Plan) -> str:
    """Return what the merge requests, unless the first line has room for it."""
    parts = [part for part in headline.requested(plan) if part]
    verdict = headline.verdict(plan)
    return "" if all(part in verdict for part in parts) else f"requests {' · '.join(parts)}"


def _uses(plan: Plan) -> Data:
    """The table of pools, queues and budgets for the template, exceeded ones first."""
    used = table.table(plan)
    ordered = sorted(zip(used.rows, used.short, strict=True), key=lambda row: not row[1])
    heads = used.heads[1:]  # a row begins with its environment and limit in one cell
    return {
        "heads": heads,
        "rows": [
            {
                "environment": str(environment),
                "limit": str(name),
                "cells": [*map(_cell, heads[1:], cells)],
            }
            for (environment, name, *cells), _ in ordered
        ],
    }


def _cell(head: str, cell: table.Cell) -> Data:
    return {
        "head": head,
        "before": cell.sides[0] if len(cell.sides) > 1 else "",
        "after": cell.sides[-1] if cell.sides else "",
        "limit": cell.limit,
        "tone": "danger" if cell.short else "",
    }


def _object(change: ObjectChange) -> Data:
    return {
        "label": words.brief(words.changed_object(change)),
        "commands": words.deletions(words.changed_object(change)),
        "effects": change.effects,
        "environment": change.environment,
        "place": str(change.place),
        "lines": words.object_diff(change)[:_DIFF_LINES],
    }


def _changes(
    plan: Plan, lines: AuthoredLines, concerns: Mapping[str, Sequence[Attention]]
) -> Iterator[dict[str, Data]]:
    """Yield the data of each change, similar ones together; the riskiest ones get diffs first."""
    room = _DIFFS
    for number, group in enumerate(alike(plan.listed)):
        for change in group.changes:
            files: list[Data] | None = list(_files(change)) if room > 0 else None
            if files:
                room -= sum(len(line) for file in files for line in file["lines"])
            yield {
                "group": number,
                "files": files,
                "concerns": [
                    {"name": it.kind, "tone": it.concern.tone}
                    for it in concerns.get(str(change.file), ())
                    if it.kind != words.happens(change)[0]
                ],
                **_change(change, group, plan.currency(change.file.environment), lines),
            }


def _change(
    change: JobChange, group: Alike, currency: str, lines: AuthoredLines
) -> dict[str, Data]:
    what, why = words.happens(change)
    return {
        "job": str(change.file),
        "environment": change.file.environment,
        "action": what,
        "tone": change.concern.tone,
        "team": change.team,
        "why": why,
        "brief": words.brief(why),
        "commands": words.deletions(why),
        "asked": requests(change.asked, currency, sign=True),
        "together": requests(group.asked, currency, sign=True) if group.others else [],
        "runs": "; ".join(words.runs(change)),
        "causes": [cause_data(cause, lines) for cause in change.causes],
    }


def requests(demand: Demand, currency: str, *, sign: bool = False) -> Data:
    """Return a demand as the texts of three columns: at once, GPU-hours and cost."""
    parts = (
        Demand(nodes=demand.nodes, gpus=demand.gpus),
        Demand(hours=demand.hours, unbounded=demand.unbounded),
        Demand(cost=demand.cost, unpriced=demand.unpriced),
    )
    return [", ".join(words.asked(part, currency, sign=sign)) for part in parts]


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
