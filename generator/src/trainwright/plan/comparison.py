"""Two sides of a merge compared: what each job of it comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from trainwright.frozen import dataclass
from trainwright.model import Finding, Job, Location, Severity
from trainwright.plan import actions, affected, causes, own_objects
from trainwright.plan.earlier import Earlier
from trainwright.plan.model import (
    Action,
    Cause,
    CrdVerdict,
    EnvironmentPlan,
    JobChange,
    ObjectChange,
    Plan,
    PlannedRun,
    SharedFileImpact,
)
from trainwright.plan.sides import Side
from trainwright.pointer import Pointer
from trainwright.render.history import History
from trainwright.render.job import Rendered
from trainwright.render.policy import has_unknown_run, unknown_run
from trainwright.reports import redacted
from trainwright.rules.policy import JobFindings, apply_policy, distinct
from trainwright.runs import record as records
from trainwright.runs.decision import Decision, Step, asks, finished_as
from trainwright.specs import capacity, demand, files, git
from trainwright.specs.demand import NOTHING, Demand
from trainwright.specs.load import RENDERED, JobFile
from trainwright.specs.select import select
from trainwright.specs.tree import Folder, Tree
from trainwright.workspace import ResolvedJob


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """What to compare: `against` is a revision, `head` another or, when None, what is on disk."""

    against: str
    head: str | None
    today: str  # ISO date, for the expiry of waivers
    helm: str | None = None
    crds: Path | None = None  # definitions whose rules about changes are asked, too


def plan(root: Path, patterns: tuple[str, ...], options: PlanOptions) -> Plan:
    """What merging `head` into `against` will do to the selected jobs.

    The base is the newest commit that both share, so that what others merged meanwhile does not
    show as undone; `behind` counts their commits.
    """
    repository, inside = git.find(root)
    tip = options.head or "HEAD"
    base = repository.merge_base(options.against, tip)
    head = repository.commit(options.head) if options.head else None
    changed = repository.changed(base, inside, head)
    tree: Tree = repository.tree(head, inside, later=RENDERED) if head else Folder(root)
    before = Side(repository.tree(base, inside, later=RENDERED))
    compared = _Comparison(
        before=before,
        after=Side(tree, earlier=before),
        changed=changed,
        patterns=patterns,
        options=options,
        earlier=Earlier(repository, base, inside),
        history=History(root, tip=head or "HEAD"),
    )
    findings = tuple(map(redacted, compared.findings))
    environments, blast = tuple(compared.environments()), tuple(compared.blast())
    places = {finding.place for finding in findings}
    places |= {c.place for one in environments for change in one.changes for c in change.causes}
    places |= {cause.place for file in blast for cause in file.causes}
    return Plan(
        base=base,
        head=head or "",
        behind=int(repository.line("rev-list", "--count", f"{base}..{options.against}", "--")),
        environments=environments,
        blast=blast,
        findings=findings,
        sources={
            path: compared.after.reader.lines(path)
            for path in sorted({place.file for place in places})
            if tree.kind(path) == "file"
        },
    )


class _Comparison:
    """What is worked out once and used by several parts of a review."""

    def __init__(
        self,
        *,
        before: Side,
        after: Side,
        changed: frozenset[str],
        patterns: tuple[str, ...],
        options: PlanOptions,
        earlier: Earlier,
        history: History,
    ):
        self.before, self.after = before, after
        self._earlier = earlier
        self._history = history
        self._changed = changed
        self._options = options
        old, new = before.survey.jobs, after.survey.jobs
        both = {
            name: tuple(sorted({*old.get(name, ()), *new.get(name, ())}))
            for name in sorted({*old, *new})
        }
        chosen = select(patterns, both)
        selected = {file for selection in chosen for file in selection.jobs}
        self._names = tuple(selection.environment for selection in chosen)
        self._whole = frozenset(s.environment for s in chosen if s.whole)
        self._files = tuple(sorted(selected & affected.jobs(before, after, changed)))

    # --- changes -----------------------------------------------------------------------------

    @cached_property
    def _before(self) -> Mapping[JobFile, Rendered]:
        """What the base renders to, where that is not committed."""
        files = (file for file in self._files if self.before.has(file))
        missing = tuple(file for file in files if self.before.applied(file) is None)
        return self.before.render(missing, self._options.helm, new_runs=True)

    @cached_property
    def _after(self) -> Mapping[JobFile, Rendered]:
        files = tuple(file for file in self._files if self.after.has(file))
        return self.after.render(files, self._options.helm)

    @cached_property
    def changes(self) -> tuple[JobChange, ...]:
        """What happens to each job to which anything happens."""
        return self._crd_verdict.changes

    @cached_property
    def _crd_verdict(self) -> CrdVerdict:
        """The changes, with what the definitions that were given say about them."""
        found = map(self._change, self._files)
        changes = tuple(change for change in found if change.action is not Action.UNCHANGED)
        if self._options.crds is None:
            return CrdVerdict(changes, ())
        from trainwright.plan import definitions  # 0.2 s, and few plans are given any

        return definitions.ask(self._options.crds, changes)

    @cached_property
    def _unreadable(self) -> tuple[JobFile, ...]:
        """The jobs whose record cannot be read, and is in no commit as it was."""
        found = tuple(
            file for file in self._files if self.after.has(file) and self._may_have_run(file)
        )
        known = self._history.recorded(found)
        return tuple(file for file in found if file not in known)

    def _may_have_run(self, file: JobFile) -> bool:
        folder, decision = self.after.folder(file.environment), self._decided(self.after, file)
        begins = decision.name if decision else ""
        return has_unknown_run(folder, file, begins)

    def _change(self, file: JobFile) -> JobChange:
        now = self._after.get(file)
        before = self._was(file)
        after = self.after.after(file, now, before) if now else None
        errors = self._errors[str(file)]
        if errors or (now is not None and not now.usable):
            message = f"errors: {errors}" if errors else "its environment has errors"
            action, why = Action.BROKEN, f"{message}; nothing is rendered"
        else:
            environment = self.after.environments.get(file.environment)
            action, why = actions.decide(before, after, environment)
            action, why = self._again(file, before, after, (action, why))
        held = self._held(file) if action is Action.UNCHANGED else ()
        if held:
            action, why = Action.HELD, "the run stays as it is; `trainwright rerun` takes it up"
        unchanged = action is Action.UNCHANGED
        stays = _is_unrendered(action, after) or actions.goes_on(before, after)
        return JobChange(
            file=file,
            action=action,
            why=why,
            before=before,
            after=after,
            causes=held or (() if unchanged else tuple(self._causes(file))),
            left=before.demand if before and stays else NOTHING,
        )

    def _again(
        self,
        file: JobFile,
        before: PlannedRun | None,
        after: PlannedRun | None,
        found: actions.PlannedAction,
    ) -> actions.PlannedAction:
        """What happens, with what an earlier run of the same spec makes of it."""
        action, why = found
        if after is not None and after.object in self._back:
            return action, f"{why}; {self._met(file, after)}"
        if action is Action.NEW_RUN and self._stayed(file):
            folder = f"{self.before.folder(file.environment).path}/{file.name}"
            command = f"git checkout {self._earlier.commit[:12]} -- {folder}"
            return (
                action,
                f"{why}; its file asks for no other run than before: keep it by `{command}`",
            )
        decision = self._decided(self.after, file)
        was = self.before.job(file).record if self.before.has(file) else None
        if decision is None or was is None or decision.state != "finished":
            return found
        if finished_as(was, file.name, self.after.ledger(file.environment)) == decision.name:
            return found
        again = (
            f"{decision.name} has finished with the same spec, by the ledger, and nothing trains: "
            "`trainwright rerun` begins another run"
        )
        gone = f"; {actions.removed(before)}" if before is not None and before.object else ""
        return Action.RETIRED, again + gone

    def _met(self, file: JobFile, after: PlannedRun) -> str:
        """What a run comes to whose object may be in the cluster from before."""
        there = replace(after, files=self._earlier.texts(file, after.object) or after.files)
        environment = self.after.environments.get(file.environment)
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

    @cached_property
    def _back(self) -> frozenset[str]:
        """The objects of runs that are there after the merge, not before it, and were once."""
        found: dict[JobFile, str] = {}
        for file in self._files:
            now = self._decided(self.after, file)
            was = self.before.folder(file.environment).record(file.name)
            if (
                now is not None
                and now.step is not Step.END
                and not (was and was.object == now.name)
            ):
                found[file] = now.name
        return frozenset(found.values()) & self._earlier.objects(found)

    def _was(self, file: JobFile) -> PlannedRun | None:
        """The run that is applied now."""
        if not self.before.has(file):
            return None
        rendered = self._before.get(file)
        if rendered is None:
            return self.before.applied(file)
        return self.before.after(file, rendered, None)

    def _held(self, file: JobFile) -> tuple[Cause, ...]:
        """What the run of a job is behind after the merge, and was not before."""
        new = self._decided(self.after, file)
        if new is None:
            return ()
        old = self._decided(self.before, file)
        known = {(held.path, repr(held.after)) for held in old.held} if old else set()
        return tuple(
            Cause(held.path, held.before, held.after, held.place)
            for held in new.held
            if (held.path, repr(held.after)) not in known
        )

    @staticmethod
    def _decided(side: Side, file: JobFile) -> Decision | None:
        return side.job(file).decision if side.has(file) else None

    def _causes(self, file: JobFile) -> Iterator[Cause]:
        both = self.before.has(file) and self.after.has(file)
        was, now = (side.job(file) if both else None for side in (self.before, self.after))
        if not (was and now and was.loaded.spec and now.loaded.spec):
            yield Cause(Pointer(), None, None, Location(file.path))
            return
        found = (*self._edits(file, was, now), *self._of_ledgers(file))
        if not found and was.record is not None:
            found = tuple(causes.of_record(was.record, now.loaded.spec))
        yield from found or (Cause(Pointer(), None, None, self._unspecified(file)),)

    def _of_ledgers(self, file: JobFile) -> Iterator[Cause]:
        old, new = (side.ledger(file.environment) for side in (self.before, self.after))
        return causes.of_ledgers(old, new, file.name)

    def _unspecified(self, file: JobFile) -> Location:
        """Where something changed for a job of which no line says anything else."""
        record = records.path(file.environment, file.name)
        return Location(record if record in self._changed else file.path)

    def _edits(self, file: JobFile, was: ResolvedJob, now: ResolvedJob) -> Iterator[Cause]:
        """The values that differ between the specs of a job, and between its environments."""
        assert was.loaded.spec
        assert now.loaded.spec
        yield from causes.of_specs(was.loaded.spec, now.loaded.spec)
        old = self.before.loaded(file.environment).document
        new = self.after.loaded(file.environment).document
        if old and new:
            pool = now.job.pool.name if now.job and now.job.pool else ""
            yield from causes.of_environments(old, new, pool)

    # --- sums --------------------------------------------------------------------------------

    def environments(self) -> Iterator[EnvironmentPlan]:
        """Each selected environment, with the sums over everything that is active in it."""
        for name in self._names:
            changes = tuple(change for change in self.changes if change.file.environment == name)
            environment = self.after.environments.get(name)
            demands = (*self._demands(name, changes), *self._left(changes))
            after = demand.total(asked for _, asked in demands)
            yield EnvironmentPlan(
                name=name,
                jobs=len(self.after.survey.jobs.get(name, ())),
                changes=changes,
                before=after - demand.total(change.delta for change in changes),
                after=after,
                asked=demand.total(change.asked for change in changes),
                fits=tuple(capacity.check_capacity(environment, demands)) if environment else (),
                objects=self._objects(name),
            )

    def _objects(self, name: str) -> tuple[ObjectChange, ...]:
        """The objects of one's own that change, where all of an environment is looked at."""
        if name not in self._whole:
            return ()
        return tuple(own_objects.changes(self.before, self.after, name))

    def _demands(self, name: str, changes: tuple[JobChange, ...]) -> Iterator[tuple[Job, Demand]]:
        """What is active after the merge. Of a job that is not rendered only what is left counts,
        whatever its spec asks for.
        """
        unrendered = {c.file for c in changes if _is_unrendered(c.action, c.after)}
        for file in self.after.survey.jobs.get(name, ()):
            job = None if file in unrendered else self.after.active(file)
            if job is not None:
                yield job, self.after.demand(job)

    def _left(self, changes: tuple[JobChange, ...]) -> Iterator[tuple[Job, Demand]]:
        """What goes on although these changes take it out of git."""
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
            held = (c for change in changes if change.action is Action.HELD for c in change.causes)
            distinct = {
                (c.pointer, repr(c.after)): c
                for c in held
                if c.place.file == path or c.place.file not in readers
            }
            yield SharedFileImpact(
                file=path,
                jobs=tuple(change.file for change in changes),
                new_runs=counts[Action.NEW_RUN],
                held=counts[Action.HELD],
                causes=tuple(distinct.values()),
            )

    def _shared(self, change: JobChange) -> frozenset[str]:
        """The changed files that a job shares with others and that made it change."""
        resolved = self.after.job(change.file) if self.after.has(change.file) else None
        read = resolved.loaded.files if resolved else ()
        own = {change.file.path}
        if resolved and resolved.sources:
            own |= {path for _, path in files.named(resolved.sources.own)}
        changed = frozenset(read) & self._changed - own
        if change.action is not Action.HELD:
            return changed
        return changed & {cause.place.file for cause in change.causes} or changed

    # --- findings ----------------------------------------------------------------------------

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with the jobs that the merge touches, after severities and waivers."""
        found = (*self.after.survey.findings, *self._job_findings, *self._crd_verdict.findings)
        return tuple(sorted(distinct(found), key=lambda finding: finding.order))

    @cached_property
    def _errors(self) -> Counter[str]:
        """How many errors each job has, by environment/job."""
        return Counter(f.subject for f in self._job_findings if f.severity is Severity.ERROR)

    @cached_property
    def _job_findings(self) -> tuple[Finding, ...]:
        return tuple(finding for name in self._names for finding in self._findings_of(name))

    def _unknown(self, file: JobFile) -> Finding:
        unreadable = self.after.folder(file.environment).is_unreadable(file.name)
        return unknown_run(file, there=unreadable)

    def _findings_of(self, name: str) -> tuple[Finding, ...]:
        environment = self.after.environments.get(name)
        if name not in self.after.survey.jobs:
            return ()
        if environment is None:
            return self.after.loaded(name).findings
        checked = [
            JobFindings(file.name, rendered.findings, rendered.waivers)
            for file, rendered in self._after.items()
            if file.environment == name
        ]
        checked += [
            JobFindings(file.name, (self._unknown(file),), ())
            for file in self._unreadable
            if file.environment == name
        ]
        if self._objects(name):
            checked.append(JobFindings("", own_objects.findings(self.after, name), ()))
        findings = apply_policy(environment, checked, self._options.today, whole=False)
        return (*findings, *self.after.ledger(name).findings)


# Of an edit of an object that is there.
_API_ANSWERS = {Action.REJECTED: "refused by the API", Action.IGNORED: "ignored"}


def _is_unrendered(action: Action, after: PlannedRun | None) -> bool:
    """Whether errors keep a job from being rendered, so that its run stays as it is."""
    return action is Action.BROKEN and (after is None or not after.object)
