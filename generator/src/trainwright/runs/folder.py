"""The content of a rendered folder: the record of each run, and the list that GitOps applies."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping

from trainwright.datatypes.errors import OutputError
from trainwright.datatypes.layout import ENVIRONMENTS, JobFile, rendered_folder
from trainwright.files.memo import Owner, tracked
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Tree
from trainwright.runs import identity
from trainwright.runs import record as records
from trainwright.runs.kustomization import KUSTOMIZATION_FILE
from trainwright.runs.record import RECORD_FILE, VALUES_FILE, Record, Recorded

_NAMED = re.compile(rb"^fullnameOverride: ([-a-z0-9]+)$", re.MULTILINE)


class RenderedFolder(Owner):
    """The rendered files of an environment, in the tree that they are kept in."""

    def __init__(self, tree: Tree, environment: str):
        self.tree = Tracked.of(tree)
        self.environment = environment
        super().__init__(self.tree.memo)

    @property
    def path(self) -> str:
        return rendered_folder(self.environment)

    @property
    def is_there(self) -> bool:
        """Whether the rendered files are kept in the tree."""
        return self.tree.kind(self.path) == "folder"

    @property
    def hashes(self) -> Mapping[str, str]:
        """The digest of every file by its path in the folder; "" for a link or what is no file."""
        return {name: self._digest(name) for name in self.tree.files(self.path)}

    def record(self, job: str) -> Record | None:
        """Return the record of a job's run, or None if there is none or it cannot be understood.

        The record in a folder that was moved or copied with its job is that of another job, and
        the one in a copy of an environment is that of the original. An environment that was
        renamed keeps its runs.
        """
        parsed = self._parsed(job)
        if parsed is None or not parsed.is_of(job) or self._is_copied(job, parsed):
            return None
        return parsed

    def _is_copied(self, job: str, record: Record) -> bool:
        """Whether the environment that a record was written for has the same run."""
        if record.is_written_for(JobFile(self.environment, job).path):
            return False
        others = (JobFile(entry.name, job) for entry in self.tree.entries(ENVIRONMENTS))
        of = next((file for file in others if record.is_written_for(file.path)), None)
        original = RenderedFolder(self.tree, of.environment)._parsed(job) if of else None
        return original is not None and original.object == record.object

    @tracked()
    def _parsed(self, job: str) -> Record | None:
        """Return the record in a job's folder, even if it is of another job; it is read once."""
        try:
            return records.parse(self.tree.read(f"{self.path}/{job}/{RECORD_FILE}"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.EFBIG:
                return None  # it is no record, and other jobs have theirs
            path = f"{self.path}/{job}/{RECORD_FILE}"
            raise OutputError(f"cannot read {path}: {error.strerror or error}") from error

    def is_unreadable(self, job: str) -> bool:
        """Whether there is a record of a job's run that cannot be understood."""
        return (
            self._parsed(job) is None
            and self.tree.kind(f"{self.path}/{job}/{RECORD_FILE}") == "file"
        )

    def unclaimed(self, job: str) -> str:
        """Return the object whose files are in a job's folder without a record, or "" if none."""
        folder = f"{self.path}/{job}"
        kinds = [self.tree.kind(f"{folder}/{name}") for name in (RECORD_FILE, VALUES_FILE)]
        if kinds != ["", "file"]:
            return ""
        try:
            match = _NAMED.search(self.tree.read(f"{folder}/{VALUES_FILE}"))
        except OSError:
            return ""
        return match[1].decode() if match and identity.is_of(job, match[1].decode()) else ""

    def recorded(self, job: str) -> Recorded | None:
        """Return the run of a job, with the files that were rendered for it, or None."""
        record = self.record(job)
        if record is None:
            return None
        files = record.files.items()
        intact = all(self._digest(f"{job}/{name}") == sha for name, sha in files)
        return Recorded(record, self.tree, f"{self.path}/{job}", intact)

    def _digest(self, path: str) -> str:
        """Return one file's digest, or "" if it is missing, without reading a whole commit."""
        return self.tree.digest(f"{self.path}/{path}")

    @property
    @tracked()
    def records(self) -> Mapping[str, Record]:
        """The record of every job that has one."""
        if self.tree.kind(self.path) != "folder":
            return {}
        jobs = (e.name for e in self.tree.entries(self.path) if e.kind == "folder")
        by_job = {job: self.record(job) for job in jobs}
        return {job: record for job, record in by_job.items() if record is not None}

    @property
    def sums(self) -> Mapping[str, Mapping[str, str]]:
        """The SHA-256 sums of the rendered files, by job and file name."""
        return {job: record.files for job, record in self.records.items()}

    @property
    def listed(self) -> str:
        """Return the list of manifests as it is, or "" if there is none."""
        try:
            raw = self.tree.read(f"{self.path}/{KUSTOMIZATION_FILE}")
        except OSError:
            return ""
        return raw.replace(b"\r\n", b"\n").decode(errors="replace")

    @tracked()
    def applied(self) -> frozenset[str]:
        """Return the files that the list of manifests names, one on each line."""
        return frozenset(line.strip(" ,-\"'") for line in self.listed.splitlines())
