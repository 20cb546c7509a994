"""How a review is put into words and numbers, whatever the format."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from trainwright.datatypes.model import Data, Finding, Severity
from trainwright.datatypes.pointer import Pointer
from trainwright.findings.credentials import HIDDEN, named, redact
from trainwright.findings.redaction import unified_diff
from trainwright.plan.model import (
    Action,
    Cause,
    JobChange,
    Plan,
    PlannedRun,
    SharedFileImpact,
)
from trainwright.plan.running import running
from trainwright.runs.record import RECORD_FILE
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import NOTHING, Demand, Range

_COUNTED = {
    Action.REJECTED: "rejected by the API",
    Action.BROKEN: "broken",
    Action.DELETED: "deleted",
    Action.LEFT: "left running",
    Action.MIXED: "mixed versions",
    Action.IGNORED: "silently ignored",
    Action.CANCELLED: "cancelled",
    Action.NEW_RUN: "replaced",
    Action.STARTED: "started",
    Action.SUSPENDED: "suspended",
    Action.RESUMED: "resumed",
    Action.RETIRED: "retired",
    Action.IN_PLACE: "changed in place",
    Action.HELD: "held back",
}


def verdict(review: Plan) -> str:
    """One line: how many jobs come to what, what that asks for, and what is too small for it."""
    counts = Counter(change.action for change in review.changes)
    forged = len({finding.place.file for finding in review.underived})
    lies = f"{forged} rendered file{'' if forged == 1 else 's'} that no source renders"
    parts = [lies] if forged else []
    parts += [
        ", ".join(f"{counts[action]} {_COUNTED[action]}" for action in _COUNTED if counts[action])
    ]
    for environment in review.changing:
        if environment.asked != NOTHING:
            parts.append(f"{environment.name} {signed(environment.asked)}")
        short = (shortage(fit) for fit in environment.fits if fit.short > fit.short_before)
        parts += [f"{environment.name} {message}" for message in short]
    parts += [objects(review)] if review.objects else []
    errors = sum(finding.severity is Severity.ERROR for finding in review.findings)
    parts += [f"{errors} error{'' if errors == 1 else 's'}"] if errors else []
    return " · ".join(part for part in parts if part) or "nothing changes for any job"


def objects(review: Plan) -> str:
    """How many objects of one's own come to what: "objects: 1 added, 2 changed"."""
    counts = Counter(change.action for change in review.objects)
    parts = (f"{counts[key]} {key}" for key in ("added", "changed", "removed") if counts[key])
    return f"objects: {', '.join(parts)}"


def reach(blast: SharedFileImpact) -> str:
    """What a shared file does to the jobs that read it: "holds back 12 runs, 0 start"."""
    jobs = f"{len(blast.jobs):,} job{'' if len(blast.jobs) == 1 else 's'}"
    if not blast.held:
        return f"reaches {jobs}, {blast.new_runs:,} of them with a new run"
    runs = f"{blast.held:,} run{'' if blast.held == 1 else 's'}"
    again = "`trainwright rerun` takes the change up"
    return f"holds back {runs}, {blast.new_runs:,} start: {again}"


def number(value: float) -> str:
    """A number as people write it: "1,536" or "0.5"."""
    rounded = round(value, 2)
    return f"{int(rounded):,}" if rounded == int(rounded) else f"{rounded:,}"


def span(value: Range, *, sign: bool = False) -> str:
    """One number, or the two ends of a range; with a sign where asked for."""
    ends = sorted({value.low, value.high})
    return " to ".join(f"{'+' if sign and end > 0 else ''}{number(end)}" for end in ends)


def asked(demand: Demand, *, sign: bool = False) -> Iterator[str]:
    """What is asked for, a few words a part; unbounded and unpriced jobs are always said."""
    if demand.gpus:
        gpus = span(demand.gpus, sign=sign)
        yield f"{gpus} GPU{'' if gpus.lstrip('+-') == '1' else 's'}"
    elif demand.nodes:
        nodes = span(demand.nodes, sign=sign)
        yield f"{nodes} node{'' if nodes.lstrip('+-') == '1' else 's'}"
    if demand.hours:
        yield f"{span(demand.hours, sign=sign)} GPU-h"
    if demand.cost:
        yield f"cost {span(demand.cost, sign=sign)}"
    if demand.unbounded:
        jobs = abs(demand.unbounded)
        less = "no longer " if demand.unbounded < 0 else ""
        yield f"{less}unbounded GPU-h of {jobs} job{'' if jobs == 1 else 's'} without maxDuration"


def signed(demand: Demand) -> str:
    """A difference of demands in one line."""
    return ", ".join(asked(demand, sign=True)) or "±0 GPUs"


def shortage(fit: CapacityCheck) -> str:
    """What is missing when everything runs at once."""
    return f"{fit.what} short by {number(fit.short)} {fit.unit}"


def fitting(fit: CapacityCheck) -> str:
    """Need, what there is, and how they compare."""
    need = span(Range(fit.need, fit.most))
    unknown = f" and {fit.unknown} of unknown length" if fit.unknown else ""
    message = f"{need} of {number(fit.has)} {fit.unit}{unknown}"
    if fit.short:
        before = f", {number(fit.short_before)} before" if fit.short_before else ""
        return f"{message}: short by {number(fit.short)}{before}"
    if fit.most > fit.has:
        return f"{message}: elastic jobs get less than they could use"
    return f"{message}: unknown whether that fits" if fit.unknown else f"{message}: fits"


def bar(fit: CapacityCheck) -> Data:
    """A picture of it, as percentages of the larger of what there is and what is needed."""
    whole = max(fit.has, fit.most, fit.need) or 1
    return {
        "what": fit.what,
        "label": fitting(fit),
        "tone": "danger" if fit.short else "",
        "need": round(100 * fit.need / whole, 2),
        "most": round(100 * fit.most / whole, 2),
        "limit": round(100 * fit.has / whole, 2),
    }


def cause(found: Cause) -> str:
    """ "image.tag: 1.0 → 1.1", with credentials hidden."""
    if not found.pointer:
        recorded = found.place.file.endswith(f"/{RECORD_FILE}")
        return "the record of its run" if recorded else "the spec itself"
    before, after = (value(found.pointer, side) for side in (found.before, found.after))
    return f"{found.pointer.dotted}: {before} → {after}"


def value(pointer: Pointer, data: Data) -> str:
    """A value of a spec on one line, short, and hidden where it looks like a credential."""
    if data is None:
        return "(unset)"
    if named(pointer.last, str(data)):
        return HIDDEN
    text = redact(json.dumps(data, ensure_ascii=False))
    return text if len(text) <= 60 else f"{text[:57]}..."


def image(change: JobChange) -> str:
    """Which image a job moves from and to, by its rendered files; nothing when it stays."""
    before, after = (", ".join(map(_short, images(run))) for run in (change.before, change.after))
    if before == after or not after:
        return ""
    return f"{before} → {after}" if before else after


def images(run: PlannedRun | None) -> tuple[str, ...]:
    """The images that a run starts; of one without rendered files that of its spec."""
    if run is None:
        return ()
    return running(run).images or tuple(filter(None, (run.image,)))


def _short(image: str) -> str:
    repository, _, digest = image.partition("@")
    return f"{repository}@{digest[:19]}" if digest else repository


def runs(change: JobChange) -> Iterator[str]:
    """What a run starts that was not there before, besides its image: "command python train.py"."""
    new = running(change.after).without(running(change.before))
    for what, found in (
        ("command", new.commands),
        ("service account", new.accounts),
        ("privilege", new.privileges),
        ("host path", new.host_paths),
        ("object", new.objects),
    ):
        for one in found:
            yield f"{what} {redact(one)}"


def forged(finding: Finding) -> str:
    """What stands in a rendered file, and follows from no source, in one line."""
    return f"not rendered from any source: {finding.message}  ({finding.place})"


def unrendered(review: Plan) -> Iterator[str]:
    """That what follows from the specs is in no rendered file yet, where any are committed."""
    names = [str(change.file) for change in review.changes if change.unrendered]
    if names:
        jobs = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1:,} more"
        yield (
            f"What is rendered for {jobs} is not up to date: nothing of this happens until what "
            "`trainwright render` writes is committed."
        )


def diff(change: JobChange, context: int = 3) -> Iterator[str]:
    """A unified diff of the rendered manifests, values files left out, credentials hidden.

    Nothing for a job with errors: nothing of it would be written.
    """
    for _, lines in diffs(change, context):
        yield from lines


def diffs(change: JobChange, context: int = 3) -> Iterator[tuple[str, list[str]]]:
    """The diff of each manifest that changes, two lines of header first, by its path."""
    if change.action is Action.BROKEN:
        return
    before = change.before.files if change.before else {}
    after = change.after.files if change.after else {}
    for name in sorted({*before, *after} - {"values.yaml"}):
        path = f"environments/{change.file.environment}/rendered/{change.file.name}/{name}"
        lines = unified_diff(
            before.get(name, "").splitlines(),
            after.get(name, "").splitlines(),
            old=f"a/{path}" if name in before else "/dev/null",
            new=f"b/{path}" if name in after else "/dev/null",
            context=context,
        )
        if found := list(lines):
            yield path, found
