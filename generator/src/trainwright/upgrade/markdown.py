"""For pull requests: the counts, findings, and diffs that fold away, as many as fit a comment."""

from __future__ import annotations

from trainwright.datatypes.listing import plural
from trainwright.findings.visibility import visible
from trainwright.reports.comment import ICONS, LIMIT, cell, code, fenced, fitting, html
from trainwright.upgrade import format as words
from trainwright.upgrade.format import Style
from trainwright.upgrade.model import Difference, FindingChange, Upgrade

_ROOM = 300  # characters kept free for saying what was left out
_DIFF = 10_000  # characters of one diff


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
    left = len(parts) - len(shown)
    dropped = f"\n_Left out to fit a comment: {plural(left, 'entry')}._\n" if left else ""
    return "".join((head, *shown, dropped, foot))


def _finding(change: FindingChange) -> str:
    finding = change.finding
    icon = "✅" if change.kind == "gone" else ICONS[finding.severity.value]
    text = cell(f"{change.kind} {words.severity(change)} {finding.rule} {finding.place}")
    return f"- {icon} {text}: {cell(finding.message)}\n"


def _details(difference: Difference) -> str:
    jobs = html(", ".join(difference.jobs))
    summary = f"{plural(len(difference.jobs), 'job')}: {jobs}"
    return f"\n<details><summary>{summary}</summary>\n\n{_fenced(difference)}\n</details>\n"


def _fenced(difference: Difference) -> str:
    """The diff, as far as there is room."""
    text = "\n".join(visible(line) for line in difference.diff)
    if len(text) > _DIFF:
        text = text[:_DIFF].rpartition("\n")[0] + "\n... and more"
    return fenced(text)
