"""Runs that come back: objects that the commits before a merge have had in the records of a job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from trainwright.frozen import dataclass
from trainwright.runs import record as records
from trainwright.runs.folder import RenderedFolder
from trainwright.specs.git import Repository
from trainwright.specs.load import RENDERED, JobFile

_OBJECT = re.compile(rb'^[-+]  "object": "([^"]+)"', re.MULTILINE)
# Each commit that wrote a file; a merge wrote what none of its parents has.
_COMMITS = ("log", "--format=%H", "--full-history", "--diff-filter=AM")
_AT_ONCE = 500  # paths on one command line
_PATCHES = (
    *("log", "--format=", "--patch", "--unified=0", "-m", "--no-renames"),
    *("--no-color", "--no-ext-diff", "--no-textconv"),
)


@dataclass(frozen=True, slots=True)
class Earlier:
    """A commit and all that came before it; `inside` is the specs' folder in the repository."""

    repository: Repository
    commit: str
    inside: str

    def objects(self, files: Iterable[JobFile]) -> frozenset[str]:
        """The objects of all runs that were ever recorded of some jobs."""
        return frozenset(self._objects(tuple(map(self._path, files))))

    def texts(self, file: JobFile, name: str) -> dict[str, str]:
        """The files of a job's run as they were last committed under the name of an object."""
        path = self._path(file)
        for commit in self.repository.line(*_COMMITS, self.commit, "--", path).split():
            tree = self.repository.tree(commit, self.inside, later=RENDERED)
            found = RenderedFolder(tree, file.environment).recorded(file.name)
            if found is not None and found.object == name and found.files.intact:
                return found.files.texts()
        return {}

    def _objects(self, paths: tuple[str, ...]) -> Iterator[str]:
        for start in range(0, len(paths), _AT_ONCE):
            some = paths[start : start + _AT_ONCE]
            patches = self.repository.git(*_PATCHES, self.commit, "--", *some)
            yield from (found.decode() for found in _OBJECT.findall(patches))

    def _path(self, file: JobFile) -> str:
        path = records.path(file.environment, file.name)
        return f"{self.inside}/{path}" if self.inside else path
