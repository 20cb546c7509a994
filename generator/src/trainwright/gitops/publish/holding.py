"""What a branch holds of one environment, and how that differs from what it should hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property
from pathlib import PurePosixPath
from posixpath import join

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENT_FILE, rendered_folder
from trainwright.datatypes.listing import listed
from trainwright.files import filetree
from trainwright.files.filetree import Changes
from trainwright.files.git import Repository
from trainwright.files.tree import NOTHING, Edited, Tree, paths_below
from trainwright.gitops.publish import provenance
from trainwright.gitops.publish.model import PublishError
from trainwright.gitops.publish.provenance import METADATA
from trainwright.gitops.statement import STATEMENT
from trainwright.runs import record as records
from trainwright.runs.kustomization import KUSTOMIZATION_FILE
from trainwright.runs.record import RECORD_FILE, Record
from trainwright.specs.own_objects import COPIES

_TRACES = frozenset({METADATA, STATEMENT})  # files that say where the others come from
_OWN = _TRACES | {KUSTOMIZATION_FILE}


@dataclass(frozen=True)
class Holding:
    """An environment's rendered files at a commit (empty: none), in a folder (empty: the top)."""

    repository: Repository
    tip: str
    folder: str

    def full(self, path: str) -> str:
        """Return a path in the folder, from the top."""
        return join(self.folder, path)

    @cached_property
    def files(self) -> Mapping[str, bytes]:
        """Everything in the folder: bytes by path, empty for what is not a regular file."""
        if not self.tip or (self.folder and not self.repository.has(self.tip, self.folder)):
            return {}
        tree = self.repository.tree(self.tip, self.folder)
        return {
            path: tree.read(path) if tree.kind(path) == "file" else b""
            for path in paths_below(tree, "")
        }

    @cached_property
    def _records(self) -> Mapping[str, Record | None]:
        """The record of each job that has one; None for one that is malformed or was edited."""
        parts = ((path.partition("/"), raw) for path, raw in self.files.items())
        return {job: records.parse(raw) for (job, _, name), raw in parts if name == RECORD_FILE}

    @cached_property
    def _runs(self) -> Mapping[str, Mapping[str, str]]:
        """The sums of each job's rendered files by name, as its record has them."""
        return {job: record.files for job, record in self._records.items() if record}

    @cached_property
    def _hashes(self) -> Mapping[str, str]:
        """Return the recorded SHA-256 of each rendered file, by its path in the folder."""
        return {f"{job}/{n}": sha for job, files in self._runs.items() for n, sha in files.items()}

    def _is_ours(self, path: str) -> bool:
        """Whether the tool may write and remove a path: at the top of a branch people may keep a
        README, code owners and workflows as well.
        """
        ours = {*self._jobs, COPIES}
        return bool(self.folder) or path in _OWN or path.partition("/")[0] in ours

    def as_rendered(self, environment: str) -> Tree:
        """Return the tool's files at the paths they would have beside an environment's specs."""
        inside = rendered_folder(environment)
        ours = {path: raw for path, raw in self.files.items() if self._is_ours(path)}
        return Edited(NOTHING, {f"{inside}/{path}": raw for path, raw in ours.items()})

    @property
    def _jobs(self) -> frozenset[str]:
        return frozenset({*self._runs, *self._records})

    def edits(self) -> tuple[str, ...]:
        """Return the files that differ from what was rendered: changed or added by hand."""
        return tuple(self.full(path) for path, raw in self.files.items() if self._edited(path, raw))

    def _edited(self, path: str, raw: bytes) -> bool:
        """Whether a rendered file on the branch is not as its run's record has it."""
        job, _, name = path.partition("/")
        if not self._is_ours(path) or path in _OWN or job == COPIES:
            return False
        if job in self._records and self._records[job] is None:
            return name == RECORD_FILE  # how the other files were rendered is unknown
        return name != RECORD_FILE and self._hashes.get(path) != filetree.digest_of(raw)

    def refuse_edits(self, branch: str) -> None:
        """Raise an error when something would be lost that is not in any spec."""
        if edits := self.edits():
            raise PublishError(
                f"edited by hand on {branch}: {listed(edits)}; take it back there, or give "
                "--discard-edits"
            )

    def removed(self, specs: Mapping[str, str]) -> Iterator[str]:
        """Yield the records of jobs, each with the path of its spec, that a commit removed here.

        A job whose spec went with its record came again since: it is a new one.
        """
        missing = {
            self.full(f"{job}/{RECORD_FILE}"): spec
            for job, spec in specs.items()
            if job not in self._jobs
        }
        for path, commit in provenance.removals(self.repository, self.tip, missing):
            spec = missing[path]
            environment = PurePosixPath(spec).parent.parent / ENVIRONMENT_FILE
            beside_specs = self.repository.has(commit, str(environment))
            if not beside_specs or self.repository.has(commit, spec):
                yield path

    def change(self, rendered: Changes) -> Change:
        """Return what a rendering changes, by path from the top; tracing files do not count."""
        return Change(
            files={self.full(path): text for path, text in rendered.written.items()},
            removed=tuple(self.full(p) for p in rendered.removed if p not in _TRACES),
        )

    def after(self, rendered: Changes) -> Mapping[str, bytes]:
        """Return the rendered files by path from the top, once that is changed."""
        gone = {self.full(path) for path in rendered.removed}
        stays = {path: raw for path, raw in self.rendered.items() if path not in gone}
        return {**stays, **{self.full(p): text.encode() for p, text in rendered.written.items()}}

    @property
    def rendered(self) -> Mapping[str, bytes]:
        """The rendered files by path from the branch's top, except those that trace the source."""
        ours = (path for path in self.files if self._is_ours(path) and path not in _TRACES)
        return {self.full(path): self.files[path] for path in ours}


@dataclass(slots=True)
class Change:
    """Texts by path from the top, and paths that go."""

    files: dict[str, str] = field(default_factory=dict)
    removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.files or self.removed)

    def add(self, other: Change) -> None:
        self.files |= other.files
        self.removed += other.removed
