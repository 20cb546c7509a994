"""Runs that come back: objects that the commits before a merge have had in the records of a job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from posixpath import join

from trainwright.datatypes.layout import RENDERED, JobFile
from trainwright.files.git import Repository
from trainwright.render.history import begun
from trainwright.runs import record as records
from trainwright.runs.folder import RenderedFolder
from trainwright.runs.record import Recorded

# Each commit that wrote a file; a merge wrote what none of its parents has.
_COMMITS = ("log", "--format=%H", "--full-history", "--diff-filter=AM")


class Earlier:
    """A commit and all that came before it; `inside` is the specs' folder in the repository."""

    def __init__(self, repository: Repository, commit: str, inside: str):
        self._repository = repository
        self.commit = commit
        self._inside = inside
        self._known: dict[JobFile, Set[str]] = {}

    def objects(self, files: Iterable[JobFile]) -> Mapping[JobFile, Set[str]]:
        """Return the objects of all runs ever recorded for these jobs, asking git once per job."""
        wanted = tuple(files)
        new = tuple(file for file in wanted if file not in self._known)
        self._known |= begun(self._repository, self.commit, self._inside, new)
        return {file: self._known[file] for file in wanted}

    def recorded(self, file: JobFile, name: str) -> Recorded | None:
        """A job's run as it was last committed under the name of an object, with all its files;
        None if no commit has these.
        """
        path = self._path(file)
        for commit in self._repository.line(*_COMMITS, self.commit, "--", path).split():
            tree = self._repository.tree(commit, self._inside, later=RENDERED)
            recorded = RenderedFolder(tree, file.environment).recorded(file.name)
            record = recorded.record if recorded and recorded.intact else None
            if record and record.object == name and record.files:
                return recorded
        return None

    def _path(self, file: JobFile) -> str:
        return join(self._inside, records.path(file))
