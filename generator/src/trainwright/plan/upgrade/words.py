"""Texts that all output formats of an upgrade share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.datatypes.listing import plural
from trainwright.plan.upgrade.model import FindingChange, Upgrade


def title(upgrade: Upgrade) -> str:
    """Which version is compared with which."""
    return f"Trainwright {upgrade.before} → {upgrade.after}"


def runs(upgrade: Upgrade) -> str:
    """Return one line about the existing runs."""
    run_changes = upgrade.runs
    counted = (
        (len(run_changes.kept), "stays as it is", "stay as they are"),
        (len(run_changes.changed), "would change", "would change"),
        (len(run_changes.started), "would restart", "would restart"),
        (len(run_changes.pending), "has edits to render first", "have edits to render first"),
    )
    parts = [f"{n:,} {if_one if n == 1 else if_many}" for n, if_one, if_many in counted if n]
    if len(run_changes.kept) == run_changes.count > 1:
        return f"all {run_changes.count:,} stay as they are"
    parts += [f"those of {name} could not be rendered" for name in sorted(run_changes.refused)]
    return ", ".join(parts) or "there are none"


def touched(upgrade: Upgrade) -> Iterator[tuple[str, Sequence[str]]]:
    """Yield each reason for which runs do not stay as they are, with the jobs that it affects."""
    run_changes = upgrade.runs
    if run_changes.changed:
        yield (
            "rendered differently by the new version, without a line of their own",
            run_changes.changed,
        )
    if run_changes.started:
        yield "restarted, because of `sharedChanges: start`", run_changes.started
    if run_changes.pending:
        yield "edited since they were rendered: run `trainwright render` first", run_changes.pending
    for name, reason in sorted(run_changes.refused.items()):
        yield f"not rendered: {reason}", (name,)


def next_runs(upgrade: Upgrade) -> str:
    """Return one line that counts the jobs by how their next runs would be rendered."""
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
    """Return one line about the findings."""
    kinds = [change.kind for change in upgrade.findings]
    words = (("new", "new"), ("changed", "of another severity"), ("gone", "gone"))
    parts = [f"{kinds.count(kind):,} {word}" for kind, word in words if kind in kinds]
    return ", ".join(parts) or "no difference"


def severity(change: FindingChange) -> str:
    """Return "error", say, or "warning → error" if the severity has changed."""
    weights = (change.before, change.after) if change.kind == "changed" else (change.after,)
    severities = [weight.value for weight in weights if weight] or [change.finding.severity.value]
    return " → ".join(severities)


def verdict(upgrade: Upgrade) -> str:
    """Return one line on what to do."""
    if upgrade.blocked:
        return "The upgrade breaks what works today: see above."
    if upgrade.differences:
        return "No run changes. `trainwright rerun` takes the new version up for a job."
    return "No run changes, and neither does any next one."
