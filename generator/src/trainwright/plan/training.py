"""A run by the objects in its rendered files: how it ends, what of its progress is kept, and
whether a new run resumes from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import field, replace
from posixpath import join, normpath, relpath

from trainwright.datatypes.data import Data, dig, mappings, text
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.frozen import cached_property, dataclass
from trainwright.datatypes.groupkind import PERSISTENTVOLUMECLAIM, SERVICEACCOUNT
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.listing import listed
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.same import digest_of_data
from trainwright.documents import yamlio
from trainwright.documents.dialect import GO
from trainwright.documents.yamlio import Document
from trainwright.kinds import TARGETS
from trainwright.kinds.subjects import pod_templates
from trainwright.objects.bundle import Bundle
from trainwright.objects.departure import Departure, End, pruning
from trainwright.objects.departure import end as end_of
from trainwright.objects.naming import job_of_run
from trainwright.objects.pods.storage import (
    Setting,
    mount_at,
    read_from,
    saved,
    saved_remotely,
    saves,
    volume_of,
)
from trainwright.objects.pods.template import CHECKPOINT_DIR, Container, PodTemplate
from trainwright.plan.model import Action, Ending, PlannedRun
from trainwright.rules.edits import outcomes
from trainwright.runs.record import VALUES_FILE
from trainwright.specs.demand import Range

# These live and die with a pod.
_OF_A_POD = frozenset({"emptyDir", "ephemeral"})
_CLAIM = "claim "
_OVERWRITE = (
    "each of the two overwrites the checkpoints of the other: with `${{ run.name }}` in "
    "that path each run has a folder of its own"
)
STILL_THERE = "goes on if its object is still in the cluster, and otherwise"
# What a namespace has, no run of another sees: neither its files nor its queue.
_NEEDS = "{names} {have} to be (what {was} has is not there)"
_EMPTY = "{claims}, which the merge adds, {are} new and empty"


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
    """A folder or an address to which a run saves, or from which it resumes.

    `volume` holds it, "claim ckpt", whose `source` is the same in each pod that has its files;
    there it is `path`, below `root`, which is mounted. It may be of the field `checkpoint`.
    """

    folder: str
    path: str
    volume: str = ""
    source: str = ""
    root: str = ""
    checkpoint: bool = False
    is_kept: bool = True  # once its pods end
    is_deleted: bool = False  # by the merge, with its claim

    @property
    def where(self) -> str:
        return f"{self.folder} on {self.volume}" if self.volume else self.folder

    @property
    def runs(self) -> tuple[str, ...]:
        """The parts of its path that may be names of runs, the last first."""
        return tuple(it for it in reversed(self.path.split("/")) if job_of_run(it) != it)

    @property
    def why_lost(self) -> str:
        """Why what is saved there does not outlast the pods."""
        deleted = ", which the merge deletes" if self.is_deleted else ""
        return f"{self.folder} is on {self.volume or 'no volume'}{deleted}"

    @property
    def loaded(self) -> str:
        """What a run begins with that reads it, where none is known to have saved there."""
        if self.is_deleted:
            return f"cannot resume from {self.folder}: the merge deletes {self.volume}"
        return f"loads the checkpoints in {self.where}, if there are any"

    def has(self, other: Saved) -> bool:
        """Whether another place is this one or below it, wherever each pod has it."""
        below = other.path == self.path or other.path.startswith(f"{self.path}/")
        return self.source == other.source and below

    def resumed_from(self, other: Saved) -> str:
        """Return the value of `checkpoint.resumeFrom` by which a run that saves here resumes from
        another place, or "" if none does.
        """
        if not (self.checkpoint and other.checkpoint and self.source == other.source):
            return ""
        path = relpath(other.path, self.root)
        return "" if path.startswith("..") else path


@dataclass(frozen=True)
class Training:
    """A run, and the environment by whose settings it is applied and deleted. Where the file of its
    job `leaves` git, a Kustomization may have to be deleted for it; a `keeper` is another job that
    has the same run, whatever happens to its own. `deleted` are objects beside it that the merge
    deletes; `origin` finds the run that it resumes from.
    """

    run: PlannedRun
    environment: Environment | None = None
    leaves: bool = False
    keeper: str = ""
    deleted: Set[tuple[str, str, str, str]] = frozenset()  # by their identity
    origin: Callable[[Training], Training | None] | None = field(default=None, compare=False)
    added: Set[tuple[str, str, str, str]] = frozenset()  # objects beside it, by the merge
    # Of a run that commits before the merge had: what that does to its object, if it is there, and
    # whether it was finished or cancelled by then.
    earlier: tuple[Action, str] | None = None
    had_ended: bool = False

    @cached_property
    def resumed(self) -> Training | None:
        """The run after which the folder is called that it resumes from, if git had one."""
        return self.origin(self) if self.origin else None

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

    @property
    def goes_back(self) -> bool:
        """Whether it is an earlier run, as it was, whose object no engine has deleted."""
        if self.earlier is None or self.earlier[0] is not Action.UNCHANGED or self.had_ended:
            return False
        return self.end is not None and self.end.is_kept

    # --- its end -----------------------------------------------------------------------------

    @property
    def end(self) -> End | None:
        """How the object ends once it is not in git any more; None for a run that does not
        train.
        """
        if self.workload is None:
            return None
        end = end_of(self.workload, self.environment, self.objects)
        pruned = self.leaves and end.how is Departure.PRUNED
        command = pruning(self.run.object, self.environment) if pruned else ""
        return End(Departure.KEPT, command) if command else end

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
        if self.run.state != "active" or not self.run.object or self.keeper or self.run.retired:
            return False
        if after is not None and (after.retired or after.object == self.run.object):
            return False
        return self.is_kept(after)

    @property
    def removed(self) -> str:
        """What happens to the object once it is removed from git, in words."""
        if self.keeper:
            return f"{self.run.object} goes on as the run of {self.keeper}"
        if self.end is not None and self.end.until:
            return self.end.stays(self.run.object)
        for manifest in self.objects:
            if manifest.name == self.run.object:
                for outcome in outcomes.evaluate(manifest, None, self.environment, self.objects):
                    return f"{self.run.object}: {outcome.why}"
        return f"{self.run.object} goes"

    @property
    def retired(self) -> str:
        """What becomes of the object of a finished run, in words."""
        held = gpus_of(self.run.demand.gpus) if self.run.state == "active" else ""
        over = f"in the ledger of finished runs; {self.removed}"
        if not held or self.keeper or self.end is None or not self.end.is_kept:
            return over
        return f"{over}; if its pods still run, its {held} are held until it is deleted"

    def ending(self, *, stays: bool) -> Ending | None:
        """Return how the training ends, or None for a run that does not train.

        If its object is removed from git (does not `stay`), it may wait for a person, also where
        it is suspended.
        """
        if self.end is None or self.run.retired:
            return None
        active = self.run.state == "active"
        if self.keeper:
            return Ending(self.run.object, loses=False, waits=True) if active else None
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
        if self.unsaved:
            return f"its progress is lost: {self.unsaved}"
        return "its progress is lost, unless it saves to a folder that no variable or flag names"

    @property
    def unsaved(self) -> str:
        """Why nothing that it saves outlives its pods; "" if some does, or may."""
        places = tuple(self._places(saved))
        if any(place.is_kept for place in places):
            return ""
        if place := next(iter(places), None):
            return place.why_lost
        may_save = any(map(saves, self.templates))
        return "" if may_save else "no variable or flag makes it save checkpoints"

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
        return (place for place in self._places(saved, saved_remotely) if place.is_kept)

    @property
    def read(self) -> tuple[Saved, ...]:
        """Where it resumes from."""
        return tuple(self._places(read_from))

    def _places(self, *named: Callable[[Container], Iterable[Setting]]) -> Iterator[Saved]:
        for template in self.templates:
            for container in template.trains:
                for setting in (setting for settings in named for setting in settings(container)):
                    yield self._left(_place(setting, container, template))

    @property
    def unmountable(self) -> tuple[str, ...]:
        """The claims that its pods mount, and that the merge deletes."""
        if not self.deleted:
            return ()
        return tuple(filter(self._is_deleted, self.claims))

    @property
    def claims(self) -> tuple[str, ...]:
        """The claims that its pods mount."""
        volumes = (volume for it in self.templates for _, volume in it.volumes)
        claims = (text(dig(it, "persistentVolumeClaim", "claimName")) for it in volumes)
        return tuple(dict.fromkeys(filter(None, claims)))

    @property
    def secrets(self) -> Iterator[str]:
        """The Secrets that its pods name."""
        for template in self.templates:
            yield from (text(dig(it, "secret", "secretName")) for _, it in template.volumes)
            yield from (
                text(it.get("name")) for it in mappings(template.spec.get("imagePullSecrets"))
            )
            for container in template.containers:
                for it in container.env:
                    yield text(dig(it, "valueFrom", "secretKeyRef", "name"))
                for source in mappings(container.body.get("envFrom")):
                    yield text(dig(source, "secretRef", "name"))

    @property
    def named(self) -> Iterator[str]:
        """What its pods need in their namespace, and none of its objects is: "claim data"."""
        claim = (*PERSISTENTVOLUMECLAIM, self.namespace)
        yield from (f"claim {it}" for it in self.claims if (*claim, it) not in self.manifests)
        yield from (f"Secret {it}" for it in dict.fromkeys(filter(None, self.secrets)))
        yield from (f"LocalQueue {it}" for it in (self.run.queue,) if it)
        accounts = (text(it.spec.get("serviceAccountName")) for it in self.templates)
        account = (*SERVICEACCOUNT, self.namespace)
        yield from (
            f"ServiceAccount {it}"
            for it in dict.fromkeys(filter(None, accounts))
            if it != "default" and (*account, it) not in self.manifests
        )

    def there(self, was: str) -> str:
        """Return what has to be in its namespace, which is another one than before."""
        claim = (*PERSISTENTVOLUMECLAIM, self.namespace)
        found = [it for it in self.claims if (*claim, it) not in self.manifests]
        added = [f"claim {it}" for it in found if (*claim, it) in self.added]
        names = [it for it in self.named if it not in added]
        have, are = ("has" if len(names) == 1 else "have"), ("is" if len(added) == 1 else "are")
        needs = _NEEDS.format(names=listed(names, 5), have=have, was=was) if names else ""
        empty = _EMPTY.format(claims=listed(added, 5), are=are) if added else ""
        where = " and ".join(filter(None, (needs, empty)))
        return f" in namespace {self.namespace}{where and f', where {where}'}"

    def _is_deleted(self, claim: str) -> bool:
        return (*PERSISTENTVOLUMECLAIM, self.namespace, claim) in self.deleted

    def _left(self, place: Saved) -> Saved:
        """Return a place as the merge leaves it."""
        if place.volume.startswith(_CLAIM) and self._is_deleted(place.source):
            return replace(place, is_kept=False, is_deleted=True)
        return place


def _place(setting: Setting, container: Container, template: PodTemplate) -> Saved:
    """Return what a setting names, by the volume that its container has there."""
    folder = setting.value
    if not folder.startswith("/"):
        return Saved(folder, folder)
    mount = mount_at(container, folder)
    volume = volume_of(template, mount) if mount else {}
    if mount is None or not volume:
        return Saved(folder, folder, is_kept=False)
    sources = {key: value for key, value in volume.items() if key != "name"}
    claim = text(dig(volume, "persistentVolumeClaim", "claimName"))
    of_a_pod = min(_OF_A_POD & sources.keys(), default="")
    name = f"{_CLAIM}{claim}" if claim else f"{of_a_pod} volume {text(volume.get('name'))}".lstrip()
    root = normpath(join("/", text(mount.get("subPath")) or text(mount.get("subPathExpr"))))
    return Saved(
        folder,
        normpath(join(root, relpath(folder, text(mount.get("mountPath"))))),
        name,
        source=claim or digest_of_data(sources),
        root=root,
        checkpoint=setting.name == CHECKPOINT_DIR.lower(),
        is_kept=not of_a_pod,
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
    if after.unsaved and not before.unsaved:
        saves = f"of {after.run.object} nothing is saved any more: {after.unsaved}"
        return f"{_replacement(before, after)}; {saves}"
    return _replacement(before, after)


def _replacement(before: Training, after: Training) -> str:
    start = _start(before, after)
    name, state = before.run.object, before.run.state
    if before.end is None:
        return f"the merge replaces {name}; {start}"
    if before.keeper or before.run.retired:
        goes_on = f"goes on as the run of {before.keeper}"
        becomes = f"is {before.retired}" if before.run.retired else goes_on
        return f"after the merge {start}, and {name} {becomes}"
    held, active = gpus_of(before.run.demand.gpus), before.run.state == "active"
    gpus = f" ({held})" if held else ""
    end = before.end.until
    if end and active:
        shared = overwritten(before, after)
        ends = f"until then {_OVERWRITE}" if shared else f"after that {before.progress}"
        goes_on = f"keeps training{gpus} beside it until {end}; {ends}"
        return f"after the merge {start}, and {name} {goes_on}"
    if end:
        return f"after the merge {start}, and {name} stays {state} until {end}"
    if active:
        return f"the merge stops {name}{gpus}, and {before.progress}; {start}"
    return f"the merge deletes {name}, which is {state}; {start}"


def saves_as(other: JobFile, place: Saved) -> str:
    """Return that a run saves to the same folder as one of another job, in words."""
    return f"saves to {place.where}, as {other} does: {_OVERWRITE}"


def resumption(after: Training) -> str:
    """Return from where a run resumes whose job had none that saved there, in words."""
    place, saved = after.read[0], after.resumed
    if place.is_deleted or not (saved or place.runs):
        return place.loaded
    if saved is None:
        return f"{place.loaded}: git has no run {place.runs[0]}"
    if elsewhere := _elsewhere(saved, after):
        return (
            f"cannot resume from {place.where}, unless what {saved.run.object} saved in "
            f"{elsewhere} is copied there"
        )
    return _begun(saved, after)


def _elsewhere(saved: Training, after: Training) -> str:
    """Return where a run is that another does not see, "" if that is no other place."""
    clusters = {it.environment.gitops.destination for it in (saved, after) if it.environment}
    if len(clusters) > 1:
        return "another cluster"
    return f"namespace {saved.namespace}" if _is_moved(saved, after) else ""


def _start(before: Training, after: Training) -> str:
    """Return when the new run begins and where, judged by the folders that both save to or read."""
    there, name = "", after.run.object
    if _is_moved(before, after):
        there = after.there(before.namespace)
    begun, queue = _begun(before, after), after.run.queue
    if after.run.state == "suspended":
        return f"{name} is suspended, and once it is resumed {begun}{there}"
    if after.goes_back:
        # It loads from its own folder before any other: docs/checkpoints.md.
        kept = (it for it in after.saved() if it.is_kept and not it.is_deleted)
        own = next((it for it in kept if it.checkpoint), None)
        resumed = f"is made again, and resumes from what it saved in {own.where}" if own else begun
        begun = f"{STILL_THERE} {resumed}"
    admitted = f", when queue {queue} admits it{there and ','}" if queue else ""
    return f"{name} {begun}{admitted}{there}"


def _begun(before: Training, after: Training) -> str:
    """Return from where a run begins, in words."""
    kept, again = _reached(before, after), tuple(after.saved())
    if place := next((it for it in after.read if any(old.has(it) for old in kept)), None):
        return f"resumes from the checkpoints in {place.where}"
    same = overwritten(before, after)
    there = f"saves to the same folder, {same.where}" if same else ""
    if place := next(iter(after.read), None):
        begun = _loaded(before, after, place)
        return f"{begun}, and {there}" if there else begun
    resumed = next(filter(None, (it.resumed_from(old) for it in again for old in kept)), "")
    how = f" (`checkpoint.resumeFrom: {resumed}` would resume)" if resumed else ""
    return there or f"starts from scratch{how}"


def _loaded(before: Training, after: Training, read: Saved) -> str:
    """Return what a run begins with that reads a place in which the one before did not save."""
    there = next((it for it in before.saved() if it.folder == read.folder), None)
    if there is None or read.is_deleted:
        named = after.resumed
        of_before = named is not None and named.run.object == before.run.object
        return read.loaded if of_before else resumption(after)
    return (
        f"cannot resume from {read.where}, unless what {before.run.object} saved on "
        f"{there.volume} is copied there"
    )


def _is_moved(before: Training, after: Training) -> bool:
    """Whether both runs have a namespace, and each another one."""
    return "" not in (before.namespace, after.namespace) and before.namespace != after.namespace


def _reached(before: Training, after: Training) -> tuple[Saved, ...]:
    """Return where the old run saves, without claims that the namespace of the new one lacks."""
    moved = _is_moved(before, after)
    return tuple(it for it in before.saved() if not (moved and it.volume.startswith(_CLAIM)))


def overwritten(before: Training, after: Training) -> Saved | None:
    """Return the folder to which both runs save, unless the new one resumes from the old one's."""
    kept = _reached(before, after)
    if any(old.has(place) for old in kept for place in after.read):
        return None
    again = {(place.source, place.path) for place in after.saved()}
    return next((place for place in kept if (place.source, place.path) in again), None)
