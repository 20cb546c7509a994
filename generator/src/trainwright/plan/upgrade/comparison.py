"""Two outcomes compared: runs, next runs, findings. Nothing is read or run here."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence

from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.findings.redaction import unified_diff
from trainwright.plan.upgrade.model import (
    Difference,
    Files,
    FindingChange,
    Jobs,
    Outcome,
    Release,
    Runs,
    Upgrade,
)
from trainwright.runs.record import VALUES_FILE

_RUN, _JOB = "<run>", "<job>"  # stand for the digits of an object's name, and for a job's name


@dataclass(frozen=True, slots=True, kw_only=True)
class Environments:
    """The names of environments with settings that matter to the comparison.

    `starting` have `sharedChanges: start`; in `charted` ones the GitOps engine is given values.
    """

    starting: frozenset[str] = frozenset()
    charted: frozenset[str] = frozenset()


def compare(present: Jobs, before: Outcome, after: Outcome, environments: Environments) -> Upgrade:
    """Return what the upgrade from one outcome to the other changes.

    `present` are SHA-256 sums of the runs that there are, by job.
    """
    both = sorted(before.next_runs.keys() & after.next_runs.keys())
    differences = _differences(both, before, after, environments.charted)
    return Upgrade(
        before=before.release,
        after=after.release,
        runs=_runs(present, before, after, environments.starting),
        same=len(both) - sum(len(difference.jobs) for difference in differences),
        differences=differences,
        dropped=tuple(sorted(before.next_runs.keys() - after.next_runs.keys())),
        gained=tuple(sorted(after.next_runs.keys() - before.next_runs.keys())),
        findings=tuple(_findings(before.findings, after.findings)),
    )


# --- runs ----------------------------------------------------------------------------------------


def _runs(present: Jobs, before: Outcome, after: Outcome, starting: Collection[str]) -> Runs:
    refused = {**before.refused, **after.refused}
    sorted_out: defaultdict[str, list[str]] = defaultdict(list)
    for job, files in sorted(present.items()):
        environment = job.partition("/")[0]
        if environment in refused:
            continue
        old, new = before.runs.get(job), after.runs.get(job)
        if old != files:
            sorted_out["pending"].append(job)
        elif new == files:
            sorted_out["kept"].append(job)
        else:
            sorted_out["started" if environment in starting else "changed"].append(job)
    return Runs(
        kept=tuple(sorted_out["kept"]),
        changed=tuple(sorted_out["changed"]),
        started=tuple(sorted_out["started"]),
        pending=tuple(sorted_out["pending"]),
        refused=refused,
    )


# --- next runs -----------------------------------------------------------------------------------


def _differences(
    jobs: Iterable[str], before: Outcome, after: Outcome, charted: Collection[str]
) -> tuple[Difference, ...]:
    """Return the differences, each with the jobs that share it; those of most jobs come first."""
    literal: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    sides: dict[str, tuple[Files, Files]] = {}
    for job in jobs:
        values = job.partition("/")[0] in charted
        was = _applied(before.next_runs[job], values=values)
        now = _applied(after.next_runs[job], values=values)
        changed = tuple(_changed(job, was, now))
        if changed:
            sides[job] = was, now
            literal[changed].append(job)
    grouped: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for lines, alike in literal.items():
        grouped[_unnamed(alike[0], lines)] += alike
    names = _names(before.release, after.release)
    found = [
        Difference(tuple(sorted(alike)), tuple(_diff(min(alike), *sides[min(alike)], names)))
        for alike in grouped.values()
    ]
    return tuple(sorted(found, key=lambda found: (-len(found.jobs), found.jobs)))


def _names(before: Release, after: Release) -> tuple[str, str]:
    """Return names that tell two versions apart."""
    if before.tool != after.tool:
        return before.tool, after.tool
    if before.chart != after.chart:
        return f"chart {before.chart}", f"chart {after.chart}"
    return "before", "after"


def _applied(files: Files, *, values: bool) -> Files:
    """The manifests, or else the values."""
    return {file: text for file, text in files.items() if (file == VALUES_FILE) == values}


def _diff(job: str, before: Files, after: Files, names: tuple[str, str]) -> Iterator[str]:
    for file in sorted({*before, *after}):
        old, new = (_lines(job, files.get(file, "")) for files in (before, after))
        if old != new:
            title = f"{job}/{file}"
            yield from unified_diff(
                old, new, old=f"{title} ({names[0]})", new=f"{title} ({names[1]})"
            )


def _lines(job: str, text: str) -> Sequence[str]:
    """The lines of a manifest without the comment on top, nor the digits of the object's name."""
    name = job.partition("/")[2]
    lines = text.splitlines()
    top = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    object_name = re.compile(rf"(?<![\w-]){re.escape(name)}-[0-9a-f]{{8}}(?![0-9a-f])")
    return [object_name.sub(f"{name}-{_RUN}", line) for line in lines[top:]]


def _changed(job: str, before: Files, after: Files) -> Iterator[str]:
    """Yield the files and lines that differ, ignoring line numbers; they may hold credentials."""
    for file in sorted({*before, *after}):
        old, new = (_lines(job, files.get(file, "")) for files in (before, after))
        if old != new:
            yield file
            diff = difflib.unified_diff(old, new, n=0, lineterm="")
            yield from (line.replace(job, _JOB) for line in diff if line[0] in "+-")


def _unnamed(job: str, lines: Iterable[str]) -> tuple[str, ...]:
    """The same lines for jobs of any name."""
    name = job.partition("/")[2]
    word = re.compile(rf"(?<![\w-]){re.escape(name)}(?!\w)")
    return tuple(word.sub(_JOB, line) for line in lines)


# --- findings ------------------------------------------------------------------------------------


def _findings(before: Iterable[Finding], after: Iterable[Finding]) -> list[FindingChange]:
    """Return new and gone findings and those whose severity changed; wording does not count."""
    places: defaultdict[tuple[str, ...], tuple[list[Finding], list[Finding]]]
    places = defaultdict(lambda: ([], []))
    for side, findings in enumerate((before, after)):
        for finding in findings:
            place = finding.place
            at = finding.pointer or f"{place.line}:{place.column}"
            key = (finding.rule, finding.subject, place.file, at)
            places[key][side].append(finding)
    changes = (change for old, new in places.values() for change in _paired(old, new))
    return sorted(changes, key=lambda change: change.order)


def _paired(old: list[Finding], new: list[Finding]) -> Iterator[FindingChange]:
    """Yield the changes among findings of one rule at one place, paired by equal messages first."""
    new_messages = {finding.message for finding in new}
    old = sorted(old, key=lambda finding: (finding.message not in new_messages, finding.message))
    words = [finding.message for finding in old]
    new = sorted(
        new,
        key=lambda f: (words.index(f.message) if f.message in words else len(words), f.message),
    )
    for old_finding, new_finding in zip(old, new, strict=False):
        if old_finding.severity is not new_finding.severity:
            yield FindingChange(new_finding, old_finding.severity, new_finding.severity)
    for finding in old[len(new) :]:
        yield FindingChange(finding, finding.severity, None)
    for finding in new[len(old) :]:
        yield FindingChange(finding, None, finding.severity)
