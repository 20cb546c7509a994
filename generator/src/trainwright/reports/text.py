"""For people at a terminal: each finding at the line they wrote, its effect and a way out.

What several findings have as their effect stands at the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import click

from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.listing import listed
from trainwright.findings.visibility import visible
from trainwright.reports.report import COLORS, Report, cells
from trainwright.reports.style import Style

_WIDEST = 120  # characters of a source line that are shown
_MARGIN = 40  # of which so many before the column, when the line is longer


def render(report: Report, style: Style) -> str:
    blocks, effects = [], {""}
    for first, others in _folded(report.findings):
        shown = replace(first, effect="") if first.effect in effects else first
        blocks.append("\n".join(_finding(report, style, shown, others)))
        effects.add(first.effect)
    blocks.append(_styled(style, visible(report.verdict), bold=True))
    return "\n\n".join(blocks) + "\n"


def _folded(findings: tuple[Finding, ...]) -> Iterator[tuple[Finding, list[str]]]:
    """Yield findings, those that are the same for several jobs only once, with the other jobs."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        key = (finding.place, finding.rule, finding.severity, finding.message, finding.pointer)
        groups.setdefault(key, []).append(finding)
    for group in groups.values():
        subjects = dict.fromkeys(f.subject for f in group[1:] if f.subject != group[0].subject)
        yield group[0], list(subjects)


def _finding(report: Report, style: Style, finding: Finding, others: list[str]) -> Iterator[str]:
    color = COLORS[finding.severity]
    title = _styled(style, f"{finding.severity.value}[{finding.rule}]", fg=color, bold=True)
    yield f"{title}: {visible(finding.message)}"
    width = len(str(finding.place.line))
    pad = " " * width
    yield f"{pad}{_styled(style, '-->', fg='blue')} {_where(finding.place)}"
    yield from _gutter(report, style, finding, pad, color)
    for related in finding.related:
        place = f"{_where(related.place)} " if related.place else ""
        yield _label(style, pad, related.label, f"{place}{related.text}")
    if finding.manifest:
        pointer = f" {finding.pointer}" if finding.pointer else ""
        yield _label(style, pad, "in", f"{finding.manifest}{pointer}")
    if finding.effect:
        yield _label(style, pad, "effect", finding.effect)
    if finding.remedy:
        yield _label(style, pad, "help", finding.remedy)
    if others:
        yield _label(style, pad, "also in", listed(others, 5))


def _where(place: Location) -> str:
    return visible(str(place))


def _label(style: Style, pad: str, label: str, text: str) -> str:
    return f"{pad} {_styled(style, f'= {label}:', bold=True)} {visible(text)}"


def _gutter(report: Report, style: Style, finding: Finding, pad: str, color: str) -> Iterator[str]:
    line = report.line(finding.place)
    if line is None:
        return
    shown, column = _cropped(line, report.columns.get(finding.place, finding.place.column))
    bar = _styled(style, "|", fg="blue")
    number = _styled(style, str(finding.place.line), fg="blue")
    caret = _styled(style, f"^ {visible(finding.note)}".rstrip(), fg=color)
    yield f"{pad} {bar}"
    yield f"{number} {bar} {shown}"
    yield f"{pad} {bar} {' ' * column}{caret}"


def _cropped(line: str, column: int) -> tuple[str, int]:
    """The line as it is shown, and how many cells come before the column (from 1)."""
    start = column - 1 - _MARGIN if len(line) > _WIDEST and column > _WIDEST - _MARGIN else 0
    shown, before = _plain(line[start : start + _WIDEST]), _plain(line[start : column - 1])
    left, right = "…" if start else "", "…" if len(line) > start + _WIDEST else ""
    return f"{left}{shown}{right}", len(left) + cells(before)


def _plain(text: str) -> str:
    return visible(text.replace("\t", "    "))


def _styled(style: Style, text: str, *, fg: str | None = None, bold: bool = False) -> str:
    return click.style(text, fg=fg, bold=bold) if style.color else text
