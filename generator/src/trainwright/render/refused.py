"""Edits that the API server refuses, of objects that keep their names from a base on: those of
one's own, and those that a new run of a job finds there, such as its claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from trainwright.datatypes.data import Data, sequence
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.helm.values import claim_name
from trainwright.render.objects import manifests
from trainwright.rule_model.edit import Verdict
from trainwright.rules.edits import outcomes
from trainwright.rules.edits.outcomes import EditOutcome
from trainwright.runs.decision import Sources
from trainwright.runs.record import Record
from trainwright.runs.workspace import Workspace


def of_own(base: Workspace, present: Workspace, environment: Environment) -> Iterator[Finding]:
    """Yield a finding for each edit of one's own objects that does not do what it says."""
    name = environment.name
    if name not in base.survey.jobs:
        return
    before = {it.manifest.identity: it.manifest for it in base.own_objects(name).objects}
    for item in present.own_objects(name).objects:
        old, new = before.get(item.manifest.identity), item.manifest
        if old is None:
            continue
        for outcome in outcomes.evaluate(old, new, environment):
            if outcome.verdict is not Verdict.IN_PLACE:
                yield outcome.rule.at(
                    item.document.place(Pointer(outcome.pointer)),
                    _message(outcome, old, new),
                    subject=name,
                    manifest=new.title,
                    pointer=outcome.pointer,
                )


def of_job(
    base: Workspace, present: Workspace, file: JobFile, run: Record, texts: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield a finding for each object that a run of a job has from the one in the base, and that
    the API server does not let change so. `texts` are its files, or else those on disk.
    """
    was, now = base.rendered(file), present.rendered(file)
    kept = {*was.record.objects} & {*run.objects} if was else set()
    sources = present.resolve(file).sources if kept else None
    if was is None or sources is None or was.record.object == run.object:
        return
    if not texts and now and now.intact:
        texts = now.texts()
    if was.intact and texts:
        sides = (manifests(was.texts(), was.record.target), manifests(texts, run.target))
        yield from _of_run(*sides, sources)


def _of_run(
    was: Iterable[Manifest], now: Iterable[Manifest], sources: Sources
) -> Iterator[Finding]:
    spec, job, environment = sources.spec, sources.job, sources.environment
    before = {manifest.identity: manifest for manifest in was}
    claims = {claim_name(job, volume): volume.name for volume in job.volumes if volume.create}
    for new in now:
        old = before.get(new.identity)
        if old is None:
            continue
        for outcome in outcomes.evaluate(old, new, environment):
            if outcome.verdict is not Verdict.REJECTED:
                continue
            path, remedy = Pointer("/name"), ""
            if volume := claims.get(new.name, ""):
                path = Pointer.of("volumes", volume, "create", *_field(outcome.pointer))
                remedy = _remedy(volume, path, old)
            yield outcome.rule.at(
                spec.authored(path),
                f"{new.title}: {_message(outcome, old, new)}",
                remedy=remedy,
                path=path,
                subject=f"{environment.name}/{job.name}",
                manifest=new.title,
                pointer=outcome.pointer,
            )


def _remedy(volume: str, path: Pointer, old: Manifest) -> str:
    """Return how to keep a claim, or its data, whose edit is refused."""
    renamed = (
        f"rename the volume {volume}: {old.name} then stays as it is with its data, and the new "
        "claim is empty."
    )
    if path.last != "accessModes":
        return f"Take the edit back, or {renamed}"
    modes = ", ".join(map(str, sequence(lookup(old.body, Pointer("/spec/accessModes")))))
    return f"Write `accessModes: [{modes}]` in its `create`, as the claim has it, or {renamed}"


_FIELDS = {"resources": "size", "storageClassName": "storageClass", "accessModes": "accessModes"}


def _field(pointer: str) -> tuple[str, ...]:
    """Return the field of `create` that a pointer into a claim comes from."""
    names = [_FIELDS[part] for part in Pointer(pointer).parts[1:2] if part in _FIELDS]
    return tuple(names)


def _message(outcome: EditOutcome, old: Manifest, new: Manifest) -> str:
    """Return why an edit is not taken, with the field and its values, if these are short."""
    at = Pointer(outcome.pointer)
    sides = [lookup(one.body, at) for one in (old, new)]
    is_short = not any(isinstance(side, (dict, list)) for side in sides)
    values = f" {' → '.join(map(_shown, sides))}" if is_short else ""
    return f"{outcome.why} ({at.dotted}{values})"


def _shown(value: Data) -> str:
    return "(unset)" if value is None else str(value)
