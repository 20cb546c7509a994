"""A run by the objects in its rendered files: how it ends, what of its progress is kept, and
whether a new run resumes from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from posixpath import relpath

from trainwright.datatypes.data import Data, dig, text
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.frozen import cached_property, dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.documents import yamlio
from trainwright.documents.dialect import GO
from trainwright.documents.yamlio import Document
from trainwright.kinds import TARGETS
from trainwright.kinds.subjects import pod_templates
from trainwright.objects.bundle import Bundle
from trainwright.objects.departure import Departure, End, pruning
from trainwright.objects.departure import end as end_of
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
from trainwright.rules.edits import outcomes
from trainwright.runs.record import VALUES_FILE
from trainwright.specs.demand import Range

# These live and die with a pod.
_OF_A_POD = frozenset({"emptyDir", "ephemeral"})
_CLAIM = "claim "
# What a namespace has, no run of another sees: neither its files nor its queue.
_MOVED = (
    " in namespace {now}, where the claims, Secrets and LocalQueue that it names have to be: those "
    "of {was} are not there"
)


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


@dataclass(frozen=True, slots=True)
class Saved:
    """A folder or an address to which a run saves, and the volume that holds it."""

    folder: str
    volume: str = ""  # "claim ckpt"
    resumed: str = ""  # the value of checkpoint.resumeFrom with which another run resumes from it

    @property
    def where(self) -> str:
        return f"{self.folder} on {self.volume}" if self.volume else self.folder


@dataclass(frozen=True)
class Training:
    """A run, and the environment by whose settings it is applied and deleted."""

    run: PlannedRun
    environment: Environment | None = None

    @cached_property
    def manifests(self) -> Mapping[tuple[str, str, str, str], Manifest]:
        """The objects of the run by their identity, in order."""
        return {manifest.identity: manifest for manifest in self._read()}

    def _read(self) -> Iterator[Manifest]:
        envelope = TARGETS[self.run.target].envelope or dict
        for name, content in self.run.files.items():
            if name != VALUES_FILE:
                for body in documents(self.run, name, content):
                    if self.run.believed or _is_object(body):
                        yield Manifest(body=envelope(body), path=name)

    @property
    def objects(self) -> tuple[Manifest, ...]:
        return tuple(self.manifests.values())

    @property
    def trained(self) -> Iterator[Manifest]:
        """The objects that train, whatever their name."""
        return filter(TARGETS[self.run.target].makes, self.manifests.values())

    @property
    def workload(self) -> Manifest | None:
        """The object of the run, or None if it does not train."""
        return next((it for it in self.trained if it.name == self.run.object), None)

    @property
    def namespace(self) -> str:
        return next((it.namespace for it in self.trained), "")

    # --- its end -----------------------------------------------------------------------------

    @property
    def end(self) -> End | None:
        """How the object ends once it is not in git any more; None for a run that does not
        train.
        """
        return end_of(self.workload, self.environment, self.objects) if self.workload else None

    @property
    def pruned_by(self) -> str:
        """The command that prunes the run of a job whose spec is gone, if one has to."""
        pruned = self.end is not None and self.end.how is Departure.PRUNED
        return pruning(self.run.object, self.environment) if pruned else ""

    def is_kept(self, after: PlannedRun | None) -> bool:
        """Whether no GitOps engine deletes the object once the merge removes it from git; `after`
        is None if the merge removes the spec of its job as well.
        """
        kept = self.end is not None and self.end.is_kept
        return kept or (after is None and bool(self.pruned_by))

    def goes_on(self, after: PlannedRun | None) -> bool:
        """Whether the merge removes it from git, and it goes on since no engine deletes it."""
        if self.run.state != "active" or not self.run.object:
            return False
        if after is not None and (after.retired or after.object == self.run.object):
            return False
        return self.is_kept(after)

    @property
    def removed(self) -> str:
        """What happens to the object once it is removed from git, in words."""
        if self.end is not None and self.end.until:
            return self.end.stays(self.run.object)
        for manifest in self.objects:
            if manifest.name == self.run.object:
                for outcome in outcomes.evaluate(manifest, None, self.environment, self.objects):
                    return f"{self.run.object}: {outcome.why}"
        return f"{self.run.object} goes"

    def ending(self, *, stays: bool) -> Ending | None:
        """Return how the training ends, or None for a run that does not train.

        If its object is removed from git (does not `stay`), it may wait for a person, also where
        it is suspended.
        """
        if self.end is None:
            return None
        active = self.run.state == "active"
        loses = active and next(self.saved(), None) is None
        if stays or not self.end.until:
            return Ending(self.run.object, loses) if active else None
        return Ending(self.run.object, loses, waits=True, command=self.end.command)

    # --- its progress ------------------------------------------------------------------------

    @property
    def progress(self) -> str:
        """What happens to its progress when its pods end, judging by its settings."""
        if place := next(self.saved(), None):
            return f"what it saved stays in {place.where}"
        if folder := next((it for container in self.containers for it in saved(container)), None):
            return f"its progress is lost: {folder.value} is on no volume"
        if any(map(saves, self.templates)):
            return (
                "its progress is lost, unless it saves to a folder that no variable or flag names"
            )
        return "its progress is lost: no variable or flag makes it save checkpoints"

    @property
    def templates(self) -> Iterator[PodTemplate]:
        around = Bundle(self.objects)
        for manifest in self.trained:
            yield from pod_templates(manifest, around)

    @property
    def containers(self) -> Iterator[Container]:
        """The containers that train."""
        for template in self.templates:
            yield from template.trains

    def saved(self) -> Iterator[Saved]:
        """Yield where its checkpoints stay when its pods end."""
        for template in self.templates:
            for container in template.trains:
                yield from _saved_by(container, template)
                yield from (Saved(setting.value) for setting in saved_remotely(container))

    @property
    def read(self) -> set[str]:
        """The folders that it resumes from."""
        return {it.value for container in self.containers for it in read_from(container)}


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


def gpus_of(gpus: Range) -> str:
    """Return an amount as "8 GPUs", or "" for none."""
    if not gpus:
        return ""
    ends = sorted({gpus.low, gpus.high})
    return f"{' to '.join(f'{end:g}' for end in ends)} GPU{'' if ends == [1] else 's'}"


# --- one run in place of another -----------------------------------------------------------------


def replacement(before: Training, after: Training) -> str:
    """Return what the merge starts, stops and leaves running, and what progress is lost."""
    start = _start(before, after)
    name, state = before.run.object, before.run.state
    if before.end is None:
        return f"the merge replaces {name}; {start}"
    held, active = gpus_of(before.run.demand.gpus), before.run.state == "active"
    gpus = f" ({held})" if held else ""
    end = before.end.until
    if end and active:
        place = _overwritten(before, after)
        progress = f"both have written to {place.where}" if place else before.progress
        goes_on = f"keeps training{gpus} beside it until {end}; after that {progress}"
        return f"after the merge {start}, and {name} {goes_on}"
    if end:
        return f"after the merge {start}, and {name} stays {state} until {end}"
    if active:
        return f"the merge stops {name}{gpus}, and {before.progress}; {start}"
    return f"the merge deletes {name}, which is {state}; {start}"


def _start(before: Training, after: Training) -> str:
    """Return when the new run begins and where, judged by the folders that both save to or read."""
    there, name = "", after.run.object
    if _is_moved(before, after):
        there = _MOVED.format(now=after.namespace, was=before.namespace)
    begun, queue = _begun(before, after), after.run.queue
    if after.run.state == "suspended":
        return f"{name} is suspended, and once it is resumed {begun}{there}"
    admitted = f", when queue {queue} admits it{there and ','}" if queue else ""
    return f"{name} {begun}{admitted}{there}"


def _begun(before: Training, after: Training) -> str:
    """Return from where a run begins, in words."""
    kept = _reached(before, after)
    read, again = after.read, {place.folder for place in after.saved()}
    place = next((place for place in kept if place.folder in read | again), None)
    if place and place.folder in read:
        return f"resumes from the checkpoints in {place.where}"
    if place:
        return f"saves to the same folder, {place.where}"
    resumed = next((place.resumed for place in kept if place.resumed), "")
    how = f" (`checkpoint.resumeFrom: {resumed}` would resume)" if resumed else ""
    return f"starts from scratch{how}"


def _is_moved(before: Training, after: Training) -> bool:
    """Whether both runs have a namespace, and each another one."""
    return "" not in (before.namespace, after.namespace) and before.namespace != after.namespace


def _reached(before: Training, after: Training) -> tuple[Saved, ...]:
    """Return where the old run saves, without claims that the namespace of the new one lacks."""
    moved = _is_moved(before, after)
    return tuple(it for it in before.saved() if not (moved and it.volume.startswith(_CLAIM)))


def _overwritten(before: Training, after: Training) -> Saved | None:
    """Return the folder to which both runs save, unless the new one resumes from the old one's."""
    kept, read = _reached(before, after), after.read
    if any(place.folder in read for place in kept):
        return None
    again = {place.folder for place in after.saved()}
    return next((place for place in kept if place.folder in again), None)
