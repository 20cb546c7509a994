"""The comparison of the two sides of a merge: what happens to each job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from itertools import filterfalse
from operator import attrgetter, eq, is_
from pathlib import Path

from trainwright.datatypes.data import mapping
from trainwright.datatypes.environment import Environment, Waiver
from trainwright.datatypes.finding import Finding, Location, Severity, ValueChange
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Image, Job
from trainwright.datatypes.layout import (
    RENDERED,
    WIRING,
    JobFile,
    environment_path,
    is_wiring_of,
)
from trainwright.datatypes.same import digest_of_data
from trainwright.files import git, lineage
from trainwright.files.git import Differing
from trainwright.files.memo import Cell, Owner, tracked
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Edited, Folder, Tree
from trainwright.findings.credentials import redact
from trainwright.findings.diagnostics import HELD, UNRECORDED
from trainwright.objects.departure import applied_by_job
from trainwright.plan import actions, affected, causes, object_changes, policies, uses, words
from trainwright.plan.earlier import Earlier
from trainwright.plan.left import Departures
from trainwright.plan.model import (
    Action,
    CrdVerdict,
    EnvironmentPlan,
    JobChange,
    LeftRun,
    ObjectChange,
    Plan,
    PlannedRun,
    Removal,
    SettingChange,
    SharedFileImpact,
    WiringChange,
)
from trainwright.plan.object_effects import ActiveRun, Surroundings
from trainwright.plan.places import jobs_at, place_of
from trainwright.plan.policies import Setting
from trainwright.plan.revision import Revision, files_of
from trainwright.plan.training import Training, gpus_of
from trainwright.render import derivation
from trainwright.render.derivation import Derivation, Underived
from trainwright.render.history import JOINED, History
from trainwright.render.job import Rendered
from trainwright.render.policy import has_unknown_run, unknown_run
from trainwright.reports import redacted, without_credentials
from trainwright.rules import deception
from trainwright.rules.policy import JobFindings, apply_policy, waived
from trainwright.rules.quota import declared_quota_exceeded
from trainwright.runs import adopted
from trainwright.runs import record as records
from trainwright.runs.decide import asks, finished_as
from trainwright.runs.decision import Decision, Step, awaiting
from trainwright.runs.fields import is_trained
from trainwright.runs.record import ENDED
from trainwright.runs.wiring_files import WiringFiles
from trainwright.runs.workspace import Asking, ResolvedJob, Workspace
from trainwright.specs import capacity, demand, files, image_lock, own_objects
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import NOTHING, Demand
from trainwright.specs.image_lock import ImageError
from trainwright.specs.layers import of_gitops
from trainwright.specs.ledger import path as ledger_path
from trainwright.specs.merge import Layered
from trainwright.specs.select import select


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What to compare: `against` is a revision; `head` is another, or None for what is on disk."""

    against: str
    head: str | None
    today: str  # ISO date, for the expiry of waivers
    helm: str | None = None
    crds: Path | None = None  # CRDs whose validation rules for changes are evaluated too
    # Compares wiring/: what writes it is beside this package, not below it.
    wired: Callable[[Workspace], WiringFiles] = lambda _: WiringFiles()
    edits: Mapping[str, bytes] = field(default_factory=dict)  # of the working tree, not made yet


@dataclass(frozen=True, slots=True)
class _Selected:
    """The selected environments, those of them with all their jobs selected, and the jobs."""

    names: tuple[str, ...]
    whole: frozenset[str]
    files: frozenset[JobFile]


_name = attrgetter("name")  # the sort key of jobs within one environment


def _are_same(first: tuple[object, ...], second: tuple[object, ...]) -> bool:
    """Whether two tuples hold the very same objects."""
    return len(first) == len(second) and all(map(is_, first, second))


class Comparison(Owner):
    """The merge of a commit, or of the working tree, into another commit, job by job.

    The base is the newest commit that both share, so that what others merged meanwhile does not
    appear to be undone. It never changes; what is computed from the other side is tracked (see
    `memo`).
    """

    def __init__(self, root: Path, patterns: tuple[str, ...], options: PlanOptions):
        self._patterns, self._options = patterns, options
        self._repository, inside = repository, _ = git.find(root)
        self._names = (options.against, options.head or "HEAD")
        self._commits = repository.commits((*self._names, *JOINED))
        self._base = base = repository.merge_base(*self._names)
        self._head = head = repository.commit(options.head) if options.head else ""
        self._behind = int(
            repository.line("rev-list", "--count", f"{base}..{options.against}", "--")
        )
        self._differing = Differing(repository, base, inside, head or None)
        changed = self._differs()
        self.before = Revision(Tracked(repository.tree(base, inside, later=RENDERED)))
        below: Tree = repository.tree(head, inside, later=RENDERED) if head else Folder(root)
        below = Edited(below, options.edits) if options.edits else below
        self.after = Revision(Tracked(below), earlier=self.before)
        self._both = (self.before, self.after)
        super().__init__(self.after.memo)
        branch = lineage.find(root, base, options.head or "HEAD")
        assert branch is not None  # since it has a base
        proof = Derivation(
            root, branch, self.after, options.helm, on_disk=not head, changed=changed
        )
        self._earlier = Earlier(repository, base, inside)
        self._departures = Departures(repository, base, inside, options.today)
        self._history = History(root, tip=head or "HEAD")
        self._changed = Cell(self.memo, frozenset[str], eq, changed)
        self._proof = Cell(self.memo, lambda: proof)

    @property
    def changed(self) -> frozenset[str]:
        """The files in which the sides differ."""
        return self._changed.get()

    def _differs(self, edits: Collection[str] = ()) -> frozenset[str]:
        """Return the files that are not as in the base, once these were edited."""
        return self._differing.paths(edits) | self._options.edits.keys()

    def is_current(self) -> bool:
        """Whether both revisions still are the commits that they were."""
        now = self._repository.commits((*self._names, *JOINED))
        return self._commits == now and now.keys() >= {*self._names}

    def edit(self, edits: Set[str]) -> None:
        """Go on once some files on disk were edited, keeping whatever that does not affect."""
        changed = self._differs(edits)
        # What git ignores may have changed without an edit to the files that are ignored now.
        edits = edits | (changed ^ self.changed)
        self.after.edit(edits)
        self._changed.put(changed)
        if any(map(derivation.may_decide, edits)):
            self._proof.put(self._proof.get().edited(self.after, changed))

    def plan(self) -> Plan:
        """Return the plan of the merge."""
        self._render()
        wired = self._wired()
        refused = (it for it in wired.refused if it.subject in self._selected().names)
        every = dict.fromkeys((*self.findings, *refused))
        findings = tuple(map(redacted, sorted(every, key=lambda finding: finding.order)))
        underived = tuple(redacted(derivation.finding(it)) for it in self.underived)
        environments, shared = tuple(map(_shown, self.environments())), tuple(self.shared_files())
        shared = tuple(replace(file, causes=_keys_shown(file.causes)) for file in shared)
        places = {finding.place for finding in findings}
        places |= {
            c.place
            for environment in environments
            for change in environment.changes
            for c in change.causes
        }
        places |= {cause.place for file in shared for cause in file.causes}
        return Plan(
            base=self._base,
            head=self._head,
            behind=self._behind,
            environments=environments,
            shared_files=shared,
            findings=findings,
            underived=underived,
            wiring=self._wiring(wired),
            policies=self._settings(policies.limits),
            amounts=self._settings(policies.amounts),
            waived=sum(map(self._newly_waived, self._files())),
            sources={
                path: self.after.reader.lines(path)
                for path in sorted({place.file for place in places})
                if self.after.tree.kind(path) == "file"
            },
        )

    def _wired(self) -> WiringFiles:
        """Return the files of wiring/ after the merge, if anything changes."""
        return self._options.wired(self.after) if self.changed else WiringFiles()

    def _wiring(self, files: WiringFiles) -> WiringChange:
        """Return what the merge leaves to do with wiring/, of the selected environments."""
        if not self.changed:
            return WiringChange()
        names = self._selected().names
        there = [
            path
            for path in sorted(self.changed)
            if path.startswith(f"{WIRING}/") and self.after.tree.kind(path) == "file"
        ]
        manifests = [path for path in there if path.endswith(_MANIFESTS)]
        foreign = [path for path in manifests if path not in files.current]
        # Of what cannot be written, whatever differs is unproven.
        unproven = {it for it in foreign if files.uncompared and is_wiring_of(it, files.uncompared)}
        files = files._replace(stale=tuple(sorted({*files.stale, *unproven}))).of(names)
        return WiringChange(
            stale=files.stale,
            left=files.left,
            foreign=tuple(it for it in foreign if it not in unproven),
            changed=tuple(it for it in there if it in files.current and is_wiring_of(it, names)),
            settings=self._settings(policies.wiring),
        )

    def _settings(
        self, of: Callable[[Environment, Environment], Iterable[Setting]]
    ) -> tuple[SettingChange, ...]:
        """Return the settings that differ of the selected environments."""
        return tuple(
            self._setting(name, setting)
            for name, was, now in self._sides()
            for setting in of(was, now)
            if setting.before != setting.after
        )

    def _setting(self, name: str, setting: Setting) -> SettingChange:
        """Return a changed setting of an environment, with the line that sets it."""
        loaded = self.after.loaded(name)
        place = Location(environment_path(name))
        if setting.path.within("/gitops"):
            place = of_gitops(loaded.layers).origin(setting.path.removeprefix("/gitops"))
        elif loaded.document:
            place = loaded.document.place(setting.path)
        change = ValueChange(setting.path, setting.before, setting.after, place)
        return SettingChange(name, change, setting.loosens)

    def _sides(self) -> Iterator[tuple[str, Environment, Environment]]:
        """Yield the selected environments that are sound on both sides."""
        for name in self._selected().names:
            was, now = self.before.environments.get(name), self._environment_of(name)
            if was is not None and now is not None:
                yield name, was, now

    def _beginning(self, change: JobChange, was: Training | None) -> JobChange:
        """Return a change with when the run begins that it begins, and what that waits for."""
        if change.action not in _BEGINS:
            return change
        change = replace(change, unadmitted=self._unadmitted(change))
        why, never = change.why, words.never(change) or self._waits_behind(change, was)
        if change.action is Action.STARTED:
            why = self._starting(change.file, never or why)
            return replace(change, why="; ".join((why, *self._renamed(change.file))))
        return replace(change, why=f"{why}; {never}") if never else change

    def _starting(self, file: JobFile, why: str) -> str:
        """Return when a new job starts, with the Kustomization that it waits for."""
        waits = self._waits_for(file)
        if not waits or why.startswith("at once"):
            return f"{waits}{why.removeprefix('at once')}" if waits else why
        return f"{why}; {waits}"

    def _unadmitted(self, change: JobChange) -> CapacityCheck | None:
        """Return the quota of a queue that never admits a run, which asks for more than that; None
        for any other run, and where the rule is waived, since a cohort lends.
        """
        run, file = change.after, change.file
        environment = self._applying(file.environment)
        if run is None or run.state != "active" or environment is None:
            return None
        quota = environment.queues.get(run.queue)
        findings = (it for it in self._findings_of(file.environment) if it.subject == str(file))
        if quota is None or all(it.rule != declared_quota_exceeded.id for it in findings):
            return None
        gpus, what = run.demand.gpus, f"queue {run.queue}"
        return CapacityCheck(what=what, unit="GPUs", need=gpus.low, most=gpus.high, has=quota)

    def _waits_behind(self, change: JobChange, was: Training | None) -> str:
        """Return that a new run waits for its GPUs of a queue, and what of these the run that it
        replaces holds; "" if the queue's quota has room for both, or the old run ends.
        """
        before, after = change.before, change.after
        end = actions.ending(change.action, was) if was else None
        if change.action is not Action.NEW_RUN or end is None or not end.waits:
            return ""
        assert before is not None
        assert after is not None
        environment = self._applying(change.file.environment)
        quota = environment.queues.get(after.queue) if environment else None
        if quota is None or before.queue != after.queue or after.state != "active":
            return ""
        held, asked = before.demand.gpus, after.demand.gpus
        if held.low + asked.low <= quota:
            return ""
        return (
            f"{after.object} waits for {gpus_of(asked)} of queue {after.queue}; {before.object} "
            f"holds {gpus_of(held)} of its {quota}"
        )

    def _waits_for(self, file: JobFile) -> str:
        """Return which Kustomization a job that starts waits for; empty if there is one, or none
        is in wiring/.
        """
        environment = self._environment_of(file.environment)
        path = f"{WIRING}/{file.environment}/{_KUSTOMIZATIONS}"
        wired = self.after.tree.kind(f"{WIRING}/{file.environment}") == "folder"
        if environment is None or not applied_by_job(environment) or not wired:
            return ""
        if _has_kustomization(self.before, path, file):
            return ""
        if _has_kustomization(self.after, path, file):
            return f"once {path} is applied"
        return f"only once its Kustomization is in {path}, and applied"

    @tracked()
    def _selected(self) -> _Selected:
        old, new = self.before.survey, self.after.survey
        both = {
            name: tuple(sorted({*old.jobs.get(name, ()), *new.jobs.get(name, ())}, key=_name))
            for name in sorted({*old.jobs, *new.jobs})
        }
        chosen = select(self._patterns, both)
        return _Selected(
            names=tuple(selection.environment for selection in chosen),
            whole=frozenset(item.environment for item in chosen if item.whole),
            files=frozenset(file for selection in chosen for file in selection.jobs),
        )

    @tracked(same=eq)
    def _rendered_jobs(self) -> frozenset[JobFile]:
        return affected.rendered(self.before, self.after, self.changed)

    @tracked(same=eq)
    def _files(self) -> frozenset[JobFile]:
        """The selected jobs that the merge touches."""
        touched = affected.jobs(self.before, self.after, self.changed) | self._rendered_jobs()
        return self._selected().files & touched

    @tracked(same=eq)
    def _is_touched(self, file: JobFile) -> bool:
        return file in self._files()

    # --- changes -----------------------------------------------------------------------------

    def _render(self) -> None:
        """Render in one batch per side whatever is not rendered yet."""
        files, helm = sorted(self._files()), self._options.helm
        old = filter(self.before.has, files)
        unknown = [file for file in old if self.before.applied(file) is None]
        self.before.render(self.before.outdated(unknown), helm, new_runs=True)
        outdated = self.after.outdated(filter(self.after.has, files))
        runs = self._history.runs(list(filter(self._is_edited_since, outdated)), self.after)
        self.after.render(outdated, helm, runs=runs)

    def _is_edited_since(self, file: JobFile) -> bool:
        """Whether the file of a job is not the one from which its changed run was rendered."""
        record = self.after.record(file)
        edited = record is not None and record.source != self.after.reader.source(file.path)
        return edited and self._is_rendered(file)

    def _now(self, file: JobFile) -> Rendered | None:
        """Return what a job renders to after the merge, or None if it is removed or not touched."""
        there = self._is_touched(file) and self.after.has(file)
        return self.after.rendering(file) if there else None

    @property
    def changes(self) -> tuple[JobChange, ...]:
        """Return the change of each job to which anything happens."""
        return self._crd_verdict().changes

    @tracked()
    def _crd_verdict(self) -> CrdVerdict:
        """Return the changes, with what the given CRDs say about them."""
        all_changes = map(self._change, sorted(filterfalse(self._is_unknown, self._files())))
        changes = tuple(change for change in all_changes if change.action is not Action.UNCHANGED)
        if self._options.crds is None:
            return CrdVerdict(changes, ())
        from trainwright.plan import definitions  # 0.2 s, and few plans are given any

        return definitions.ask(self._options.crds, changes)

    @tracked(same=eq)
    def _unreadable(self) -> tuple[JobFile, ...]:
        """The jobs whose record cannot be read, and is in no commit as it was."""
        files = filter(self.after.has, sorted(self._files()))
        candidates = tuple(filter(self._may_have_run, files))
        recorded = self._history.recorded(candidates)
        return tuple(file for file in candidates if file not in recorded)

    def _may_have_run(self, file: JobFile) -> bool:
        folder, decision = self.after.folder(file.environment), self._decision(file)
        begins = decision.name if decision else ""
        return has_unknown_run(folder, file, begins)

    def _unread(self, name: str) -> tuple[Finding, ...]:
        """Return the errors for which an environment cannot be read after the merge."""
        unread = name in self.after.survey.jobs and self._environment_of(name) is None
        return self.after.loaded(name).findings if unread else ()

    def _is_unknown(self, file: JobFile) -> bool:
        """Whether the merge keeps from knowing what happens to a job, and applies nothing of it."""
        return bool(self._unread(file.environment)) and not self._is_rendered(file)

    @tracked()
    def _change(self, file: JobFile) -> JobChange:
        """Return what happens to a job."""
        was = self._training(file)
        change = self._unless_lost(self._planned(file, was))
        if change.before and change.after and self._unread(file.environment):
            demanded = replace(change.after, demand=change.before.demand)
            change = replace(change, after=demanded)
        change = self._waiting(self._shared_object(self._beginning(change, was), was))
        action, otherwise = change.action, self._otherwise(change)
        change = replace(change, causes=change.causes or tuple(self._causes(change)))
        return replace(
            change,
            why="; ".join((change.why, *self._reservations(change, otherwise))),
            left=was.run.demand if was and self._stays(change, was) else NOTHING,
            unrendered=action not in _AS_RENDERED
            and not self._is_as_rendered(file)
            and self.before.folder(file.environment).is_there,
            otherwise=otherwise,
            ending=actions.ending(action, was) if was else None,
            waivers=self._waived(file) if action not in _AS_RENDERED else (),
        )

    def _planned(self, file: JobFile, was: Training | None) -> JobChange:
        """Return the runs of a job on both sides, and what its sources, or its rendered files where
        these changed, make of the one before.
        """
        now, as_rendered = self._now(file), self._is_as_rendered(file)
        before = was.run if was else None
        if as_rendered:
            after = self.after.at_hand(file, now, believed=not self._is_forged(file))
        else:  # what rendering would make of it
            after = self.after.after(file, now, before) if now else None
        environment = self._applying(file.environment)
        applied = as_rendered and files_of(before) != files_of(after)
        if not applied and (self._errors(file) or (now is not None and not now.usable)):
            return self._broken(file, before, after)
        action, why = actions.decide(was, Training(after, environment) if after else None)
        change = JobChange(file=file, action=action, why=why, before=before, after=after)
        unlisted = applied and self.after.has(file) and action in _ENDED
        if was and unlisted and (after is None or after.state not in ENDED):
            return replace(change, why=f"nothing of it is listed any more; {was.removed}")
        return self._again(change, was)

    def _reservations(self, change: JobChange, otherwise: tuple[ValueChange, ...]) -> Iterator[str]:
        """Yield in what a run that begins is not that of its sources, and when one ends that goes
        on with less time.
        """
        file, after = change.file, change.after
        at_hand = self.after.at_hand(file) if self._is_behind(file) else None
        if at_hand and at_hand.object and after and after.object != at_hand.object:
            yield f"merged as it is rendered now, {at_hand.object} is applied instead"
        if otherwise:
            fields = ", ".join(dict.fromkeys(cause.path.dotted for cause in otherwise))
            yield f"not with what its sources have now of {fields}"
        waits = {edit.path for edit in self._held_back(file)}
        less = causes.less_time(it for it in change.causes if it.path not in waits)
        if less and change.action in _UPDATES:
            yield f"it fails once it has run for {less.after}, and at once if it has already"
        if after and change.action in _BEGINS and after.image != (change.before or after).image:
            yield from self._locked_otherwise(file)

    def _locked_otherwise(self, file: JobFile) -> Iterator[str]:
        """Yield that the lock of images has another digest for the tag of a job than that names."""
        job, digests = self.after.job(file).job, self._locked()
        image = job.image if job else Image(repository="")
        digest = digests.get(f"{image.repository}:{image.tag}", "")
        if digest and image.digest and digest != image.digest:
            yield f"its digest is not that of {image.tag} in {image_lock.LOCK}, {digest[:19]}"

    @tracked(same=eq)
    def _locked(self) -> Mapping[str, str]:
        try:
            return image_lock.locked(self.after.tree)
        except ImageError:  # which `pin` names
            return {}

    def _broken(
        self, file: JobFile, before: PlannedRun | None, after: PlannedRun | None
    ) -> JobChange:
        errors, elsewhere = self._errors(file), self._error_elsewhere(file)
        why = f"errors: {errors}" if errors else "its environment has errors"
        if elsewhere and not errors:
            why = f"{elsewhere.place.file} has errors"
        why = f"{why}; nothing is rendered"
        if before and before.object:
            why = f"{why}, and {before.object} stays as it is"
        after = after.without_files() if before and after else after
        return JobChange(file=file, action=Action.BROKEN, why=why, before=before, after=after)

    def _error_elsewhere(self, file: JobFile) -> Finding | None:
        """Return the first error in a file that a job extends, or None if there is none."""
        found = self.after.job(file).findings if self.after.has(file) else ()
        errors = (it for it in found if it.severity is Severity.ERROR)
        return next((it for it in errors if it.place.file not in (file.path, "")), None)

    def _waiting(self, change: JobChange) -> JobChange:
        """Return a change with what waits for the next run of its job."""
        held = self._held(change.file) if change.action in _CONTINUES else ()
        if not held:
            return change
        untaken = (
            f"{edit.path.dotted} waits for the next run: {edit.note}"
            for edit in self._held_back(change.file)
            if edit.note
        )
        waiting = "; ".join(dict.fromkeys(untaken))
        if change.action is Action.UNCHANGED:
            why = f"{waiting or 'the run stays as it is'}; `trainwright rerun` applies it"
            return replace(change, action=Action.OUTDATED, why=why, causes=held)
        return replace(change, why=f"{change.why}; {waiting}") if waiting else change

    def _stays(self, change: JobChange, was: Training) -> bool:
        """Whether the run of the base goes on, although the merge leaves nothing of it in git."""
        unrendered = change.after is None or not change.after.object
        if change.action is Action.BROKEN and unrendered:
            return True
        return change.action is not Action.IN_PLACE and was.goes_on(change.after)

    def _training(self, file: JobFile) -> Training | None:
        """Return the run of a job before the merge, or None if it has none."""
        run = self.before.at_hand(file) if self._is_rendered(file) else self._was(file)
        return Training(run, self._applying(file.environment)) if run else None

    def _is_ledger_lost(self, file: JobFile) -> bool:
        """Whether the ledger of a job that is there cannot be read: what has finished is unknown,
        and nothing of its environment is rendered.
        """
        return self.after.has(file) and self._has_lost_ledger(file.environment)

    def _has_lost_ledger(self, environment: str) -> bool:
        entries = self.after.ledger(environment)
        return bool(entries.findings) and not entries.runs

    def _unless_lost(self, change: JobChange) -> JobChange:
        """Return the change, unless a lost ledger has decided it."""
        file, before = change.file, change.before
        if change.action not in _OF_LOST or not self._is_ledger_lost(file):
            return change
        change = replace(change, after=change.after and change.after.without_files())
        if before is None or not before.object:
            return replace(change, action=Action.UNCHANGED, why="")
        path = ledger_path(file.environment)
        why = f"{path} has errors; nothing is rendered, and {before.object} stays as it is"
        return replace(change, action=Action.BROKEN, why=why)

    @tracked(same=eq)
    def _newly_waived(self, file: JobFile) -> int:
        """Return how many rules a job's spec waives and did not waive, or not as long, before."""
        was, now = (_waivers(side, file) for side in self._both)
        return len(now - was)

    def _waived(self, file: JobFile) -> tuple[Waiver, ...]:
        now, environment = self._now(file), self._environment_of(file.environment)
        if now is None or environment is None:
            return ()
        findings = JobFindings(file.name, now.findings, now.waivers)
        return waived(environment, findings, self._options.today)

    def _shared_object(self, change: JobChange, was: Training | None) -> JobChange:
        """Return the change, adjusted to an object that another job has, too: before the merge
        where the job starts with it, or after it where the job loses it.
        """
        others = tuple(self._from_another(change.file)) if change.action in _MAKES else ()
        if change.action is Action.STARTED:
            change = replace(change, why="; ".join((change.why, *others)))
        elif others:  # an adopted object that git has already
            change = replace(change, action=Action.IN_PLACE, why="; ".join(others))
        keeper = self._keeper(change.file) if change.action in _LEAVES else None
        if keeper is None or was is None:
            return change
        if was.is_kept(change.after):
            why = f"{was.run.object} goes on as the run of {keeper}"
            return replace(change, action=Action.IN_PLACE, why=why)
        again = "which makes it again: it then trains from the start"
        return replace(change, why=f"{change.why}; it is the run of {keeper}, too, {again}")

    def _keeper(self, file: JobFile) -> JobFile | None:
        """Return another job that has the object of a job after the merge, or None if none has."""
        place = place_of(self.before, file)
        others = jobs_at(self.after, place, self._files()) if place else ()
        return next((other for other in others if other != file), None)

    def _from_another(self, file: JobFile) -> Iterator[str]:
        """Yield that the object with which a job starts is that of another job before the merge."""
        if place := place_of(self.after, file):
            others = jobs_at(self.before, place, self._files())
            for other in (other for other in others if other != file):
                there = f"{place[2]} is the run of {other} before the merge"
                yield f"{there}: where it is in the cluster, it goes on"

    def _renamed(self, file: JobFile) -> Iterator[str]:
        """Yield that a new job has the content of a removed one, and whether that trains on."""
        spec = None if self.before.has(file) else self.after.job(file).loaded.spec
        if spec and (gone := self._removed(file.environment).get(_content(spec))):
            run, environment = self._was(gone), self._environment_of(file.environment)
            on = run and Training(run, environment).goes_on(None)
            beside = f", and {run.object} keeps training beside it" if run and on else ""
            yield f"same content as {gone}: a rename begins another run{beside}"

    @tracked(same=eq)
    def _removed(self, environment: str) -> Mapping[str, JobFile]:
        """Return the jobs of an environment that the merge removes, by the content of specs."""
        removed = (file for file in sorted(self._files()) if not self.after.has(file))
        specs = {
            file: self.before.job(file).loaded.spec
            for file in removed
            if file.environment == environment
        }
        return {_content(spec): file for file, spec in specs.items() if spec}

    @tracked(same=is_)
    def _environment_of(self, name: str) -> Environment | None:
        return self.after.environments.get(name)

    def _applying(self, name: str) -> Environment | None:
        """Return the environment by whose settings runs are applied and deleted: as it was before
        the merge, where that removes or breaks it.
        """
        return self._environment_of(name) or self.before.environments.get(name)

    @tracked(same=eq)
    def _is_rendered(self, file: JobFile) -> bool:
        """Whether a run's rendered files changed: they are applied, whatever the specs say."""
        torn = self.after.folder(file.environment).is_unreadable(file.name)
        return not torn and file in self._rendered_jobs()

    def _is_as_rendered(self, file: JobFile) -> bool:
        """Whether a run's rendered files changed, and are what the merge is meant to apply."""
        return self._is_rendered(file) and not self._is_behind(file)

    @tracked(same=eq)
    def _is_behind(self, file: JobFile) -> bool:
        """Whether rendering makes another run, or another state, of a job than its changed rendered
        files have, which follow from earlier sources.
        """
        decision = self._decision(file) if self._is_rendered(file) else None
        if decision is None or not self.after.rendering(file).usable or self._is_forged(file):
            return False
        if decision.step is Step.END:
            record = self.after.record(file)
            return record is not None and record.state not in ENDED
        return decision.step in (Step.BEGIN, Step.ADJUST)

    @property
    def underived(self) -> tuple[Underived, ...]:
        """Selected files in rendered folders, or missing there, that follow from no source."""
        selected = self._selected()
        jobs = {(file.environment, file.name) for file in selected.files}
        return tuple(
            it
            for it in self._underived()
            if it.environment not in selected.names
            or it.environment in selected.whole
            or (it.environment, it.job) in jobs
        )

    @tracked()
    def _underived(self) -> tuple[Underived, ...]:
        """The rendered files that no source renders, of all environments."""
        proof = self._proof.get()
        underived = [it for name in self._selected().names for it in proof.underived(name)]
        return (*underived, *(proof.orphans() if not self._patterns else ()))

    @tracked(same=eq)
    def _is_forged(self, file: JobFile) -> bool:
        return file in self._forged()

    @tracked(same=eq)
    def _forged(self) -> frozenset[JobFile]:
        return frozenset(JobFile(it.environment, it.job) for it in self.underived if it.job)

    def _again(self, change: JobChange, was: Training | None) -> JobChange:
        """Return the change, adjusted to an earlier run of the same spec, if any."""
        file, after, why = change.file, change.after, change.why
        if after is not None and after.object in self._back_of(file):
            return replace(change, why=f"{why}; {self._met(file, after)}")
        if change.action is Action.NEW_RUN and self._stayed(file):
            command = f"git checkout {self._earlier.commit[:12]} -- {file.rendered}"
            keep = f"its file requests no other run than before: keep it by `{command}`"
            return replace(change, why=f"{why}; {keep}")
        decision = self._decision(file)
        record = self.before.job(file).record if self.before.has(file) else None
        if decision is None or record is None or decision.state != "finished":
            return change
        if finished_as(record, file.name, self.after.ledger(file.environment)) == decision.name:
            return change
        again = (
            f"{decision.name} has finished with the same spec, by the ledger, and nothing trains: "
            "`trainwright rerun` begins another run"
        )
        if was and was.run.object:
            again = f"{again}; {was.removed}"
        return replace(change, action=Action.RETIRED, why=again)

    def _met(self, file: JobFile, after: PlannedRun) -> str:
        """Return, in words, what happens to a run whose object may still be in the cluster."""
        there = replace(after, files=self._earlier.texts(file, after.object) or after.files)
        sides = (Training(run, self._applying(file.environment)) for run in (there, after))
        action, why = actions.decide(*sides)
        again = "`trainwright rerun` begins another run"
        if action is Action.UNCHANGED:
            return (
                f"{after.object} was rendered before: where its object still is in the cluster it "
                f"goes on, or stays finished, and {again}"
            )
        return (
            f"{after.object} was rendered before, and otherwise: where its object still is in the "
            f"cluster the edit is {_API_ANSWERS.get(action, 'made')}: {why}; {again}"
        )

    def _stayed(self, file: JobFile) -> bool:
        """Whether the run of the base would do: the job's file was edited, and edited back."""
        sources = self.after.job(file).sources
        was = self.before.record(file)
        return sources is not None and was is not None and not asks(sources, was)

    @tracked(same=eq)
    def _back_of(self, file: JobFile) -> frozenset[str]:
        return self._back().get(file, frozenset())

    @tracked()
    def _back(self) -> Mapping[JobFile, frozenset[str]]:
        """Return the objects of runs that the merge brings back: there earlier, not before it."""
        objects: dict[JobFile, str] = {}
        for file in sorted(self._files()):
            now = self._begun(file)
            was = self.before.record(file)
            if now and not (was and was.object == now and was.state not in ENDED):
                objects[file] = now
        earlier = self._earlier.objects(objects)
        return {file: frozenset({name} & earlier[file]) for file, name in objects.items()}

    def _begun(self, file: JobFile) -> str:
        """Return the object of the run that continues after the merge: that of its files, even if
        no source renders them; empty if none continues.
        """
        record = self.after.record(file)
        if self._is_forged(file) and record is not None and record.state not in ENDED:
            return record.object
        decision = self._decision(file)
        return decision.name if decision is not None and decision.step is not Step.END else ""

    def _was(self, file: JobFile) -> PlannedRun | None:
        """The run that is applied now."""
        if not self.before.has(file):
            return None
        applied = self.before.applied(file)
        return applied or self.before.after(file, self.before.rendering(file), None)

    def _decision(self, file: JobFile) -> Decision | None:
        """Return what happens to the run of a job after the merge, by what the job renders to."""
        now = self._now(file)
        return now.decision if now else None

    def _held_back(self, file: JobFile) -> tuple[ValueChange, ...]:
        """Return the values in which the run of a job is not as its sources after the merge."""
        decision = self._decision(file)
        return decision.held if decision else ()

    def _held(self, file: JobFile) -> tuple[ValueChange, ...]:
        """Return the values that outdate the run of a job after the merge, but did not before."""
        old = self.before.job(file).decision if self.before.has(file) else None
        held_before = {(held.path, repr(held.after)) for held in old.held} if old else set()
        return tuple(
            replace(held, note="")
            for held in awaiting(self._held_back(file))
            if (held.path, repr(held.after)) not in held_before
        )

    def _otherwise(self, change: JobChange) -> tuple[ValueChange, ...]:
        """Return the values in which a run that begins differs from its sources after the merge."""
        begins = change.action in _BEGINS and self._is_rendered(change.file)
        alone = begins and not any(self._from_another(change.file))
        return self._held_back(change.file) if alone else ()

    def _causes(self, change: JobChange) -> Iterator[ValueChange]:
        """Yield why a job changes: values of its specs, or else what is known of it."""
        file, action = change.file, change.action
        if action is Action.UNCHANGED:
            return
        if action is Action.ADOPTED:
            yield ValueChange.noted("the adopted object", Location(adopted.path(file)))
            return
        if action is Action.BROKEN and self._is_ledger_lost(file):
            place = self.after.ledger(file.environment).findings[0].place
            yield ValueChange.noted("the ledger has errors", place)
            return
        both = self.before.has(file) and self.after.has(file)
        was, now = (side.job(file) if both else None for side in self._both)
        if not (was and now and was.loaded.spec and now.loaded.spec):
            note = "job spec with errors"
            if both and (error := self._error_elsewhere(file)):
                yield ValueChange.noted(f"{error.place.file} has errors", error.place)
                return
            if not both:
                note = "new job spec" if self.after.has(file) else "job spec removed"
            yield ValueChange.noted(note, Location(file.path))
            return
        reasons = () if self._unread(file.environment) else self._reasons(change, was, now)
        yield from reasons or (self._unspecified(file),)

    def _reasons(
        self, change: JobChange, was: ResolvedJob, now: ResolvedJob
    ) -> Sequence[ValueChange]:
        """Return the values that differ in what a job with two sound specs is made of."""
        assert was.loaded.spec
        assert now.loaded.spec
        file, action = change.file, change.action
        reasons = [*self._edits(file, was, now), *self._of_ledgers(file)]
        if was.record is not None and (action in _BEGINS or not reasons):
            # What earlier edits of shared files have left for the next run, which this one is.
            left = {cause.path for cause in (*reasons, *self._otherwise(change))}
            waited = causes.of_record(was.record, was.loaded.spec, now.loaded.spec)
            reasons += [cause for cause in waited if cause.path not in left]
        if action in _BEGINS:  # which a line of its own on what is trained decides
            reasons.sort(key=lambda it: (it.place.file != file.path, not is_trained(it.path)))
        elif not reasons and action is Action.BROKEN:
            old, new = (side.loaded(file.environment).document for side in self._both)
            reasons += causes.every_difference(old, new) if old and new else ()
        return reasons

    def _of_ledgers(self, file: JobFile) -> Iterator[ValueChange]:
        old, new = (side.ledger(file.environment) for side in self._both)
        return causes.of_ledgers(old, new, file.name)

    def _unspecified(self, file: JobFile) -> ValueChange:
        """Return the cause of a job's change that no line of a spec accounts for."""
        record = records.path(file)
        if record in self.changed:
            return ValueChange.noted("the record of its run", Location(record))
        note = "no value of the spec, only what is rendered for it"
        return ValueChange.noted(note, Location(file.path))

    def _edits(self, file: JobFile, was: ResolvedJob, now: ResolvedJob) -> Iterator[ValueChange]:
        """The values that differ between the specs of a job, and between its environments."""
        assert was.loaded.spec
        assert now.loaded.spec
        yield from causes.of_specs(was.loaded.spec, now.loaded.spec)
        old, new = (side.loaded(file.environment).document for side in self._both)
        if old and new:
            job = now.job or was.job  # of a job with errors, as it was
            pool = job.pool.name if job and job.pool else ""
            yield from causes.of_environments(old, new, pool)

    # --- sums --------------------------------------------------------------------------------

    def environments(self) -> Iterator[EnvironmentPlan]:
        """Each selected environment, with the sums over everything that is active in it."""
        removed = () if self._patterns else self._departures.removed(self.before)
        names = dict.fromkeys((*self._selected().names, *removed))
        return map(self._environment, names)

    @tracked(same=_are_same)
    def _changes_in(self, name: str) -> tuple[JobChange, ...]:
        return tuple(change for change in self.changes if change.file.environment == name)

    @tracked()
    def _environment(self, name: str) -> EnvironmentPlan:
        environment = self._applying(name) or self._departures.settings(name)
        changes = self._changes_in(name)
        removed = name not in self.after.survey.jobs
        demands = [(it.job, it.demand) for it in self._asking(name, changes) if it.job]
        demands += self._left(changes)
        left = self._left_after(name, changes)
        demands += [(run.job, run.demand) for run in left]
        after = demand.total(requested for _, requested in demands)
        before = after - demand.total(change.delta for change in changes)
        demands_before, unread = None, self._unread(name)
        if unread:
            before = after = demand.total(it for _, it in self._demands_before(name, ()))
        elif self._has_other_limits(name) or left != self._left_before(name):
            demands_before = tuple(self._demands_before(name, ()))
            before = demand.total(requested for _, requested in demands_before)
        fits = tuple(self._fits(name, changes, demands, demands_before))
        return EnvironmentPlan(
            name=name,
            jobs=len(self.after.survey.jobs.get(name, ())),
            changes=changes,
            before=before,
            after=after,
            asked=demand.total(change.asked for change in changes),
            fits=fits,
            objects=self._objects(name, changes, left),
            uses=tuple(uses.uses(changes, demands, fits, demands_before, every=removed)),
            left=left,
            unread=unread,
            removed=removed,
            removal=self._removal(name) if removed else None,
            currency=environment.currency if environment else "USD",
        )

    def _removal(self, name: str) -> Removal | None:
        """Return what the merge takes out of git with an environment, None if it had none."""
        before = self.before
        if name not in before.survey.jobs:
            return None
        environment = before.environments.get(name)
        applied = environment is not None and environment.gitops.engine != "none"
        wiring = f"{WIRING}/{name}"
        there = self.after.tree.kind(wiring)  # of which `gitops wire` tells what to do
        wiring = wiring if before.tree.kind(wiring) else ""
        return Removal(tuple(before.ledger(name).runs), applied and not there, wiring)

    @tracked(same=eq)
    def _has_other_limits(self, name: str) -> bool:
        """Whether a merge changes capacities, quotas, budgets or prices, and may so change what
        unchanged jobs cost and whether they fit.
        """
        sides = (self.before.environments.get(name), self._environment_of(name))
        before, after = (
            (it.pools, it.queues, it.budget, it.currency) if it else None for it in sides
        )
        return before is not None and after is not None and before != after

    def _demands_before(
        self, name: str, unchanged: Collection[JobFile]
    ) -> Iterator[tuple[Job, Demand]]:
        """Yield what each job, and each run that has left git, requests before the merge. That of
        an `unchanged` job is read after it, where it is known already.
        """
        for file in self.before.survey.jobs.get(name, ()):
            asking = self._asked(file) if file in unchanged else self.before.asking(file)
            if asking.job:
                yield asking.job, asking.demand
        for run in self._left_before(name):
            yield run.job, run.demand

    @tracked(same=eq)
    def _left_before(self, name: str) -> tuple[LeftRun, ...]:
        """Return the runs that have left git before the merge, and go on."""
        return tuple(self._departures.runs(self.before, name))

    def _left_after(self, name: str, changes: Sequence[JobChange]) -> tuple[LeftRun, ...]:
        """Return those of them that the merge neither brings back nor has in the ledger."""
        over = {*self.after.ledger(name).runs, *(it.after.object for it in changes if it.after)}
        return tuple(run for run in self._left_before(name) if run.object not in over)

    def _fits(
        self,
        name: str,
        changes: tuple[JobChange, ...],
        demands: Sequence[tuple[Job, Demand]],
        demands_before: Sequence[tuple[Job, Demand]] | None,
    ) -> Iterator[CapacityCheck]:
        """Yield an environment's capacity checks, with limits and shortages before the merge."""
        after, before = self._environment_of(name), self.before.environments.get(name)
        fits = tuple(capacity.check_capacity(after, demands)) if after else ()
        if before is None or not (demands_before or any(fit.short for fit in fits)):
            yield from fits
            return
        if demands_before is None:
            there = set(self.after.survey.jobs.get(name, ()))
            unchanged = there - {change.file for change in changes}
            demands_before = tuple(self._demands_before(name, unchanged))
        checks = {(it.what, it.unit): it for it in capacity.check_capacity(before, demands_before)}
        for fit in fits:
            if (was := checks.get((fit.what, fit.unit))) is None:
                yield fit
            else:
                yield replace(fit, short_before=was.short, has_before=was.has)

    def _touches_objects(self, name: str) -> bool:
        """Whether the merge edits additional objects of an environment, or what they are held
        against, and all of it is selected.
        """
        inside = (environment_path(name), f"{own_objects.folder(name)}/")
        edited = any(path.startswith(inside) for path in self.changed)
        return edited and name in self._selected().whole

    def _objects(
        self, name: str, job_changes: tuple[JobChange, ...], left: Sequence[LeftRun]
    ) -> tuple[ObjectChange, ...]:
        """Return the changed additional objects, with what follows for the active runs."""
        if not self._touches_objects(name):
            return ()
        environment, around = self._applying(name), None
        if environment and not self._unread(name):
            own = self.after.own_objects(name).objects if name in self.after.survey.jobs else ()
            runs = tuple(self._active(environment, job_changes, left))
            around = Surroundings(environment, [it.manifest for it in own], runs)
        return tuple(object_changes.changes(self.before, self.after, name, around))

    def _active(
        self, environment: Environment, changes: tuple[JobChange, ...], left: Sequence[LeftRun]
    ) -> Iterator[ActiveRun]:
        """Yield the runs of an environment that are active after the merge, each in the namespace
        that it began in.
        """
        name, begun = environment.name, {it.file for it in changes if it.action in _BEGINS}
        there = self.before.environments.get(name, environment).namespace
        for asking in self._asking(name, changes):
            if asking.job:
                file = JobFile(name, asking.job.name)
                place = None if file in begun else place_of(self.after, file)
                within = place[1] if place else environment.namespace
                yield ActiveRun(asking.job, asking.demand, within, begins=file in begun)
        for job, requested in self._left(changes):
            place = place_of(self.before, JobFile(name, job.name))
            yield ActiveRun(job, requested, place[1] if place else there)
        for run in left:
            yield ActiveRun(run.job, run.demand, there)

    def _asking(self, name: str, changes: tuple[JobChange, ...]) -> Iterator[Asking]:
        """Yield what each job requests after the merge. A job of which nothing is applied is left
        out: of it only what keeps running counts, whatever its spec requests.
        """
        nothing = {c.file for c in changes if c.after is None or not c.after.object}
        lost = self._has_lost_ledger(name)
        for file in self.after.survey.jobs.get(name, ()):
            ended = lost and self.before.has(file) and self.before.job(file).finished
            if file not in nothing and not ended:
                yield self._asked(file)

    def _asked(self, file: JobFile) -> Asking:
        """Return what a job requests after the merge, by what its run takes of its edits."""
        now, after = self._now(file), self.after
        return after.asked_by(after.settled(file, now)) if now else after.asking(file)

    def _left(self, changes: tuple[JobChange, ...]) -> Iterator[tuple[Job, Demand]]:
        """Yield each job that goes on although a change removes it from git, and its demand."""
        for change in changes:
            job = self.before.job(change.file).job if change.left != NOTHING else None
            if job is not None:
                yield job, change.left

    def shared_files(self) -> Iterator[SharedFileImpact]:
        """Each shared file that changed, with the jobs that read it and that something happens to.

        A job's own file is not shared, unless others extend it.
        """
        readers: dict[str, list[JobChange]] = {}
        for change in self.changes:
            for path in self._shared(change):
                readers.setdefault(path, []).append(change)
        for path, changes in sorted(readers.items()):
            held = (
                c for change in changes if change.action is Action.OUTDATED for c in change.causes
            )
            distinct = {
                (c.path, repr(c.after)): c
                for c in held
                if c.place.file == path or c.place.file not in readers
            }
            yield SharedFileImpact(
                file=path,
                jobs=tuple(change.file for change in changes),
                new_runs=sum(map(self._is_begun_by_others, changes)),
                held=sum(change.action is Action.OUTDATED for change in changes),
                causes=tuple(distinct.values()),
            )

    def _is_begun_by_others(self, change: JobChange) -> bool:
        """Whether files that a job shares begin another run of it, and not a line of its own."""
        environment = self._environment_of(change.file.environment)
        starts = environment is not None and environment.shared_changes == "start"
        own = any(is_trained(it.path) for it in change.causes if it.place.file == change.file.path)
        return change.action is Action.NEW_RUN and starts and not own

    def _shared(self, change: JobChange) -> frozenset[str]:
        """Return the changed files that a job shares with others and that caused its change; of a
        new one, all that it reads.
        """
        if self._unread(change.file.environment):
            return frozenset()
        resolved = self.after.job(change.file) if self.after.has(change.file) else None
        read = resolved.loaded.files if resolved else ()
        own = {change.file.path, adopted.path(change.file)}
        if resolved and resolved.sources:
            own |= {path for _, path in files.named(resolved.sources.own)}
        changed = frozenset(read) & self.changed - own
        if not self.before.has(change.file):
            return changed
        causing = {cause.place.file for cause in change.causes}
        return frozenset() if causing <= own else changed & causing or changed

    # --- findings ----------------------------------------------------------------------------

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the findings about jobs that the merge affects, after severities and waivers."""
        all_findings = (
            *self.after.findings,
            *(finding for name in self._selected().names for finding in self._findings_of(name)),
            *self._crd_verdict().findings,
        )
        return tuple(sorted(dict.fromkeys(all_findings), key=lambda finding: finding.order))

    @tracked(same=eq)
    def _errors(self, file: JobFile) -> int:
        """How many errors a job has."""
        names = self._selected().names
        return self._errors_in(file.environment)[str(file)] if file.environment in names else 0

    @tracked(same=eq)
    def _errors_in(self, name: str) -> Counter[str]:
        """Return how many errors each job of an environment has."""
        findings = self._findings_of(name)
        return Counter(it.subject for it in findings if it.severity is Severity.ERROR)

    def _unknown(self, file: JobFile) -> Finding:
        unreadable = self.after.folder(file.environment).is_unreadable(file.name)
        return unknown_run(file, there=unreadable)

    @tracked()
    def _findings_of(self, name: str) -> tuple[Finding, ...]:
        environment = self._environment_of(name)
        if name not in self.after.survey.jobs:
            return ()
        if environment is None:
            return self.after.loaded(name).findings
        rendered = map(self.after.rendering, filter(self.after.has, self._files_in(name)))
        checked = [JobFindings(it.file.name, it.findings, it.waivers) for it in rendered]
        checked += [
            JobFindings(file.name, (self._unknown(file),), ())
            for file in self._unreadable()
            if file.environment == name
        ]
        if unseen := self.after.ledger(name).unseen:
            checked.append(JobFindings("", tuple(deception.in_lines(unseen, name)), ()))
        if self._touches_objects(name):
            checked.append(JobFindings("", object_changes.findings(self.after, name), ()))
        findings = apply_policy(environment, checked, self._options.today, whole=False)
        if self._has_lost_ledger(name):  # which is the one thing to mend
            findings = tuple(f for f in findings if f.rule != UNRECORDED.id)
        # Held changes are reported with their job.
        findings = tuple(f for f in findings if (f.rule, f.severity) != (HELD.id, HELD.severity))
        return (*findings, *self.after.ledger(name).findings)

    @tracked(same=eq)
    def _files_in(self, name: str) -> tuple[JobFile, ...]:
        return tuple(sorted(file for file in self._files() if file.environment == name))


def _shown(environment: EnvironmentPlan) -> EnvironmentPlan:
    """Redact credentials in a plan's words and keys; values are redacted where they are shown."""
    changes = tuple(
        replace(
            change,
            why=redact(change.why),
            causes=_keys_shown(change.causes),
            otherwise=_keys_shown(change.otherwise),
        )
        for change in environment.changes
    )
    return replace(environment, changes=changes)


def _keys_shown(causes: Iterable[ValueChange]) -> tuple[ValueChange, ...]:
    return tuple(replace(cause, path=without_credentials(cause.path)) for cause in causes)


_KUSTOMIZATIONS = "kustomizations.yaml"
_MANIFESTS = (".yaml", ".yml", ".json")  # what `kubectl apply --filename FOLDER` reads


def _has_kustomization(side: Revision, path: str, file: JobFile) -> bool:
    if side.tree.kind(path) != "file":
        return False
    lines = (line.rstrip("'\" ") for line in side.reader.lines(path))
    return any(line.endswith(f"/{file.rendered}") for line in lines)


def _waivers(side: Revision, file: JobFile) -> set[tuple[str, str]]:
    """Return the rules that a job's spec waives, each with the last day."""
    spec = side.job(file).loaded.spec if side.has(file) else None
    waivers = mapping(spec.data.get("waivers")) if spec else {}
    return {(rule, str(mapping(waiver).get("until"))) for rule, waiver in waivers.items()}


def _content(spec: Layered) -> str:
    """Return a digest of all values of a spec but its name."""
    return digest_of_data({key: value for key, value in spec.data.items() if key != "name"})


_MAKES = frozenset({Action.STARTED, Action.ADOPTED})
_GONE = frozenset({Action.DELETED, Action.LEFT, Action.LEFT_SUSPENDED})
_LEAVES = _GONE | {Action.CANCELLED}
_ENDED = _LEAVES | {Action.RETIRED}
_OF_LOST = _GONE | {Action.BROKEN}
_BEGINS = frozenset({Action.STARTED, Action.NEW_RUN})
_UPDATES = frozenset({Action.IN_PLACE, Action.MAY_BE_REFUSED})
_CONTINUES = _UPDATES | {Action.UNCHANGED}
# Actions that need no newly rendered files.
_AS_RENDERED = frozenset({Action.UNCHANGED, Action.OUTDATED, Action.BROKEN})
# How the API server answers the edit of an existing object.
_API_ANSWERS = {
    Action.REJECTED: "refused by the API",
    Action.MAY_BE_REFUSED: "refused by the API unless it waits in its queue",
    Action.IGNORED: "ignored",
}
