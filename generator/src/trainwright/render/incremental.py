"""A check of a whole repository that is kept up to date: an edit costs only what it affects.

The result equals what `build` finds in the same files. The results of each job and of each
environment are tracked values (see `memo`), except that an environment is judged by its jobs' last
results: `check` brings one job up to date, and `refresh` everything that depends on jobs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import field, replace
from operator import eq, is_
from pathlib import Path

from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENTS, JobFile
from trainwright.files import lineage
from trainwright.files.entry import above, ignore_file, is_ignore_file
from trainwright.files.git import GitError
from trainwright.files.memo import Cell, Owner, cell_of, tracked
from trainwright.files.memory import EMBEDDED, Kept
from trainwright.files.tree import Tree
from trainwright.render import cache, derivation
from trainwright.render.batch import Item, Renderer
from trainwright.render.cache import Remembered
from trainwright.render.derivation import Derivation
from trainwright.render.policy import EnvironmentCheck, has_unknown_run
from trainwright.runs.record import Record
from trainwright.runs.workspace import Workspace
from trainwright.specs import files

_NOWHERE = ""  # where findings are of no environment
_ByFile = Mapping[str, tuple[Finding, ...]]


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome of one job, its present run, and findings on files that cannot be derived.

    `begun` are the files of a run that begins.
    """

    outcome: Remembered
    record: Record | None
    begun: Mapping[str, str] = field(default_factory=dict, hash=False)
    underived: tuple[Finding, ...] = ()


class IncrementalCheck(Owner):
    """The findings about each job of a workspace, and about several jobs together.

    `remembered` is the root whose cache may have results of an earlier check; it is only read.
    """

    def __init__(self, workspace: Workspace, *, remembered: Path | None = None):
        super().__init__(workspace.memo)
        self.workspace = workspace
        self._renderer = Renderer(workspace)
        self._root = remembered
        self._kept: dict[str, Kept[Remembered]] = {}  # by environment
        self._last: dict[JobFile, Cell[Checked | None]] = {}  # each job's last result
        self._reached: defaultdict[str, set[JobFile]] = defaultdict(set)  # jobs, by input
        self._stale: dict[JobFile, None] = {}
        self._today = Cell(self.memo, str, same=eq)
        self._proof = Cell(self.memo, self._derivation)
        self._last_proof: Derivation | None = None
        self._of_environments: dict[str, tuple[Finding, ...]] = {}  # as they were last found
        self._about: defaultdict[str, set[str]] = defaultdict(set)  # environments, by file
        self._found: dict[str, _ByFile] = {}  # by environment
        self._take_note()

    # --- edits -----------------------------------------------------------------------------------

    def edit(self, changed: Collection[str], tree: Tree) -> None:
        """Go on with a tree in which some files have changed."""
        self.workspace.edit(changed, tree)
        if any(map(derivation.may_decide, changed)):
            self._proof.drop()
        self._take_note()

    def _take_note(self) -> None:
        """Register jobs that were added or removed, and those whose results are outdated."""
        jobs = {file for files in self.workspace.survey.jobs.values() for file in files}
        for file in self._last.keys() - jobs:
            self._stale.pop(file, None)
            self._replace(file, None)
            del self._last[file]
            if cell := cell_of(self, IncrementalCheck._check, file):
                cell.drop()
        for files_ in self.workspace.survey.jobs.values():
            for file in files_:
                cell = cell_of(self, IncrementalCheck._check, file)
                if cell is None or not cell.is_current:
                    self._stale[file] = None

    # --- one job after the other -----------------------------------------------------------------

    @property
    def stale(self) -> Collection[JobFile]:
        """The jobs that have to be checked, those that have waited longest first."""
        return self._stale.keys()

    def reached(self, path: str) -> Collection[JobFile]:
        """Return the jobs that a file decides, as far as they were checked."""
        return self._reached.get(path, ())

    def concerns(self, path: str) -> bool:
        """Whether a file may affect a job: it is in environments/, in a folder that a spec names,
        or a .gitignore.
        """
        if path.startswith(f"{ENVIRONMENTS}/") or is_ignore_file(path):
            return True
        return not files.with_folders((path,)).isdisjoint(self._reached)

    def inputs_elsewhere(self) -> tuple[str, ...]:
        """Return the files and folders outside of environments/ that affect a job, and the
        .gitignore files around them.
        """
        inside = f"{ENVIRONMENTS}/"
        paths = [path for path in self._reached if not path.startswith(inside)]
        folders = {folder for path in self._reached for folder in above(path)}
        return (*paths, *(ignore_file(folder) for folder in ("", *folders)))

    def checked(self, file: JobFile) -> Checked | None:
        """Return the result of a job's last check."""
        return self._last_of(file).get()

    def check(self, file: JobFile) -> None:
        """Check a job again."""
        self._stale.pop(file, None)
        now = self._check(file)
        if now is not None:
            self._replace(file, now)

    @tracked()
    def _check(self, file: JobFile) -> Checked | None:
        """Return a job's outcome; None in a broken environment, which is reported instead."""
        if self.workspace.sound(file.environment) is None:
            return None
        checked = self._recall(file) or self._render(file)
        return replace(checked, underived=self._underived_of(file))

    @tracked(same=eq)
    def _underived_of(self, file: JobFile) -> tuple[Finding, ...]:
        """Return the findings about the rendered files of a job that follow from no source."""
        proof = self._proof.get()
        return derivation.findings(proof.of_job(file) if proof else ())

    def _recall(self, file: JobFile) -> Checked | None:
        """Return a job's outcome from an earlier process, or None if anything has changed since."""
        if self._root is None:
            return None
        if file.environment not in self._kept:
            self._kept[file.environment] = cache.of(self._root, file.environment, EMBEDDED)
        outcome = self._kept[file.environment].recall(file.name, self.workspace.reader.is_as)
        if outcome is None:
            return None
        recorded = self.workspace.rendered(file)
        if recorded is None or not self.workspace.stays(file, recorded):
            return None
        return Checked(outcome, recorded.record)

    def _render(self, file: JobFile) -> Checked:
        folder = self.workspace.folder(file.environment)
        rendered, inputs = self._renderer.render(Item(file, folder.recorded(file.name)))
        record = rendered.record or folder.record(file.name)
        begun = rendered.files if rendered.begins else {}
        return Checked(cache.outcome(rendered, inputs), record, begun)

    def _last_of(self, file: JobFile) -> Cell[Checked | None]:
        if file not in self._last:
            self._last[file] = Cell[Checked | None](self.memo, lambda: None, is_, None)
        return self._last[file]

    def _replace(self, file: JobFile, now: Checked | None) -> None:
        """Count a job as it is now instead of as it was."""
        cell = self._last_of(file)
        for path in cell.value.outcome.inputs if cell.value else ():
            self._reached[path].discard(file)
        for path in now.outcome.inputs if now else ():
            self._reached[path].add(file)
        cell.put(now)

    # --- all of them together --------------------------------------------------------------------

    def refresh(self, today: str) -> set[str]:
        """Renew the findings about several jobs; return the files whose findings have changed."""
        self._today.put(today)
        findings = {_NOWHERE: self._of_none()}
        findings |= {name: self._of(name) for name in self.workspace.survey.jobs}
        before, self._of_environments = self._of_environments, findings
        return {
            file
            for name in {**before, **findings}
            if before.get(name) is not findings.get(name)
            for file in self._group(name, findings.get(name, ()))
        }

    @tracked()
    def _of_none(self) -> tuple[Finding, ...]:
        """Return the findings that belong to no environment."""
        findings = self.workspace.findings
        proof = self._proof.get()
        return (*findings, *map(derivation.finding, proof.orphans() if proof else ()))

    @tracked()
    def _of(self, name: str) -> tuple[Finding, ...]:
        """Return the findings of an environment, as far as its jobs were checked."""
        jobs = self.workspace.survey.jobs.get(name, ())
        by_job = {file.name: checked_job for file in jobs if (checked_job := self.checked(file))}
        folder = self.workspace.folder(name)
        begins = {
            job: checked_job.record.object if checked_job.record else ""
            for job, checked_job in by_job.items()
        }
        new = (file for file in jobs if file.name in by_job and not folder.record(file.name))
        check = EnvironmentCheck(
            name=name,
            jobs=jobs,
            checked={job: checked_job.outcome for job, checked_job in by_job.items()},
            runs={
                job: checked_job.record for job, checked_job in by_job.items() if checked_job.record
            },
            unknown=tuple(file for file in new if has_unknown_run(folder, file, begins[file.name])),
            whole=len(by_job) == len(jobs),
            refused={"": self._refused(name), **{it.name: self._refused_by(it) for it in jobs}},
        )
        findings = check.findings(self.workspace, self._today.get())
        is_sound = self.workspace.sound(name) is not None  # or its jobs are not checked
        of_jobs = (
            checked_job
            for checked in by_job.values()
            for checked_job in checked.underived
            if is_sound
        )
        return (*findings, *of_jobs, *self._underived_beside(name))

    @tracked(same=eq)
    def _refused(self, name: str) -> tuple[Finding, ...]:
        """Return the findings about edits that one's own objects in a cluster do not take."""
        proof, environment = self._proof.get(), self.workspace.sound(name)
        if proof is None or environment is None:
            return ()
        from trainwright.render import refused  # which needs the table of edits

        return tuple(refused.of_own(proof.base, self.workspace, environment))

    @tracked(same=eq)
    def _refused_by(self, file: JobFile) -> tuple[Finding, ...]:
        """Return the findings about what a new run of a job has otherwise than the last one."""
        proof, now = self._proof.get(), self.checked(file)
        differs = proof and now and (now.begun or file.name in proof.jobs(file.environment))
        if proof is None or now is None or now.record is None or not differs:
            return ()
        from trainwright.render import refused  # which needs the table of edits

        return tuple(refused.of_job(proof.base, self.workspace, file, now.record, now.begun))

    @tracked(same=eq)
    def _underived_beside(self, name: str) -> tuple[Finding, ...]:
        """Return the findings about an environment's rendered files that are of no checked job."""
        proof = self._proof.get()
        if proof is None:
            return ()
        is_sound = self.workspace.sound(name) is not None
        own = [file.name for file in self.workspace.survey.jobs.get(name, ()) if is_sound]
        others = (JobFile(name, job) for job in proof.jobs(name) - own)
        underived = (
            *(item for file in others for item in proof.of_job(file)),
            *proof.beyond_jobs(name),
        )
        return derivation.findings(underived)

    def _derivation(self) -> Derivation | None:
        if self._last_proof is not None:
            self._last_proof.detach()
        self._last_proof = self._derived()
        return self._last_proof

    def _derived(self) -> Derivation | None:
        if self._root is not None:
            with suppress(GitError):  # where there is no base, `check` tells
                branch = lineage.find(self._root)
                if branch is not None:
                    return Derivation(self._root, branch, self.workspace)
        return None

    def _group(self, name: str, findings: Iterable[Finding]) -> set[str]:
        """Sort findings by file; return the files whose findings in an environment changed."""
        grouped: defaultdict[str, list[Finding]] = defaultdict(list)
        for finding in findings:
            grouped[finding.place.file].append(finding)
        now = {file: tuple(items) for file, items in grouped.items()}
        was = self._found.pop(name, {})
        if now:
            self._found[name] = now
        for file in was.keys() - now.keys():
            self._about[file].discard(name)
        for file in now:
            self._about[file].add(name)
        return {file for file in {*was, *now} if was.get(file) != now.get(file)}

    # --- what was found --------------------------------------------------------------------------

    def findings(self, file: str) -> tuple[Finding, ...]:
        """Return the findings in a file, sorted by position."""
        names = sorted(self._about.get(file, ()))
        all_findings = (finding for name in names for finding in self._found[name][file])
        return tuple(sorted(dict.fromkeys(all_findings), key=lambda finding: finding.order))

    def everything(self) -> Iterator[Finding]:
        """Yield the findings in all files, in the order of a report."""
        for file in sorted(self._about):
            yield from self.findings(file)
