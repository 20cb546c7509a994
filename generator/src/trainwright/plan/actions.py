"""What a merge does to one job, judged by its renderings before and after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data
from trainwright.datatypes.manifest import Manifest
from trainwright.objects.departure import kustomization_deletion
from trainwright.objects.own_labels import ENVIRONMENT
from trainwright.plan.model import Action, Ending, PlannedRun
from trainwright.plan.training import STILL_THERE, Training, gpus_of, replacement
from trainwright.rule_model.edit import Verdict
from trainwright.rules.edits import outcomes

_ACTIONS = {
    Verdict.REJECTED: Action.REJECTED,
    Verdict.REFUSED_BELOW: Action.IGNORED,
    Verdict.DELETED: Action.DELETED,
    Verdict.MIXED: Action.MIXED,
    Verdict.IGNORED: Action.IGNORED,
    Verdict.UNTIL_ADMITTED: Action.MAY_BE_REFUSED,
    Verdict.IN_PLACE: Action.IN_PLACE,
}

_KUSTOMIZATION_GONE = (
    "its Kustomization leaves git with it, so no sync prunes it: unless wiring/ is applied by a "
    "Kustomization that prunes, it stays in the cluster"
)
_COUNTED = (
    "; the sums count it as accepted, and where it is refused, each sync fails until it is reverted"
)
_KUSTOMIZATION_FAILS = "its Kustomization stays in the cluster, and fails for want of its path,"
_TAKEN = frozenset({Verdict.MIXED, Verdict.IGNORED, Verdict.IN_PLACE})
_ENDS = frozenset({Action.DELETED, Action.LEFT, Action.CANCELLED, Action.NEW_RUN, Action.SUSPENDED})


def decide(was: Training | None, now: Training | None) -> tuple[Action, str]:
    """Return the action and, in one clause, the reason for it.

    `now` is None when the spec is gone. The outcome of an edit depends on the versions that the
    environment has installed.
    """
    before, after = was.run if was else None, now.run if now else None
    if was is None or before is None or not before.object:
        if now is None or after is None or not after.object:
            return Action.UNCHANGED, ""
        if after.adopted:
            there = "the object goes on as it is in the cluster"
            return Action.ADOPTED, f"{there}, and starts where it is not there"
        return Action.STARTED, _started(now)
    if now is None or after is None or not after.object:
        return _ended(was, after)
    if before.object != after.object:
        return Action.NEW_RUN, replacement(was, now)
    return _same_object(was, now)


def _started(now: Training) -> str:
    after = now.run
    if after.state == "suspended":
        return "suspended: no pod until it is resumed"
    begins = f"when queue {after.queue} admits it" if after.queue else "at once"
    return f"{after.object} {STILL_THERE} starts {begins}" if now.goes_back else begins


def _ended(was: Training, after: PlannedRun | None) -> tuple[Action, str]:
    before, gone = was.run, was.removed
    held = gpus_of(before.demand.gpus) if before.state == "active" else ""
    pruned_by = was.pruned_by if after is None else ""
    if pruned_by:
        gone = f"{before.object}: {_KUSTOMIZATION_GONE} until `{pruned_by}` prunes it"
    if held and was.goes_on(after):
        gone += f", and holds {held} until then"
    if after is None and not pruned_by and was.is_kept(after):
        command = kustomization_deletion(before.object, was.environment)
        gone += f"; {_KUSTOMIZATION_FAILS} until `{command}`" if command else ""
    if before.retired or (after is not None and after.retired):
        run = "it" if after else "its spec is gone, and its run"
        return Action.RETIRED, f"{run} is {was.retired}"
    if before.state == "active":
        waits = bool(pruned_by) or bool(was.end and was.end.until)
        gone = f"{gone}; {'after that ' if waits else ''}{was.progress}"
    if was.goes_on(after):
        return Action.LEFT, gone if after else f"its spec is gone; {gone}"
    if after is not None and after.state == "cancelled":
        return Action.CANCELLED, gone
    action = Action.LEFT_SUSPENDED if was.is_kept(after) else Action.DELETED
    return action, f"{'it renders to nothing' if after else 'its spec is gone'}; {gone}"


def made_again(was: Training, former: str, job: str) -> str:
    """Return what becomes of a run whose object is deleted, and made again for another job."""
    saved, active = next(was.saved(), None), was.run.state == "active"
    found = f"finds what it saved in {saved.where}" if saved else "trains from the start"
    lost = f"; {was.progress}" if active and not saved else ""
    begins = found if active else f"is {was.run.state} again"
    return (
        f"the merge deletes {was.run.object}, the run of {former}, and {job} makes it again, which "
        f"{begins}{lost}"
    )


def ending(action: Action, was: Training) -> Ending | None:
    """Return the training that an action ends, now or once a person confirms it."""
    end = was.ending(stays=action is Action.SUSPENDED) if action in _ENDS else None
    if end and action is Action.LEFT and was.pruned_by:
        return replace(end, waits=True, command=was.pruned_by)
    return end


def _same_object(was: Training, now: Training) -> tuple[Action, str]:
    before, after = was.run, now.run
    if before.files == after.files:
        return Action.UNCHANGED, ""
    old, new = was.manifests, now.manifests
    checked = sorted(
        (
            outcome
            for identity, manifest in old.items()
            for outcome in outcomes.evaluate(manifest, new.get(identity), was.environment)
        ),
        key=lambda outcome: tuple(Verdict).index(outcome.verdict),
    )
    refused = checked and checked[0].verdict in (Verdict.REJECTED, Verdict.REFUSED_BELOW)
    if not refused and (before.state, after.state) == ("active", "suspended"):
        why = f"the pods of {before.object} are deleted, the object stays; {was.progress}"
        return Action.SUSPENDED, why
    if not refused and (before.state, after.state) == ("suspended", "active"):
        return Action.RESUMED, f"the pods of {before.object} are created"
    # Of a job that moves to another environment the labels alone may differ.
    moved = _TAKEN.issuperset(it.verdict for it in checked) and _unmarked(old) == _unmarked(new)
    if checked and not moved:
        action, why = _ACTIONS[checked[0].verdict], f"{checked[0].why} ({checked[0].pointer})"
        is_kept = action in (Action.IN_PLACE, Action.MAY_BE_REFUSED)
        keeps = f"{before.object} stays: " if is_kept else ""
        counted = _COUNTED if action is Action.MAY_BE_REFUSED else ""
        return action, f"{keeps}{why}{counted}"
    if moved or set(old) == set(new):
        return Action.UNCHANGED, ""  # comments, or how the same data is written
    return Action.IN_PLACE, "objects beside it come or go"


def _unmarked(objects: Mapping[tuple[str, str, str, str], Manifest]) -> Data:
    """Return objects without the labels that name their environment."""
    return {identity: _without_label(it.body) for identity, it in objects.items()}


def _without_label(data: Data) -> Data:
    if isinstance(data, Mapping):
        return {key: _without_label(it) for key, it in data.items() if key != ENVIRONMENT}
    return [_without_label(it) for it in data] if isinstance(data, list) else data
