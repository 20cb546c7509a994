"""The runs in git's history whose records are missing from the present files.

A rendered folder may have been deleted, or be missing from a branch. Its jobs are not new: what
they began with is in a commit, and rendering them as new runs would train them again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from posixpath import join

from trainwright.datatypes.layout import RENDERED, JobFile, rendered_folder
from trainwright.files import git
from trainwright.files.git import GitError, Repository
from trainwright.runs import record as records
from trainwright.runs.decide import overtakes
from trainwright.runs.record import Record, Recorded
from trainwright.runs.workspace import Workspace

JOINED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REBASE_HEAD")
# The job to which the following lines of a diff belong, and an object in one of them.
_OBJECT = re.compile(
    rb"^diff --git .*/([^/]+)/rendered/([^/]+)/run\.lock\"?$"
    rb'|^[-+]  "object": "([^"]+)"',
    re.MULTILINE,
)
_AT_ONCE = 500  # paths on one command line
_PATCHES = (
    *("log", "--format=", "--patch", "--unified=0", "-m", "--no-renames"),
    *("--no-color", "--no-ext-diff", "--no-textconv"),
)


def begun(
    repository: Repository, commit: str, inside: str, files: Sequence[JobFile]
) -> Mapping[JobFile, Set[str]]:
    """Return the objects of all runs that a commit and those before it have recorded for jobs.

    `inside` is the folder of the specs in the repository.
    """
    objects: dict[JobFile, set[str]] = {file: set() for file in files}
    for start in range(0, len(files), _AT_ONCE):
        paths = (join(inside, records.path(it)) for it in files[start : start + _AT_ONCE])
        patches = repository.git(*_PATCHES, commit, "--", *paths)
        file = JobFile("", "")
        for environment, job, name in _OBJECT.findall(patches):
            if name:
                objects[file].add(name.decode())
            else:
                file = JobFile(environment.decode(), job.decode())
    return objects


class History:
    """The commits that lead to a working tree; none without a repository.

    `beside` is whether they also hold the rendered files, rather than another branch; `tip` is
    the last of them.
    """

    def __init__(self, root: Path, *, beside: bool = True, tip: str = "HEAD"):
        self._root = root
        self._tip = tip
        self.beside = beside
        self._workspaces: dict[str, Workspace] = {}
        self._begun: dict[JobFile, Set[str]] = {}

    @cached_property
    def _commits(self) -> dict[str, str]:
        """The hashes, by name, of the tip, of what is being merged, and of revisions read."""
        try:
            repository, _ = git.around(self._root)
        except GitError:
            return {}
        return repository.commits((self._tip, *JOINED))

    @cached_property
    def _found(self) -> tuple[Repository, str] | None:
        if self._tip not in self._commits:  # no repository, or no commit: nothing was ever rendered
            return None
        return git.around(self._root)

    def is_cut_off(self, environment: str) -> bool:
        """Whether a shallow clone may lack the commits with an environment's earlier rendering."""
        if not self.beside or self._found is None or not self._found[0].shallow:
            return False
        return self._at(self._tip).tree.kind(rendered_folder(environment)) != "folder"

    def runs(
        self, files: Collection[JobFile], workspace: Workspace
    ) -> Mapping[JobFile, Recorded | None]:
        """Return the run of each job as it is recorded, else as git has it, or None."""
        recorded = {file: workspace.rendered(file) for file in files}
        merged = {
            file: side
            for file, run in recorded.items()
            if (side := self._of_a_merge(file, run, workspace))
        }
        again = [
            file
            for file, run in recorded.items()
            if run and file not in merged and self._is_overtaken(file, run.record, workspace)
        ]
        missing = [file for file, run in recorded.items() if not run and file not in merged]
        committed = self.recorded((*missing, *again))
        better = {file: committed.get(file) for file in (*missing, *again)}
        for file, run in recorded.items():
            if run and file not in better and file not in merged and not run.intact:
                better[file] = self._committed(file, run)
        return {**recorded, **better, **merged}

    def lacks(self, file: JobFile, record: Record) -> bool:
        """Whether the last commit lacks the run that is recorded here.

        Rendering between two edits does not begin a run: when another run is requested, only the
        last commit's counts, to which later edits may have returned.
        """
        if not self.beside or self._found is None:
            return False
        head = self._at(self._tip)
        if head.tree.kind(rendered_folder(file.environment)) != "folder":
            return False  # rendered files may be applied although they are kept out of git
        committed = head.record(file)
        unreadable = committed is None and head.tree.kind(records.path(file))
        return committed != record and not unreadable

    def _is_overtaken(self, file: JobFile, record: Record, workspace: Workspace) -> bool:
        """Whether a job's own file requests another run than the recorded one, which is in no
        commit, or for that one to be operated differently."""
        if workspace.reader.source(file.path) == record.source:
            return False
        sources = workspace.job(file).sources
        return sources is not None and overtakes(sources, record) and self.lacks(file, record)

    def _committed(self, file: JobFile, run: Recorded) -> Recorded:
        """Return a run whose present files were edited, with the last commit's files if intact."""
        committed = self._at(self._tip).rendered(file) if self._found else None
        if committed is None or not committed.intact or committed.record.files != run.record.files:
            return run
        return replace(committed, record=run.record, here=False)

    def recorded(self, files: Collection[JobFile]) -> Mapping[JobFile, Recorded]:
        """Return the last run of each job that a commit has recorded and that the job outlived."""
        if not files or self._found is None:
            return {}
        head = self._at(self._tip)
        runs = {file: run for file in files if (run := head.rendered(file))}
        missing = [file for file in files if file not in runs]
        went: set[JobFile] = set()  # specs deleted with their records, and added again since
        for file, commit in self._lost(missing):
            if file in runs or file in went or head.tree.kind(file.path) != "file":
                continue
            run = self._at(f"{commit}^").rendered(file)
            if run is not None and self._at(commit).tree.kind(file.path) == "file":
                runs[file] = run
            elif run is not None:
                went.add(file)
        return {file: replace(run, here=False) for file, run in runs.items()}

    def begun(self, file: JobFile) -> Set[str]:
        """Return the objects of all runs that the commits have recorded for a job."""
        if self._found is None:
            return frozenset()
        if file not in self._begun:
            repository, inside = self._found
            self._begun |= begun(repository, self._commits[self._tip], inside, (file,))
        return self._begun[file]

    def _of_a_merge(
        self, file: JobFile, run: Recorded | None, workspace: Workspace
    ) -> Recorded | None:
        """Return the run of the side of a merge whose job file was kept and whose record was not.

        `run` is what is recorded. None if the file is neither side's, if no merge chose between
        them, or if a commit has an unreadable record: that has to be decided by hand.
        """
        source = workspace.reader.source(file.path)
        if (run and run.record.source == source) or not (self.beside and (run or self._joined)):
            return None
        for parent in self._sides(file, source):
            side = self._at(parent)
            recorded = side.rendered(file) if side.reader.source(file.path) == source else None
            if recorded is not None and recorded.intact:
                if run and run.record == recorded.record:
                    return None
                return replace(recorded, here=False)
        return None

    def _sides(self, file: JobFile, source: str) -> tuple[str, ...]:
        """Return the commits joined by the merge in progress, or by the one that last wrote a job.

        Return () if there is no merge, or the job was edited since.
        """
        if self._found is None:
            return ()
        if self._joined:
            return (self._tip, *self._joined)
        if self._at(self._tip).reader.source(file.path) != source:
            return ()  # edited since
        repository, inside = self._found
        paths = (join(inside, name) for name in (file.path, records.path(file)))
        arguments = ("--max-count=1", "--parents", self._tip, "--", *paths)
        commit, *parents = repository.line("rev-list", *arguments).split() or [""]
        kept = len(parents) > 1 and self._at(commit).reader.source(file.path) == source
        return tuple(parents) if kept else ()

    @cached_property
    def _joined(self) -> tuple[str, ...]:
        """The commits that are being merged, cherry-picked or rebased onto HEAD right now."""
        if self._found is None:
            return ()
        return tuple(self._commits[name] for name in JOINED if name in self._commits)

    def _at(self, revision: str) -> Workspace:
        assert self._found is not None
        repository, inside = self._found
        if revision not in self._commits:
            self._commits[revision] = repository.commit(revision)
        commit = self._commits[revision]
        if commit not in self._workspaces:
            tree = repository.tree(commit, inside, later=RENDERED)
            self._workspaces[commit] = Workspace(tree)
        return self._workspaces[commit]

    def _lost(self, files: Collection[JobFile]) -> Iterator[tuple[JobFile, str]]:
        """Yield each commit, newest first, that removed the record of one of these jobs."""
        if not files:
            return
        assert self._found is not None
        repository, inside = self._found
        wanted: defaultdict[str, list[JobFile]] = defaultdict(list)
        for file in files:
            wanted[join(inside, records.path(file))].append(file)
        arguments = ("--format=%x00%H", "--name-only", "--diff-filter=D", "--no-renames", "-m")
        folders = sorted({path.rpartition(f"/{RENDERED}/")[0] + f"/{RENDERED}" for path in wanted})
        log = repository.git("log", *arguments, self._tip, "--", *folders).decode(errors="replace")
        for entry in log.split("\0")[1:]:
            commit, *paths = entry.split("\n")
            for path in paths:
                for file in wanted.get(path, ()):
                    yield file, commit
