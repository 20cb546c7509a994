"""What a merge does to one job, judged by its renderings before and after."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.manifest import Manifest
from trainwright.documents import yamlio
from trainwright.documents.dialect import GO
from trainwright.documents.yamlio import Document
from trainwright.kinds import TARGETS
from trainwright.objects.departure import kustomization_deletion, pruning
from trainwright.plan.model import Action, Ending, PlannedRun
from trainwright.plan.replacing import ending_of, gpus_of, progress_of, replacement
from trainwright.rule_model.edit import Verdict
from trainwright.rules.edits import outcomes
from trainwright.rules.gitops import Departure, leaving
from trainwright.runs.record import VALUES_FILE

PlannedAction = tuple[Action, str]

_ACTIONS = {
    Verdict.REJECTED: Action.REJECTED,
    Verdict.REFUSED_BELOW: Action.IGNORED,
    Verdict.DELETED: Action.DELETED,
    Verdict.MIXED: Action.MIXED,
    Verdict.IGNORED: Action.IGNORED,
    Verdict.UNTIL_ADMITTED: Action.IN_PLACE,
    Verdict.IN_PLACE: Action.IN_PLACE,
}

_KUSTOMIZATION_GONE = (
    "its Kustomization leaves git with it, so no sync prunes it: unless wiring/ is applied by a "
    "Kustomization that prunes, it stays in the cluster"
)
_KUSTOMIZATION_FAILS = "its Kustomization stays in the cluster, and fails for want of its path,"
_ENDS = frozenset({Action.DELETED, Action.LEFT, Action.CANCELLED, Action.NEW_RUN, Action.SUSPENDED})


def decide(
    before: PlannedRun | None, after: PlannedRun | None, environment: Environment | None = None
) -> PlannedAction:
    """Return the action and, in one clause, the reason for it.

    `after` is None when the spec is gone. The outcome of an edit depends on the versions that
    the environment has installed.
    """
    had, has = before is not None and before.object, after is not None and after.object
    if not had and not has:
        return Action.UNCHANGED, ""
    if not had:
        assert after is not None
        if after.adopted:
            there = "the object goes on as it is in the cluster"
            return Action.ADOPTED, f"{there}, and starts where it is not there"
        return Action.STARTED, _started(after)
    assert before is not None
    if not has:
        return _ended(before, after, environment)
    assert after is not None
    if before.object != after.object:
        old, new = (tuple(manifests(run).values()) for run in (before, after))
        return Action.NEW_RUN, replacement(before, after, old, new, environment)
    return _same_object(before, after, environment)


def _started(after: PlannedRun) -> str:
    if after.state == "suspended":
        return "suspended: no pod until it is resumed"
    return f"when queue {after.queue} admits it" if after.queue else "at once"


def _ended(
    before: PlannedRun, after: PlannedRun | None, environment: Environment | None
) -> PlannedAction:
    gone = removed(before, environment)
    if after is None and (command := _pruned_by(before, environment)):
        gone = f"{before.object}: {_KUSTOMIZATION_GONE} until `{command}` prunes it"
    elif after is None and _leaves(before, environment) is Departure.KEPT:
        command = kustomization_deletion(before.object, environment)
        gone += f"; {_KUSTOMIZATION_FAILS} until `{command}`" if command else ""
    if after is not None and after.retired:
        held = gpus_of(before.demand.gpus) if before.state == "active" else ""
        if held and is_kept(before, after, environment):
            gone += f"; if its pods still run, its {held} are held until it is deleted"
        return Action.RETIRED, f"it is in the ledger of finished runs; {gone}"
    if before.state == "active":
        gone = f"{gone}; {progress_of(before, tuple(manifests(before).values()))}"
    if goes_on(before, after, environment):
        return Action.LEFT, gone if after else f"its spec is gone; {gone}"
    if after is None:
        return Action.DELETED, f"its spec is gone; {gone}"
    if after.state == "cancelled":
        return Action.CANCELLED, gone
    return Action.DELETED, f"it renders to nothing; {gone}"


def goes_on(
    before: PlannedRun | None, after: PlannedRun | None, environment: Environment | None
) -> bool:
    """Whether a run removed from git goes on, since its GitOps engine deletes nothing."""
    if before is None or before.state != "active" or not before.object:
        return False
    if after is not None and (after.retired or after.object == before.object):
        return False
    return is_kept(before, after, environment)


def is_kept(before: PlannedRun, after: PlannedRun | None, environment: Environment | None) -> bool:
    """Whether no GitOps engine deletes the object of a run that is removed from git."""
    kept = _leaves(before, environment) is Departure.KEPT
    return kept or (after is None and bool(_pruned_by(before, environment)))


def _leaves(before: PlannedRun, environment: Environment | None) -> Departure | None:
    """Return what a GitOps engine does with the object of a training that is not in git any more;
    None for a run that does not train.
    """
    left = (m for m in manifests(before).values() if m.name == before.object)
    training = (m for m in left if TARGETS[before.target].makes(m))
    gitops = environment.gitops if environment else None
    departures = {leaving(m.body["metadata"], gitops) for m in training}
    return Departure.KEPT if Departure.KEPT in departures else next(iter(departures), None)


def _pruned_by(before: PlannedRun, environment: Environment | None) -> str:
    """Return the command that prunes the run of a job whose spec is gone, if one has to."""
    pruned = _leaves(before, environment) is Departure.PRUNED
    return pruning(before.object, environment) if pruned else ""


def ending(
    action: Action, before: PlannedRun | None, environment: Environment | None
) -> Ending | None:
    """Return the training that an action ends, now or once a person confirms it."""
    if before is None or action not in _ENDS:
        return None
    objects = tuple(manifests(before).values())
    end = ending_of(before, objects, environment, stays=action is Action.SUSPENDED)
    command = _pruned_by(before, environment) if action is Action.LEFT else ""
    return replace(end, waits=True, command=command) if end and command else end


def removed(before: PlannedRun, environment: Environment | None) -> str:
    """Return what happens to a run's object that is removed from git, in words."""
    run = tuple(manifests(before).values())
    for manifest in run:
        if manifest.name == before.object:
            for outcome in outcomes.evaluate(manifest, None, environment, run):
                return f"{before.object}: {outcome.why}"
    return f"{before.object} goes"


def _same_object(
    before: PlannedRun, after: PlannedRun, environment: Environment | None
) -> PlannedAction:
    if before.files == after.files:
        return Action.UNCHANGED, ""
    old, new = manifests(before), manifests(after)
    checked = sorted(
        (
            outcome
            for identity, manifest in old.items()
            for outcome in outcomes.evaluate(manifest, new.get(identity), environment)
        ),
        key=lambda outcome: tuple(Verdict).index(outcome.verdict),
    )
    refused = checked and checked[0].verdict in (Verdict.REJECTED, Verdict.REFUSED_BELOW)
    if not refused and (before.state, after.state) == ("active", "suspended"):
        progress = progress_of(before, tuple(old.values()))
        why = f"the pods of {before.object} are deleted, the object stays; {progress}"
        return Action.SUSPENDED, why
    if not refused and (before.state, after.state) == ("suspended", "active"):
        return Action.RESUMED, f"the pods of {before.object} are created"
    if checked:
        action, why = _ACTIONS[checked[0].verdict], f"{checked[0].why} ({checked[0].pointer})"
        keeps = f"{before.object} stays: " if action is Action.IN_PLACE else ""
        return action, f"{keeps}{why}"
    if set(old) == set(new):
        return Action.UNCHANGED, ""  # comments, or how the same data is written
    return Action.IN_PLACE, "objects beside it come or go"


def manifests(run: PlannedRun) -> Mapping[tuple[str, str, str, str], Manifest]:
    """The objects of a run by their identity, in order."""
    return {manifest.identity: manifest for manifest in _read(run)}


def _read(run: PlannedRun) -> Iterator[Manifest]:
    envelope = TARGETS[run.target].envelope or dict
    for name, text in run.files.items():
        if name != VALUES_FILE:
            for body in documents(run, name, text):
                if run.believed or _is_object(body):
                    yield Manifest(body=envelope(body), path=name)


def documents(run: PlannedRun, name: str, text: str) -> Iterator[dict[str, Data]]:
    """Yield the objects in a rendered file; if no source renders it, those that can be parsed."""
    if run.believed:
        with suppress(*yamlio.UNREADABLE):
            yield from yamlio.load_rendered(text)
            return
    for document in yamlio.documents(name, text.encode(), GO):
        if isinstance(document, Document) and isinstance(document.data, dict):
            yield document.data


def _is_object(body: dict[str, Data]) -> bool:
    """Whether something has the fields that identify an object: apiVersion, kind and a name."""
    metadata = body.get("metadata")
    named = isinstance(metadata, dict) and isinstance(metadata.get("name"), str)
    return named and all(isinstance(body.get(key), str) for key in ("apiVersion", "kind"))
