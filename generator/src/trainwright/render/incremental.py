"""A check of a whole repository that is kept up to date: an edit costs what it reaches.

What it comes to is what `build` finds in the same files. Each job is remembered with the states of
the files that decided it, as the cache has them; an edit makes those of its jobs stale, and
`check` renders one of them again. What is about several jobs is found again by `refresh`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.model import Finding
from trainwright.helm import engines
from trainwright.render import cache, derivation
from trainwright.render import job as render
from trainwright.render.cache import Remembered
from trainwright.render.derivation import Derivation
from trainwright.render.policy import EnvironmentCheck, has_unknown_run
from trainwright.runs import record as records
from trainwright.runs.record import Record
from trainwright.runs.workspace import Workspace
from trainwright.specs import files, ledger, lineage, memory, redundant
from trainwright.specs.entry import above, ignore_file, is_ignore_file
from trainwright.specs.git import GitError
from trainwright.specs.layout import DEFAULTS, ENVIRONMENTS, RENDERED, JobFile, environment_path
from trainwright.specs.load import Inventory
from trainwright.specs.redundant import Inherited
from trainwright.specs.tree import Tree

_NOWHERE = ""  # where findings are of no environment
_ByFile = Mapping[str, tuple[Finding, ...]]


@dataclass(frozen=True, slots=True)
class Checked:
    """What one job came to, and the run that it has now."""

    outcome: Remembered
    record: Record | None


class IncrementalCheck:
    """The findings of every job of a workspace, and of what is about several.

    `remembered` is the root whose cache may know jobs from an earlier check; it is only read.
    """

    def __init__(self, workspace: Workspace, *, remembered: Path | None = None):
        self.workspace = workspace
        self._engine = engines.engine()
        self._cache = remembered
        self._recalled: dict[str, dict[str, Remembered]] = {}
        self._checked: dict[JobFile, Checked] = {}
        self._reached: defaultdict[str, set[JobFile]] = defaultdict(set)  # jobs, by input
        self._stale: dict[JobFile, None] = {}
        self._waiting: set[JobFile] = set()  # for a broken environment, which alone is reported
        self._inherited = Inherited()
        self._parts: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by environment
        self._shared: Mapping[str, tuple[Finding, ...]] = {}  # findings, by environment
        self._is_shared = False  # whether these are still right
        self._unsettled: set[str] = set()
        self._found: dict[str, _ByFile] = {}  # by environment
        self._about: defaultdict[str, set[str]] = defaultdict(set)  # environments, by file
        self._today = ""
        self._underived: dict[str, tuple[Finding, ...]] = {}  # by environment
        self._derivation: Derivation | None = None
        self._surveyed(Inventory({}, ()))

    # --- edits -----------------------------------------------------------------------------------

    def edit(self, tree: Tree, rendered: Tree, changed: Collection[str]) -> None:
        """Go on with trees in which some files have changed."""
        before = self.workspace
        self.workspace = before.edited(tree, rendered, changed)
        if any(map(derivation.may_decide, changed)):
            self._unsettled |= self._underived.keys()
            self._underived, self._derivation = {}, None
        if self.workspace.survey is not before.survey:
            self._surveyed(before.survey)
        for path in before.reader.reached(changed) & self._reached.keys():
            state = self.workspace.reader.state(path)
            for file in self._reached[path]:
                if self._checked[file].outcome.inputs[path] != state:
                    self._stale[file] = None
        for path in changed:
            self._unsettled.update(self._around(path, before))
            for file in self._rendered(path):
                self._stale[file] = None
            if not self._is_job(path):
                self._is_shared = False  # its findings have positions in there
                self._stale |= dict.fromkeys(self._waiting)
                self._waiting.clear()

    def _is_job(self, path: str) -> bool:
        environment, jobs, _ = path.removeprefix(f"{ENVIRONMENTS}/").rpartition("/jobs/")
        return bool(jobs) and environment in self.workspace.survey.jobs

    def _around(self, path: str, before: Workspace) -> Iterable[str]:
        """The environments that a file is about, whatever jobs they have."""
        names = self.workspace.survey.jobs
        if path == DEFAULTS:  # most of which the jobs take up, each when it is checked again
            return (name for name in names if _facts(self.workspace, name) != _facts(before, name))
        name = path.removeprefix(f"{ENVIRONMENTS}/").partition("/")[0]
        return (name,) if name in names else ()

    def _rendered(self, path: str) -> Iterable[JobFile]:
        """The jobs whose run a rendered file may belong to."""
        folder, rendered, inside = path.partition(f"/{RENDERED}/")
        if not rendered:
            return ()
        jobs = self.workspace.survey.jobs.get(folder.removeprefix(f"{ENVIRONMENTS}/"), ())
        job, below, _ = inside.partition("/")
        return (file for file in jobs if file.name == job) if below else jobs

    def _surveyed(self, before: Inventory) -> None:
        """Take note of the environments and jobs that came and went."""
        now = self.workspace.survey
        old = {file for jobs in before.jobs.values() for file in jobs}
        new = {file: None for jobs in now.jobs.values() for file in jobs}
        for file in old.difference(new):
            self._stale.pop(file, None)
            self._waiting.discard(file)
            self._replace(file, None)
        for file in new:
            if file not in old:
                self._stale[file] = None
        names = {*before.jobs, *now.jobs}
        self._unsettled |= {
            name for name in names if before.jobs.get(name) != now.jobs.get(name)
        } | {_NOWHERE}
        self._is_shared = False

    # --- one job after the other -----------------------------------------------------------------

    @property
    def stale(self) -> Collection[JobFile]:
        """The jobs that are to be checked, those that have waited longest first."""
        return self._stale.keys()

    def reached(self, path: str) -> Collection[JobFile]:
        """The jobs that a file decides, as far as they were checked."""
        return self._reached.get(path, ())

    def concerns(self, path: str) -> bool:
        """Whether a file may decide a job: it is a spec, it lies in a folder that one names, or it
        says which files there git ignores.
        """
        if path.startswith(f"{ENVIRONMENTS}/") or is_ignore_file(path):
            return True
        return not files.with_folders((path,)).isdisjoint(self._reached)

    def inputs_elsewhere(self) -> tuple[str, ...]:
        """The files and folders outside of environments/ that decide a job, and what says which
        files there git ignores.
        """
        inside = f"{ENVIRONMENTS}/"
        paths = [path for path in self._reached if not path.startswith(inside)]
        folders = {folder for path in self._reached for folder in above(path)}
        return (*paths, *(ignore_file(folder) for folder in ("", *folders)))

    def checked(self, file: JobFile) -> Checked | None:
        """What a job came to when it was last checked."""
        return self._checked.get(file)

    def check(self, file: JobFile) -> None:
        """Check a job again."""
        self._stale.pop(file, None)
        if self.workspace.sound(file.environment) is None:
            self._waiting.add(file)
            return
        self._replace(file, self._recall(file) or self._render(file))
        self.workspace.reader.forget(file.path, parsed=True)

    def _recall(self, file: JobFile) -> Checked | None:
        """What an earlier process found out about a job, if all is as it was then."""
        if self._cache is None or file in self._checked:
            return None
        if file.environment not in self._recalled:
            location = memory.location(self._cache, file.environment)
            mark = memory.fingerprint(memory.EMBEDDED)
            self._recalled[file.environment] = cache.load(location, mark)
        known = self._recalled[file.environment].pop(file.name, None)
        if known is None or known.inputs != self._states(known.inputs):
            return None
        recorded = self.workspace.folder(file.environment).recorded(file.name)
        if recorded is None or not self.workspace.stays(file, recorded):
            return None
        return Checked(known, recorded.record)

    def _render(self, file: JobFile) -> Checked:
        folder = self.workspace.folder(file.environment)
        context = render.Context(
            engine=self._engine, ledger=self.workspace.ledger(file.environment)
        )
        recorded = folder.recorded(file.name)
        rendered = render.job(self.workspace.resolve(file), context, recorded)
        about = (ledger.path(file.environment), records.path(file.environment, file.name))
        outcome = Remembered(
            inputs=self._states((*rendered.inputs, *about)),
            findings=rendered.findings,
            waivers=rendered.waivers,
            idle=rendered.idle,
        )
        return Checked(outcome, rendered.record or folder.record(file.name))

    def _states(self, paths: Iterable[str]) -> dict[str, str]:
        state = self.workspace.reader.state
        return {path: state(path) for path in sorted(paths)}

    def _replace(self, file: JobFile, now: Checked | None) -> None:
        """Count a job as it is now instead of as it was."""
        was = self._checked.pop(file, None)
        if now is not None:
            self._checked[file] = now
        for checked, times in ((was, -1), (now, 1)):
            if checked is not None:
                self._count(file, checked.outcome, times)
        self._unsettled.add(file.environment)
        before, after = (_inherits(file, it.outcome) if it else None for it in (was, now))
        if before != after:
            self._is_shared = False

    def _count(self, file: JobFile, outcome: Remembered, times: int) -> None:
        for path in outcome.inputs:
            known = self._reached[path]
            known.add(file) if times > 0 else known.discard(file)
        self._inherited.add(outcome.idle or {}, times)
        for part in outcome.idle or ():
            self._parts[file.environment][part] += times

    # --- all of them together --------------------------------------------------------------------

    def refresh(self, today: str) -> set[str]:
        """Find what is about several jobs anew; the files about which anything has changed."""
        survey = self.workspace.survey
        if today != self._today:
            self._today, self._unsettled = today, {*survey.jobs, _NOWHERE}
        if not self._is_shared:
            before, self._shared, self._is_shared = self._shared, self._unused(), True
            names = {*before, *self._shared}
            self._unsettled |= {n for n in names if before.get(n) != self._shared.get(n)}
        changed = set[str]()
        for name in self._unsettled:
            found = survey.findings if name == _NOWHERE else self._of(name)
            changed |= self._group(name, found)
        self._unsettled = set()
        return changed

    def _of(self, name: str) -> tuple[Finding, ...]:
        """The findings of an environment, those of it alone that there is no more being none."""
        jobs = self.workspace.survey.jobs.get(name)
        if jobs is None:
            return ()
        known = {file.name: it for file in jobs if (it := self._checked.get(file))}
        folder = self.workspace.folder(name)
        begins = {job: it.record.object if it.record else "" for job, it in known.items()}
        new = (file for file in jobs if file.name in known and not folder.record(file.name))
        check = EnvironmentCheck(
            name=name,
            jobs=jobs,
            checked={job: it.outcome for job, it in known.items()},
            runs={job: it.record for job, it in known.items() if it.record},
            unknown=tuple(file for file in new if has_unknown_run(folder, file, begins[file.name])),
            whole=len(known) == len(jobs),
        )
        found = check.findings(self.workspace, self._shared.get(name, ()), self._today)
        return (*found, *self._unproved(name))

    def _unproved(self, name: str) -> tuple[Finding, ...]:
        """The rendered files that follow from no source: edits of specs change nothing of that."""
        if name not in self._underived:
            proof = self._proof()
            found = proof.underived(name) if proof else ()
            self._underived[name] = tuple(map(derivation.finding, found))
        return self._underived[name]

    def _proof(self) -> Derivation | None:
        if self._derivation is None and self._cache is not None:
            with suppress(GitError):  # where there is no base, `check` tells
                branch = lineage.find(self._cache)
                if branch is not None:
                    self._derivation = Derivation(self._cache, branch, self.workspace)
        return self._derivation

    def _unused(self) -> Mapping[str, tuple[Finding, ...]]:
        """What decides nothing in files that several jobs inherit from, by environment."""
        jobs = self.workspace.survey.jobs
        known = {name for name, files in jobs.items() if self._is_known(name, files)}
        whole = len(known) == len(jobs)
        parts = {
            name: [
                part
                for part, times in self._parts[name].items()
                if times and (whole or redundant.file_of(part) == environment_path(name))
                if name in known
            ]
            for name in jobs
        }
        return redundant.unused(parts, self._inherited, self.workspace.reader)

    def _is_known(self, name: str, files: Iterable[JobFile]) -> bool:
        """Whether it is known of all jobs of an environment which values decide nothing."""
        if self.workspace.sound(name) is None:
            return not files
        found = (self._checked.get(file) for file in files)
        return all(it is not None and it.outcome.idle is not None for it in found)

    def _group(self, name: str, findings: Iterable[Finding]) -> set[str]:
        """Sort findings by file; the files about which an environment has others than before."""
        grouped: defaultdict[str, list[Finding]] = defaultdict(list)
        for finding in findings:
            grouped[finding.place.file].append(finding)
        now = {file: tuple(found) for file, found in grouped.items()}
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
        """What is known about a file, by position."""
        names = sorted(self._about.get(file, ()))
        found = (finding for name in names for finding in self._found[name][file])
        return tuple(sorted(dict.fromkeys(found), key=lambda finding: finding.order))

    def everything(self) -> Iterator[Finding]:
        """What is known about all files, as a report lists it."""
        for file in sorted(self._about):
            yield from self.findings(file)


def _facts(workspace: Workspace, name: str) -> object:
    """What there is to say of an environment without its jobs."""
    if name not in workspace.survey.jobs:
        return None
    return workspace.sound(name), workspace.loaded(name).findings


def _inherits(file: JobFile, outcome: Remembered) -> object:
    """What a job has to do with findings about files that others inherit from, too."""
    idle = outcome.idle
    if idle is None:
        return None
    return {part: it for part, it in idle.items() if redundant.file_of(part) != file.path}
