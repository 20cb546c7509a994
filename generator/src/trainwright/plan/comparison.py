"""The comparison of the two sides of a merge: what happens to each job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from operator import attrgetter, eq, is_
from pathlib import Path

from trainwright.datatypes.data import mapping
from trainwright.datatypes.environment import Environment, Waiver
from trainwright.datatypes.finding import Finding, Location, Severity, ValueChange
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.datatypes.layout import (
    RENDERED,
    WIRING,
    JobFile,
    environment_path,
    is_wiring_of,
)
from trainwright.datatypes.same import digest_of_data
from trainwright.files.memo import Cell, Owner, cell_of, tracked
from trainwright.findings.credentials import redact
from trainwright.findings.diagnostics import HELD, UNRECORDED
from trainwright.objects.departure import applied_by_job
from trainwright.plan import actions, affected, causes, object_changes, policies, uses
from trainwright.plan.earlier import Earlier
from trainwright.plan.model import (
    Action,
    CrdVerdict,
    EnvironmentPlan,
    JobChange,
    ObjectChange,
    Plan,
    PlannedRun,
    SettingChange,
    SharedFileImpact,
    WiringChange,
)
from trainwright.plan.places import jobs_at, place_of
from trainwright.plan.policies import Setting
from trainwright.plan.replacing import gpus_of
from trainwright.plan.revision import Revision
from trainwright.render import derivation
from trainwright.render.derivation import Derivation, Underived
from trainwright.render.history import History
from trainwright.render.job import Rendered
from trainwright.render.policy import has_unknown_run, unknown_run
from trainwright.reports import redacted, without_credentials
from trainwright.rules import deception
from trainwright.rules.policy import JobFindings, apply_policy, waived
from trainwright.rules.quota import declared_quota_exceeded
from trainwright.runs import adopted
from trainwright.runs import record as records
from trainwright.runs.decide import asks, finished_as
from trainwright.runs.decision import OF_WIRING, Decision, Step
from trainwright.runs.record import ENDED
from trainwright.runs.wiring_files import WiringFiles
from trainwright.runs.workspace import Asking, ResolvedJob, Workspace
from trainwright.specs import capacity, demand, files
from trainwright.specs.capacity import CapacityCheck
from trainwright.specs.demand import NOTHING, Demand, Range
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
    # Compares wiring/: what writes it is beside this package, not below it. None is as for errors.
    wired: Callable[[Workspace], WiringFiles | None] = lambda _: None
    edits: Mapping[str, bytes] = field(default_factory=dict)  # of the working tree, not made yet


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """The commits of a merge: the merge base, the head (empty for what is on disk), and how many
    commits the other branch has had since the base.
    """

    base: str
    head: str
    behind: int


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
    """Two sides of a merge; `proof` knows the files in which they differ.

    The base never changes. What is computed from the other side is tracked (see `memo`).
    """

    def __init__(
        self,
        *,
        before: Revision,
        after: Revision,
        patterns: tuple[str, ...],
        options: PlanOptions,
        earlier: Earlier,
        history: History,
        proof: Derivation,
    ):
        super().__init__(after.memo)
        self.before, self.after = before, after
        self._earlier = earlier
        self._history = history
        self._options = options
        self._patterns = patterns
        self._was_rendered: dict[JobFile, Rendered] = {}
        self._batch: dict[JobFile, Rendered] = {}  # new renderings of the head, until taken
        self._changed = Cell(self.memo, frozenset[str], eq, proof.changed)
        self._proof = Cell(self.memo, lambda: proof)

    @property
    def changed(self) -> frozenset[str]:
        """The files in which the sides differ."""
        return self._changed.get()

    def edit(self, edits: Collection[str], changed: frozenset[str]) -> None:
        """Go on once some files of the tree after the merge were edited."""
        self.after.edit(edits)
        self._changed.put(changed)
        if any(map(derivation.may_decide, edits)):
            self._proof.put(self._proof.get().edited(self.after, changed))

    def plan(self, revisions: Revisions) -> Plan:
        """Return the plan of the merge, with these commits as its base and head."""
        self._render()
        findings = tuple(map(redacted, self.findings))
        underived = tuple(redacted(derivation.finding(it)) for it in self.underived)
        environments, blast = tuple(map(_shown, self.environments())), tuple(self.blast())
        blast = tuple(replace(file, causes=_keys_shown(file.causes)) for file in blast)
        places = {finding.place for finding in findings}
        places |= {
            c.place
            for environment in environments
            for change in environment.changes
            for c in change.causes
        }
        places |= {cause.place for file in blast for cause in file.causes}
        return Plan(
            base=revisions.base,
            head=revisions.head,
            behind=revisions.behind,
            environments=environments,
            blast=blast,
            findings=findings,
            underived=underived,
            wiring=self._wiring(),
            policies=self._settings(policies.differing),
            amounts=self._settings(policies.amounts),
            waived=sum(map(self._newly_waived, self._files())),
            sources={
                path: self.after.reader.lines(path)
                for path in sorted({place.file for place in places})
                if self.after.tree.kind(path) == "file"
            },
        )

    def _wiring(self) -> WiringChange:
        """Return what the merge leaves to do with wiring/, of the selected environments."""
        if not self.changed:
            return WiringChange()
        names = self._selected().names
        there = [
            path
            for path in sorted(self.changed)
            if path.startswith(f"{WIRING}/") and self.after.tree.kind(path) == "file"
        ]
        wired = self.after.tree.kind(WIRING) == "folder"
        files = self._options.wired(self.after) if wired else WiringFiles()
        manifests = [path for path in there if path.endswith(_MANIFESTS)]
        if files is None:  # whatever differs is unproven
            files = WiringFiles(stale=tuple(manifests))
        known = {*files.stale, *files.current}
        return WiringChange(
            stale=tuple(it for it in files.stale if is_wiring_of(it, names)),
            foreign=tuple(it for it in manifests if it not in known),
            changed=tuple(it for it in there if it in files.current and is_wiring_of(it, names)),
            settings=self._settings(policies.wired),
        )

    def _settings(
        self, differing: Callable[[Environment, Environment], Iterator[Setting]]
    ) -> tuple[SettingChange, ...]:
        """Return what differs in the settings of the selected environments, at their lines."""
        return tuple(
            self._setting(name, setting)
            for name, was, now in self._sides()
            for setting in differing(was, now)
        )

    def _setting(self, name: str, setting: Setting) -> SettingChange:
        document = self.after.loaded(name).document
        place = document.place(setting.path) if document else Location(environment_path(name))
        change = ValueChange(setting.path, setting.before, setting.after, place)
        return SettingChange(name, change, setting.loosens)

    def _sides(self) -> Iterator[tuple[str, Environment, Environment]]:
        """Yield the selected environments that are sound on both sides."""
        for name in self._selected().names:
            was, now = self.before.environments.get(name), self._environment_of(name)
            if was is not None and now is not None:
                yield name, was, now

    def _beginning(self, file: JobFile, action: Action, why: str, never: str) -> str:
        """Return why and when a run begins; `never` says that its queue does not admit it."""
        if action is Action.STARTED:
            return "; ".join((self._starting(file, never or why), *self._renamed(file)))
        return f"{why}; {never}" if never else why

    def _starting(self, file: JobFile, why: str) -> str:
        """Return when a new job starts, with the Kustomization that it waits for."""
        waits = self._waits_for(file)
        if not waits or why.startswith("at once"):
            return f"{waits}{why.removeprefix('at once')}" if waits else why
        return f"{why}; {waits}"

    def _unadmitted(self, file: JobFile, run: PlannedRun | None) -> str:
        """Return that a queue never admits a run, which asks for more than its quota, and why;
        empty for any other run, and where the rule is waived, since a cohort lends.
        """
        if run is None or run.state != "active" or not run.queue:
            return ""
        findings = (it for it in self._findings_of(file.environment) if it.subject == str(file))
        short = next((it for it in findings if it.rule == declared_quota_exceeded.id), None)
        return f"never admitted: {short.message}" if short else ""

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
    def _relisted(self) -> frozenset[JobFile]:
        return affected.relisted(self.before, self.after, self.changed)

    @tracked(same=eq)
    def _files(self) -> frozenset[JobFile]:
        """The selected jobs that the merge touches."""
        touched = affected.jobs(self.before, self.after, self.changed) | self._relisted()
        return self._selected().files & touched

    @tracked(same=eq)
    def _is_touched(self, file: JobFile) -> bool:
        return file in self._files()

    # --- changes -----------------------------------------------------------------------------

    def _render(self) -> None:
        """Render in one batch per side whatever is not rendered yet."""
        files = sorted(self._files())
        rendered = self._was_rendered
        old = [it for it in files if self.before.has(it) and self.before.applied(it) is None]
        missing = [file for file in old if file not in rendered]
        rendered |= self.before.render(missing, self._options.helm, new_runs=True)
        new = [file for file in files if self.after.has(file)]
        outdated = [file for file in new if not self._is_rendered_as_it_is(file)]
        self._batch = self.after.render(outdated, self._options.helm)
        for file in new:
            self.after.settle(file, self._rendered(file))

    def _is_rendered_as_it_is(self, file: JobFile) -> bool:
        cell = cell_of(self, Comparison._rendered, file)
        return cell is not None and cell.holds()

    @tracked()
    def _rendered(self, file: JobFile) -> Rendered:
        """Return what a job renders to after the merge; that depends on the job and its run."""
        self.after.unsettled(file)
        self.after.rendered(file)
        return self._batch.pop(file)

    def _now(self, file: JobFile) -> Rendered | None:
        """Return what a job renders to after the merge, or None if it is removed or not touched."""
        there = self._is_touched(file) and self.after.has(file)
        return self._rendered(file) if there else None

    @property
    def changes(self) -> tuple[JobChange, ...]:
        """Return the change of each job to which anything happens."""
        return self._crd_verdict().changes

    @tracked()
    def _crd_verdict(self) -> CrdVerdict:
        """Return the changes, with what the given CRDs say about them."""
        all_changes = map(self._change, sorted(self._files()))
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
        folder, decision = self.after.folder(file.environment), self._decided(self.after, file)
        begins = decision.name if decision else ""
        return has_unknown_run(folder, file, begins)

    @tracked()
    def _change(self, file: JobFile) -> JobChange:
        """Return what happens to a job."""
        now = self._now(file)
        if self._is_rendered(file):
            before = self.before.at_hand(file, believed=True)
            after = self.after.at_hand(file, believed=not self._is_forged(file))
        else:  # what rendering would make of it
            before = self._was(file)
            after = self.after.after(file, now, before) if now else None
        errors = self._errors(file)
        environment = self._applying(file.environment)
        if self._is_rendered(file) and _differ(before, after):
            action, why = self._applied(file, before, after)
        elif errors or (now is not None and not now.usable):
            message = f"errors: {errors}" if errors else "its environment has errors"
            action, why = Action.BROKEN, f"{message}; nothing is rendered"
            if before and before.object:
                why = f"{why}, and {before.object} stays as it is"
            if before and after and before.files != after.files:
                after = replace(after, object="", files={}, demand=NOTHING)
        else:
            action, why = actions.decide(before, after, environment)
            action, why = self._again(file, before, after, (action, why))
        action, why, after = self._unless_lost(file, before, after, (action, why))
        if action in _BEGINS:
            waits = self._unadmitted(file, after) or _waits_behind(
                action, before, after, environment
            )
            why = self._beginning(file, action, why, waits)
        action, why = self._shared_object(file, before, after, (action, why))
        held = self._held(file) if action in (Action.UNCHANGED, Action.IN_PLACE) else ()
        waiting = "; ".join(dict.fromkeys(self._untaken(file))) if held else ""
        if held and action is Action.UNCHANGED:
            why = f"{waiting or 'the run stays as it is'}; `trainwright rerun` applies it"
            action = Action.OUTDATED
        elif waiting:
            why = f"{why}; {waiting}"
        otherwise = tuple(self._otherwise(file)) if action in _BEGINS else ()
        if otherwise:
            fields = ", ".join(dict.fromkeys(cause.path.dotted for cause in otherwise))
            why = f"{why}; not with what its sources have now of {fields}"
        unchanged = action is Action.UNCHANGED
        goes_on = action is not Action.IN_PLACE and actions.goes_on(before, after, environment)
        stays = _is_unrendered(action, after) or goes_on
        return JobChange(
            file=file,
            action=action,
            why=why,
            before=before,
            after=after,
            causes=held
            if action is Action.OUTDATED
            else (() if unchanged else tuple(self._causes(file, action))),
            left=before.demand if before and stays else NOTHING,
            unrendered=action not in _AS_RENDERED
            and not self._is_rendered(file)
            and self.before.folder(file.environment).is_there,
            otherwise=otherwise,
            ending=actions.ending(action, before, environment),
            waivers=self._waived(file) if action not in _AS_RENDERED else (),
        )

    def _is_ledger_lost(self, file: JobFile) -> bool:
        """Whether the ledger of a job that is there cannot be read: what has finished is unknown,
        and nothing of its environment is rendered.
        """
        return self.after.has(file) and self._has_lost_ledger(file.environment)

    def _has_lost_ledger(self, environment: str) -> bool:
        entries = self.after.ledger(environment)
        return bool(entries.findings) and not entries.runs

    def _unless_lost(
        self,
        file: JobFile,
        before: PlannedRun | None,
        after: PlannedRun | None,
        planned: actions.PlannedAction,
    ) -> tuple[Action, str, PlannedRun | None]:
        """Return the planned action and the run after it, unless a lost ledger has decided them."""
        if planned[0] not in _OF_LOST or not self._is_ledger_lost(file):
            return *planned, after
        gone = after and replace(after, object="", files={}, demand=NOTHING)
        if before is None or not before.object:
            return Action.UNCHANGED, "", gone
        path = ledger_path(file.environment)
        why = f"{path} has errors; nothing is rendered, and {before.object} stays as it is"
        return Action.BROKEN, why, gone

    @tracked(same=eq)
    def _newly_waived(self, file: JobFile) -> int:
        """Return how many rules a job's spec waives and did not waive, or not as long, before."""
        was, now = (_waivers(side, file) for side in (self.before, self.after))
        return len(now - was)

    def _waived(self, file: JobFile) -> tuple[Waiver, ...]:
        now, environment = self._now(file), self._environment_of(file.environment)
        if now is None or environment is None:
            return ()
        findings = JobFindings(file.name, now.findings, now.waivers)
        return waived(environment, findings, self._options.today)

    def _shared_object(
        self,
        file: JobFile,
        before: PlannedRun | None,
        after: PlannedRun | None,
        planned: actions.PlannedAction,
    ) -> actions.PlannedAction:
        """Return the planned action, adjusted to an object that another job has, too: before the
        merge where the job starts with it, or after it where the job loses it.
        """
        action, why = planned
        others = tuple(self._from_another(file)) if action in _MAKES else ()
        if action is Action.STARTED:
            why = "; ".join((why, *others))
        elif others:  # an adopted object that git has already
            action, why = Action.IN_PLACE, "; ".join(others)
        keeper = self._keeper(file) if action in _LEAVES else None
        if keeper is None or before is None:
            return action, why
        if actions.is_kept(before, after, self._applying(file.environment)):
            return Action.IN_PLACE, f"{before.object} goes on as the run of {keeper}"
        again = "which makes it again: it then trains from the start"
        return action, f"{why}; it is the run of {keeper}, too, {again}"

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
            run = self._was(gone)
            on = actions.goes_on(run, None, self._environment_of(file.environment))
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
    def _rendered_files(self) -> frozenset[JobFile]:
        parts = (path.split("/") for path in self.changed)
        return frozenset(JobFile(p[1], p[3]) for p in parts if len(p) > 4 and p[2] == RENDERED)

    @tracked(same=eq)
    def _is_rendered(self, file: JobFile) -> bool:
        """Whether a run's rendered files changed: they are applied, whatever the specs say."""
        torn = self.after.folder(file.environment).is_unreadable(file.name)
        return not torn and (file in self._rendered_files() or file in self._relisted())

    def _applied(
        self, file: JobFile, before: PlannedRun | None, after: PlannedRun | None
    ) -> actions.PlannedAction:
        """Return what happens to a job, judged by its run's rendered files on both sides."""
        environment = self._applying(file.environment)
        planned = actions.decide(before, after, environment)
        gone = before and before.object and not (after and after.object)
        if gone and self.after.has(file) and (after is None or after.state not in ENDED):
            assert before is not None
            gone_by = actions.removed(before, environment)
            return planned[0], f"nothing of it is listed any more; {gone_by}"
        return self._again(file, before, after, planned)

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

    def _again(
        self,
        file: JobFile,
        before: PlannedRun | None,
        after: PlannedRun | None,
        planned: actions.PlannedAction,
    ) -> actions.PlannedAction:
        """Return the planned action, adjusted to an earlier run of the same spec, if any."""
        action, why = planned
        if after is not None and after.object in self._back_of(file):
            return action, f"{why}; {self._met(file, after)}"
        if action is Action.NEW_RUN and self._stayed(file):
            folder = f"{self.before.folder(file.environment).path}/{file.name}"
            command = f"git checkout {self._earlier.commit[:12]} -- {folder}"
            return (
                action,
                f"{why}; its file requests no other run than before: keep it by `{command}`",
            )
        decision = self._decided(self.after, file)
        was = self.before.job(file).record if self.before.has(file) else None
        if decision is None or was is None or decision.state != "finished":
            return planned
        if finished_as(was, file.name, self.after.ledger(file.environment)) == decision.name:
            return planned
        again = (
            f"{decision.name} has finished with the same spec, by the ledger, and nothing trains: "
            "`trainwright rerun` begins another run"
        )
        if before is None or not before.object:
            return Action.RETIRED, again
        environment = self._environment_of(file.environment)
        return Action.RETIRED, f"{again}; {actions.removed(before, environment)}"

    def _met(self, file: JobFile, after: PlannedRun) -> str:
        """Return, in words, what happens to a run whose object may still be in the cluster."""
        there = replace(after, files=self._earlier.texts(file, after.object) or after.files)
        environment = self._environment_of(file.environment)
        action, why = actions.decide(there, after, environment)
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
        was = self.before.folder(file.environment).record(file.name)
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
            was = self.before.folder(file.environment).record(file.name)
            if now and not (was and was.object == now and was.state not in ENDED):
                objects[file] = now
        earlier = self._earlier.objects(objects)
        return {file: frozenset({name} & earlier[file]) for file, name in objects.items()}

    def _begun(self, file: JobFile) -> str:
        """Return the object of the run that continues after the merge: that of its files, even if
        no source renders them; empty if none continues.
        """
        record = self.after.folder(file.environment).record(file.name)
        if self._is_forged(file) and record is not None and record.state not in ENDED:
            return record.object
        decision = self._decided(self.after, file)
        return decision.name if decision is not None and decision.step is not Step.END else ""

    def _was(self, file: JobFile) -> PlannedRun | None:
        """The run that is applied now."""
        if not self.before.has(file):
            return None
        rendered = self._was_rendered.get(file)
        if rendered is None:
            return self.before.applied(file)
        return self.before.after(file, rendered, None)

    def _held(self, file: JobFile) -> tuple[ValueChange, ...]:
        """Return the values that outdate the run of a job after the merge, but did not before."""
        new = self._settled(file)
        if new is None:
            return ()
        old = self._decided(self.before, file)
        held_before = {(held.path, repr(held.after)) for held in old.held} if old else set()
        return tuple(
            replace(held, note="")
            for held in new.held
            if (held.path, repr(held.after)) not in held_before and held.path not in OF_WIRING
        )

    def _otherwise(self, file: JobFile) -> tuple[ValueChange, ...]:
        """Return the values in which a run that begins differs from its sources after the merge."""
        begins = self._is_rendered(file) and not any(self._from_another(file))
        new = self._settled(file) if begins else None
        return new.held if new else ()

    def _untaken(self, file: JobFile) -> Iterator[str]:
        """Yield each edit of a job's own file that its run could have taken, and why it waits."""
        new = self._settled(file)
        for held in new.held if new else ():
            if held.note:
                yield f"{held.path.dotted} waits for the next run: {held.note}"

    def _settled(self, file: JobFile) -> Decision | None:
        """Return the decision about a job, which is known once it is rendered."""
        rendered = self._now(file)
        return rendered.decision if rendered else None

    @staticmethod
    def _decided(side: Revision, file: JobFile) -> Decision | None:
        return side.job(file).decision if side.has(file) else None

    def _causes(self, file: JobFile, action: Action) -> Iterator[ValueChange]:
        if action is Action.ADOPTED:
            yield ValueChange.noted("the adopted object", Location(adopted.path(file)))
            return
        if action is Action.BROKEN and self._is_ledger_lost(file):
            place = self.after.ledger(file.environment).findings[0].place
            yield ValueChange.noted("the ledger has errors", place)
            return
        both = self.before.has(file) and self.after.has(file)
        was, now = (side.job(file) if both else None for side in (self.before, self.after))
        if not (was and now and was.loaded.spec and now.loaded.spec):
            note = "job spec with errors"
            if not both:
                note = "new job spec" if self.after.has(file) else "job spec removed"
            yield ValueChange.noted(note, Location(file.path))
            return
        reasons = [*self._edits(file, was, now), *self._of_ledgers(file)]
        if was.record is not None and (action in _BEGINS or not reasons):
            # What earlier edits of shared files have left for the next run, which this one is.
            left = {cause.path for cause in (*reasons, *self._otherwise(file))}
            waited = causes.of_record(was.record, now.loaded.spec)
            reasons += [cause for cause in waited if cause.path not in left]
        yield from reasons or (self._unspecified(file),)

    def _of_ledgers(self, file: JobFile) -> Iterator[ValueChange]:
        old, new = (side.ledger(file.environment) for side in (self.before, self.after))
        return causes.of_ledgers(old, new, file.name)

    def _unspecified(self, file: JobFile) -> ValueChange:
        """Return the cause of a job's change that no line of a spec accounts for."""
        record = records.path(file.environment, file.name)
        if record in self.changed:
            return ValueChange.noted("the record of its run", Location(record))
        note = "no value of the spec, only what is rendered for it"
        return ValueChange.noted(note, Location(file.path))

    def _edits(self, file: JobFile, was: ResolvedJob, now: ResolvedJob) -> Iterator[ValueChange]:
        """The values that differ between the specs of a job, and between its environments."""
        assert was.loaded.spec
        assert now.loaded.spec
        yield from causes.of_specs(was.loaded.spec, now.loaded.spec)
        old = self.before.loaded(file.environment).document
        new = self.after.loaded(file.environment).document
        if old and new:
            job = now.job or was.job  # of a job with errors, as it was
            pool = job.pool.name if job and job.pool else ""
            yield from causes.of_environments(old, new, pool)

    # --- sums --------------------------------------------------------------------------------

    def environments(self) -> Iterator[EnvironmentPlan]:
        """Each selected environment, with the sums over everything that is active in it."""
        return map(self._environment, self._selected().names)

    @tracked(same=_are_same)
    def _changes_in(self, name: str) -> tuple[JobChange, ...]:
        return tuple(change for change in self.changes if change.file.environment == name)

    @tracked()
    def _environment(self, name: str) -> EnvironmentPlan:
        environment, changes = self._environment_of(name), self._changes_in(name)
        demands = [(it.job, it.demand) for it in self._asking(name, changes) if it.job]
        demands += self._left(changes)
        after = demand.total(requested for _, requested in demands)
        before = after - demand.total(change.delta for change in changes)
        demands_before = None
        if self._has_other_limits(name):
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
            objects=self._objects(name),
            uses=tuple(uses.uses(changes, demands, fits, demands_before)),
            currency=environment.currency if environment else "USD",
        )

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
        """Yield what each job requests before the merge. That of an `unchanged` one is read after
        it, where it is known already.
        """
        for file in self.before.survey.jobs.get(name, ()):
            asking = (self.after if file in unchanged else self.before).asking(file)
            if asking.job:
                yield asking.job, asking.demand

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

    @tracked()
    def _objects(self, name: str) -> tuple[ObjectChange, ...]:
        """Return the changed additional objects of an environment if all of it is selected."""
        if name not in self._selected().whole:
            return ()
        return tuple(object_changes.changes(self.before, self.after, name))

    def _asking(self, name: str, changes: tuple[JobChange, ...]) -> Iterator[Asking]:
        """Yield what each job requests after the merge. A job of which nothing is applied is left
        out: of it only what keeps running counts, whatever its spec requests.
        """
        nothing = {c.file for c in changes if c.after is None or not c.after.object}
        lost = self._has_lost_ledger(name)
        for file in self.after.survey.jobs.get(name, ()):
            ended = lost and self.before.has(file) and self.before.job(file).finished
            if file not in nothing and not ended:
                yield self.after.asking(file)

    def _left(self, changes: tuple[JobChange, ...]) -> Iterator[tuple[Job, Demand]]:
        """Yield each job that goes on although a change removes it from git, and its demand."""
        for change in changes:
            job = self.before.job(change.file).job if change.left != NOTHING else None
            if job is not None:
                yield job, change.left

    def blast(self) -> Iterator[SharedFileImpact]:
        """Each shared file that changed, with the jobs that read it and that something happens to.

        A job's own file is not shared, unless others extend it.
        """
        readers: dict[str, list[JobChange]] = {}
        for change in self.changes:
            for path in self._shared(change):
                readers.setdefault(path, []).append(change)
        for path, changes in sorted(readers.items()):
            counts = Counter(change.action for change in changes)
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
                new_runs=counts[Action.NEW_RUN],
                held=counts[Action.OUTDATED],
                causes=tuple(distinct.values()),
            )

    def _shared(self, change: JobChange) -> frozenset[str]:
        """Return the changed files that a job shares with others and that caused its change."""
        resolved = self.after.job(change.file) if self.after.has(change.file) else None
        read = resolved.loaded.files if resolved else ()
        own = {change.file.path, adopted.path(change.file)}
        if resolved and resolved.sources:
            own |= {path for _, path in files.named(resolved.sources.own)}
        changed = frozenset(read) & self.changed - own
        if change.action is not Action.OUTDATED:
            return changed
        return changed & {cause.place.file for cause in change.causes} or changed

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
        rendered = map(self._rendered, filter(self.after.has, self._files_in(name)))
        checked = [JobFindings(it.file.name, it.findings, it.waivers) for it in rendered]
        checked += [
            JobFindings(file.name, (self._unknown(file),), ())
            for file in self._unreadable()
            if file.environment == name
        ]
        if unseen := self.after.ledger(name).unseen:
            checked.append(JobFindings("", tuple(deception.in_lines(unseen, name)), ()))
        if self._objects(name):
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
    folder = f"/{environment_path(file.environment).rpartition('/')[0]}/{RENDERED}/{file.name}"
    return any(line.rstrip("'\" ").endswith(folder) for line in side.reader.lines(path))


def _waivers(side: Revision, file: JobFile) -> set[tuple[str, str]]:
    """Return the rules that a job's spec waives, each with the last day."""
    spec = side.job(file).loaded.spec if side.has(file) else None
    waivers = mapping(spec.data.get("waivers")) if spec else {}
    return {(rule, str(mapping(waiver).get("until"))) for rule, waiver in waivers.items()}


def _content(spec: Layered) -> str:
    """Return a digest of all values of a spec but its name."""
    return digest_of_data({key: value for key, value in spec.data.items() if key != "name"})


def _differ(before: PlannedRun | None, after: PlannedRun | None) -> bool:
    return (before.files if before else {}) != (after.files if after else {})


_MAKES = frozenset({Action.STARTED, Action.ADOPTED})
_LEAVES = frozenset({Action.LEFT, Action.DELETED, Action.CANCELLED})
_OF_LOST = frozenset({Action.BROKEN, Action.DELETED, Action.LEFT})
_BEGINS = frozenset({Action.STARTED, Action.NEW_RUN})
# Actions that need no newly rendered files.
_AS_RENDERED = frozenset({Action.UNCHANGED, Action.OUTDATED, Action.BROKEN})
# How the API server answers the edit of an existing object.
_API_ANSWERS = {Action.REJECTED: "refused by the API", Action.IGNORED: "ignored"}


def _waits_behind(
    action: Action,
    before: PlannedRun | None,
    after: PlannedRun | None,
    environment: Environment | None,
) -> str:
    """Return that a new run waits for GPUs of its queue which the run that it replaces holds; "" if
    the queue's quota has room for both, or the old run ends.
    """
    end = actions.ending(action, before, environment)
    if action is not Action.NEW_RUN or end is None or not end.waits or not (before and after):
        return ""
    quota = environment.queues.get(after.queue) if environment else None
    if quota is None or before.queue != after.queue or after.state != "active":
        return ""
    short = before.demand.gpus.low + after.demand.gpus.low - quota
    if short <= 0:
        return ""
    gpus = gpus_of(Range(short, short))
    return f"{after.object} waits for {gpus} of queue {after.queue}, which {before.object} holds"


def _is_unrendered(action: Action, after: PlannedRun | None) -> bool:
    """Whether errors keep a job from being rendered, so that its run stays as it is."""
    return action is Action.BROKEN and (after is None or not after.object)
