"""One side of a merge: every job of it resolved, and those rendered that matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from trainwright import batch, demand, index, ledger, names, resolve
from trainwright.ledger import Ledger
from trainwright.load import (
    ENVIRONMENTS,
    RENDERED,
    JobFile,
    LoadedEnvironment,
    LoadedJob,
    Reader,
    Survey,
    survey,
)
from trainwright.model import Environment, Job
from trainwright.render import Rendered
from trainwright.review.model import Run
from trainwright.tree import Snapshot, Tree


@dataclass(frozen=True, slots=True)
class Known:
    """A job as far as it can be known without rendering it; `job` is None when it is broken."""

    loaded: LoadedJob
    job: Job | None


class Side:
    """The specs of one commit or folder."""

    def __init__(self, tree: Tree):
        self.tree = Snapshot(tree)
        self.reader = Reader(self.tree)
        self._environments: dict[str, LoadedEnvironment] = {}
        self._indexes: dict[str, Mapping[str, index.Entry]] = {}
        self._ledgers: dict[str, Ledger] = {}
        self._known: dict[JobFile, Known] = {}

    @cached_property
    def survey(self) -> Survey:
        """What there is; nothing before the first commit of any environment."""
        return survey(self.tree) if self.tree.kind(ENVIRONMENTS) == "folder" else Survey({}, ())

    def loaded(self, name: str) -> LoadedEnvironment:
        if name not in self._environments:
            self._environments[name] = self.reader.environment(name)
        return self._environments[name]

    @cached_property
    def environments(self) -> Mapping[str, Environment]:
        """The environments whose own file is sound."""
        documents = {name: self.loaded(name).document for name in self.survey.jobs}
        return {
            name: resolve.environment(name, document)
            for name, document in documents.items()
            if document is not None
        }

    def know(self, file: JobFile) -> Known:
        """A job merged and resolved, once."""
        if file not in self._known:
            self._known[file] = self._merged(file)
        return self._known[file]

    def _merged(self, file: JobFile) -> Known:
        loaded = self.reader.job(file, self.loaded(file.environment))
        environment = self.environments.get(file.environment)
        if loaded.spec is None or environment is None:
            return Known(loaded, None)
        job = resolve.job(loaded.spec, environment, file.path)
        return Known(loaded, job if isinstance(job, Job) else None)

    @cached_property
    def known(self) -> Mapping[JobFile, Known]:
        """Every job of every environment."""
        return {file: self.know(file) for jobs in self.survey.jobs.values() for file in jobs}

    def render(self, files: tuple[JobFile, ...], helm: str | None) -> dict[JobFile, Rendered]:
        """Some jobs, rendered."""
        outcomes = batch.run(self.tree, files, helm)
        return {rendered.file: rendered for rendered, _ in outcomes}

    def ledger(self, environment: str) -> Ledger:
        """The finished runs of an environment."""
        if environment not in self._ledgers:
            self._ledgers[environment] = ledger.read(self.tree, environment)
        return self._ledgers[environment]

    def finished(self, file: JobFile) -> bool:
        """Whether the run that a job's spec stands for has finished and been retired."""
        job, environment = self.known[file].job, self.environments.get(file.environment)
        runs = self.ledger(file.environment).runs
        if job is None or environment is None or not any(r.job == job.name for r in runs.values()):
            return False
        return names.object_name(job, names.spec_hash(job, environment)) in runs

    # --- what was rendered and committed -----------------------------------------------------

    def committed(self, file: JobFile) -> tuple[index.Entry, dict[str, str]] | None:
        """What lies in rendered/ for a job: that is what the cluster was given."""
        entry = self._index(file.environment).get(file.name)
        if entry is None:
            return None
        folder = f"{ENVIRONMENTS}/{file.environment}/{RENDERED}/{file.name}"
        try:
            return entry, {n: self.tree.read(f"{folder}/{n}").decode() for n in entry.files}
        except (OSError, UnicodeDecodeError):
            return None

    def _index(self, environment: str) -> Mapping[str, index.Entry]:
        if environment not in self._indexes:
            path = f"{ENVIRONMENTS}/{environment}/{RENDERED}/{index.INDEX_FILE}"
            there = self.tree.kind(path) == "file"
            self._indexes[environment] = index.parse(self.tree.read(path)) if there else {}
        return self._indexes[environment]

    def run(self, file: JobFile, known: Known, rendered: Rendered, *, live: bool) -> Run:
        """A job that was rendered, as one side of a change.

        With `live` what was committed counts: it is what the cluster has, even when the specs
        have moved on since, or were rendered by another version of the tool.
        """
        job, files, name = known.job, rendered.files, rendered.name
        committed = self.committed(file) if live else None
        if committed:
            name, files = committed[0].object, committed[1]
        return Run(
            object=name if files else "",
            target=committed[0].target if committed else rendered.target,
            image=job.image.reference if job else "",
            queue=job.queue if job else "",
            state=job.state if job else "",
            retired=rendered.retired,
            files=files,
            demand=demand.of(job) if job and files else demand.NOTHING,
        )
