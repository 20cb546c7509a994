"""The runs that git requests: the rendered objects, and the jobs that have none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.errors import SelectionError, SourceError
from trainwright.datatypes.finding import ValueChange
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.listing import plural
from trainwright.datatypes.manifest import Manifest
from trainwright.documents import yamlio
from trainwright.files.tree import Folder
from trainwright.kinds import ADOPTED, NAMED, SERVED, trains
from trainwright.kinds.kind import Kind
from trainwright.kinds.operators import OPERATORS
from trainwright.objects.own_labels import ENVIRONMENT
from trainwright.runs.record import VALUES_FILE, Recorded
from trainwright.runs.workspace import RunState, Workspace
from trainwright.specs.select import Selection, select


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredRun:
    """One job as git has it. `desired` is its run's state; if rendered, it is active or suspended.

    `manifest` is the object that an operator makes pods of, `supporting` all that is rendered with
    it; None and empty if nothing is rendered. `held` are changes of the spec that the run lacks.
    """

    job: JobFile
    desired: RunState
    manifest: Manifest | None = None
    supporting: tuple[Manifest, ...] = ()
    held: tuple[ValueChange, ...] = ()

    @property
    def kind(self) -> Kind | None:
        return trains(self.manifest) if self.manifest else None

    @property
    def namespace(self) -> str:
        """The object's namespace, which a run never changes. Empty if nothing is rendered."""
        return self.manifest.identity[2] if self.manifest else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """An environment and its selected jobs; `whole` when all of them were.

    `retired` are the objects of runs that are finished by the ledger, `elsewhere` the selected
    jobs whose run is in another namespace. Some runs may bear `former` names of the environment.
    """

    environment: Environment
    intents: tuple[DesiredRun, ...]
    jobs: frozenset[str]  # names of all jobs there are, selected or not
    retired: frozenset[str]
    whole: bool
    elsewhere: frozenset[str] = frozenset()
    former: tuple[str, ...] = ()

    @property
    def namespaces(self) -> tuple[str, ...]:
        """The namespaces of runs: the environment's own, then those where earlier ones began."""
        own = self.environment.namespace
        return (own, *sorted({i.namespace for i in self.intents if i.namespace} - {own}))

    def within(self, namespace: str) -> DesiredState:
        """Return the part of this state that is in one of its namespaces."""
        own = self.environment.namespace
        here = tuple(i for i in self.intents if (i.namespace or own) == namespace)
        elsewhere = {intent.job.name for intent in self.intents} - {
            intent.job.name for intent in here
        }
        return replace(self, intents=here, elsewhere=frozenset(elsewhere))

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that runs can have here: those of declared targets and of rendered objects."""
        declared = [kind for kind in SERVED.values() if kind.name in self.environment.targets]
        rendered = [intent.kind for intent in self.intents if intent.kind]
        return tuple(dict.fromkeys((*declared, *rendered)))


def desired_states(root: Path, patterns: tuple[str, ...]) -> tuple[DesiredState, ...]:
    """Return what git has of the selected jobs, by environment, from the rendered files.

    Raise SourceError if an environment's own file is broken.
    """
    workspace = Workspace(Folder(root))
    available = workspace.survey.jobs
    return tuple(
        _place(workspace, selection, available[selection.environment])
        for selection in select(patterns, available)
    )


def desired_run(root: Path, name: str) -> tuple[DesiredState, DesiredRun]:
    """Return the one job of that name, with its environment. Raise SelectionError if not one."""
    candidates = [(p, intent) for p in desired_states(root, (name,)) for intent in p.intents]
    if not candidates:
        raise SelectionError(f'"{name}" is not a job that a cluster runs')
    if len(candidates) > 1 or "/" not in name:
        several = plural(len(candidates), "job")
        message = f'"{name}" selects {several}: name one as ENV/JOB, such as {candidates[0][1].job}'
        raise SelectionError(message)
    return candidates[0]


def _place(workspace: Workspace, selection: Selection, jobs: tuple[JobFile, ...]) -> DesiredState:
    name = selection.environment
    intents = tuple(_intents(workspace, selection))
    labels = {str(it.manifest.labels.get(ENVIRONMENT, name)) for it in intents if it.manifest}
    return DesiredState(
        environment=workspace.environment(name),
        intents=intents,
        former=tuple(sorted(labels - workspace.survey.jobs.keys())),
        jobs=frozenset(job.name for job in jobs),
        retired=frozenset(workspace.ledger(name).runs),
        whole=selection.whole,
    )


def _intents(workspace: Workspace, selection: Selection) -> Iterator[DesiredRun]:
    """Yield the desired run of each job; one that is not rendered has its state alone."""
    folder = workspace.folder(selection.environment)
    for file in selection.jobs:
        recorded = folder.recorded(file.name)
        run = workspace.run(file)
        if recorded is None or not recorded.record.files:
            yield DesiredRun(job=file, desired=run.state)
        elif NAMED[recorded.record.target].is_served:  # else no cluster runs it, or has its state
            yield _rendered(file, recorded, run.held)


def _rendered(file: JobFile, recorded: Recorded, held: tuple[ValueChange, ...]) -> DesiredRun:
    manifests = _manifests(recorded)
    manifest = next((m for m in manifests if m.identity[:2] in OPERATORS), None)
    if recorded.record.target == ADOPTED.name:
        manifest = next((m for m in manifests if trains(m)), None)
    suspended = manifest is not None and _suspends(manifest)
    return DesiredRun(
        job=file,
        desired=RunState.SUSPENDED if suspended else RunState.ACTIVE,
        manifest=manifest,
        supporting=manifests,
        held=held,
    )


def _manifests(recorded: Recorded) -> tuple[Manifest, ...]:
    """Return the objects of one rendered job. Raise SourceError if a file cannot be read."""
    try:
        texts = recorded.texts()
    except (OSError, UnicodeDecodeError) as error:
        raise SourceError(
            f"cannot read the files in {recorded.folder}: {error}; run `trainwright render`"
        ) from error
    return tuple(
        Manifest(body=body, path=name)
        for name, text in texts.items()
        if name != VALUES_FILE
        for body in yamlio.load_rendered(text)
    )


def _suspends(manifest: Manifest) -> bool:
    spec = manifest.body.get("spec") or {}
    return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))
