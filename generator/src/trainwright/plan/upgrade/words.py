"""The words that all formats of an upgrade share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.datatypes.listing import plural
from trainwright.plan.upgrade.model import FindingChange, Upgrade


def title(upgrade: Upgrade) -> str:
    """Which version is compared with which."""
    return f"Trainwright {upgrade.before} → {upgrade.after}"


def runs(upgrade: Upgrade) -> str:
    """One line about the runs that there are."""
    found = upgrade.runs
    counted = (
        (len(found.kept), "stays as it is", "stay as they are"),
        (len(found.changed), "would change", "would change"),
        (len(found.started), "would restart", "would restart"),
        (len(found.pending), "has edits to render first", "have edits to render first"),
    )
    parts = [f"{n:,} {one if n == 1 else many}" for n, one, many in counted if n]
    if len(found.kept) == found.count > 1:
        return f"all {found.count:,} stay as they are"
    parts += [f"those of {name} could not be rendered" for name in sorted(found.refused)]
    return ", ".join(parts) or "there are none"


def touched(upgrade: Upgrade) -> Iterator[tuple[str, Sequence[str]]]:
    """The jobs whose runs do not stay as they are, by why."""
    found = upgrade.runs
    if found.changed:
        yield "rendered differently by the new version, without a line of their own", found.changed
    if found.started:
        yield "restarted, because of `sharedChanges: start`", found.started
    if found.pending:
        yield "edited since they were rendered: run `trainwright render` first", found.pending
    for name, reason in sorted(found.refused.items()):
        yield f"not rendered: {reason}", (name,)


def next_runs(upgrade: Upgrade) -> str:
    """One line about what would be rendered if each job began a run."""
    differ = sum(len(difference.jobs) for difference in upgrade.differences)
    ways = plural(len(upgrade.differences), "way")
    counted = (
        (differ, f"different for {plural(differ, 'job')} in {ways}"),
        (upgrade.same, f"the same for {plural(upgrade.same, 'job')}"),
        (len(upgrade.dropped), f"{len(upgrade.dropped):,} rendered only by {upgrade.before}"),
        (len(upgrade.gained), f"{len(upgrade.gained):,} rendered only by {upgrade.after}"),
    )
    return ", ".join(parts for count, parts in counted if count) or "there are none"


def findings(upgrade: Upgrade) -> str:
    """One line about findings."""
    kinds = [change.kind for change in upgrade.findings]
    words = (("new", "new"), ("changed", "of another severity"), ("gone", "gone"))
    parts = [f"{kinds.count(kind):,} {word}" for kind, word in words if kind in kinds]
    return ", ".join(parts) or "no difference"


def severity(change: FindingChange) -> str:
    """`error`, or `warning → error` for one that is weighed differently."""
    weights = (change.before, change.after) if change.kind == "changed" else (change.after,)
    found = [weight.value for weight in weights if weight] or [change.finding.severity.value]
    return " → ".join(found)


def verdict(upgrade: Upgrade) -> str:
    """One line: what to do."""
    if upgrade.blocked:
        return "The upgrade breaks what works today: see above."
    if upgrade.differences:
        return "No run changes. `trainwright rerun` takes the new version up for a job."
    return "No run changes, and neither does any next one."
