"""A job as a verb finds it: the text of its file, what that comes to, and what has finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trainwright.errors import SourceError
from trainwright.model import Data, Environment, Job
from trainwright.render.history import History
from trainwright.runs.decision import Decision, Sources, asks, decide
from trainwright.runs.record import Record
from trainwright.specs import resolve
from trainwright.specs.ledger import Ledger
from trainwright.specs.load import JobFile, one_job, read_spec, unusable
from trainwright.specs.merge import Layer, Layered, lookup, stack
from trainwright.specs.tree import Tree
from trainwright.specs.yamlio import Document
from trainwright.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a verb makes of one job: files as they should be, and a clause that says so.

    There are no files when there is nothing to do; `refused` when the verb cannot do it. `notes`
    are lines for the person who asked. `about` is the job whose rendering changes, where that is
    another one than was asked for. `for_the_run` when it is of no use unless it reaches what runs.
    """

    said: str
    files: Mapping[str, bytes] = field(default_factory=dict)
    refused: bool = False
    notes: tuple[str, ...] = ()
    about: JobFile | None = None
    for_the_run: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """One job: `raw` is its own file, `spec` what that comes to with all it inherits.

    `present` is the record of the run it has, `committed` that of the last commit: None when there
    is none.
    """

    file: JobFile
    tree: Tree
    raw: bytes
    spec: Layered
    environment: Environment
    document: Document  # of environment.yaml
    ledger: Ledger
    present: Record | None
    committed: Record | None

    def value(self, pointer: str) -> Data:
        """The effective value, or None."""
        return lookup(self.spec.data, pointer)

    def wrote(self, pointer: str) -> bool:
        """Whether the job's own file says something there."""
        return self.spec.layers[-1].wrote(pointer)

    def edited(self, raw: bytes) -> Subject:
        """The same job with another text."""
        document = read_spec(self.file.path, raw)
        if not isinstance(document, Document):
            raise SourceError(f"{document[0].place}: {document[0].message}")
        spec = stack((*self.spec.layers[:-1], Layer("job", document)))
        return replace(self, raw=raw, spec=spec)

    @property
    def sources(self) -> Sources:
        """What is written about the job. Raises SourceError when it is not valid."""
        job = resolve.job(self.spec, self.environment, self.file.path)
        if not isinstance(job, Job):
            raise unusable(job, self.file)
        return Sources(
            spec=self.spec, job=job, environment=self.environment, document=self.document
        )

    @property
    def record(self) -> Record | None:
        """The run that goes on, or that the next one replaces: as rendering finds it."""
        here = self.present
        return self.committed if here and asks(self.sources, here) else here

    @property
    def valid(self) -> bool:
        """Whether there is a resolved job, which is not needed to edit a file."""
        return isinstance(resolve.job(self.spec, self.environment, self.file.path), Job)

    @property
    def decision(self) -> Decision:
        """What becomes of the job's run. Raises SourceError when the job is not valid."""
        return decide(self.sources, self.record, self.ledger)

    @property
    def object(self) -> str:
        """The name of the run's object in the cluster."""
        decision = self.decision
        return decision.record.object if decision.unasked and decision.record else decision.name

    @property
    def finished(self) -> bool:
        """Whether the run that the spec describes has finished, by the ledger."""
        return bool(self.ledger.runs) and self.decision.state == "finished"


def load(tree: Tree, file: JobFile, history: History | None, *, begun: bool = False) -> Subject:
    """A job of a tree. Raises SourceError for one that is not valid, unless it is only `begun`.

    A run that the tree does not have is looked for in `history`, as rendering does.
    """
    workspace = Workspace(tree)
    loaded = workspace.loaded(file.environment)
    document = loaded.document
    if document is None:
        raise unusable(loaded.findings, file)
    known = workspace.ledger(file.environment)
    if known.findings:
        raise unusable(known.findings, file)
    resolved = workspace.job(file)
    if resolved.loaded.spec is None and not begun:
        raise unusable(resolved.loaded.findings, file)
    present = _present(workspace, file, history)
    return Subject(
        file=file,
        tree=tree,
        raw=tree.read(file.path),
        spec=resolved.loaded.spec or one_job(tree, str(file)),
        environment=workspace.environment(file.environment),
        document=document,
        ledger=known,
        present=present,
        committed=_committed(file, present, history),
    )


def _present(workspace: Workspace, file: JobFile, history: History | None) -> Record | None:
    """The run that is recorded in the tree, or else in a commit."""
    here = workspace.job(file).record
    if here is not None or history is None:
        return here
    found = history.runs((file,), workspace, workspace.folder(file.environment))[file]
    return found.record if found else None


def _committed(file: JobFile, present: Record | None, history: History | None) -> Record | None:
    """The run in place of which the next one begins, where the present one is in no commit."""
    if present is None or history is None or not history.lacks(file, present):
        return present
    found = history.recorded((file,)).get(file)
    return found.record if found else None
