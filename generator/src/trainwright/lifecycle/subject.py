"""A job as a verb finds it: the text of its file, what that comes to, and what has finished."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from trainwright import ledger, names, resolve
from trainwright.errors import SourceError
from trainwright.ledger import Ledger
from trainwright.load import JobFile, LoadedEnvironment, Reader, one_job, read_spec
from trainwright.merge import Layer, Layered, lookup, stack
from trainwright.model import Data, Environment, Finding, Job
from trainwright.tree import Tree
from trainwright.yamlio import Document


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
    """One job: `raw` is its own file, `spec` what that comes to with all it inherits."""

    file: JobFile
    tree: Tree
    raw: bytes
    spec: Layered
    environment: Environment
    ledger: Ledger

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
    def job(self) -> Job:
        """The resolved job. Raises SourceError when it is not valid."""
        job = resolve.job(self.spec, self.environment, self.file.path)
        if not isinstance(job, Job):
            raise _broken(self.file, tuple(job))
        return job

    @property
    def valid(self) -> bool:
        """Whether there is a resolved job, which is not needed to edit a file."""
        return isinstance(resolve.job(self.spec, self.environment, self.file.path), Job)

    @property
    def spec_hash(self) -> str:
        return names.spec_hash(self.job, self.environment)

    @property
    def object(self) -> str:
        """The name of the run's object in the cluster."""
        return names.object_name(self.job, self.spec_hash)

    @property
    def retired(self) -> bool:
        """Whether the run that the spec describes has finished, by the ledger."""
        return bool(self.ledger.runs) and self.object in self.ledger.runs


def load(tree: Tree, file: JobFile, *, begun: bool = False) -> Subject:
    """A job of a tree. Raises SourceError for one that is not valid, unless it is only `begun`."""
    reader = Reader(tree)
    loaded = reader.environment(file.environment)
    document = loaded.document
    if document is None:
        raise _broken(file, loaded.findings)
    known = ledger.read(tree, file.environment)
    if known.findings:
        raise _broken(file, known.findings)
    return Subject(
        file=file,
        tree=tree,
        raw=tree.read(file.path),
        spec=one_job(tree, str(file)) if begun else _spec(reader, file, loaded),
        environment=resolve.environment(file.environment, document),
        ledger=known,
    )


def _spec(reader: Reader, file: JobFile, loaded: LoadedEnvironment) -> Layered:
    job = reader.job(file, loaded)
    if job.spec is None:
        raise _broken(file, job.findings)
    return job.spec


def _broken(file: JobFile, findings: tuple[Finding, ...]) -> SourceError:
    first = findings[0]
    return SourceError(f"{first.place}: {first.message}; run `trainwright check {file}`")
