"""A repository as a value: its environments, their jobs, and the run that each of these has."""

from __future__ import annotations

import enum
from collections.abc import Collection, Mapping
from dataclasses import replace
from difflib import get_close_matches
from operator import eq

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.errors import SelectionError
from trainwright.datatypes.finding import Finding, Severity, ValueChange
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.same import identical
from trainwright.documents.yamlio import Document
from trainwright.files.memo import Owner, tracked
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Tree
from trainwright.findings.diagnostics import CAPACITY
from trainwright.kinds.capabilities import attempts
from trainwright.runs import adopted as adoption
from trainwright.runs import identity, meaning, outgrown
from trainwright.runs.begin import begun
from trainwright.runs.decide import decide, finished_as, unchanged
from trainwright.runs.decision import Decision, Sources, Step
from trainwright.runs.folder import RenderedFolder
from trainwright.runs.record import ENDED, Record, Recorded
from trainwright.runs.recorded_job import (
    CannotAdjust,
    began_in,
    edited_job,
    edited_operation,
    in_same_pools,
    in_state,
    job_of,
    recorded_job,
)
from trainwright.specs import engine_files, files, inventory, layers, ledger, own_objects, resolve
from trainwright.specs.contradictions import contradictions
from trainwright.specs.demand import NOTHING, Demand, demand_of_job
from trainwright.specs.inventory import Inventory
from trainwright.specs.ledger import Ledger
from trainwright.specs.load import LoadedEnvironment, LoadedJob, Reader, unusable
from trainwright.specs.merge import BASE, JOB, ROLES, Layer, Layered, merge, stack
from trainwright.specs.own_objects import OwnObjects


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedJob:
    """A job as far as it can be known without rendering it.

    `sources` is None for a broken job, and `findings` say why. They are `outgrown` where it asks
    for more than its pool has and nothing else is wrong: what has a run may go on (see `decided`).
    `record` is that of its run, and `decision` what happens to the run; they are None if they were
    not asked for.
    """

    loaded: LoadedJob
    findings: tuple[Finding, ...] = ()
    sources: Sources | None = None
    outgrown: Sources | None = None
    record: Record | None = None
    decision: Decision | None = None

    @property
    def job(self) -> Job | None:
        return self.sources.job if self.sources else None

    @property
    def finished(self) -> bool:
        """Whether the run that it describes is over, by the ledger."""
        return self.decision is not None and self.decision.finished


def resolved(
    loaded: LoadedJob, environment: Environment | None, adopted: adoption.Reading = None
) -> ResolvedJob:
    """Return a job resolved in its environment, regardless of its run."""
    if loaded.spec is None or environment is None:
        return ResolvedJob(loaded=loaded, findings=loaded.findings)
    job = resolve.typed(loaded.spec, environment, loaded.file.path)
    problems = tuple(contradictions(job, loaded.spec, environment))
    broken = ResolvedJob(loaded=loaded, findings=(*loaded.findings, *problems))
    if any(problem.rule != CAPACITY.id for problem in problems):
        return broken
    if isinstance(adopted, tuple):
        return replace(broken, findings=(*broken.findings, *adopted))
    sources = Sources(spec=loaded.spec, job=job, environment=environment, adopted=adopted)
    if problems:
        return replace(broken, outgrown=sources)
    return replace(broken, sources=sources)


def decided(job: ResolvedJob, record: Record | None, entries: Ledger) -> ResolvedJob:
    """Return a job beside its recorded run, with what happens to that: asking for more than its
    pool has is a warning while the run goes on, and nothing once it is over.
    """
    job = replace(job, record=record)
    sources = job.sources or (job.outgrown if record else None)
    if sources is None:
        return job
    decision, findings = decide(sources, record, entries), job.findings
    if job.sources is None:
        findings, errors = job.loaded.findings, findings[len(job.loaded.findings) :]
        if outgrown.goes_on(decision):
            findings += tuple(outgrown.of_spec(errors, sources, decision))
        elif decision.step is not Step.END:
            return job
    return replace(job, sources=sources, findings=findings, decision=decision)


class RunState(enum.StrEnum):
    """The state of a run in git, whatever the cluster has of it."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    NOT_RENDERED = "not rendered"
    UNREADABLE = "unreadable"  # there is a record of it that cannot be understood
    CANCELLED = "cancelled"
    RETIRED = "retired"
    NOT_IN_GIT = "not in git"  # only the cluster has it

    @property
    def is_over(self) -> bool:
        """Whether, by git, nothing of the run belongs in the cluster any more."""
        return self in (RunState.CANCELLED, RunState.RETIRED)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """The run of a job in git, and the changes that it does not have.

    `outcome` is that of a retired one. `object` and `target` are empty if there never was a run.
    """

    object: str
    target: str
    state: RunState
    outcome: str = ""
    held: tuple[ValueChange, ...] = ()

    @property
    def status(self) -> str:
        """Its state for people."""
        return f"{self.state}: {self.outcome}" if self.outcome else self.state


@dataclass(frozen=True, slots=True)
class Asking:
    """The resources that a job's run requests: no job and no demand if no run is going on."""

    job: Job | None
    demand: Demand


class Workspace(Owner):
    """The specs of one folder or commit, each read once.

    `rendered` is where the runs are kept, if not beside the specs. Runs of another workspace,
    `earlier`, are used where none are kept there. `kubernetes` is a minor version that replaces
    each environment's own.
    """

    def __init__(
        self,
        tree: Tree,
        *,
        rendered: Tree | None = None,
        earlier: Workspace | None = None,
        kubernetes: str = "",
    ):
        self.reader = Reader(tree)
        self.tree = self.reader.tree
        super().__init__(self.tree.memo)
        self.kubernetes = kubernetes
        self.rendered_tree = (
            self.tree if rendered in (None, tree) else Tracked.of(rendered, self.memo)
        )
        self._earlier = earlier
        self._folders: dict[str, RenderedFolder] = {}

    def edit(
        self, changed: Collection[str], tree: Tree | None = None, rendered: Tree | None = None
    ) -> None:
        """Go on with trees in which some files and folders have changed."""
        self.tree.edit(changed, tree)
        if self.rendered_tree is not self.tree:
            self.rendered_tree.edit(changed, rendered)

    @property
    @tracked(same=eq)
    def survey(self) -> Inventory:
        """The environments and their jobs; none before the first commit of an environment."""
        return inventory.survey(self.reader)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about misplaced files, and about files that change or hide rendered ones on the
        way to the cluster or to reviewers.
        """
        return (*self.survey.findings, *self._engine_files())

    @tracked(same=eq)
    def _engine_files(self) -> tuple[Finding, ...]:
        jobs = self.survey.jobs
        return (*engine_files.findings(self.tree, jobs), *engine_files.hidden(self.tree, jobs))

    def loaded(self, name: str) -> LoadedEnvironment:
        """Return an environment's own file and the layers below each of its jobs."""
        return self.reader.environment(name)

    @property
    @tracked()
    def environments(self) -> Mapping[str, Environment]:
        """The environments whose own file is sound."""
        environments = {name: self.sound(name) for name in self.survey.jobs}
        return {name: environment for name, environment in environments.items() if environment}

    @tracked()
    def sound(self, name: str) -> Environment | None:
        """Return an environment, or None if its own file is not usable."""
        loaded = self.loaded(name)
        if loaded.document is None:
            return None
        gitops = layers.of_gitops(loaded.layers).data
        environment = resolve.environment(name, loaded.document, gitops)
        if self.kubernetes:
            environment = replace(environment, kubernetes_version=self.kubernetes)
        return environment

    def environment(self, name: str) -> Environment:
        """Return an environment.

        Raise SelectionError if there is none of that name, SourceError if it is broken.
        """
        self.require(name)
        usable = self.sound(name)
        if usable is None:
            raise unusable(self.loaded(name).findings, name)
        return usable

    def require(self, name: str) -> None:
        """Raise SelectionError if there is no such environment."""
        if name not in self.survey.jobs:
            near = get_close_matches(name, self.survey.jobs, n=3, cutoff=0.6)
            listing = "see `trainwright list environments`"
            hint = f"did you mean {' or '.join(near)}?" if near else listing
            raise SelectionError(f'there is no environment "{name}"; {hint}')

    def spec(self, file: JobFile) -> Layered:
        """Return a job's merged spec, valid or not. Raise SourceError if it has none."""
        loaded = self.reader.job(file)
        if loaded.spec is None:
            raise unusable(loaded.findings, file)
        return loaded.spec

    @tracked()
    def ledger(self, environment: str) -> Ledger:
        """Return the finished runs of an environment."""
        return ledger.read(self.reader, environment)

    @tracked()
    def own_objects(self, environment: str) -> OwnObjects:
        """Return the hand-written objects of an environment."""
        return own_objects.read(self.reader, environment)

    def demand(self, job: Job) -> Demand:
        """Return the resources that a job requests, over all attempts that its target gives it."""
        environment = self.sound(job.environment)
        has_target = environment is not None and job.target in environment.targets
        return demand_of_job(job, attempts(job, environment) if has_target and environment else 1)

    def folder(self, environment: str) -> RenderedFolder:
        """Return the rendered files of an environment, and the records of its runs."""
        if environment not in self._folders:
            self._folders[environment] = RenderedFolder(self.rendered_tree, environment)
        return self._folders[environment]

    @tracked()
    def job(self, file: JobFile) -> ResolvedJob:
        """Return a job merged and resolved, with what happens to its run (cached)."""
        resolved_job, record = self.resolve(file), self.record(file)
        is_sound = resolved_job.sources or resolved_job.outgrown
        if record is None and is_sound and self._earlier is not None:
            earlier = self._earlier.recorded(file)
            record = earlier.record if earlier else None
        if resolved_job.sources and record is not None and self._current(file, record) is not None:
            return replace(resolved_job, record=record, decision=unchanged(record))
        return decided(resolved_job, record, self.ledger(file.environment))

    def has(self, file: JobFile) -> bool:
        """Whether there is a file of a job."""
        return file in self._files()

    @tracked()
    def _files(self) -> frozenset[JobFile]:
        return frozenset(file for jobs in self.survey.jobs.values() for file in jobs)

    def resolve(self, file: JobFile) -> ResolvedJob:
        """Return a job merged and resolved, regardless of its run."""
        loaded, adopted = self.reader.job(file), self.adopted(file)
        if adopted is not None:
            loaded = replace(loaded, files=(*loaded.files, adoption.path(file)))
        return resolved(loaded, self.sound(file.environment), adopted)

    def adopted(self, file: JobFile) -> adoption.Reading:
        """Return the object that the first run of a job is, if that was in the cluster before."""
        return adoption.read(self.reader, file)

    def recorded(self, file: JobFile) -> Recorded | None:
        """Return the run that a job has, as recorded here or in the `earlier` workspace, or else as
        its sources describe it; None if they are broken or there is no such job.

        If nothing is rendered beside the specs, a renderer elsewhere is assumed to have begun a
        run of what they say.
        """
        run = self.known(file)
        if run or not self.has(file):
            return run
        resolved = self.job(file)
        if resolved.sources is None or resolved.decision is None:
            return None
        record = begun(resolved.sources, resolved.decision, resolved.loaded.source)
        return Recorded(record, self.tree, "", intact=True)

    def known(self, file: JobFile) -> Recorded | None:
        """Return the run of a job that is recorded here or in the `earlier` workspace, or None if
        it has none yet.
        """
        rendered = self.rendered(file)
        if rendered or self._earlier is None or not self.has(file):
            return rendered
        return self._earlier.recorded(file) if self.job(file).record else None

    def record(self, file: JobFile) -> Record | None:
        """Return the record of the run that was rendered for a job here, or None if there is none.

        See `RenderedFolder.record`.
        """
        return self.folder(file.environment).record(file.name)

    def rendered(self, file: JobFile) -> Recorded | None:
        """Return the run that was rendered for a job here, or None if there is none."""
        return self.folder(file.environment).recorded(file.name)

    def current_job(self, file: JobFile) -> Job | None:
        """Return the job of a run that is going on and up to date (waivers aside), or None.

        Its specs need not be parsed.
        """
        record = self.record(file)
        going_on = record is not None and record.state not in ENDED
        return self._sound(file, record) if record and going_on else None

    def is_usable(self, file: JobFile, record: Record) -> bool:
        """Whether a job has no errors by itself, as where its environment lacks what it names; of a
        run that is up to date no spec is parsed.
        """
        if self._sound(file, record) is not None:
            return True
        return not any(it.severity is Severity.ERROR for it in self.job(file).findings)

    def _sound(self, file: JobFile, record: Record) -> Job | None:
        """Return the job of a run that is up to date, unless something is wrong with it."""
        job, environment = self._current(file, record), self.sound(file.environment)
        if job is None or environment is None:
            return None
        spec = Layered(record.spec, self.loaded(file.environment).layers)
        return None if any(contradictions(job, spec, environment)) else job

    @tracked()
    def asking(self, file: JobFile) -> Asking:
        """Return what a job requests (cached)."""
        job = self.current_job(file)
        return Asking(job, self.demand(job)) if job else self.asked_by(self.job(file))

    def asked_by(self, resolved: ResolvedJob) -> Asking:
        """Return what the run of a job requests; that of a broken job goes on as it is recorded."""
        if resolved.decision is None:
            job = self.as_recorded(resolved)
        else:
            job = None if resolved.decision.step is Step.END else self.running(resolved)
        return Asking(job, self.demand(job) if job else NOTHING)

    def as_recorded(self, resolved: ResolvedJob) -> Job | None:
        """Return a job as its run was rendered, or None if it has none that goes on."""
        record, file = resolved.record, resolved.loaded.file
        environment = self.environments.get(file.environment)
        if record is None or record.state in ENDED or environment is None:
            return None
        job = job_of(record, file, began_in(record, environment))
        return in_state(job, record) if job else None

    def running(self, resolved: ResolvedJob) -> Job | None:
        """Return the job as its run has it, which is the recorded one if the run lacks later
        changes; None if the job is broken.
        """
        sources, record, decision = resolved.sources, resolved.record, resolved.decision
        if sources is None or decision is None:
            return None
        if decision.step is Step.BEGIN or record is None or not decision.held:
            return sources.job
        try:
            recorded = recorded_job(record, sources)
        except CannotAdjust:
            return sources.job
        names = {*edited_operation(record, sources)}.difference(record.held)
        try:
            job = edited_job(recorded, sources, names)
        except CannotAdjust:
            job = recorded.job
        return replace(in_same_pools(job, sources.job), state=sources.job.state)

    # --- runs as they stand --------------------------------------------------------------------

    def run(self, file: JobFile) -> JobRun:
        """Return the run of a job. If it is up to date, this only costs reading its files."""
        folder = self.folder(file.environment)
        record = folder.record(file.name)
        if record is not None and self._current(file, record) is not None:
            return self._job_run(file, record.object, record.state, record)
        if folder.is_unreadable(file.name):
            return JobRun(object="", target="", state=RunState.UNREADABLE)
        resolved = self.job(file)
        record, decision = resolved.record, resolved.decision
        if decision is None:
            state = RunState.ACTIVE if record and record.files else RunState.NOT_RENDERED
            object_, target = (record.object, record.target) if record else ("", "")
            return JobRun(object=object_, target=target, state=state)
        rendered = record if record and record.files else None
        run = self._job_run(file, decision.name, decision.state, rendered)
        named = rendered or run.state is RunState.RETIRED
        return replace(
            run,
            object=(rendered.object if rendered else decision.name) if named else "",
            target=rendered.target if rendered else "",
            held=decision.held,
        )

    def _job_run(self, file: JobFile, name: str, state: str, rendered: Record | None) -> JobRun:
        """Return a run by its object's name; `rendered` is its record if it has rendered files."""
        target = rendered.target if rendered else ""
        if finished := self.ledger(file.environment).runs.get(name):
            over, outcome = RunState.RETIRED, finished.outcome
            return JobRun(object=name, target=target, state=over, outcome=outcome)
        in_git = RunState.NOT_RENDERED
        if state == "cancelled":
            in_git = RunState.CANCELLED
        elif rendered:
            in_git = RunState.SUSPENDED if state == "suspended" else RunState.ACTIVE
        return JobRun(object=name, target=target, state=in_git)

    def stays(self, file: JobFile, run: Recorded) -> bool:
        """Whether nothing needs doing for a job's run: its own file and its state are unchanged.

        False if that takes a closer look.
        """
        environment, record = self.sound(file.environment), run.record
        held = environment is not None and environment.shared_changes == "hold"
        at_hand = run.intact and run.here
        if not (held and at_hand and self._says_the_same(file, record)):
            return False
        # A cancelled or finished run stays so, whatever state other layers would give it.
        if record.state in ENDED:
            return True
        own, below = record.job.get("state"), self._below(file.environment, record).get("state")
        return bool(below) and record.state == (own if isinstance(own, str) else below)

    def _says_the_same(self, file: JobFile, record: Record) -> bool:
        """Whether a job's own file, and the ledger, are as when its run was recorded."""
        if self.reader.source(file.path) != record.source or not self._has_files(file, record):
            return False
        finished = bool(finished_as(record, file.name, self.ledger(file.environment)))
        return finished == (record.state == "finished")

    def _has_files(self, file: JobFile, record: Record) -> bool:
        """Whether the files that a job's own file names are those that its run began with."""
        then = files.digests(record.job)
        taken = self._taken(file) if then else None
        if taken is None:
            return not then
        return not taken.findings and files.digests(taken.spec.data) == then

    def _taken(self, file: JobFile) -> files.WithFiles | None:
        """Return the content of a job's own file with the files of the repository that it names.

        Return None if it cannot be read.
        """
        document = self.reader.document(file.path)
        if not isinstance(document, Document):
            return None
        return files.with_files(stack(layers.of_job([document])), self.reader)

    def _current(self, file: JobFile, record: Record) -> Job | None:
        """Return the job of a run that is up to date: nothing that it began with has changed since,
        in its own file or around it. None for any other run.
        """
        environment = self.sound(file.environment)
        if environment is None or record.held or not self._says_the_same(file, record):
            return None
        below = self._below(file.environment, record)
        if not meaning.says_the_same(below, record.inherited):
            return None
        if record.target not in environment.targets:
            return None
        job = job_of(record, file, environment)
        same = job is not None and identical(identity.facts(job, environment), record.environment)
        return job if same else None

    def _below(self, environment: str, record: Record) -> Mapping[str, Data]:
        """Return everything below the own file of a recorded run's job, merged as it is now."""
        extended = str(record.job.get("extends") or "")
        bases, below = self._bases(extended) or (), self.loaded(environment).layers
        pool = layers.chosen_pool(*(layer.data for layer in (*below, *bases)), record.job)
        inherited = self._inherited(environment, extended, pool)
        if not {*record.job, *inherited} & {ROLES}:
            return inherited
        own = Layer(JOB, Document(file="", data=record.job, places={}, keys={}))
        placed = layers.roles_on_pools(layers.stacked(below, (*bases, own)).layers)
        merged: Mapping[str, Data] = merge(stack(tuple(placed)).data, inherited)
        return merged

    @tracked()
    def _bases(self, extended: str) -> tuple[Layer, ...] | None:
        """Return the layers of a base and all that it extends, lowest first; None if broken."""
        findings: list[Finding] = []
        folder, _, name = extended.partition("/")
        chain = tuple(self.reader.chain(JobFile(folder, name), findings)) if extended else ()
        bases = tuple(Layer(BASE, document) for _, document in chain[::-1] if document)
        return None if findings else bases

    @tracked()
    def _inherited(self, environment: str, extended: str, pool: str) -> Mapping[str, Data]:
        """Return what any file on this base and pool inherits, merged; empty if broken."""
        bases, below = self._bases(extended), self.loaded(environment).layers
        inherited = (*below, *layers.of_pool(below, pool), *(bases or ()))
        taken = files.with_files(stack(inherited), self.reader)
        sound = bases is not None and not taken.findings
        return meaning.inherited(taken.spec.data) if sound else {}
