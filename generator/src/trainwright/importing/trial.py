"""A spec that is not on disk yet, rendered as if it were: the resulting run, or what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.documents import yamlio
from trainwright.documents.yamlio import Document
from trainwright.files.tree import Edited, Tree
from trainwright.helm import engines, values
from trainwright.importing.equivalence import form
from trainwright.importing.equivalence.form import NormalForm
from trainwright.importing.source import read
from trainwright.kinds import operators
from trainwright.kinds.reading import ImportingError
from trainwright.kinds.target import Unsupported
from trainwright.render import dropped, objects
from trainwright.runs import identity
from trainwright.runs.workspace import Workspace
from trainwright.specs import layers, resolve, violations
from trainwright.specs.load import read_spec
from trainwright.specs.merge import Layer, Layered, stack


@dataclass(slots=True)
class _Trial:
    """Rendered manifests, and the run that they are, as far as it is needed."""

    manifests: tuple[Manifest, ...]
    runs: dict[bool, NormalForm] = field(default_factory=dict)  # whether of a sample


_ANY_HASH = "0" * 8
_REFUSED = re.compile(r"at '/(\w+)")


@dataclass(frozen=True)
class ImportContext:
    """The environment that is imported into, with everything that its jobs inherit."""

    tree: Tree
    name: str
    runtimes: tuple[Manifest, ...] = field(default=())  # in the cluster

    @cached_property
    def workspace(self) -> Workspace:
        return Workspace(self.tree)

    @cached_property
    def environment(self) -> Environment:
        """Return the environment. Raise SelectionError or SourceError if it is not usable."""
        return self.workspace.environment(self.name)

    @cached_property
    def _layers(self) -> tuple[Layer, ...]:
        return self.workspace.loaded(self.name).layers

    @cached_property
    def inherited(self) -> Mapping[str, Data]:
        """The values that a job inherits before its own spec sets any."""
        return stack(self._layers).data

    def inherited_in(self, pool: str) -> Mapping[str, Data]:
        """Return the values that a job inherits if its spec sets nothing but its pool, if any."""
        return stack((*self._layers, *layers.of_pool(self._layers, pool))).data

    def written(self, file: JobFile, raw: bytes) -> Layered:
        """Return a job as it would be merged if its file had these bytes.

        Raise SourceError if it cannot be.
        """
        return Workspace(Edited(self.tree, {file.path: raw})).spec(file)

    def layered(self, spec: Mapping[str, Data]) -> Layered:
        """Return a spec with all that it inherits, as if it had been read from its file."""
        path = JobFile(self.name, spec["name"]).path
        document = Document(path, yamlio.plain(spec), places={}, keys={})
        return layers.stacked(self._layers, layers.of_job([document]))

    def refuse_unreadable(self, spec: Mapping[str, Data]) -> None:
        """Raise ImportingError for a spec of a manifest that is as large as a spec may be."""
        path = JobFile(self.name, spec["name"]).path
        document = read_spec(path, yamlio.dump(dict(spec)).encode())
        if not isinstance(document, Document):
            why = "; ".join(finding.message for finding in document)
            raise ImportingError(f"its spec would be refused: {why}")

    def run(self, spec: Mapping[str, Data], *, sampled: bool = False) -> NormalForm | Unsupported:
        """Return the normal form of what a spec renders to, or the first reason why it cannot be.

        If `sampled`, only a sample of the pods is in it, if that is enough.
        Rules are not checked: an imported workload may be as careless as it was.
        """
        return self.rendered(JobFile(self.name, spec["name"]), self.layered(spec), sampled=sampled)

    def rendered(
        self, file: JobFile, layered: Layered, *, sampled: bool = False
    ) -> NormalForm | Unsupported:
        """Return what `run` does, for a spec that is merged already."""
        broken = violations.job_violations(layered, str(file))
        job = broken or resolve.job(layered, self.environment, file.path)
        if not isinstance(job, Job):
            return Unsupported(job[0].path, job[0].message, job[0].remedy)
        # Names of runs differ by a hash, which takes its time and shows nowhere in a normal form.
        name = identity.object_name(job, _ANY_HASH)
        for _, refusal in objects.refusals(job, self.environment, name):
            return refusal
        return self._run(job, name, layered, sampled=sampled)

    def _run(
        self, job: Job, name: str, layered: Layered, *, sampled: bool
    ) -> NormalForm | Unsupported:
        try:
            trial = self._trial(job, name)
        except engines.ChartRefusal as refusal:
            # Free-form values have the name of the spec's own field.
            where = _REFUSED.search(str(refusal))
            field = Pointer.of(where[1]) if where else Pointer()
            return Unsupported(field, f"the chart refuses it: {refusal}", "")
        for lost in dropped.refusals(trial.manifests, job, self.environment, layered.data):
            return lost
        if sampled not in trial.runs:
            trial.runs[sampled] = self._form(trial.manifests, job, name, sampled=sampled)
        return trial.runs[sampled]

    def _trial(self, job: Job, name: str) -> _Trial:
        """Return what a job renders to: once for all jobs with equal values, as Helm is slow."""
        decided = values.build(job, self.environment, name)
        key = json.dumps((name, job.namespace, decided))
        if key not in self._trials:
            files = objects.rendered(decided, job, self._engine)
            self._trials[key] = _Trial(objects.manifests(files, job.target))
        return self._trials[key]

    def _form(
        self, manifests: tuple[Manifest, ...], job: Job, name: str, *, sampled: bool
    ) -> NormalForm:
        lent = self.environment.targets[job.target].runtime
        runtimes = tuple(r for r in self.runtimes if r.name == lent) if lent else ()
        everything = form.renamed((*manifests, *runtimes), name)
        return read(everything, operators.workload(everything), sampled=sampled)

    @cached_property
    def _trials(self) -> dict[str, _Trial]:
        return {}

    @cached_property
    def _engine(self) -> engines.Engine:
        return engines.engine()
