"""For people at a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.datatypes.listing import listed, plural
from trainwright.findings.visibility import visible
from trainwright.plan.upgrade import words
from trainwright.plan.upgrade.model import Upgrade
from trainwright.reports.style import Style, finding_line

_SHOWN = 5  # jobs that a line names


def render(upgrade: Upgrade, style: Style) -> str:
    return "".join(f"{line}\n" for line in _lines(upgrade, style))


def _lines(upgrade: Upgrade, style: Style) -> Iterator[str]:
    yield visible(words.title(upgrade))
    yield ""
    yield f"Runs: {words.runs(upgrade)}"
    for why, jobs in words.touched(upgrade):
        first, *more = why.splitlines()
        yield f"  {style.paint(_named(jobs), 'yellow')}: {visible(first)}"
        yield from (f"    {visible(line)}" for line in more)
    yield f"Next runs: {words.next_runs(upgrade)}"
    for difference in upgrade.differences:
        yield ""
        yield f"  {plural(len(difference.jobs), 'job')}: {_named(difference.jobs)}"
        for line in difference.diff:
            yield f"    {style.differing(visible(line))}"
    for jobs, version in ((upgrade.dropped, upgrade.before), (upgrade.gained, upgrade.after)):
        if jobs:
            yield ""
            yield f"  only by {version}: {_named(jobs)}"
    if upgrade.differences or upgrade.dropped or upgrade.gained:
        yield ""
    yield f"Findings: {words.findings(upgrade)}"
    for change in upgrade.findings:
        label = f"{change.kind} "
        yield f"  {finding_line(change.finding, style.paint, label, words.severity(change))}"
    yield ""
    yield words.verdict(upgrade)


def _named(jobs: Sequence[str]) -> str:
    return visible(listed(jobs, _SHOWN))
