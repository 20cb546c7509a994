"""Many jobs rendered: here, or in several processes when there is work for them."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, TypeAlias

from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile, environment_files
from trainwright.files.tracked import Answers, Tracked
from trainwright.helm import engines
from trainwright.helm.engines import Release
from trainwright.render import job as render
from trainwright.runs import record as records
from trainwright.runs.record import Recorded
from trainwright.runs.workspace import Workspace
from trainwright.specs import ledger
from trainwright.tasks.processors import processors, shared_by

# Below this many jobs a second process costs more to start than it saves.
_WORTH_A_PROCESS = 400
_CHUNK = 50
_MAX_PROCESSES = 4  # each holds a Helm engine and schemas, some 90 MB

Outcome: TypeAlias = tuple[render.Rendered, dict[str, str]]  # with the states of its inputs


@dataclass(frozen=True, slots=True)
class Item:
    """A job to render, and the run that it has, if any.

    With `check_next_runs` the next run is checked, also where the present one stays. `new_runs`
    lets runs begin although the job may have one whose record is missing or unreadable.
    """

    file: JobFile
    recorded: Recorded | None = None
    check_next_runs: bool = True
    new_runs: bool = False


def run(workspace: Workspace, items: Sequence[Item], helm: str | None) -> Iterator[Outcome]:
    """Yield the outcome of every job, in order; `helm` names a binary to use instead of the
    embedded engine.
    """
    if not items:
        return
    processes = min(_MAX_PROCESSES, processors())
    chunks = [items[start : start + _CHUNK] for start in range(0, len(items), _CHUNK)]
    if processes == 1 or len(items) < _WORTH_A_PROCESS:
        outcomes: Iterator[list[Outcome]] = map(Renderer(workspace, helm).render_all, chunks)
    else:
        given = (workspace.tree, workspace.tree.answers, workspace.kubernetes, helm)
        # Spawned, not forked: the Go runtime inside the Helm engine does not survive a fork.
        outcomes = shared_by(processes, _renderer, given, chunks, start="spawn")
    yield from chain.from_iterable(outcomes)


def _renderer(
    tree: Tracked, answers: Answers, kubernetes: str, helm: str | None
) -> Callable[[Sequence[Item]], list[Outcome]]:
    tracked = Tracked(tree.below, answers=answers)
    return Renderer(Workspace(tracked, kubernetes=kubernetes), helm).render_all


class Renderer:
    """Renders job files, keeping the engine and the shared layers from one to the next."""

    def __init__(self, workspace: Workspace, helm: str | None = None):
        self._workspace = workspace
        self._engine = engines.engine(helm)

    def render(self, item: Item) -> Outcome:
        """Render one job; also return the states of all files that decided the outcome, by path."""
        (outcome,) = self.render_all([item])
        return outcome

    def render_all(self, items: Sequence[Item]) -> list[Outcome]:
        """Do the same for many jobs, of which Helm renders those that it has to at once."""
        begun = [self._steps(item) for item in items]
        first = [next(steps) for steps in begun]
        releases = [step for step in first if isinstance(step, Release)]
        templates = iter(self._engine.render_all(releases))
        return [
            steps.send(next(templates)) if isinstance(step, Release) else step
            for steps, step in zip(begun, first, strict=True)
        ]

    def _steps(self, item: Item) -> Generator[Any, Any, None]:
        """Yield what Helm has to render of a job, if anything, and then the outcome."""
        file, workspace = item.file, self._workspace
        if workspace.sound(file.environment) is None:  # it broke since the plan began
            findings = workspace.loaded(file.environment).findings
            rendered = render.Rendered(file=file, usable=False, findings=findings)
            yield rendered, self._states(environment_files(file.environment))
            return
        context = render.Context(
            engine=self._engine,
            ledger=workspace.ledger(file.environment),
            check_next_runs=item.check_next_runs,
            new_runs=item.new_runs,
        )
        resolved = workspace.resolve(file)
        rendered = yield from render.job(resolved, context, item.recorded)
        if rendered.record is not None:  # what it requests, since its specs are at hand
            sources, record = resolved.sources or resolved.outgrown, rendered.record
            begun = replace(resolved, sources=sources, record=record, decision=rendered.decision)
            rendered = replace(rendered, demand=workspace.asked_by(begun).demand)
        about = (ledger.path(file.environment), records.path(file))
        inputs = self._states((*rendered.inputs, *about))
        workspace.reader.forget(file.path)
        yield rendered, inputs

    def _states(self, paths: Iterable[str]) -> dict[str, str]:
        state = self._workspace.reader.state
        return {path: state(path) for path in sorted(paths)}
