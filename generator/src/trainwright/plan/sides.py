"""One side of a merge: every job of it resolved, and those rendered that matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from trainwright.plan.model import PlannedRun
from trainwright.render import batch
from trainwright.render.job import Rendered
from trainwright.runs.decision import Step
from trainwright.runs.record import Recorded, Unrecorded
from trainwright.specs.demand import NOTHING
from trainwright.specs.load import JobFile
from trainwright.specs.tree import Snapshot, Tree
from trainwright.work import progress
from trainwright.workspace import ResolvedJob, Workspace


class Side(Workspace):
    """The specs of one commit or folder, and what lies rendered beside them.

    `earlier` is the side before: where this one has no record of a run, that one's counts.
    """

    def __init__(self, tree: Tree, earlier: Side | None = None):
        super().__init__(Snapshot(tree), earlier=earlier)

    def render(
        self, files: Sequence[JobFile], helm: str | None, *, new_runs: bool = False
    ) -> dict[JobFile, Rendered]:
        """Some jobs, rendered and checked; with `new_runs` those, too, that `render` refuses."""
        items = [batch.Item(file, self.known(file), check_next_runs=True) for file in files]
        outcomes = batch.run(self, items, batch.BatchOptions(helm=helm, new_runs=new_runs))
        counted = progress.counted(outcomes, len(items), "jobs")
        return {rendered.file: rendered for rendered, _ in counted}

    def committed(self, file: JobFile) -> Recorded | Unrecorded | None:
        """What lies in rendered/ for a job: that is what the cluster was given."""
        folder = self.folder(file.environment)
        return folder.recorded(file.name) or folder.unrecorded.get(file.name)

    def applied(self, file: JobFile) -> PlannedRun | None:
        """The run of a job as it was committed; None where nothing was."""
        found = self.committed(file)
        if found is None:
            return None
        try:
            texts = found.files.texts()
        except (OSError, UnicodeDecodeError):
            return None
        return self._run(self.job(file), found.object, found.target, texts)

    def after(
        self, file: JobFile, rendered: Rendered, before: PlannedRun | None
    ) -> PlannedRun | None:
        """The run of a job as it is to be applied; `before` is what is applied now."""
        decision = rendered.decision
        if decision is None:
            return None
        texts: Mapping[str, str] = rendered.files
        if decision.step is Step.KEEP and not texts:
            own = self.applied(file)
            texts = own.files if own and own.object == decision.name else _files(before)
        run = self._run(self.job(file), decision.name, rendered.target, texts)
        return replace(run, state=decision.state, retired=decision.finished)

    def _run(
        self, resolved: ResolvedJob, name: str, target: str, texts: Mapping[str, str]
    ) -> PlannedRun:
        job = self.running(resolved)
        return PlannedRun(
            object=name if texts else "",
            target=target,
            image=job.image.reference if job else "",
            queue=job.queue if job else "",
            state=job.state if job else "",
            retired=resolved.finished,
            files=texts,
            demand=self.demand(job) if job and texts else NOTHING,
        )


def _files(run: PlannedRun | None) -> Mapping[str, str]:
    return run.files if run else {}
