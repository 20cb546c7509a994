"""The runs that git remembers, where their records are missing from the files at hand.

A rendered folder may be deleted, or a branch be without one. The jobs in it are not new: what they
began with is in a commit, and rendering them anew would train them again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from trainwright.datatypes.layout import RENDERED, JobFile
from trainwright.files import git
from trainwright.files.git import GitError, Repository
from trainwright.runs.decide import overtakes
from trainwright.runs.folder import folder_of
from trainwright.runs.record import RECORD_FILE, Record, Recorded, path
from trainwright.runs.workspace import Workspace

_JOINED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REBASE_HEAD")


class History:
    """The commits that lead to a working tree; none without a repository.

    `beside` says whether these hold what is rendered, too, and no other branch does; `tip` is the
    last of them.
    """

    def __init__(self, root: Path, *, beside: bool = True, tip: str = "HEAD"):
        self._root = root
        self._tip = tip
        self.beside = beside
        self._workspaces: dict[str, Workspace] = {}

    @cached_property
    def _commits(self) -> dict[str, str]:
        """The hashes of the tip, of what is being joined to it, and of revisions read, by name."""
        try:
            repository, _ = git.around(self._root)
        except GitError:
            return {}
        return repository.commits((self._tip, *_JOINED))

    @cached_property
    def _found(self) -> tuple[Repository, str] | None:
        if self._tip not in self._commits:  # no repository, or no commit: nothing was ever rendered
            return None
        return git.around(self._root)

    def is_cut_off(self, environment: str) -> bool:
        """Whether an earlier rendering of an environment may lie beyond a shallow clone's end."""
        if not self.beside or self._found is None or not self._found[0].shallow:
            return False
        return self._at(self._tip).tree.kind(folder_of(environment)) != "folder"

    def runs(
        self, files: Collection[JobFile], workspace: Workspace
    ) -> Mapping[JobFile, Recorded | None]:
        """The run of each job: as it is recorded, or else as git knows it."""
        recorded = {file: workspace.folder(file.environment).recorded(file.name) for file in files}
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
            if run and file not in better and file not in merged and not run.files.intact:
                better[file] = self._committed(file, run)
        return {**recorded, **better, **merged}

    def lacks(self, file: JobFile, record: Record) -> bool:
        """Whether the last commit has not the run that is recorded here.

        Who renders between two edits has not begun a run by that: what counts when another one is
        asked for is the last commit's, to which the edits may have led back.
        """
        if not self.beside or self._found is None:
            return False
        head = self._at(self._tip)
        if head.tree.kind(folder_of(file.environment)) != "folder":
            return False  # what is rendered may be kept out of git, and applied all the same
        committed = head.folder(file.environment).record(file.name)
        unreadable = committed is None and head.tree.kind(path(file.environment, file.name))
        return committed != record and not unreadable

    def _is_overtaken(self, file: JobFile, record: Record, workspace: Workspace) -> bool:
        """Whether a job's own file asks for another run than the recorded one, which is in no
        commit, or for that one to be operated differently."""
        if workspace.reader.source(file.path) == record.source:
            return False
        sources = workspace.job(file).sources
        return sources is not None and overtakes(sources, record) and self.lacks(file, record)

    def _committed(self, file: JobFile, run: Recorded) -> Recorded:
        """A run whose files at hand were edited, with the last commit's if those are whole."""
        committed = self._at(self._tip).rendered(file) if self._found else None
        if (
            committed is None
            or not committed.files.intact
            or committed.record.files != run.record.files
        ):
            return run
        return Recorded(run.record, replace(committed.files, here=False))

    def recorded(self, files: Collection[JobFile]) -> Mapping[JobFile, Recorded]:
        """The last run of each job that a commit has a record of and that the job outlived."""
        if not files or self._found is None:
            return {}
        head = self._at(self._tip)
        runs = {file: run for file in files if (run := head.rendered(file))}
        missing = [file for file in files if file not in runs]
        went: set[JobFile] = set()  # with their records; those that are there came again
        for file, commit in self._lost(missing):
            if file in runs or file in went or head.tree.kind(file.path) != "file":
                continue
            run = self._at(f"{commit}^").rendered(file)
            if run is not None and self._at(commit).tree.kind(file.path) == "file":
                runs[file] = run
            elif run is not None:
                went.add(file)
        return {
            file: replace(run, files=replace(run.files, here=False)) for file, run in runs.items()
        }

    def _of_a_merge(
        self, file: JobFile, run: Recorded | None, workspace: Workspace
    ) -> Recorded | None:
        """Return the run of the side of a merge whose job file was kept and whose record was not.

        `run` is what is recorded. None where the file is of neither side, where no merge has
        decided between them, and where a commit holds a record that cannot be read: it has
        to be decided by hand.
        """
        source = workspace.reader.source(file.path)
        if (run and run.record.source == source) or not (self.beside and (run or self._joined)):
            return None
        for parent in self._sides(file, source):
            side = self._at(parent)
            recorded = side.rendered(file) if side.reader.source(file.path) == source else None
            if recorded is not None and recorded.files.intact:
                if run and run.record == recorded.record:
                    return None
                return Recorded(recorded.record, replace(recorded.files, here=False))
        return None

    def _sides(self, file: JobFile, source: str) -> tuple[str, ...]:
        """The commits that a merge at hand joins, or the one that last wrote a job and its run."""
        if self._found is None:
            return ()
        if self._joined:
            return (self._tip, *self._joined)
        if self._at(self._tip).reader.source(file.path) != source:
            return ()  # edited since
        repository, inside = self._found
        names = (file.path, f"{folder_of(file.environment)}/{file.name}/{RECORD_FILE}")
        paths = (f"{inside}/{name}" if inside else name for name in names)
        arguments = ("--max-count=1", "--parents", self._tip, "--", *paths)
        commit, *parents = repository.line("rev-list", *arguments).split() or [""]
        kept = len(parents) > 1 and self._at(commit).reader.source(file.path) == source
        return tuple(parents) if kept else ()

    @cached_property
    def _joined(self) -> tuple[str, ...]:
        """What is being merged, picked or rebased onto HEAD right now."""
        if self._found is None:
            return ()
        return tuple(self._commits[name] for name in _JOINED if name in self._commits)

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
        """Each commit, newest first, that took the record of one of these jobs away."""
        if not files:
            return
        assert self._found is not None
        repository, inside = self._found
        wanted: defaultdict[str, list[JobFile]] = defaultdict(list)
        for file in files:
            path = f"{folder_of(file.environment)}/{file.name}/{RECORD_FILE}"
            wanted[f"{inside}/{path}" if inside else path].append(file)
        arguments = ("--format=%x00%H", "--name-only", "--diff-filter=D", "--no-renames", "-m")
        folders = sorted({path.rpartition(f"/{RENDERED}/")[0] + f"/{RENDERED}" for path in wanted})
        log = repository.git("log", *arguments, self._tip, "--", *folders).decode(errors="replace")
        for entry in log.split("\0")[1:]:
            commit, *paths = entry.split("\n")
            for path in paths:
                for file in wanted.get(path, ()):
                    yield file, commit
