"""Renders everything selected and compares it with what is on disk, for every command."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from trainwright.datatypes import same
from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Location, Severity
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import (
    ENVIRONMENTS,
    WIRING,
    JobFile,
    environment_files,
    environment_path,
    rendered_folder,
)
from trainwright.datatypes.listing import listed
from trainwright.files import filetree, lineage, memory
from trainwright.files.filetree import Changes
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Folder, Tree
from trainwright.findings import diagnostics as dx
from trainwright.kinds import NAMED
from trainwright.objects.departure import Departure, applying, leaving
from trainwright.render import cache
from trainwright.render import derivation as derive
from trainwright.render.cache import Remembered
from trainwright.render.policy import EnvironmentCheck, has_unknown_run
from trainwright.runs import collisions, kustomization
from trainwright.runs import record as records
from trainwright.runs.decision import Decision, awaiting
from trainwright.runs.kustomization import KUSTOMIZATION_FILE
from trainwright.runs.record import ENDED, RECORD_FILE, Record, Recorded
from trainwright.runs.wiring_files import WiringFiles
from trainwright.runs.workspace import Asking, Workspace
from trainwright.specs import ledger, own_objects
from trainwright.specs.demand import Demand
from trainwright.specs.select import Selection, select
from trainwright.tasks import progress

if TYPE_CHECKING:
    from trainwright.render import batch
    from trainwright.render.history import History
    from trainwright.render.job import Rendered


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildOptions:
    """How to plan: `helm` names a binary to use instead of the embedded engine.

    With `proves`, each rendered file that cannot be derived from those of the base is a finding,
    and is not used for rendering further; `against` names the branch that this one is merged into.
    With `check_next_runs`, the next run of every job is checked, else only runs that begin. With
    `wired`, wiring beside the specs is a finding unless it is as it should be: what tells that is
    above this package. With `recover`, missing records are taken from git's history. `new_runs`
    lets runs begin in place of those whose beginning is unknown. `writes` says that the result will
    be written.
    """

    today: str  # ISO date, for the expiry of waivers
    helm: str | None = None
    kubernetes: str = ""  # a minor version instead of each environment's own
    use_cache: bool = True
    check_next_runs: bool = True
    new_runs: bool = False
    recover: bool = False
    writes: bool = False
    proves: bool = False
    against: str = ""
    wired: Callable[[Workspace], WiringFiles] = lambda _: WiringFiles()
    # What the runs of an environment request that go on although git has them no more.
    left: Callable[[Workspace, str], Sequence[Demand]] = lambda *_: ()


# The record of a job's run after rendering, what rendering decided, and what the run requests.
Settled: TypeAlias = tuple[Record, Decision | None, Demand]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentBuild:
    """One environment: what rendered/ should hold, how it differs on disk, and the findings.

    `changes` is None if errors leave nothing to write. `edited` are files that differ from what was
    rendered, since they were changed by hand. `underived` are findings about files that cannot be
    derived from the sources; rendering replaces these. `begun` are the records of the runs that
    begin, `left` the objects of runs that git no longer has. `staying` has those of these, and of
    runs that are replaced, that no GitOps engine deletes.
    `settled` has what became of the runs of jobs that had to be rendered.
    """

    name: str
    jobs: tuple[JobFile, ...]
    runs: Mapping[str, Record]
    findings: tuple[Finding, ...]
    changes: Changes | None
    edited: tuple[str, ...] = ()
    underived: tuple[Finding, ...] = ()
    begun: tuple[Record, ...] = ()
    left: tuple[str, ...] = ()
    staying: frozenset[str] = frozenset()
    settled: Mapping[JobFile, Settled] = field(default_factory=dict, compare=False, repr=False)

    @property
    def folder(self) -> str:
        return rendered_folder(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """All that was selected, and the files that findings point into."""

    environments: tuple[EnvironmentBuild, ...]
    findings: tuple[Finding, ...]  # of all environments, and of what belongs to none
    underived: tuple[Finding, ...]  # files that no sources lead to, if that was checked
    sources: Mapping[str, tuple[str, ...]]  # lines of every file that a finding names
    # What was read, for later questions, and the comparison with a commit, if there was one. They
    # are not compared: builds of the same files are equal.
    workspace: Workspace = field(compare=False, repr=False)
    derivation: derive.Derivation | None = field(compare=False, repr=False)

    @property
    def jobs(self) -> tuple[JobFile, ...]:
        return tuple(job for environment in self.environments for job in environment.jobs)

    @property
    def failed(self) -> bool:
        return any(finding.severity is Severity.ERROR for finding in self.findings)

    def asking(self, file: JobFile) -> Asking:
        """Return what a job requests once it is rendered; with errors, what its run does."""
        settled = (it.settled.get(file) for it in self.environments if it.name == file.environment)
        return _asking(self.workspace, file, next(settled, None))

    def is_outdated(self, file: JobFile) -> bool:
        """Whether the run of a job does not have all values of its sources."""
        return any(awaiting(self.workspace.run(file).held))

    def was_outdated(self, file: JobFile) -> bool:
        """Whether it was so in the base, by the same values."""
        if self.derivation is None:
            return False
        read = {*_read_by(self.workspace, file), *environment_files(file.environment)}
        if self.derivation.changed.isdisjoint(read):
            return True
        base = self.derivation.base
        was = file if base.has(file) else _renamed(self.workspace, base, file)
        before = base.run(was).held if was else ()
        return not any(awaiting(self.workspace.run(file).held, before))


def build(
    root: Path,
    patterns: tuple[str, ...],
    options: BuildOptions,
    specs: Tree | None = None,
    rendered: Tree | None = None,
    history: History | None = None,
) -> Build:
    """Load, merge, validate, render, check and compare the jobs that the patterns select.

    `specs` are read instead of those on disk, such as a commit's or edited ones. `rendered` is the
    tree with the runs, if not the one on disk; `history` is the history of that, if not HEAD's.
    """
    tree = Tracked.of(specs or Folder(root))
    kept = rendered or (Folder(root) if specs else None)
    workspace = Workspace(tree, rendered=kept, kubernetes=options.kubernetes)
    survey, reader = workspace.survey, workspace.reader
    # If there is nothing to select, findings may say why.
    nothing = not survey.jobs and bool(workspace.findings)
    selected = () if nothing else select(patterns, survey.jobs)
    derivation, uncompared = _derivation(root, workspace, options)
    if options.recover and history is None:
        from trainwright.render.history import History  # 20 ms, for rendering alone

        history = History(root, beside=rendered is None)
    work = [
        _Work(root, workspace, selection, history, options, derivation) for selection in selected
    ]
    _render(workspace, work, options)
    environments = tuple(item.finished() for item in work)
    underived = [finding for each in environments for finding in each.underived]
    if derivation is not None and not patterns:
        underived += map(derive.finding, derivation.orphans())
    proved = () if options.recover else underived
    everything = (
        *workspace.findings,
        *uncompared,
        *proved,
        *(finding for each in environments for finding in each.findings),
        *(() if options.recover else _unrendered(workspace, environments, derivation)),
        *_shared(workspace, environments),
        *_wiring(workspace, options, {each.name for each in environments}, whole=not patterns),
    )
    findings = tuple(sorted(dict.fromkeys(everything), key=lambda finding: finding.order))
    return Build(
        environments=environments,
        findings=findings,
        underived=tuple(sorted(underived, key=lambda finding: finding.order)),
        sources={
            path: reader.lines(path)
            for path in _files((*findings, *underived))
            if tree.kind(path) == "file"
        },
        workspace=workspace,
        derivation=derivation,
    )


def _wiring(
    workspace: Workspace, options: BuildOptions, names: Collection[str], *, whole: bool
) -> Iterator[Finding]:
    """Yield a finding if wiring of these environments is not as it should be, or cannot be; where
    they are all there are, also of what is left of others.
    """
    files = options.wired(workspace)
    # What jobs have is found anyway.
    yield from (it for it in (*files.refused, *files.warned) if it.subject in names)
    for path, message, remedy in (files if whole else files.of(names)).problems:
        yield dx.STALE_WIRING.at(Location(path), message, remedy=remedy, subject=WIRING)


def _asking(workspace: Workspace, file: JobFile, settled: Settled | None) -> Asking:
    """Return what a job requests by what rendering makes of its run, if that is known; with errors,
    what the run does that nothing then replaces.
    """
    if settled is not None:
        record, decision, _ = settled
        return workspace.asked_by(replace(workspace.job(file), record=record, decision=decision))
    return workspace.asking(file)


def _unrendered(
    workspace: Workspace,
    environments: tuple[EnvironmentBuild, ...],
    derivation: derive.Derivation | None,
) -> Iterator[Finding]:
    """Yield a finding for each environment with committed edits of specs that are not rendered, for
    each with rendered files, in no commit, of an edit that was taken back, and for each run whose
    record was removed by a commit.
    """
    if derivation is None:
        return
    for each in environments:
        changes = each.changes if workspace.folder(each.name).is_there else None
        paths = (*changes.written, *changes.removed) if changes else ()
        folders = {path.partition("/")[0] for path in paths if "/" in path}
        forged = {finding.subject for finding in each.underived}
        files = [JobFile(each.name, name) for name in sorted(folders - {own_objects.COPIES})]
        behind = [
            file
            for file in files
            if str(file) not in forged and derivation.is_committed(_read_by(workspace, file))
        ]
        edited = [
            file
            for file in behind
            if derivation.is_committed(
                f"{each.folder}/{path}" for path in paths if path.startswith(f"{file.name}/")
            )
        ]
        lost = [file for file in edited if workspace.folder(each.name).unclaimed(file.name)]
        for file in lost:
            yield dx.UNRECORDED.at(
                Location(records.path(file)),
                f"{RECORD_FILE} is missing, and the files of its run are there",
                remedy="Run `trainwright render`, which takes it from git's history, and commit.",
                subject=str(file),
            )
        if edited := [file for file in edited if file not in lost]:
            message = f"committed edits of {_names(edited)} are not rendered"
            yield dx.UNRENDERED.at(_first(workspace, edited), message, subject=each.name)
        if undone := [file for file in behind if file not in (*edited, *lost)]:
            finding = dx.UNRENDERED.at(
                _first(workspace, undone),
                f"the rendered files of {_names(undone)} are in no commit, and of other specs than "
                "are there now",
                remedy="Run `trainwright render`, which renders the specs as they are.",
                subject=each.name,
            )
            effect = "Once they are committed, what runs has values that no spec has."
            yield replace(finding, effect=effect)


def _names(files: Iterable[JobFile]) -> str:
    return listed([file.name for file in files])


def _first(workspace: Workspace, files: Sequence[JobFile]) -> Location:
    """Return the file of the first of an environment's jobs that has one."""
    there = (file.path for file in files if workspace.has(file))
    return Location(next(there, environment_path(files[0].environment)))


def _renamed(workspace: Workspace, base: Workspace, file: JobFile) -> JobFile | None:
    """Return the job of the base that has the run of a job, as where its environment is renamed."""
    record = workspace.folder(file.environment).record(file.name)
    for name, files in base.survey.jobs.items() if record else ():
        records = base.folder(name).records
        for other in files:
            if (was := records.get(other.name)) and record and was.object == record.object:
                return other
    return None


def _read_by(workspace: Workspace, file: JobFile) -> Iterable[str]:
    own = workspace.job(file).loaded.files if workspace.has(file) else (file.path,)
    return (*own, ledger.path(file.environment))


def _shared(workspace: Workspace, environments: tuple[EnvironmentBuild, ...]) -> Iterator[Finding]:
    """Yield a finding where another environment of the same cluster renders the same objects."""
    built = {each.name: each.runs for each in environments}

    @functools.cache
    def objects(name: str) -> collisions.Objects:
        return collisions.objects(built.get(name) or workspace.folder(name).records)

    sound = workspace.environments
    for one, other in ((sound[a], sound[b]) for a in built if a in sound for b in sound if a != b):
        if collisions.share(one, other, workspace.tree):
            loaded, rendered = workspace.loaded(one.name), (objects(one.name), objects(other.name))
            yield from collisions.across(loaded, one, other, rendered)


def _derivation(
    root: Path, workspace: Workspace, options: BuildOptions
) -> tuple[derive.Derivation | None, tuple[Finding, ...]]:
    """Return the check of rendered files against the base, or None if git has no base."""
    if not options.proves:
        return None, ()
    try:
        base = lineage.find(root, options.against)
    except lineage.NoBase as error:
        finding = dx.UNCOMPARED.at(Location(ENVIRONMENTS), str(error))
        severity = Severity.ERROR if options.against else finding.severity
        return None, (replace(finding, severity=severity),)
    return derive.Derivation(root, base, workspace, options.helm) if base else None, ()


def _render(workspace: Workspace, work: list[_Work], options: BuildOptions) -> None:
    """Render the pending jobs of all environments in one batch."""
    pending = [(environment, item) for environment in work for item in environment.pending()]
    if not pending:
        return
    from trainwright.render import batch

    outcomes = batch.run(workspace, [item for _, item in pending], options.helm)
    outcomes = progress.counted(outcomes, len(pending), "jobs")
    for (environment, item), outcome in zip(pending, outcomes, strict=True):
        environment.take(item, *outcome)


def _files(findings: Iterable[Finding]) -> set[str]:
    return {
        place.file for f in findings for place in (f.place, *(r.place for r in f.related)) if place
    }


class _Work:
    """One environment while its `EnvironmentBuild` is made."""

    def __init__(
        self,
        root: Path,
        workspace: Workspace,
        selection: Selection,
        history: History | None,
        options: BuildOptions,
        derivation: derive.Derivation | None,
    ):
        self.name = selection.environment
        self._workspace = workspace
        self._selection = selection
        self._options = options
        self._folder = workspace.folder(self.name)
        self._history = history
        self._derivation = derivation
        self._new: tuple[JobFile, ...] = ()  # jobs without a record anywhere
        self._kept = cache.of(root, selection.environment, options.helm or memory.EMBEDDED)
        self.environment = workspace.sound(self.name)
        self._checked: dict[str, Remembered] = {}
        self._runs: dict[str, Record] = dict(self._folder.records)
        self._texts: dict[str, str] = {}
        self._begun: list[Record] = []
        self._left: list[str] = []
        self._staying: set[str] = set()
        self._settled: dict[JobFile, Settled] = {}

    def pending(self) -> Iterator[batch.Item]:
        """Yield the jobs to render: their run or state changes, or findings are not known yet."""
        if self.environment is None:
            return
        if self._history is not None:
            self._restore(self._history)
        for file, recorded in self._present().items():
            if recalled := self._recalled(file.name):
                self._checked[file.name] = recalled
            checked = self._options.check_next_runs and file.name not in self._checked
            here = file.name in self._runs  # not only in git's history
            stays = recorded is not None and here and self._workspace.stays(file, recorded)
            if checked or not stays or not self._workspace.is_usable(file, self._runs[file.name]):
                from trainwright.render import batch  # takes 60 ms, not needed for unchanged jobs

                yield batch.Item(file, recorded, checked, self._options.new_runs)

    def _present(self) -> Mapping[JobFile, Recorded | None]:
        """Return the run of each job, as recorded here or else in git's history; None for none."""
        jobs = self._selection.jobs
        if self._history is None:
            runs = {file: self._folder.recorded(file.name) for file in jobs}
        else:
            runs = dict(self._history.runs(jobs, self._workspace))
            runs |= dict(self._believed(runs))
        self._new = tuple(file for file, run in runs.items() if not run)
        return runs

    @cached_property
    def _underived(self) -> tuple[derive.Underived, ...]:
        """The rendered files of selected jobs, or of no job, that no sources lead to."""
        if self._derivation is None:
            return ()
        jobs = {file.name for file in self._selection.jobs}
        underived = self._derivation.underived(self.name)
        return tuple(entry for entry in underived if self._selection.whole or entry.job in jobs)

    def _believed(
        self, present: Mapping[JobFile, Recorded | None]
    ) -> Iterator[tuple[JobFile, Recorded | None]]:
        """Yield the runs to render from (None: none) for jobs whose record cannot be derived."""
        proof = self._derivation
        replaced = proof.replaced(self.name) if proof else frozenset()
        for file, run in present.items():
            if proof and file.name in replaced and run and run.here:
                yield file, proof.believed(file)

    def _restore(self, history: History) -> None:
        """Put back lost runs of jobs that were not selected: the list of all would end them."""
        lost = [file for file in self._selection.others if file.name not in self._runs]
        for file, run in history.recorded(lost).items():
            self._runs[file.name] = run.record
            texts = {**run.texts(), RECORD_FILE: records.text(file.path, run.record)}
            self._texts |= {f"{file.name}/{name}": text for name, text in texts.items()}

    def _recalled(self, job: str) -> Remembered | None:
        """Return the cached result of a job's earlier check, or None if its inputs have changed."""
        if not (self._options.use_cache and self._options.check_next_runs):
            return None
        return self._kept.recall(job, self._workspace.reader.is_as)

    def take(self, item: batch.Item, rendered: Rendered, inputs: Mapping[str, str]) -> None:
        """Store the result of rendering a job."""
        job = rendered.file.name
        outcome = cache.outcome(rendered, inputs)
        if item.check_next_runs or rendered.findings or job not in self._checked:
            self._checked[job] = outcome
        if item.check_next_runs:
            self._kept.keep(job, outcome, inputs)
        if rendered.record is not None:
            self._settled[rendered.file] = (rendered.record, rendered.decision, rendered.demand)
            self._runs[job] = rendered.record
            text = records.text(rendered.file.path, rendered.record)
            self._texts[f"{job}/{RECORD_FILE}"] = text
            if rendered.begins:
                self._begun.append(rendered.record)
                self._note_end(rendered.record.replaces, rendered.record.target, item.recorded)
            elif rendered.record.state == "cancelled" and item.recorded:
                self._leave(item.recorded)
            if self._options.writes and rendered.is_checked:
                written = {records.path(rendered.file): same.digest(text.encode())}
                self._kept.keep(job, outcome, {**inputs, **written})
        self._texts |= {f"{job}/{name}": text for name, text in rendered.files.items()}

    def _leave(self, present: Recorded) -> None:
        """Note the end in git of a run that went on there until now."""
        record = present.record
        over = record.state in ENDED or record.object in self._workspace.ledger(self.name).runs
        if record.files and not over:
            self._left.append(record.object)
            self._note_end(record.object, record.target, present)

    def _note_end(self, name: str, target: str, present: Recorded | None) -> None:
        """Note the object of a run that ends in git, as it is rendered, unless it is deleted."""
        from trainwright.render import objects  # which is imported where a run begins or ends

        if not name or not NAMED[target].is_served:
            return
        metadata: Mapping[str, Data] = {}
        if present is not None and present.intact:
            for manifest in objects.manifests(present.texts(), present.record.target):
                metadata = manifest.metadata if manifest.name == name else metadata
        base = self._derivation.base.environments.get(self.name) if self._derivation else None
        if leaving(metadata, applying(base, self.environment)) is not Departure.PRUNED:
            self._staying.add(name)

    def finished(self) -> EnvironmentBuild:
        if self._options.use_cache and self.environment is not None:
            self._kept.save({file.name for file in self._spared})
        if self._selection.whole:
            selected = {file.name for file in self._selection.jobs}
            for job in sorted(self._folder.records.keys() - selected):
                if present := self._folder.recorded(job):
                    self._leave(present)
            self._runs = {job: run for job, run in self._runs.items() if job in selected}
        findings = self._findings()
        failed = any(finding.severity is Severity.ERROR for finding in findings)
        return EnvironmentBuild(
            name=self._selection.environment,
            jobs=self._selection.jobs,
            runs=self._runs,
            findings=findings,
            changes=None if failed else self._changes(),
            edited=tuple(self._edited()),
            underived=derive.findings(self._underived),
            begun=tuple(self._begun),
            left=tuple(self._left),
            staying=frozenset(self._staying),
            settled=self._settled,
        )

    @property
    def _spared(self) -> Iterable[JobFile]:
        """The jobs that this build does not check in full."""
        others = self._selection.others
        return others if self._options.check_next_runs else (*others, *self._selection.jobs)

    def _findings(self) -> tuple[Finding, ...]:
        checked = EnvironmentCheck(
            name=self.name,
            jobs=self._selection.jobs,
            checked=self._checked,
            runs=self._runs,
            unknown=() if self._options.new_runs else tuple(self._unknown_now()),
            whole=self._selection.whole and self._options.check_next_runs,
            complete=self._selection.whole,
            refused=dict(self._refused()),
            left=lambda: self._options.left(self._workspace, self.name),
            demand=self._demand,
        )
        return checked.findings(self._workspace, self._options.today)

    def _demand(self, file: JobFile) -> Demand:
        settled = self._settled.get(file)
        return settled[2] if settled else _asking(self._workspace, file, None).demand

    def _refused(self) -> Iterator[tuple[str, tuple[Finding, ...]]]:
        """Yield the findings about edits that live objects of the base do not take, by job."""
        proof, environment = self._derivation, self.environment
        if proof is None or environment is None:
            return
        from trainwright.render import refused  # which needs the table of edits

        sides = (proof.base, self._workspace)
        if self._selection.whole and proof.differs_below(own_objects.folder(self.name)):
            yield "", tuple(refused.of_own(*sides, environment))
        differing = proof.jobs(self.name)
        for file in self._selection.jobs:
            run, there = self._runs.get(file.name), self._folder.record(file.name)
            if run and (file.name in differing or not there or there.object != run.object):
                paths = {name: f"{file.name}/{name}" for name in run.files}
                texts = {it: self._texts[path] for it, path in paths.items() if path in self._texts}
                yield file.name, tuple(refused.of_job(*sides, file, run, texts))

    def _unknown_now(self) -> Iterator[JobFile]:
        """Yield the jobs that may have an unrecorded run, now that new runs are known."""
        if not self._new:
            return
        cut_off = self._history is not None and self._history.is_cut_off(self.name)
        for file in self._new:
            run = self._runs.get(file.name)
            begins = run.object if run else ""
            if cut_off or has_unknown_run(self._folder, file, begins):
                yield file

    def _changes(self) -> Changes:
        start = f"{self._folder.path}/"
        forged = {entry.path.removeprefix(start) for entry in self._underived}
        on_disk = {p: "" if p in forged else sha for p, sha in self._there.items()}
        copies: Mapping[str, str] = {}
        if self._selection.whole:
            copies = self._workspace.own_objects(self.name).copies
        objects = copies if self._selection.whole else own_objects.copied(on_disk)
        present = self._folder.listed
        if not kustomization.is_right(self.name, self._runs, present, objects):
            present = kustomization.written(self.name, self._runs, objects)
        wanted = {**self._texts, **copies, KUSTOMIZATION_FILE: present}
        selected = {file.name for file in self._selection.jobs}
        right = {
            f"{job}/{file}" for job, run in self._runs.items() for file in (RECORD_FILE, *run.files)
        }
        others = {
            path
            for path in on_disk
            if not self._selection.whole and path.partition("/")[0] not in selected
        }
        return filetree.compare(wanted, on_disk, frozenset(right | others))

    @cached_property
    def _there(self) -> Mapping[str, str]:
        """Digests of the files in the folder, by path."""
        return self._folder.hashes

    def _edited(self) -> Iterator[str]:
        for job, files in self._folder.sums.items():
            for file, sha in files.items():
                path = f"{job}/{file}"
                if self._there.get(path, sha) != sha:
                    yield path
