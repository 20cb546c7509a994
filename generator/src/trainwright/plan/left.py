"""Runs that have left git and that no GitOps engine deletes: they go on beside those in git."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import chain
from pathlib import Path
from posixpath import join

from trainwright.datatypes.environment import Environment, GitOps
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.datatypes.layout import ENVIRONMENTS, RENDERED, JobFile, environment_files
from trainwright.files import git, lineage
from trainwright.files.git import GitError, Repository
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Tree
from trainwright.kinds.capabilities import attempts
from trainwright.plan import names
from trainwright.plan.model import LeftRun, PlannedRun
from trainwright.plan.training import Training
from trainwright.runs import record as records
from trainwright.runs.record import ENDED, RECORD_FILE, Record, Recorded
from trainwright.runs.recorded_job import began_in, job_of
from trainwright.runs.workspace import Workspace

LONGEST = timedelta(days=30)  # for which a run is counted, whatever its maxDuration
# A commit with its time, or the hashes of a record before and after it, and whose record that is.
_LINE = re.compile(
    rf"^commit ([0-9a-f]+) ([0-9]+)$|^:[0-7]+ [0-7]+ ([0-9a-f]+) ([0-9a-f]+) [MD]\t"
    rf'.*{ENVIRONMENTS}/([^/]+)/{RENDERED}/([^/]+)/{RECORD_FILE}"?$',
    re.MULTILINE,
)
_LOG = (
    *("log", "--first-parent", "--diff-merges=first-parent", "--raw", "--no-abbrev"),
    *("--no-renames", "--diff-filter=DM", "--format=commit %H %ct"),
)
_OBJECT = re.compile(rb'^  "(object|state)": "([^"]+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class _Departure:
    """A run that a commit replaced, removed or cancelled; `raw` is its record before that."""

    file: JobFile
    object: str
    raw: bytes
    commit: str
    at: datetime


def of_branch(root: Path, today: str, against: str = "") -> Departures | None:
    """Return the runs that have left git where a branch began, or by the last commit if that is
    not known; None if there is no commit. Runs that only the branch had were never applied.
    """
    try:
        branch = lineage.find(root, against)
    except GitError:
        branch = None
    try:
        repository, inside = git.around(root)
        commit = branch.bases[0] if branch else repository.commit("HEAD")
        return Departures(repository, commit, inside, today)
    except GitError:
        return None


class Departures:
    """The runs that have left git by a commit, as of a day; `inside` is the specs' folder in the
    repository.

    Git does not have when a run is deleted: one that left git goes on until its `maxDuration` is
    over, or the ledger has it.
    """

    def __init__(self, repository: Repository, commit: str, inside: str, today: str):
        self._repository, self._commit, self._inside = repository, commit, inside
        self._today = date.fromisoformat(today)
        self._parents: dict[str, Workspace] = {}
        self._found: dict[tuple[Workspace, str], Mapping[str, str]] = {}
        self._gitops: dict[tuple[str, tuple[bytes, ...]], GitOps | None] = {}

    def removed(self, side: Workspace) -> tuple[str, ...]:
        """Return the environments that a workspace has no more, nor one in their place, and of
        which runs go on.
        """
        gone = sorted(self._by_environment.keys() - side.survey.jobs.keys())
        return tuple(name for name in gone if any(self.runs(side, name)))

    def runs(self, side: Workspace, environment: str) -> Iterator[LeftRun]:
        """Yield the runs of an environment, and of those in whose place it is, that go on by a
        workspace's settings and its ledger; of one that it does not have, by the settings that each
        had in git.
        """
        candidates = tuple(self._of(side, environment))
        if not candidates:
            return
        over, is_sound = _known(side, environment), environment in side.environments
        for departure in candidates:
            file = departure.file
            known = (
                side if file.environment in side.environments else self._parent(departure.commit)
            )
            # What a renamed environment had is that of a new one.
            for name in side.survey.jobs.keys() - known.survey.jobs.keys():
                over |= _known(side, name)
            record = records.parse(departure.raw)
            if record is None or departure.object in over:
                continue
            recorded = self._recorded(departure, record)
            within = side if is_sound else known
            file = JobFile(environment, file.name) if is_sound else file
            if left := self._left(side, file, recorded, within, departure):
                over.add(departure.object)
                yield left

    def _of(self, side: Workspace, environment: str) -> Iterator[_Departure]:
        """Yield the departures that count in an environment of a workspace."""
        if environment in side.survey.jobs:
            yield from self._by_environment.get(environment, ())
        for former in sorted(self._by_environment.keys() - side.survey.jobs.keys()):
            for departure in self._by_environment[former]:
                if self._successors(side, departure.commit).get(former, former) == environment:
                    yield departure

    def _successors(self, side: Workspace, commit: str) -> Mapping[str, str]:
        """Return the environments of a workspace in the place of those before a commit."""
        if (side, commit) not in self._found:
            self._found[side, commit] = names.successors(self._parent(commit), side)
        return self._found[side, commit]

    def going_on(self, side: Workspace, environment: str) -> Iterator[LeftRun]:
        """Yield what `runs` yields, and the runs of the commit that a workspace replaces, or has no
        more, once it is rendered.
        """
        known, over = self._at, set[str]()
        for name in {environment, *(side.survey.jobs.keys() - known.survey.jobs.keys())}:
            over |= {*_next(side, name), *side.ledger(name).runs}
        for run in self.runs(side, environment):
            over.add(run.object)
            yield run
        successors = names.successors(known, side)
        former = (it for it in known.survey.jobs if successors.get(it, it) == environment)
        for file in chain.from_iterable(known.survey.jobs[it] for it in former):
            recorded = known.rendered(file)
            if recorded is None or recorded.record.state != "active":
                continue
            if recorded.record.object not in over and (
                left := self._left(side, file, recorded, known)
            ):
                yield replace(left, file=JobFile(environment, file.name))

    @cached_property
    def _at(self) -> Workspace:
        """The specs and runs of the commit."""
        tree = self._repository.tree(self._commit, self._inside, later=RENDERED)
        return Workspace(Tracked(tree))

    def settings(self, environment: str) -> Environment | None:
        """Return those that an environment last had in git while runs left it."""
        candidates = self._by_environment.get(environment, ())
        newest = next(iter(candidates), None)
        return self._parent(newest.commit).environments.get(environment) if newest else None

    def _parent(self, commit: str) -> Workspace:
        """Return the specs before a commit, which one that removes an environment still has."""
        if commit not in self._parents:
            self._parents[commit] = Workspace(Tracked(self._tree(commit)))
        return self._parents[commit]

    def _tree(self, commit: str) -> Tree:
        return self._repository.tree(f"{commit}^", self._inside, later=RENDERED)

    def _left(
        self,
        side: Workspace,
        file: JobFile,
        recorded: Recorded,
        known: Workspace,
        departure: _Departure | None = None,
    ) -> LeftRun | None:
        record, environment = recorded.record, known.environments.get(file.environment)
        if environment is None:
            return None
        job = job_of(record, file, began_in(record, environment))
        if job is None or (departure and self._is_over(departure.at, job, environment)):
            return None
        if departure and (gitops := self._applied_by(departure)):
            environment = replace(environment, gitops=gitops)
        try:
            texts = recorded.texts()
        except (GitError, OSError, UnicodeDecodeError):  # a partial clone lacks them
            return None
        run = PlannedRun(
            object=record.object,
            target=record.target,
            image=job.image.reference,
            queue=job.queue,
            state=record.state,
            retired=False,
            files=texts,
            demand=known.demand(job),
        )
        training = Training(run, environment)
        if not training.goes_on(replace(run, object="") if side.has(file) else None):
            return None
        end = training.ending(stays=False)
        command = training.pruned_by or (end.command if end else "")
        return LeftRun(file, job, run.object, run.demand, command)

    def _applied_by(self, departure: _Departure) -> GitOps | None:
        """Return the settings by which a sync deleted or kept a run when it left git: that of
        today reaches none that has left before.
        """
        name, tree = departure.file.environment, self._tree(departure.commit)
        there = (it for it in environment_files(name) if tree.kind(it) == "file")
        key = (name, tuple(map(tree.read, there)))  # which most commits have as they were
        if key not in self._gitops:
            environment = self._parent(departure.commit).sound(name)
            self._gitops[key] = environment.gitops if environment else None
        return self._gitops[key]

    def _is_over(self, since: datetime, job: Job, environment: Environment) -> bool:
        seconds = (job.max_duration or 0) * attempts(job, environment)
        longest = min(timedelta(seconds=seconds), LONGEST) if seconds else LONGEST
        return (since + longest).date() < self._today

    def _recorded(self, departure: _Departure, record: Record) -> Recorded:
        folder = departure.file.rendered
        return Recorded(record, self._tree(departure.commit), folder, intact=True)

    @cached_property
    def _by_environment(self) -> Mapping[str, Collection[_Departure]]:
        """The departures, newest first."""
        found: dict[str, list[_Departure]] = {}
        for departure in self._read():
            found.setdefault(departure.file.environment, []).append(departure)
        return found

    def _read(self) -> Iterator[_Departure]:
        """Yield the departures that git has, newest first, by the records that commits changed."""
        since = f"--since={self._today - LONGEST}T00:00:00Z"
        pattern = join(self._inside, ENVIRONMENTS, "*", RENDERED, "*", RECORD_FILE)
        log = self._repository.git(*_LOG, since, self._commit, "--", f":(top,glob){pattern}")
        found = _LINE.findall(log.decode(errors="replace"))
        raw = self._repository.contents({name for line in found for name in line[2:4] if name})
        commit, at = "", datetime.fromtimestamp(0, UTC)
        seen: set[str] = set()  # a run that came back counts as it left the last time
        for line in found:
            if line[0]:
                commit, at = line[0], datetime.fromtimestamp(int(line[1]), UTC)
                continue
            before, after = (raw.get(name) or b"" for name in line[2:4])
            was, now = (dict(_OBJECT.findall(text)) for text in (before, after))
            ended = now.get(b"state", b"").decode() in ENDED
            gone = ended or now.get(b"object") != was.get(b"object")
            name, state = was.get(b"object", b"").decode(), was.get(b"state", b"").decode()
            if not gone or state in ENDED or name in seen:
                continue
            seen.add(name)
            if state == "active":
                file = JobFile(line[4], line[5])
                yield _Departure(file, name, before, commit, at)


def _known(side: Workspace, environment: str) -> set[str]:
    """Return the runs that an environment has in git, or that its ledger has as finished."""
    kept = side.folder(environment).records.values()
    there = {record.object for record in kept if record.state not in ENDED}
    return there | side.ledger(environment).runs.keys()


def _next(side: Workspace, environment: str) -> Iterator[str]:
    """Yield the objects of the runs that an environment's jobs have once they are rendered."""
    for file in side.survey.jobs.get(environment, ()):
        recorded = side.rendered(file)
        decision = None
        if recorded is None or not side.stays(file, recorded):
            decision = side.job(file).decision
        if decision is None and recorded is not None:
            yield recorded.record.object
        elif decision is not None and decision.state not in ENDED:
            yield decision.name
