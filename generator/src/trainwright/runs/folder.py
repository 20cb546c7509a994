"""What lies in a rendered folder: the record of each run, and the list that GitOps applies."""

from __future__ import annotations

import errno
import re
from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property

from trainwright.datatypes.frozen import dataclass
from trainwright.errors import OutputError
from trainwright.runs import identity
from trainwright.runs import record as records
from trainwright.runs.kustomization import KUSTOMIZATION_FILE
from trainwright.runs.record import (
    RECORD_FILE,
    VALUES_FILE,
    Record,
    Recorded,
    RunFiles,
)
from trainwright.specs import filetree
from trainwright.specs.entry import above
from trainwright.specs.layout import ENVIRONMENTS, RENDERED, JobFile
from trainwright.specs.tree import Folder, Tree

_NAMED = re.compile(rb"^fullnameOverride: ([-a-z0-9]+)$", re.MULTILINE)


def folder_of(environment: str) -> str:
    """Where the rendered files of an environment are."""
    return f"{ENVIRONMENTS}/{environment}/{RENDERED}"


@dataclass(frozen=True)
class RenderedFolder:
    """The rendered files of an environment, in whatever tree they are kept."""

    tree: Tree
    environment: str

    @property
    def path(self) -> str:
        return folder_of(self.environment)

    def after(self, tree: Tree, changed: frozenset[str]) -> RenderedFolder:
        """The folder in a tree that differs in these files and folders alone."""
        found = RenderedFolder(tree, self.environment)
        if not changed.isdisjoint((self.path, *above(self.path))):
            return found
        inside = f"{self.path}/"
        jobs = {p.removeprefix(inside).partition("/")[0] for p in changed if p.startswith(inside)}
        found._read.update({job: it for job, it in self._read.items() if job not in jobs})
        if not jobs and "hashes" in self.__dict__:
            found.__dict__["hashes"] = self.hashes
        return found

    @property
    def is_there(self) -> bool:
        """Whether the rendered files are kept in the tree."""
        return self.tree.kind(self.path) == "folder"

    @cached_property
    def hashes(self) -> Mapping[str, str]:
        """Digest of every file by its path in the folder: empty for a link, or what is no file."""
        if isinstance(self.tree, Folder):
            folder = self.tree.root / self.path
            paths = filetree.listing(folder)
            return {**dict.fromkeys(paths, ""), **filetree.hashes(folder, paths)}
        found = dict.fromkeys(self._files(""), "")
        for path in found:
            full = f"{self.path}/{path}"
            with suppress(OSError):  # as of files on disk: who cannot read one knows no digest
                if self.tree.kind(full) == "file":
                    found[path] = filetree.digest_of(self.tree.read(full))
        return found

    def _files(self, inside: str) -> list[str]:
        folder = f"{self.path}/{inside}".rstrip("/")
        if self.tree.kind(folder) != "folder":
            return []
        found = []
        for entry in self.tree.entries(folder):
            if entry.kind == "folder":
                found += self._files(f"{inside}{entry.name}/")
            else:
                found.append(f"{inside}{entry.name}")
        return found

    def record(self, job: str) -> Record | None:
        """The record of a job's run; None when there is none, or none that can be understood.

        The record in a folder that was moved or copied with its job is that of another job, and
        the one in a copy of an environment is that of the original. An environment that was
        renamed keeps its runs.
        """
        found = self._parsed(job)
        if found is None or not found.is_of(job) or self._is_copied(job, found):
            return None
        return found

    def _is_copied(self, job: str, record: Record) -> bool:
        """Whether the environment that a record was written for has the same run."""
        if record.is_written_for(JobFile(self.environment, job).path):
            return False
        others = (JobFile(entry.name, job) for entry in self.tree.entries(ENVIRONMENTS))
        of = next((file for file in others if record.is_written_for(file.path)), None)
        original = RenderedFolder(self.tree, of.environment)._parsed(job) if of else None
        return original is not None and original.object == record.object

    def _parsed(self, job: str) -> Record | None:
        """The record in a job's folder, whosever it is, read once."""
        if job not in self._read:
            self._read[job] = self._parse(job)
        return self._read[job]

    @cached_property
    def _read(self) -> dict[str, Record | None]:
        return {}

    def _parse(self, job: str) -> Record | None:
        try:
            return records.parse(self.tree.read(f"{self.path}/{job}/{RECORD_FILE}"))
        except FileNotFoundError:
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
        """The object that a job's folder has files of, and no record; empty where there is none."""
        folder = f"{self.path}/{job}"
        there = [self.tree.kind(f"{folder}/{name}") for name in (RECORD_FILE, VALUES_FILE)]
        if there != ["", "file"]:
            return ""
        try:
            found = _NAMED.search(self.tree.read(f"{folder}/{VALUES_FILE}"))
        except OSError:
            return ""
        return found[1].decode() if found and identity.is_of(job, found[1].decode()) else ""

    def recorded(self, job: str) -> Recorded | None:
        """The run of a job, with the files that were rendered for it."""
        record = self.record(job)
        if record is None:
            return None
        return Recorded(record, self._files_of(job, record.files))

    def _files_of(self, job: str, sums: Mapping[str, str]) -> RunFiles:
        intact = all(self._digest(f"{job}/{name}") == sha for name, sha in sums.items())
        return RunFiles(self.tree, f"{self.path}/{job}", sums, intact)

    def _digest(self, path: str) -> str:
        """The digest of one file, empty for one that is not there: of a commit not all are read."""
        if isinstance(self.tree, Folder):
            return self.hashes.get(path, "")
        try:
            return filetree.digest_of(self.tree.read(f"{self.path}/{path}"))
        except OSError:
            return ""

    @cached_property
    def records(self) -> Mapping[str, Record]:
        """The record of every job that has one."""
        if self.tree.kind(self.path) != "folder":
            return {}
        jobs = (e.name for e in self.tree.entries(self.path) if e.kind == "folder")
        found = {job: self.record(job) for job in jobs}
        return {job: record for job, record in found.items() if record is not None}

    @property
    def sums(self) -> Mapping[str, Mapping[str, str]]:
        """SHA-256 sums of what was rendered, by job and file name."""
        return {job: record.files for job, record in self.records.items()}

    @cached_property
    def listed(self) -> str:
        """The list of manifests as it is; empty when there is none."""
        try:
            raw = self.tree.read(f"{self.path}/{KUSTOMIZATION_FILE}")
        except OSError:
            return ""
        return raw.replace(b"\r\n", b"\n").decode(errors="replace")
