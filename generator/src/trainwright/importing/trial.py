"""A spec that is not on disk yet, rendered as if it were: the run it comes to, or what is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from trainwright import equivalence, helm
from trainwright.equivalence import NormalForm
from trainwright.errors import SelectionError, SourceError
from trainwright.importing import beside
from trainwright.kinds import TARGETS, unsupported
from trainwright.model import Data, Environment, Finding, Job, Manifest
from trainwright.pointer import Pointer
from trainwright.render import values
from trainwright.runs import identity
from trainwright.specs import load, resolve, schema, yamlio
from trainwright.specs.load import JobFile, LoadedEnvironment, Reader, read_spec
from trainwright.specs.merge import Layer, Layered, stack
from trainwright.specs.tree import Entry, Kind, Tree
from trainwright.specs.yamlio import Document

_REFUSED = re.compile(r"at '/(\w+)")


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a spec renders to nothing: the field that it is about, and what to do."""

    path: Pointer
    message: str
    remedy: str


def _refusal(finding: Finding) -> Refusal:
    return Refusal(finding.path, finding.message, finding.remedy)


@dataclass(frozen=True, slots=True)
class _Overlay:
    """A tree in which one file reads otherwise."""

    below: Tree
    path: str
    raw: bytes

    def entries(self, folder: str) -> tuple[Entry, ...]:
        return self.below.entries(folder)

    def kind(self, path: str) -> Kind:
        return "file" if path == self.path else self.below.kind(path)

    def read(self, path: str) -> bytes:
        return self.raw if path == self.path else self.below.read(path)


@dataclass(frozen=True)
class ImportContext:
    """The environment that is imported into, with everything that lies below its jobs."""

    tree: Tree
    name: str
    runtimes: tuple[Manifest, ...] = field(default=())  # that the cluster has

    @cached_property
    def _loaded(self) -> LoadedEnvironment:
        if self.name not in load.discover(self.tree).jobs:
            raise SelectionError(
                f'there is no environment "{self.name}"; see `trainwright list environments`'
            )
        return Reader(self.tree).environment(self.name)

    @cached_property
    def environment(self) -> Environment:
        """The environment itself. Raises SourceError when its files are not usable."""
        loaded = self._loaded
        if loaded.document is None:
            first = loaded.findings[0]
            raise SourceError(
                f"{first.place}: {first.message}; run `trainwright check {self.name}`"
            )
        return resolve.environment(self.name, loaded.document)

    @cached_property
    def inherited(self) -> Mapping[str, Data]:
        """What a job has before it says anything."""
        return stack(self._loaded.layers).data

    def written(self, file: JobFile, raw: bytes) -> Layered:
        """A job as it would be merged if its file had these bytes.

        Raises SourceError when it cannot be.
        """
        job = Reader(_Overlay(self.tree, file.path, raw)).job(file, self._loaded)
        if job.spec is None:
            first = job.findings[0]
            raise SourceError(f"{first.place}: {first.message}; run `trainwright check {file}`")
        return job.spec

    def layered(self, spec: Mapping[str, Data]) -> Layered:
        """A spec with all that it inherits."""
        file = JobFile(self.name, spec["name"])
        document = read_spec(file.path, yamlio.dump(dict(spec)).encode())
        assert isinstance(document, Document), "what is dumped can be read"
        return stack((*self._loaded.layers, Layer("job", document)))

    def run(self, spec: Mapping[str, Data]) -> NormalForm | Refusal:
        """The normal form of what a spec renders to, or the first thing that keeps it from that.

        Rules are not asked: what is imported may be as careless as it was.
        """
        return self.rendered(JobFile(self.name, spec["name"]), self.layered(spec))

    def rendered(self, file: JobFile, layered: Layered) -> NormalForm | Refusal:
        """The same of a spec that is merged already."""
        broken = load.violations(schema.effective_job(), layered, str(file))
        if broken:
            return _refusal(broken[0])
        job = resolve.job(layered, self.environment, file.path)
        if not isinstance(job, Job):
            return _refusal(job[0])
        for problem in (
            *unsupported(job, self.environment),
            *values.reserved(job, self.environment, job.name),
        ):
            return Refusal(problem.path, problem.message, problem.remedy)
        name = identity.object_name(job, identity.spec_hash(job, self.environment))
        if len(f"{name}{TARGETS[job.target].longest_suffix(job)}") > identity.MAX_NAME:
            return Refusal(
                Pointer("/name"), f"the name {job.name} is too long", "Give a shorter one."
            )
        return self._run(job, name)

    def _run(self, job: Job, name: str) -> NormalForm | Refusal:
        decided = values.build(job, self.environment, name)
        try:
            texts = self._engine.render(decided, job.name, job.namespace)
        except helm.ChartRefusal as refusal:
            # Free-form values have the name of the spec's own field.
            where = _REFUSED.search(str(refusal))
            field = Pointer.of(where[1]) if where else Pointer()
            return Refusal(field, f"the chart refuses it: {refusal}", "")
        envelope = TARGETS[job.target].envelope or dict
        manifests = tuple(
            Manifest(body=envelope(body), path=path)
            for path, text in texts.items()
            for body in yamlio.load_rendered(text)
        )
        lent = self.environment.targets[job.target].runtime
        runtimes = tuple(r for r in self.runtimes if r.name == lent) if lent else ()
        everything = (*manifests, *runtimes)
        return beside.settled(equivalence.normal_form(everything, name), everything)

    @cached_property
    def _engine(self) -> helm.Engine:
        return helm.engine()
