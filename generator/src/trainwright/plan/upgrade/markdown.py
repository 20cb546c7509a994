"""For pull requests: the counts, findings, and diffs that fold away, as many as fit a comment."""

from __future__ import annotations

from trainwright.datatypes.listing import plural
from trainwright.plan.upgrade import words
from trainwright.plan.upgrade.model import Difference, FindingChange, Upgrade
from trainwright.reports.comment import (
    ICONS,
    LIMIT,
    cell,
    code,
    details,
    fenced,
    fitting,
    html,
    left_out,
)
from trainwright.reports.style import Style

_ROOM = 300  # characters kept free for saying what was left out


def render(upgrade: Upgrade, style: Style) -> str:
    head = (
        f"### {cell(words.title(upgrade))}\n\n"
        f"- Runs: {cell(words.runs(upgrade))}\n"
        f"- Next runs: {cell(words.next_runs(upgrade))}\n"
        f"- Findings: {cell(words.findings(upgrade))}\n"
    )
    touched = [
        f"- ⚠️ {cell(', '.join(jobs))}: {'<br>'.join(map(cell, why.splitlines()))}\n"
        for why, jobs in words.touched(upgrade)
    ]
    foot = f"\n{words.verdict(upgrade)}\n\n_Reproduce with_ `{code(style.command)}`\n"
    room = LIMIT - len(head) - len(foot) - _ROOM
    findings = [_finding(change) for change in upgrade.findings]
    diffs = [_details(difference) for difference in upgrade.differences]
    parts = ["\n", *touched, *findings, *diffs]
    shown, _ = fitting(parts, room)
    left = left_out((len(parts) - len(shown), "entry", "entries"))
    return "".join((head, *shown, left, foot))


def _finding(change: FindingChange) -> str:
    finding = change.finding
    icon = "✅" if change.kind == "gone" else ICONS[finding.severity.value]
    text = cell(f"{change.kind} {words.severity(change)} {finding.rule} {finding.place}")
    return f"- {icon} {text}: {cell(finding.message)}\n"


def _details(difference: Difference) -> str:
    jobs = html(", ".join(difference.jobs))
    summary = f"{plural(len(difference.jobs), 'job')}: {jobs}"
    return details(summary, fenced(difference.diff))
