"""One side of a merge: all its jobs resolved, and those that matter rendered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from operator import eq

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.datatypes.layout import JobFile
from trainwright.files.memo import cell_of, tracked
from trainwright.kinds import DEFAULT, NAMED
from trainwright.plan.model import PlannedRun
from trainwright.plan.training import Training
from trainwright.render import batch
from trainwright.render.job import Rendered
from trainwright.runs.decision import Step
from trainwright.runs.record import RECORD_FILE, VALUES_FILE, Recorded
from trainwright.runs.recorded_job import in_state
from trainwright.runs.workspace import ResolvedJob, Workspace
from trainwright.specs.demand import NOTHING
from trainwright.tasks import progress

# What may be the name of a spec, <folder>/<job>, wherever it is in a file.
_SPEC_NAME = re.compile(rb"(?<![A-Za-z0-9-])([A-Za-z0-9-]++)/([A-Za-z0-9-]++)")
_SPELT = re.compile(rb"[\\\xfe\xff]")  # escapes and UTF-16 can hide a name


@dataclass(frozen=True, slots=True)
class SpecText:
    """What the raw bytes of a spec show without being parsed.

    `names` are the paths of all specs that it may extend, and perhaps of others. `takes` is whether
    it may take files from the repository, `is_spelt` whether it has escapes or is in UTF-16, which
    can hide either.
    """

    raw: bytes = b""
    names: tuple[str, ...] = ()
    takes: bool = False
    is_spelt: bool = False


_NO_TEXT = SpecText()
_MANIFESTS = (".yaml", ".yml", ".json")  # what engines read of a folder


class Revision(Workspace):
    """The specs of one commit or folder, and the rendered files next to them.

    Where this one has no record of a run, that of the `earlier` side counts.
    """

    _batch: dict[JobFile, Rendered]  # what was rendered last, until `rendering` has it

    @tracked()
    def text(self, path: str) -> SpecText:
        """Return what the bytes of a spec show; an empty SpecText if there are none to read."""
        raw = self.reader.raw(path) if self.tree.kind(path) == "file" else b""
        if not isinstance(raw, bytes):
            return _NO_TEXT
        paths = {JobFile(*map(bytes.decode, groups)).path for groups in _SPEC_NAME.findall(raw)}
        return SpecText(raw, tuple(paths), b"from" in raw, bool(_SPELT.search(raw)))

    def render(
        self,
        files: Sequence[JobFile],
        helm: str | None,
        *,
        runs: Mapping[JobFile, Recorded | None] | None = None,
        new_runs: bool = False,
    ) -> None:
        """Render and check jobs in one batch; with `new_runs` also those that `render` refuses.

        `runs` are those to render from where another one is recorded here.
        """
        known = {file: self.known(file) for file in files} | dict(runs or {})
        items = [batch.Item(file, known[file], new_runs=new_runs) for file in files]
        outcomes = batch.run(self, items, helm)
        counted = progress.counted(outcomes, len(items), "jobs")
        self._batch = {rendered.file: rendered for rendered, _ in counted}
        for file in files:
            self.rendering(file)

    def outdated(self, files: Iterable[JobFile]) -> list[JobFile]:
        """Return those jobs that are not rendered as they are."""
        cells = ((file, cell_of(self, Revision.rendering, file)) for file in files)
        return [file for file, cell in cells if cell is None or not cell.holds()]

    @tracked()
    def rendering(self, file: JobFile) -> Rendered:
        """Return what a job was rendered to; that depends on the job and its run."""
        self.job(file)
        self.rendered(file)
        return self._batch.pop(file)

    @tracked(same=eq)
    def is_unrendered(self, file: JobFile) -> bool:
        """Whether a job has no run before a merge, whatever its spec says: nothing of it is among
        the rendered files that are kept beside the specs.
        """
        folder = self.folder(file.environment)
        nothing = folder.is_there and not self.rendered_tree.kind(f"{folder.path}/{file.name}")
        return nothing and self._earlier is None

    def recorded(self, file: JobFile) -> Recorded | None:
        """Return the run that a job has; see `Workspace.recorded`."""
        return None if self.is_unrendered(file) else super().recorded(file)

    def at_hand(
        self, file: JobFile, rendered: Rendered | None = None, *, believed: bool = True
    ) -> PlannedRun | None:
        """Return a job's run by its present files, which are what will be applied, whatever the
        record says. None if there is neither record nor manifest.

        `rendered` is what the job renders to.
        """
        folder = self.folder(file.environment)
        inside = f"{folder.path}/{file.name}"
        record = folder.record(file.name)
        job = self.settled(file, rendered) if self.has(file) else None
        target = job.job.target if job and job.job else DEFAULT
        target = record.target if record else target
        served, texts = NAMED[target].is_served, {}
        there = self.rendered_tree.kind(inside) == "folder"
        for entry in self.rendered_tree.entries(inside) if there else ():
            name = entry.name
            applied = not served or self._is_applied(file, name)
            if entry.kind == "file" and name != RECORD_FILE and (applied or name == VALUES_FILE):
                with suppress(OSError):  # too large: a finding
                    raw = self.rendered_tree.read(f"{inside}/{name}")
                    texts[name] = raw.replace(b"\r\n", b"\n").decode(errors="replace")
        if not texts.keys() - {VALUES_FILE}:
            texts = {}
        if record is None and not texts:
            return None
        running = self.running(job) if job else None
        run = self._run(job, record.object if record else file.name, target, texts, running)
        if record is not None:
            run = replace(run, state=record.state, adopted=record.adopted)
        return _named_by_its_files(replace(run, believed=believed))

    def _is_applied(self, file: JobFile, name: str) -> bool:
        """Whether a file in the rendered folder of a job is applied: as the kustomization lists it,
        or where an engine finds the folder by itself, any manifest there.
        """
        folder, by = self.folder(file.environment), self.finds_runs_by(file.environment)
        if by == "list":
            return f"{file.name}/{name}" in folder.applied()
        values = f"{folder.path}/{file.name}/{VALUES_FILE}"
        found = by == "wiring" or self.rendered_tree.kind(values) == "file"
        return found and name.endswith(_MANIFESTS)

    def finds_runs_by(self, environment: str) -> str:
        """Return by what runs of an environment are found, as before where it cannot be read."""
        sides = filter(None, (self, self._earlier))
        known = (
            side.environments[environment] for side in sides if environment in side.environments
        )
        return next((it.gitops.finds_runs_by for it in known), "list")

    def settled(self, file: JobFile, rendered: Rendered | None) -> ResolvedJob:
        """Return a job with what happens to its run, which is known once it is rendered."""
        resolved = self.job(file)
        if rendered is None or rendered.record is None:
            return resolved
        return replace(resolved, record=rendered.record, decision=rendered.decision)

    def running(self, resolved: ResolvedJob) -> Job | None:
        """Return a job as its run has it: an edit of the state that was not rendered reaches none,
        and waits until it is.
        """
        job, record, decision = super().running(resolved), resolved.record, resolved.decision
        begins = decision is None or decision.step is Step.BEGIN
        return job if job is None or record is None or begins else in_state(job, record)

    @tracked()
    def applied(self, file: JobFile) -> PlannedRun | None:
        """Return a job's run as it was committed, or None if there is none to read."""
        recorded = self.rendered(file)
        if recorded is None:
            return None
        try:
            texts = recorded.texts()
        except (OSError, UnicodeDecodeError):
            return None
        record, resolved = recorded.record, self.job(file)
        job = self.running(resolved) or self.as_recorded(resolved)
        return self._run(resolved, record.object, record.target, texts, job)

    def after(
        self, file: JobFile, rendered: Rendered, before: PlannedRun | None
    ) -> PlannedRun | None:
        """Return a job's run as it will be applied, or None; `before` is the one applied now."""
        decision = rendered.decision
        if decision is None:
            return None
        texts: Mapping[str, str] = rendered.files
        if decision.step is Step.KEEP and not texts:
            own = self.applied(file)
            texts = own.files if own and own.object == decision.name else files_of(before)
        settled = self.settled(file, rendered)
        job = self.running(settled)
        run = self._run(settled, decision.name, rendered.target, texts, job)
        adopted = rendered.record is not None and rendered.record.adopted
        return replace(run, state=decision.state, retired=decision.finished, adopted=adopted)

    def _run(
        self,
        resolved: ResolvedJob | None,
        name: str,
        target: str,
        texts: Mapping[str, str],
        job: Job | None,
    ) -> PlannedRun:
        """Return a run by its rendered texts, and by its `job` where that is known."""
        return PlannedRun(
            object=name if texts else "",
            target=target,
            image=job.image.reference if job else "",
            queue=job.queue if job else "",
            state=job.state if job else "",
            retired=resolved is not None and resolved.finished,
            files=texts,
            demand=self.demand(job) if job and texts else NOTHING,
            team=job.team if job else "",
        )


def _named_by_its_files(run: PlannedRun) -> PlannedRun:
    """Return a run with the name of the object that its files make, which is what is applied: a
    record may be that of another run, where only a part of what was rendered is committed.
    """
    if run.believed and any(run.object in text for text in run.files.values()):
        return run
    names = [manifest.name for manifest in Training(run).trained]
    return replace(run, object=names[0]) if names and run.object not in names else run


def files_of(run: PlannedRun | None) -> Mapping[str, str]:
    """Return the rendered files of a run, none if there is no run."""
    return run.files if run else {}
