"""What the CustomResourceDefinitions of a cluster say about the changes of a merge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.durations import seconds
from trainwright.datatypes.finding import Finding, Location, ValueChange
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents.validation import kubernetes_schemas
from trainwright.findings import diagnostics as dx
from trainwright.kinds import NAMED
from trainwright.manifests import crd_edits, crds
from trainwright.manifests.catalog import Catalog
from trainwright.manifests.crd_edits import Refusal
from trainwright.plan.model import Action, CrdVerdict, JobChange
from trainwright.plan.training import Training

_DURATIONS = ("/maxDuration", "/gracePeriod")  # which are seconds in objects


def ask(folder: Path, changes: Sequence[JobChange]) -> CrdVerdict:
    """Evaluate the transition rules (`oldSelf`) of CRDs for every object that keeps its name.

    A change that they refuse is rejected as a whole. A rule that cannot be evaluated is noted once.
    """
    definitions, findings = crds.load(folder, kubernetes_schemas.NEWEST)
    catalog = Catalog(kubernetes_schemas.NEWEST, definitions)
    reported: list[Finding] = list(findings)
    notes: dict[tuple[str, str, str], Finding] = {}
    after: list[JobChange] = []
    for change in changes:
        refused: list[Refusal] = []
        for was, now in _kept(change):
            for outcome in crd_edits.evaluate(catalog, was, now):
                if isinstance(outcome, Refusal):
                    reported.append(_finding(change, was, now, outcome))
                    refused += [outcome] if outcome.sure else []
                else:
                    note = _note(change, now, outcome.rule, outcome.reason)
                    notes.setdefault((now.kind, outcome.rule, outcome.reason), note)
        after.append(_rejected(change, refused[0]) if refused else change)
    return CrdVerdict(tuple(after), (*reported, *notes.values()))


def _rejected(change: JobChange, refusal: Refusal) -> JobChange:
    if change.action is Action.REJECTED:
        return change
    why = f"{refusal.message} ({refusal.pointer})" if refusal.pointer else refusal.message
    return replace(change, action=Action.REJECTED, why=why)


def _kept(change: JobChange) -> Iterator[tuple[Manifest, Manifest]]:
    """Yield the objects on both sides that differ; none for targets without an API server."""
    before, after = change.before, change.after
    broken = change.action is Action.BROKEN
    if broken or not before or not after or not NAMED[after.target].is_served:
        return
    new = Training(after).manifests
    for identity, was in Training(before).manifests.items():
        now = new.get(identity)
        if now is not None and now.body != was.body:
            yield was, now


def _note(change: JobChange, manifest: Manifest, rule: str, reason: str) -> Finding:
    message = f"{manifest.kind}: not evaluated: {' '.join(rule.split())}: {reason}"
    return dx.CEL_SKIPPED.at(Location(change.file.path), message, subject=str(change.file))


def _finding(change: JobChange, was: Manifest, now: Manifest, refusal: Refusal) -> Finding:
    title = f"{now.kind}/{now.name}"
    message = ": ".join(filter(None, (title, Pointer(refusal.pointer).dotted, refusal.message)))
    remedy = f"Leave it as it was, or begin a new run: `trainwright rerun {change.file}`."
    finding = refusal.finding(_authored(change, was, now, refusal.pointer), message, remedy)
    return replace(finding, subject=str(change.file), manifest=title, pointer=refusal.pointer)


# --- the line that people wrote ------------------------------------------------------------------


def _authored(change: JobChange, was: Manifest, now: Manifest, pointer: str) -> Location:
    """Return the line that changed the value at a pointer, or the job's file if it may be several.

    If only one line changed, it is that one, whatever the target makes of its value. Of several,
    it is the one whose value is found at the pointer.
    """
    causes = change.causes
    if len(causes) > 1:
        new = _values(lookup(now.body, pointer)) - _values(lookup(was.body, pointer))
        causes = tuple(cause for cause in causes if not new.isdisjoint(_readings(cause)))
    return causes[0].place if len(causes) == 1 else Location(change.file.path)


def _values(data: Data) -> frozenset[str]:
    """Return every scalar in a value, as text."""
    items = data.values() if isinstance(data, Mapping) else data if isinstance(data, list) else None
    if items is None:
        return frozenset((str(data),))
    return frozenset().union(*map(_values, items))


def _readings(cause: ValueChange) -> Iterator[str]:
    """Yield the texts that the new value of a spec may have in an object."""
    yield str(cause.after)
    if cause.path in _DURATIONS and cause.after is not None:
        yield str(seconds(cause.after))
