"""How a run ends, what of its progress is kept, and whether a new run resumes from it."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import relpath

from trainwright.datatypes.data import dig, text
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import TARGETS
from trainwright.kinds.subjects import pod_templates
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.storage import (
    mount_at,
    read_from,
    saved,
    saved_remotely,
    saves,
    volume_of,
)
from trainwright.objects.pods.template import CHECKPOINT_DIR, Container, PodTemplate
from trainwright.plan.model import Ending, PlannedRun
from trainwright.rules.gitops import ended_by, stays_until
from trainwright.specs.demand import Range

# These live and die with a pod.
_OF_A_POD = frozenset({"emptyDir", "ephemeral"})


@dataclass(frozen=True, slots=True)
class Saved:
    """A folder or an address to which a run saves, and the volume that holds it."""

    folder: str
    volume: str = ""  # "claim ckpt"
    resumed: str = ""  # the value of checkpoint.resumeFrom with which another run resumes from it

    @property
    def where(self) -> str:
        return f"{self.folder} on {self.volume}" if self.volume else self.folder


def replacement(
    before: PlannedRun,
    after: PlannedRun,
    old: tuple[Manifest, ...],
    new: tuple[Manifest, ...],
    environment: Environment | None,
) -> str:
    """Return in words what the merge starts, stops and leaves running, and what progress is lost.

    `old` and `new` are the objects of both runs.
    """
    start = f"{after.object} {_start(before, after, old, new)}"
    workload = next((m for m in old if m.name == before.object and _trains(before, m)), None)
    if workload is None:
        return f"the merge replaces {before.object}; {start}"
    held, progress = gpus_of(before.demand.gpus), progress_of(before, old)
    gpus = f" ({held})" if held else ""
    active, end = before.state == "active", stays_until(workload, environment, old)
    if end and active:
        if place := _overwritten(before, after, old, new):
            progress = f"both have written to {place.where}"
        goes_on = f"keeps training{gpus} beside it until {end}; after that {progress}"
        return f"after the merge {start}, and {before.object} {goes_on}"
    if end:
        return f"after the merge {start}, and {before.object} stays {before.state} until {end}"
    if active:
        return f"the merge stops {before.object}{gpus}, and {progress}; {start}"
    return f"the merge deletes {before.object}, which is {before.state}; {start}"


def _trains(run: PlannedRun, manifest: Manifest) -> bool:
    return TARGETS[run.target].makes(manifest)


def gpus_of(gpus: Range) -> str:
    """Return an amount as "8 GPUs", or "" for none."""
    if not gpus:
        return ""
    ends = sorted({gpus.low, gpus.high})
    return f"{' to '.join(f'{end:g}' for end in ends)} GPU{'' if ends == [1] else 's'}"


def _start(
    before: PlannedRun,
    after: PlannedRun,
    old: tuple[Manifest, ...],
    new: tuple[Manifest, ...],
) -> str:
    """Return where the new run begins, judged by the folders that both runs save to or read."""
    was, now = _namespaces(before, after, old, new)
    there = _MOVED.format(now=now, was=was) if was != now else ""
    kept = _reached(before, after, old, new)
    read, again = _read(after, new), {place.folder for place in _saved(after, new)}
    place = next((place for place in kept if place.folder in read | again), None)
    if place and place.folder in read:
        return f"resumes from the checkpoints in {place.where}{there}"
    if place:
        return f"saves to the same folder, {place.where}{there}"
    resumed = next((place.resumed for place in kept if place.resumed), "")
    how = f" (`checkpoint.resumeFrom: {resumed}` would resume)" if resumed else ""
    return f"starts from scratch{how}{there}"


def _namespaces(
    before: PlannedRun,
    after: PlannedRun,
    old: tuple[Manifest, ...],
    new: tuple[Manifest, ...],
) -> tuple[str, str]:
    """Return the namespaces of both runs, or "" twice if one of them is not known."""
    was = next((m.namespace for m in old if _trains(before, m)), "")
    now = next((m.namespace for m in new if _trains(after, m)), "")
    return (was, now) if was and now else ("", "")


def _reached(
    before: PlannedRun,
    after: PlannedRun,
    old: tuple[Manifest, ...],
    new: tuple[Manifest, ...],
) -> tuple[Saved, ...]:
    """Return where the old run saves, without claims that the namespace of the new one lacks."""
    was, now = _namespaces(before, after, old, new)
    return tuple(it for it in _saved(before, old) if was == now or not it.volume.startswith(_CLAIM))


_CLAIM = "claim "
# What a namespace has, no run of another sees: neither its files nor its queue.
_MOVED = (
    " in namespace {now}, where the claims, Secrets and LocalQueue that it names have to be: those "
    "of {was} are not there"
)


def _overwritten(
    before: PlannedRun,
    after: PlannedRun,
    old: tuple[Manifest, ...],
    new: tuple[Manifest, ...],
) -> Saved | None:
    """Return the folder to which both runs save, unless the new one resumes from the old one's."""
    kept, read = _reached(before, after, old, new), _read(after, new)
    if any(place.folder in read for place in kept):
        return None
    again = {place.folder for place in _saved(after, new)}
    return next((place for place in kept if place.folder in again), None)


def _read(run: PlannedRun, objects: tuple[Manifest, ...]) -> set[str]:
    """Return the folders that a run resumes from."""
    return {it.value for container in _training(run, objects) for it in read_from(container)}


def progress_of(run: PlannedRun, objects: tuple[Manifest, ...]) -> str:
    """Return what happens to a run's progress when its pods end, judging by its settings."""
    if place := next(_saved(run, objects), None):
        return f"what it saved stays in {place.where}"
    if folder := next((setting for it in _training(run, objects) for setting in saved(it)), None):
        return f"its progress is lost: {folder.value} is on no volume"
    if any(map(saves, _templates(run, objects))):
        return "its progress is lost, unless it saves to a folder that no variable or flag names"
    return "its progress is lost: no variable or flag makes it save checkpoints"


def ending_of(
    run: PlannedRun, objects: tuple[Manifest, ...], environment: Environment | None, *, stays: bool
) -> Ending | None:
    """Return how a training ends, or None for a run that does not train.

    If its object is removed from git (does not `stay`), it may wait for a confirmation.
    """
    workload = next((m for m in objects if m.name == run.object and _trains(run, m)), None)
    if run.state != "active" or workload is None:
        return None
    loses = next(_saved(run, objects), None) is None
    if stays or not stays_until(workload, environment):
        return Ending(run.object, loses)
    return Ending(run.object, loses, waits=True, command=ended_by(workload, environment, objects))


def _templates(run: PlannedRun, objects: tuple[Manifest, ...]) -> Iterator[PodTemplate]:
    around = Bundle(objects)
    for manifest in objects:
        if _trains(run, manifest):
            yield from pod_templates(manifest, around)


def _training(run: PlannedRun, objects: tuple[Manifest, ...]) -> Iterator[Container]:
    for template in _templates(run, objects):
        yield from template.trains


def _saved(run: PlannedRun, objects: tuple[Manifest, ...]) -> Iterator[Saved]:
    """Where the checkpoints of a run stay when its pods end."""
    for template in _templates(run, objects):
        for container in template.trains:
            yield from _saved_by(container, template)
            yield from (Saved(setting.value) for setting in saved_remotely(container))


def _saved_by(container: Container, template: PodTemplate) -> Iterator[Saved]:
    for setting in saved(container):
        mount = mount_at(container, setting.value)
        volume = volume_of(template, mount) if mount else {}
        if mount and volume and not _OF_A_POD & volume.keys():
            claim = text(dig(volume, "persistentVolumeClaim", "claimName"))
            name = f"{_CLAIM}{claim}" if claim else f"volume {text(volume.get('name'))}"
            ours = setting.name == CHECKPOINT_DIR.lower()
            yield Saved(
                setting.value,
                name,
                relpath(setting.value, text(mount.get("mountPath"))) if ours else "",
            )
