"""What a merge does to each job that it touches, and the lines that cause it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, filterfalse, product
from operator import eq

from trainwright.datatypes.environment import Environment, Waiver
from trainwright.datatypes.finding import Finding, Location, Severity, ValueChange
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Image, Job
from trainwright.datatypes.layout import WIRING, JobFile
from trainwright.datatypes.listing import plural
from trainwright.files.memo import Owner, tracked
from trainwright.objects.departure import applied_by_job
from trainwright.objects.naming import job_of_run
from trainwright.plan import actions, causes, names, object_changes, words
from trainwright.plan.earlier import Earlier
from trainwright.plan.merge import Merge
from trainwright.plan.model import (
    BEGINS,
    BLOCKED,
    Action,
    CrdVerdict,
    JobChange,
    PlannedRun,
)
from trainwright.plan.object_changes import Identity
from trainwright.plan.object_effects import claimed
from trainwright.plan.places import sharing
from trainwright.plan.revision import Revision, files_of
from trainwright.plan.training import Training, overwritten, resumption, saves_as
from trainwright.render.job import Rendered
from trainwright.rules.policy import waived
from trainwright.rules.quota import declared_quota_exceeded
from trainwright.runs import adopted
from trainwright.runs import record as records
from trainwright.runs.decide import asks, finished_as
from trainwright.runs.decision import Decision, Step, awaiting
from trainwright.runs.fields import is_trained
from trainwright.runs.record import ENDED, Record
from trainwright.runs.workspace import ResolvedJob
from trainwright.specs import image_lock
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import NOTHING, Demand
from trainwright.specs.image_lock import ImageError
from trainwright.specs.ledger import path as ledger_path


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sides:
    """What is known of a job before it is decided what happens to it.

    `was` is its run before the merge, `now` what it renders to after it; one
    that was never rendered has neither `before` nor `was`. If it `is_rendered`, its
    rendered files changed, which are applied whatever the specs say; they are `behind` where
    rendering makes another run, or another state, of it than they have, and `forged` where no
    source renders them. `lost` is whether its ledger cannot be read. A new job has the run of its
    `origin`, if it has one: a job under another name, which has it after the merge, too, if it is
    `shared`.
    """

    file: JobFile
    origin: JobFile | None
    shared: bool
    before: ResolvedJob | None  # of its origin, if it has one; None where it is not there
    after: ResolvedJob | None
    was: Training | None
    now: Rendered | None
    environment: Environment | None  # by whose settings its runs are applied and deleted
    is_rendered: bool
    behind: bool
    forged: bool
    lost: bool

    @property
    def as_rendered(self) -> bool:
        """Whether its rendered files changed, and are what the merge is meant to apply."""
        return self.is_rendered and not self.behind

    @property
    def decision(self) -> Decision | None:
        """What happens to its run, by what it renders to."""
        return self.now.decision if self.now else None

    @property
    def held(self) -> tuple[ValueChange, ...]:
        """The values in which its run is not as its sources after the merge."""
        return self.decision.held if self.decision else ()

    @property
    def error_elsewhere(self) -> Finding | None:
        """The first error in a file that it extends, or None if there is none."""
        found = self.after.findings if self.after else ()
        errors = (it for it in found if it.severity is Severity.ERROR)
        return next((it for it in errors if it.place.file not in (self.file.path, "")), None)


class JobChanges(Owner):
    """The changes of the jobs that a merge touches."""

    def __init__(self, merge: Merge):
        super().__init__(merge.memo)
        self._merge = merge
        self._before, self._after = merge.sides
        self._earlier = Earlier(merge.repository, merge.base, merge.inside)

    @tracked()
    def verdict(self) -> CrdVerdict:
        """Return each change of a job to which anything happens, and what the given CRDs say."""
        files = sorted(filterfalse(self._is_unknown, self._merge.files()))
        changes = tuple(it for it in map(self._change, files) if it.action is not Action.UNCHANGED)
        if self._merge.options.crds is None:
            return CrdVerdict(changes, ())
        from trainwright.plan import definitions  # 0.2 s, and few plans are given any

        return definitions.ask(self._merge.options.crds, changes)

    def _is_unknown(self, file: JobFile) -> bool:
        """Whether the merge keeps from knowing what happens to a job, and applies nothing of it."""
        edited = self._merge.is_rendered(file) and self._merge.origin(file) is None
        return bool(self._merge.unread(file.environment)) and not edited

    @tracked()
    def _change(self, file: JobFile) -> JobChange:
        """Return what happens to a job."""
        sides = self._sides(file)
        becomes = self._becomes(sides)
        change = self._planned(sides, becomes)
        if sides.was and change.action in _REPLACES and (keeper := self._keeper(file)):
            sides = replace(sides, was=replace(sides.was, keeper=str(keeper)))
            change = self._planned(sides, becomes)
        was = sides.was
        if was:
            change = replace(change, was=sides.origin, shared=sides.shared)
        change = _unless_lost(change, sides)
        change = self._beginning(change, sides, becomes)
        change = self._shared_object(change, sides)
        change = _waiting(change, sides)
        change = _as_before(change, sides.environment)
        action, otherwise = change.action, self._otherwise(change, sides)
        change = replace(change, causes=change.causes or self._causes(change, sides, otherwise))
        newly_rendered = action not in _AS_RENDERED
        return replace(
            change,
            why="; ".join(
                filter(None, (change.why, *self._reservations(change, sides, otherwise)))
            ),
            left=_left(change, was) if was else NOTHING,
            unrendered=newly_rendered
            and not sides.as_rendered
            and self._before.folder(file.environment).is_there,
            otherwise=otherwise,
            ending=actions.ending(action, was) if was else None,
            waivers=self._waived(sides) if newly_rendered else (),
        )

    def _sides(self, file: JobFile) -> _Sides:
        """Return what both sides have of a job."""
        merge, environment = self._merge, self._merge.applying(file.environment)
        is_rendered, forged = merge.is_rendered(file), merge.is_forged(file)
        origin = merge.origin(file)
        there = origin or file
        ran = self._before.has(there) and not self._before.is_unrendered(there)
        before = self._before.job(there) if ran else None
        after = self._after.job(file) if self._after.has(file) else None
        now = self._after.rendering(file) if after else None
        behind = now is not None and _is_behind(now, self._after.record(file))
        return _Sides(
            file=file,
            origin=origin,
            shared=merge.is_shared(file),
            before=before,
            after=after,
            was=self._training(file, origin, is_rendered=is_rendered),
            now=now,
            environment=environment,
            is_rendered=is_rendered,
            behind=is_rendered and not forged and behind,
            forged=forged,
            lost=after is not None and merge.has_lost_ledger(file.environment),
        )

    def _training(
        self, file: JobFile, origin: JobFile | None, *, is_rendered: bool
    ) -> Training | None:
        """Return the run of a job, or of its origin, before the merge, or None if it has none."""
        if origin is None:
            run, leaves = self._before.at_hand(file) if is_rendered else self._was(file), False
        else:
            run = self._before.at_hand(origin) or self._was(origin)
            leaves = not self._merge.is_shared(file)
        if run is None or (origin and not run.object):
            return None
        demand = self._merge.at_prices(file.environment, run.demand)
        retired = run.object in self._after.ledger(file.environment).runs
        run = replace(run, demand=demand, retired=retired)
        name = (origin or file).environment
        applying, deleted = self._merge.applying(name), self._merge.deleted(name)
        return Training(run, applying, leaves=leaves, deleted=deleted)

    def _was(self, file: JobFile) -> PlannedRun | None:
        """Return the run of a job that is applied now."""
        if not self._before.has(file) or self._before.is_unrendered(file):
            return None
        applied = self._before.applied(file)
        return applied or self._before.after(file, self._before.rendering(file), None)

    def _next(self, sides: _Sides) -> PlannedRun | None:
        """Return the run of a job after the merge, or None if it has none."""
        file, now = sides.file, sides.now
        before = sides.was.run if sides.was else None
        if sides.as_rendered:
            after = self._after.at_hand(file, now, believed=not sides.forged)
        else:  # what rendering would make of it
            after = self._after.after(file, now, before) if now else None
        unread = before and after and self._merge.unread(file.environment)
        return replace(after, demand=before.demand) if before and after and unread else after

    def _becomes(self, sides: _Sides) -> Training | None:
        """Return the same with the environment in which it trains, and what it resumes from."""
        after, deleted = self._next(sides), self._merge.deleted(sides.file.environment)
        if after is None:
            return None
        begins = sides.was is None or sides.was.run.object != after.object
        origin = partial(self._resumed, sides.file) if begins else None
        is_back = self._is_back(sides.file, after.object)
        earlier = self._edit_of_earlier(after, sides) if is_back else None
        had_ended = earlier is not None and self._had_ended(sides.file, after.object)
        added = self._added(sides.file.environment) if begins else frozenset[Identity]()
        return Training(
            after,
            sides.environment,
            deleted=deleted,
            origin=origin,
            added=added,
            earlier=earlier,
            had_ended=had_ended,
        )

    def _planned(self, sides: _Sides, becomes: Training | None) -> JobChange:
        """Return the runs of a job on both sides, and what its sources, or its rendered files where
        these changed, make of the one before.
        """
        file, was, now = sides.file, sides.was, sides.now
        before, after = (it.run if it else None for it in (was, becomes))
        applied = sides.as_rendered and files_of(before) != files_of(after)
        errors = 0 if applied else self._merge.errors(file)
        if errors or not (applied or now is None or now.usable):
            why = _broken(errors, sides)
            after = after.without_files() if before and after else after
            return JobChange(file=file, action=Action.BROKEN, why=why, before=before, after=after)
        action, why = actions.decide(was, becomes)
        if action is Action.NEW_RUN and (why_not := self._why_refused(file)):
            action, why, after = Action.REJECTED, why_not, after and after.without_files()
        change = JobChange(file=file, action=action, why=why, before=before, after=after)
        unlisted = applied and self._after.has(file) and action in _ENDED
        if was and unlisted and (after is None or after.state not in ENDED):
            return replace(change, why=f"nothing of it is applied any more; {was.removed}")
        return self._again(change, sides, becomes)

    def _why_refused(self, file: JobFile) -> str:
        """Return why the API server refuses what a new run has otherwise, or ""."""
        found = (it for it in self._merge.refused(file.environment) if it.subject == str(file))
        return "; ".join(f"{it.message}, and the sync fails" for it in found)

    # --- a run that there was before ----------------------------------------------------------

    def _again(self, change: JobChange, sides: _Sides, becomes: Training | None) -> JobChange:
        """Return the change, adjusted to an earlier run of the same spec, if any."""
        file, after, why, was = change.file, change.after, change.why, sides.was
        if after is not None and becomes is not None and becomes.earlier is not None:
            back = becomes.goes_back and change.action in BEGINS and after.state == "active"
            return replace(change, why=f"{why}; {_met(becomes, *becomes.earlier)}", back=back)
        if change.action is Action.NEW_RUN and self._stayed(sides):
            command = f"git checkout {self._earlier.commit[:12]} -- {file.rendered}"
            keep = f"its file requests no other run than before: keep it by `{command}`"
            return replace(change, why=f"{why}; {keep}")
        own = sides.before if sides.origin is None else None
        decision, record = sides.decision, own.record if own else None
        if decision is None or record is None or not decision.finished:
            return change
        if finished_as(record, file.name, self._after.ledger(file.environment)) == decision.name:
            return change
        again = (
            f"{decision.name} has finished with the same spec, by the ledger, and nothing trains: "
            "`trainwright rerun` begins another run"
        )
        if was and was.run.object:
            again = f"{again}; {was.removed}"
        return replace(change, action=Action.RETIRED, why=again)

    def _edit_of_earlier(self, after: PlannedRun, sides: _Sides) -> tuple[Action, str]:
        """Return what the merge does to the object of an earlier run, if that still is there."""
        there = self._earlier.recorded(sides.file, after.object)
        runs = (replace(after, files=there.texts()) if there else after, after)
        return actions.decide(*(Training(run, sides.environment) for run in runs))

    def _had_ended(self, file: JobFile, name: str) -> bool:
        """Whether a run of a job was finished or cancelled before the merge, by git."""
        record = self._before.record(file)
        ended = record is not None and record.object == name and record.state in ENDED
        return ended or name in self._before.ledger(file.environment).runs

    def _stayed(self, sides: _Sides) -> bool:
        """Whether the run of the base would do: the job's file was edited, and edited back."""
        sources = sides.after.sources if sides.after else None
        was = self._before.record(sides.file)
        return sources is not None and was is not None and not asks(sources, was)

    @tracked(same=eq)
    def _is_back(self, file: JobFile, name: str) -> bool:
        """Whether the merge brings back a run of a job by the name of its object."""
        return self._back().get(file) == name

    @tracked()
    def _back(self) -> Mapping[JobFile, str]:
        """Return the objects of runs that the merge brings back: there earlier, not before it."""
        objects: dict[JobFile, str] = {}
        for file in sorted(self._merge.files()):
            now = self._begun(file)
            was = self._before.record(file)
            if now and not (was and was.object == now and was.state not in ENDED):
                objects[file] = now
        earlier = self._earlier.objects(objects)
        return {file: name for file, name in objects.items() if name in earlier[file]}

    def _begun(self, file: JobFile) -> str:
        """Return the object of the run that continues after the merge: that of its files, even if
        no source renders them; empty if none continues.
        """
        record = self._after.record(file)
        if self._merge.is_forged(file) and record is not None and record.state not in ENDED:
            return record.object
        decision = self._after.rendering(file).decision if self._after.has(file) else None
        return decision.name if decision is not None and decision.step is not Step.END else ""

    # --- a run that begins --------------------------------------------------------------------

    def _beginning(self, change: JobChange, sides: _Sides, becomes: Training | None) -> JobChange:
        """Return a change with when the run begins that it begins, and what that waits for."""
        if change.action not in BEGINS:
            return change
        unadmitted, overwrites = self._unadmitted(change, sides), _overwrites(sides, becomes)
        shared = self._saves_beside(sides, becomes) if becomes and not unadmitted else ""
        change = replace(
            change,
            unadmitted=unadmitted,
            overwrites=(overwrites or bool(shared)) and not unadmitted,
            pending=becomes.unmountable if becomes else (),
        )
        why, never = change.why, words.never(change)
        if change.action is Action.NEW_RUN:
            return replace(change, why="; ".join(filter(None, (why, never, shared))))
        resumes = resumption(becomes) if becomes and becomes.read else ""
        why = "; ".join(filter(None, (never or why, resumes, shared)))
        if (waits := self._waits_for(change.file)) and why.startswith("at once"):
            why = f"{waits}{why.removeprefix('at once')}"
        elif waits:
            why = f"{why}; {waits}"
        return replace(change, why=why)

    def _saves_beside(self, sides: _Sides, becomes: Training) -> str:
        """Return that a run which begins saves to the folder of another job's run, or ""."""
        name = sides.file.environment
        if becomes.run.state != "active" or self._merge.environment(name) is None:
            return ""
        for place in becomes.saved():
            claim = place.source if place.volume.startswith("claim ") else ""
            savers = self._savers(name, claim).get(place.path, ()) if claim else ()
            for other in (it for it in savers if it not in (sides.file, sides.origin)):
                beside = self._beside(other)
                if beside is None or beside.run.object == becomes.run.object:
                    continue
                if beside.run.state == "active" and overwritten(beside, becomes):
                    return saves_as(other, place)
        return ""

    @tracked(same=eq)
    def _savers(self, name: str, claim: str) -> Mapping[str, tuple[JobFile, ...]]:
        """Return which jobs of the cluster and namespace of an environment save to each folder of a
        claim, by its path.
        """
        sound, found = self._after.environments, dict[str, list[JobFile]]()
        places = {it: (one.gitops.destination, one.namespace) for it, one in sound.items()}
        there = sorted(it for it in sound if places[it] == places.get(name))
        for file in chain.from_iterable(self._after.survey.jobs[it] for it in there):
            touched = self._merge.touches(file)
            job = self._after.job(file).job if touched else self._after.asking(file).job
            for path in self._saved(file, job, claim) if job else ():
                found.setdefault(path, []).append(file)
        return {path: tuple(files) for path, files in found.items()}

    def _saved(self, file: JobFile, job: Job, claim: str) -> Set[str]:
        """Return the folders of a claim to which a job saves, unless it has `checkpoint`: that is a
        folder of its own for each run.
        """
        mounts = not job.checkpoint and claim in map(claimed, job.volumes)
        beside = self._beside(file) if mounts else None
        return {it.path for it in beside.saved() if it.source == claim} if beside else set()

    @tracked()
    def _beside(self, file: JobFile) -> Training | None:
        """Return the run that a job has after the merge, or None if it has none."""
        if self._merge.touches(file):
            return self._becomes(self._sides(file))
        run = self._after.at_hand(file)
        return Training(run, self._merge.environment(file.environment)) if run else None

    @tracked(same=eq)
    def _added(self, name: str) -> Set[Identity]:
        """Return what the merge adds to an environment of which it changes the namespace."""
        former = self._merge.former(name)
        was, now = self._before.environments.get(former), self._merge.environment(name)
        if not (was and now) or was.namespace == now.namespace:
            return frozenset()
        before = object_changes.identities(self._before, former)
        return frozenset(object_changes.identities(self._after, name) - before)

    def _resumed(self, file: JobFile, run: Training) -> Training | None:
        """Return the run in git after which the folder is called that another resumes from."""
        former = self._merge.former(file.environment)
        there = dict.fromkeys((former, *sorted(self._before.survey.jobs)))
        names = (name for place in run.read[:1] for name in place.runs)
        for name, environment in product(names, there):
            recorded = self._earlier.recorded(JobFile(environment, job_of_run(name)), name)
            if recorded is None:
                continue
            with suppress(OSError, UnicodeDecodeError):  # of files that nothing has rendered
                files, target = recorded.texts(), recorded.record.target
                saved = replace(run.run, object=name, files=files, target=target)
                return Training(saved, self._before.environments.get(environment))
        return None

    def _unadmitted(self, change: JobChange, sides: _Sides) -> CapacityCheck | None:
        """Return the quota of a queue that never admits a run, which asks for more than that; None
        for any other run, and where the rule is waived, since a cohort lends.
        """
        run, quota = change.after, _quota(change, sides)
        if run is None or quota is None or not self._exceeds_quota(change.file):
            return None
        gpus, what = run.demand.gpus, f"queue {run.queue}"
        return CapacityCheck(what=what, unit="GPUs", need=gpus.low, most=gpus.high, has=quota)

    @tracked(same=eq)
    def _exceeds_quota(self, file: JobFile) -> bool:
        findings = self._merge.findings_in(file.environment)
        exceeding = (it for it in findings if it.rule == declared_quota_exceeded.id)
        return any(it.subject == str(file) for it in exceeding)

    def _waits_for(self, file: JobFile) -> str:
        """Return which Kustomization a job that starts waits for; empty if there is one, or none
        is in wiring/.
        """
        environment = self._merge.environment(file.environment)
        path = f"{WIRING}/{file.environment}/{_KUSTOMIZATIONS}"
        wired = self._after.tree.kind(f"{WIRING}/{file.environment}") == "folder"
        if environment is None or not applied_by_job(environment) or not wired:
            return ""
        if _has_kustomization(self._before, path, file):
            return ""
        if _has_kustomization(self._after, path, file):
            return f"once {path} is applied"
        return f"only once its Kustomization is in {path}, and applied"

    def _shared_object(self, change: JobChange, sides: _Sides) -> JobChange:
        """Return the change, adjusted to an object that another job has, too: before the merge
        where the job starts with it, or after it where the job loses it.
        """
        file, was = change.file, sides.was
        if change.was is not None and was is not None:
            return self._taken_over(change, was)
        if file in self._merge.gone():
            return replace(change, action=Action.UNCHANGED, why="")
        others = tuple(self._from_another(file)) if change.action in _MAKES else ()
        if change.action is Action.STARTED:
            change = replace(change, why="; ".join((change.why, *others)))
        elif others:  # an adopted object that git has already
            change = replace(change, action=Action.GOES_ON, why="; ".join(others))
        if was is None or change.action not in _LEAVES:
            return change
        keeper = self._keeper(file)
        if keeper is None:
            return change
        if was.is_kept(change.after):
            why = f"{was.run.object} is the run of {keeper}"
            return replace(change, action=Action.GOES_ON, why=why, ending=None)
        why = f"{change.why}; it is the run of {keeper}, which makes it again"
        return replace(change, why=why, shared=True)

    def _taken_over(self, change: JobChange, was: Training) -> JobChange:
        """Return the change of a job that has, or replaces, the run of one under another name."""
        before, after, former = change.before, change.after, change.was
        if before is None or after is None or before.object != after.object:
            renamed = self._renamed(change) if change.action in BEGINS else ""
            return replace(change, why="; ".join(filter(None, (change.why, renamed))))
        kept = change.shared or was.is_kept(None)
        if not kept and former and not self._finds_no_folder(former.environment):
            why = actions.made_again(was, f"{former}", f"{change.file}")
            return replace(change, action=Action.NEW_RUN, why=why)
        return change

    def _renamed(self, change: JobChange) -> str:
        """Return that a job is one under another name, or has most of one that is gone."""
        file, former = change.file, change.was or change.file
        same = names.content(self._before, former) == names.content(self._after, file)
        if same or former.name == file.name:
            return f"it is {former} under another name"
        return f"it has most values of {former}, which is gone"

    def _finds_no_folder(self, name: str) -> bool:
        """Whether an engine applies all of an environment by one object, and the merge takes the
        whole folder: what finds none deletes nothing.
        """
        environment = self._before.environments.get(name)
        whole = environment is not None and environment.gitops.applications == "environment"
        return whole and name not in self._after.survey.jobs

    def _keeper(self, file: JobFile) -> JobFile | None:
        """Return another job that has the object of a job after the merge, or None if none has."""
        keepers = sharing(file, self._before, self._after, self._merge.files())
        return next((keeper for keeper, _ in keepers), None)

    def _from_another(self, file: JobFile) -> Iterator[str]:
        """Yield that the object with which a job starts is that of another job before the merge."""
        for other, name in sharing(file, self._after, self._before, self._merge.files()):
            there = f"{name} is the run of {other} before the merge"
            yield f"{there}: where it is in the cluster, it goes on"

    # --- what is said of a change -------------------------------------------------------------

    def _otherwise(self, change: JobChange, sides: _Sides) -> tuple[ValueChange, ...]:
        """Return the values in which a run that begins differs from its sources after the merge."""
        begins = change.action in BEGINS and sides.is_rendered
        return sides.held if begins and not any(self._from_another(change.file)) else ()

    def _reservations(
        self, change: JobChange, sides: _Sides, otherwise: tuple[ValueChange, ...]
    ) -> Iterator[str]:
        """Yield in what a run that begins is not that of its sources, and when one ends that goes
        on with less time.
        """
        after = change.after
        at_hand = self._after.at_hand(change.file) if sides.behind else None
        if at_hand and at_hand.object and after and after.object != at_hand.object:
            yield f"merged as it is rendered now, {at_hand.object} is applied instead"
        if otherwise:
            fields = ", ".join(dict.fromkeys(cause.path.dotted for cause in otherwise))
            yield f"not with what its sources have now of {fields}"
        waits = {edit.path for edit in sides.held}
        less = causes.less_time(it for it in change.causes if it.path not in waits)
        if less and change.action in _UPDATES:
            yield f"it fails once it has run for {less.after}, and at once if it has already"
        if after and change.action in BEGINS and after.image != (change.before or after).image:
            yield from self._locked_otherwise(sides)

    def _locked_otherwise(self, sides: _Sides) -> Iterator[str]:
        """Yield that the lock of images has another digest for the tag of a job than that names."""
        job, digests = sides.after.job if sides.after else None, self._locked()
        image = job.image if job else Image(repository="")
        digest = digests.get(f"{image.repository}:{image.tag}", "")
        if digest and image.digest and digest != image.digest:
            yield f"its digest is not that of {image.tag} in {image_lock.LOCK}, {digest[:19]}"

    @tracked(same=eq)
    def _locked(self) -> Mapping[str, str]:
        try:
            return image_lock.locked(self._after.tree)
        except ImageError:  # which `pin` names
            return {}

    def _waived(self, sides: _Sides) -> tuple[Waiver, ...]:
        now, environment = sides.now, self._merge.environment(sides.file.environment)
        if now is None or environment is None:
            return ()
        return waived(environment, self._merge.checked(now), self._merge.options.today)

    def _causes(
        self, change: JobChange, sides: _Sides, otherwise: Sequence[ValueChange]
    ) -> tuple[ValueChange, ...]:
        """Return why a job changes: values of its specs, or else what is known of it."""
        file, now = change.file, sides.after
        was = sides.before if change.was or not sides.origin else None
        place, note = Location(file.path), "no value of the spec, only what is rendered for it"
        if change.action is Action.UNCHANGED:
            return ()
        if change.action is Action.ADOPTED:
            place, note = Location(adopted.path(file)), "the adopted object"
        elif change.action is Action.BROKEN and sides.lost:
            place = self._after.ledger(file.environment).findings[0].place
            note = "the ledger has errors"
        elif self._after.folder(file.environment).is_unreadable(file.name):
            place, note = Location(records.path(file)), _RECORD
        elif not (was and now):
            is_new = now and not self._before.has(sides.origin or file)
            note = "new job spec" if is_new else "job spec removed" if was else _NEVER_RENDERED
        elif not (was.loaded.spec and now.loaded.spec):
            error = sides.error_elsewhere
            place = error.place if error else place
            note = f"{place.file} has errors" if error else "job spec with errors"
        elif reasons := self._reasons(change, was, now, otherwise):
            return tuple(reasons)
        elif change.was:
            note = f"job spec {'copied' if change.shared else 'moved'}"
        elif records.path(file) in self._merge.changed:
            place, note = Location(records.path(file)), _RECORD
        return (ValueChange.noted(note, place),)

    def _reasons(
        self,
        change: JobChange,
        was: ResolvedJob,
        now: ResolvedJob,
        otherwise: Sequence[ValueChange],
    ) -> Sequence[ValueChange]:
        """Return the values that differ in what a job with two sound specs is made of."""
        assert was.loaded.spec
        assert now.loaded.spec
        file, action, sides = change.file, change.action, self._merge.sides
        former = (change.was or file).environment
        if self._merge.unread(file.environment):
            return ()
        reasons = [*causes.of_specs(was.loaded.spec, now.loaded.spec)]
        old = self._before.loaded(former).document
        new = self._after.loaded(file.environment).document
        job = now.job or was.job  # of a job with errors, as it was
        if old and new:
            pool = job.pool.name if job and job.pool else ""
            reasons += causes.of_environments(old, new, pool)
        then, today = (side.ledger(file.environment) for side in sides)
        reasons += causes.of_ledgers(then, today, file.name)
        if was.record is not None and (action in BEGINS or not reasons):
            # What earlier edits of shared files have left for the next run, which this one is.
            left = {cause.path for cause in (*reasons, *otherwise)}
            waited = causes.of_record(was.record, was.loaded.spec, now.loaded.spec)
            reasons += [cause for cause in waited if cause.path not in left]
        if action in BEGINS:  # which a line of its own on what is trained decides
            reasons.sort(key=lambda it: (it.place.file != file.path, not is_trained(it.path)))
        elif not reasons and action is Action.BROKEN and old and new:
            reasons += causes.every_difference(old, new)
        return reasons


def _met(becomes: Training, action: Action, why: str) -> str:
    """Return, in words, what happens to an earlier run whose object may still be in the cluster."""
    name, again = becomes.run.object, "`trainwright rerun` begins another run"
    if becomes.goes_back:
        return (
            f"do not run the earlier command that deletes {name}; if it has finished, nothing "
            f"trains: {again}"
        )
    there = "where its object still is in the cluster"
    if action is Action.UNCHANGED:
        return f"{name} was rendered before: {there} it goes on, or stays finished, and {again}"
    edited = _API_ANSWERS.get(action, "made")
    return (
        f"{name} was rendered before, and otherwise: {there} the edit is {edited}: {why}; {again}"
    )


def _is_behind(now: Rendered, record: Record | None) -> bool:
    """Whether rendering makes another run, or another state, of a job than its rendered files have,
    which follow from earlier sources; `record` is that of these.
    """
    if now.decision is None or not now.usable:
        return False
    if now.decision.step is Step.END:
        return record is not None and record.state not in ENDED
    return now.decision.step in (Step.BEGIN, Step.ADJUST)


def _broken(errors: int, sides: _Sides) -> str:
    """Return why nothing is rendered of a job, and what becomes of its run."""
    elsewhere, was = sides.error_elsewhere, sides.was
    why = "its environment has errors"
    if errors:
        why = f"it has {plural(errors, 'error')}"
    elif elsewhere:
        why = f"{elsewhere.place.file} has errors"
    stays = f", and {was.run.object} stays as it is" if was and was.run.object else ""
    return f"{why}; nothing is rendered{stays}"


def _unless_lost(change: JobChange, sides: _Sides) -> JobChange:
    """Return the change, unless a lost ledger has decided it."""
    if change.action not in _OF_LOST or not sides.lost:
        return change
    before, after = change.before, change.after and change.after.without_files()
    if before is None or not before.object:
        return replace(change, after=after, action=Action.UNCHANGED, why="")
    path = ledger_path(change.file.environment)
    why = f"{path} has errors; nothing is rendered, and {before.object} stays as it is"
    return replace(change, after=after, action=Action.BROKEN, why=why)


def _quota(change: JobChange, sides: _Sides) -> int | None:
    """Return the quota of the queue that an active run waits in, or None if it has none."""
    run, environment = change.after, sides.environment
    if run is None or run.state != "active" or environment is None:
        return None
    return environment.queues.get(run.queue)


def _overwrites(sides: _Sides, becomes: Training | None) -> bool:
    """Whether a new run saves to the folder of the one before, which keeps training."""
    was = sides.was
    if was is None or becomes is None or becomes.run.state != "active":
        return False
    return was.goes_on(becomes.run) and overwritten(was, becomes) is not None


def _has_kustomization(side: Revision, path: str, file: JobFile) -> bool:
    if side.tree.kind(path) != "file":
        return False
    lines = (line.rstrip("'\" ") for line in side.reader.lines(path))
    return any(line.endswith(f"/{file.rendered}") for line in lines)


def _waiting(change: JobChange, sides: _Sides) -> JobChange:
    """Return a change with what waits for the next run of its job, and did not before."""
    decision = sides.before.decision if sides.before else None
    held = tuple(awaiting(sides.held, decision.held if decision else ()))
    if change.action not in _CONTINUES or not held:
        return change
    noted = {edit.path: edit.note for edit in sides.held if edit.note}
    untaken = [f"{path.dotted} {_WAITS}: {note}" for path, note in noted.items()]
    if change.action is Action.UNCHANGED:
        waiting = "; ".join(untaken) or "the run stays as it is"
        why = f"{waiting}; `trainwright rerun` applies it"
        causes = tuple(replace(edit, note="") for edit in held)
        return replace(change, action=Action.OUTDATED, why=why, causes=causes)
    untaken += [f"{edit.path.dotted} {_WAITS}" for edit in held if edit.path not in noted]
    return replace(change, why="; ".join((change.why, *dict.fromkeys(untaken))))


def _left(change: JobChange, was: Training) -> Demand:
    """Return what the run of the base requests if it goes on, although the merge leaves nothing of
    it in git.
    """
    unrendered = change.after is None or not change.after.object
    stays = change.action is not Action.GOES_ON and was.goes_on(change.after)
    return was.run.demand if stays or (change.action in BLOCKED and unrendered) else NOTHING


def _as_before(change: JobChange, environment: Environment | None) -> JobChange:
    """Return the change of a job whose run goes on with whose run that was."""
    former, before, after = change.was, change.before, change.after
    made_again = change.action is Action.NEW_RUN
    if not (former and before and after) or before.object != after.object or made_again:
        return change
    if change.shared and change.action in _EDITED and before.state == after.state:
        both = _BOTH[environment.gitops.engine if environment else "none"]
        why = f"{after.object} is the run of {former}, too: nothing starts, and both apply it{both}"
        return replace(change, action=Action.GOES_ON, why=why)
    of = f"is the run of {former}, too" if change.shared else f"was the run of {former}"
    if change.action is not Action.UNCHANGED:
        return replace(change, why=f"{change.why}; {after.object} {of}")
    return replace(change, action=Action.GOES_ON, why=f"{after.object} {of}")


# What follows for an object that two environments apply, by the engine.
_BOTH = {
    "argocd": ": every sync of the second fails",
    "flux": ": it is of whichever has applied it last, and goes with that one",
    "none": "",
}
_KUSTOMIZATIONS = "kustomizations.yaml"
_MAKES = frozenset({Action.STARTED, Action.ADOPTED})
_GONE = frozenset({Action.DELETED, Action.LEFT, Action.LEFT_SUSPENDED})
_LEAVES = _GONE | {Action.CANCELLED}
_ENDED = _LEAVES | {Action.RETIRED}
_OF_LOST = _GONE | {Action.BROKEN}
_UPDATES = frozenset({Action.IN_PLACE, Action.MAY_BE_REFUSED})
_CONTINUES = _UPDATES | {Action.UNCHANGED, Action.RESUMED, Action.SUSPENDED, Action.MIXED}
_EDITED = _UPDATES | {Action.UNCHANGED, Action.IGNORED, Action.MIXED, Action.OUTDATED}
_REPLACES = frozenset({Action.NEW_RUN, Action.RETIRED})
_WAITS = "waits for the next run"
_RECORD = "the record of its run"
_NEVER_RENDERED = "job spec that was not rendered before"
# Actions that need no newly rendered files.
_AS_RENDERED = frozenset({Action.UNCHANGED, Action.GOES_ON, Action.OUTDATED, Action.BROKEN})
# How the API server answers the edit of an existing object.
_API_ANSWERS = {
    Action.REJECTED: "refused by the API",
    Action.MAY_BE_REFUSED: "refused by the API unless it waits in its queue",
    Action.IGNORED: "ignored",
}
