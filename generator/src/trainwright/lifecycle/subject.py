"""A job as a verb finds it: its file's text, the effective values, and which run has finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import cached_property

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.pointer import lookup
from trainwright.documents.yamlio import Document
from trainwright.files.tree import Tree
from trainwright.render.history import History
from trainwright.runs.decide import decide, finished_as, overtakes
from trainwright.runs.decision import Decision, Sources
from trainwright.runs.record import ENDED, Record
from trainwright.runs.workspace import ResolvedJob, Workspace, decided, resolved
from trainwright.specs import layers
from trainwright.specs.files import with_files
from trainwright.specs.inventory import one_job
from trainwright.specs.ledger import Ledger
from trainwright.specs.load import LoadedJob, read_spec, unusable
from trainwright.specs.merge import BASE, Layered


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The result of a verb for one job: its files as they should be, and a message that says so.

    There are no files if there is nothing to do; `refused` says that the verb cannot do it. `notes`
    are lines for the person who asked. `about` is the job whose rendering changes, if that is not
    the one asked for. `for_the_run` is the field that has to reach what runs, if any.
    """

    message: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    refused: bool = False
    notes: tuple[str, ...] = ()
    about: JobFile | None = None
    for_the_run: str = ""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """One job: `raw` is the content of its own file, `spec` that merged with all it inherits.

    `present` is the record of its run, `committed` the one in the last commit: None if there is
    none. `history` are the commits before, where there are any.
    """

    workspace: Workspace
    file: JobFile
    raw: bytes
    spec: Layered
    present: Record | None
    committed: Record | None
    history: History | None = None

    @property
    def tree(self) -> Tree:
        return self.workspace.tree

    @property
    def environment(self) -> Environment:
        return self.workspace.environment(self.file.environment)

    @property
    def ledger(self) -> Ledger:
        return self.workspace.ledger(self.file.environment)

    def value(self, pointer: str) -> Data:
        """The effective value, or None."""
        return lookup(self.spec.data, pointer)

    def wrote(self, pointer: str) -> bool:
        """Whether the job's own file has a value there."""
        return self.spec.layers[-1].wrote(pointer)

    def edited(self, raw: bytes) -> Subject:
        """The same job with another text."""
        document = read_spec(self.file.path, raw)
        if not isinstance(document, Document):
            raise SourceError(f"{document[0].place}: {document[0].message}")
        below = self.workspace.loaded(self.file.environment).layers
        bases = tuple(layer for layer in self.spec.layers if layer.label == BASE)
        spec = layers.stacked(below, (*bases, *layers.of_job([document])))
        # The digests of the files are part of the run's name.
        taken = with_files(spec, self.workspace.reader)
        return replace(self, raw=raw, spec=taken.spec)

    @cached_property
    def _resolved(self) -> ResolvedJob:
        loaded = LoadedJob(self.file, self.spec, (), (), "")
        adopted = self.workspace.adopted(self.file)
        alone = resolved(loaded, self.environment, adopted)
        return decided(alone, self.present, self.ledger)

    @property
    def sources(self) -> Sources:
        """What is written about the job. Raises SourceError when it is not valid."""
        if self._resolved.sources is None:
            raise unusable(self._resolved.findings, self.file)
        return self._resolved.sources

    @property
    def record(self) -> Record | None:
        """The record of the run that goes on or is replaced by the next, as rendering finds it."""
        here = self.present
        return self.committed if here and overtakes(self.sources, here) else here

    @property
    def valid(self) -> bool:
        """Whether there is a resolved job, which is not needed to edit a file."""
        return self._resolved.sources is not None

    @property
    def decision(self) -> Decision:
        """What happens to the job's run. Raises SourceError when the job is not valid."""
        return decide(self.sources, self.record, self.ledger)

    @property
    def object(self) -> str:
        """The name of the run's object in the cluster: of the run that is rendered, or of the one
        that would begin if there is none; as the ledger has it if it has finished.
        """
        record, decision = self.record, self.decision
        return decision.name if record is None or decision.finished else record.object

    @property
    def state(self) -> str:
        """The state of the run as rendering would leave it; by the file alone if it is broken."""
        return self.decision.state if self.valid else str(self.value("/state"))

    @property
    def is_adopted(self) -> bool:
        """Whether the run's object was in the cluster before the job was in git."""
        record, adopted, name = self.record, self.sources.adopted, self.object
        recorded = record is not None and record.adopted and record.object == name
        return recorded or (adopted is not None and adopted.name == name)

    @property
    def finished(self) -> bool:
        """Whether the run that the spec describes has finished, by the ledger."""
        return bool(self.ledger.runs) and self.decision.finished

    @property
    def has_begun(self) -> bool:
        """Whether a commit has recorded a run by the name of the one that would begin: its object
        may still be in the cluster, where nothing would begin then.
        """
        return self.history is not None and self.decision.name in self.history.begun(self.file)

    @property
    def has_ended(self) -> bool:
        """Whether the run that is rendered has finished, by the ledger, whatever is to begin."""
        record = self.record
        if record is None:
            return self.finished
        return bool(finished_as(record, self.file.name, self.ledger))

    @property
    def is_over(self) -> bool:
        """Whether nothing of the run is left: it was cancelled, or has finished."""
        return self.state in ENDED


def load(tree: Tree, file: JobFile, history: History | None, *, begun: bool = False) -> Subject:
    """Return a job of a tree. Raise SourceError if it is not valid, unless it is only `begun`.

    A run that the tree does not have is looked for in `history`, as when rendering.
    """
    workspace = Workspace(tree)
    below, ledger = workspace.loaded(file.environment), workspace.ledger(file.environment)
    for findings in (below.findings, ledger.findings):
        if findings:
            raise unusable(findings, file)
    loaded = workspace.job(file).loaded
    if loaded.spec is None and not begun:
        raise unusable(loaded.findings, file)
    present = _present(workspace, file, history)
    return Subject(
        workspace=workspace,
        file=file,
        raw=tree.read(file.path),
        spec=loaded.spec or one_job(tree, str(file)),
        present=present,
        committed=_committed(file, present, history),
        history=history,
    )


def _present(workspace: Workspace, file: JobFile, history: History | None) -> Record | None:
    """The run that is recorded in the tree, or else in a commit."""
    here = workspace.job(file).record
    if here is not None or history is None:
        return here
    recorded = history.runs((file,), workspace)[file]
    return recorded.record if recorded else None


def _committed(file: JobFile, present: Record | None, history: History | None) -> Record | None:
    """Return the record that the next run replaces: `present`, or the last that is committed."""
    if present is None or history is None or not history.lacks(file, present):
        return present
    recorded = history.recorded((file,)).get(file)
    return recorded.record if recorded else None
