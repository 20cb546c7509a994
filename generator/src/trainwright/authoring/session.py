"""One repository that people edit: what is on disk, what is not saved yet, and what is checked."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from functools import lru_cache
from pathlib import Path

from trainwright.authoring.text import Text, read
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.layout import JobFile, is_job, job_of
from trainwright.files.entry import ignore_file
from trainwright.files.git import Settings
from trainwright.files.tree import Edited, Folder
from trainwright.render.incremental import IncrementalCheck
from trainwright.runs.workspace import Workspace

_LOG = logging.getLogger(__name__)
_REMEMBERED = 64  # texts, of which an editor shows a few


Link = Callable[[str, int], str]  # the URI of a line of a file, from 1


class Session:
    """The jobs of one repository, kept checked while its files are edited.

    Nothing is written, and nothing is done in the background: `check_open` and `check_next` do a
    piece of the work whenever they are called.
    """

    def __init__(self, root: Path):
        self.root = root
        self._folder = Folder(root)
        self._settings = Settings(root)
        self._unsaved: dict[str, bytes] = {}
        workspace = Workspace(Edited(self._folder, {}))
        self.check = IncrementalCheck(workspace, remembered=root)
        self._order: list[JobFile] = []  # in which stale jobs are checked, the next one last
        self.problem = ""  # the last thing that could not be done
        self._read = lru_cache(maxsize=_REMEMBERED)(read)

    @property
    def workspace(self) -> Workspace:
        return self.check.workspace

    # --- edits -----------------------------------------------------------------------------------

    def put(self, path: str, text: str) -> None:
        """Go on with a text of a file that is open, saved or not."""
        raw = text.encode("utf-8", "surrogatepass")
        if self._folder.kind(path) in ("file", "") and self._unsaved.get(path) != raw:
            self._unsaved[path] = raw
            self._edited({path})

    def close(self, path: str) -> None:
        """Drop a file's unsaved text, and go on with what is on disk."""
        if self._unsaved.pop(path, None) is not None:
            self._edited({path})

    def changed(self, paths: Collection[str]) -> None:
        """Take note of files that have changed on disk."""
        if paths:
            again = {ignore_file("")} if self._settings.have_changed() else set()
            self._edited({*paths, *again})

    def _edited(self, paths: Collection[str]) -> None:
        self._order = []
        self.check.edit(paths, Edited(self._folder, dict(self._unsaved)))

    # --- work ------------------------------------------------------------------------------------

    @property
    def is_checked(self) -> bool:
        """Whether everything has been checked as the files are now."""
        return not self.check.stale

    def is_answered(self, path: str) -> bool:
        """Whether every job that a file decides is checked."""
        stale = self.check.stale
        return job_of(path) not in stale and not any(
            file in stale for file in self.check.reached(path)
        )

    def check_open(self) -> None:
        """Check the jobs whose own files are open."""
        for path in self._unsaved:
            file = job_of(path)
            if file in self.check.stale:
                self._check(file)

    def check_next(self) -> None:
        """Check one outdated job, beginning with those most visible in the editor."""
        if not self._order:
            self._order = sorted(self.check.stale, key=self._prominence())
        while self._order:
            file = self._order.pop()
            if file in self.check.stale:
                self._check(file)
                return

    def _prominence(self) -> Callable[[JobFile], tuple[bool, bool, bool]]:
        """Return a sort key for how much of a job an editor shows: most of those that extend an
        open base, then of those in the environments of open files, then of those with findings.
        """
        opened = {path.split("/")[1] for path in self._unsaved}
        bases = {path for path in self._unsaved if is_job(path)}
        extending = {file for path in bases for file in self.check.reached(path)}

        def shown(file: JobFile) -> tuple[bool, bool, bool]:
            return (
                file in extending,
                file.environment in opened,
                bool(self.check.findings(file.path)),
            )

        return shown

    def _check(self, file: JobFile) -> None:
        try:
            self.check.check(file)
        except TrainwrightError as error:  # such as a file that cannot be read
            self.problem = str(error)
        except Exception:  # noqa: BLE001 - a bug in one job must not silence the others
            _LOG.exception("%s cannot be checked: please report the lines below", file)

    def refresh(self, today: str) -> Collection[str]:
        """Check again, and return the files whose findings have changed."""
        try:
            return self.check.refresh(today)
        except TrainwrightError as error:
            self.problem = str(error)
            return ()

    # --- what is known ---------------------------------------------------------------------------

    def findings(self, path: str) -> tuple[Finding, ...]:
        """Return the findings about a file."""
        return self.check.findings(path)

    def raw(self, path: str) -> bytes:
        """Return the current bytes of a file, or b"" if it cannot be read."""
        raw = self.workspace.reader.raw(path)
        return raw if isinstance(raw, bytes) else b""

    def text(self, path: str) -> Text:
        """Return a file as it is now, as far as it can be understood."""
        return self._read(path, self.raw(path))

    def lines(self, path: str) -> tuple[str, ...]:
        return self.text(path).lines

    def jobs(self) -> Iterator[JobFile]:
        """Yield every job that there is."""
        for files in self.workspace.survey.jobs.values():
            yield from files
