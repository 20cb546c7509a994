"""What git says of runs: the objects that are rendered, and the jobs that have none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from trainwright import index, ledger, names, resolve, yamlio
from trainwright.cluster.states import KINDS, Kind
from trainwright.errors import SelectionError, SourceError
from trainwright.load import ENVIRONMENTS, RENDERED, JobFile, LoadedEnvironment, Reader, survey
from trainwright.model import Environment, Job, Manifest
from trainwright.operators import OPERATORS
from trainwright.render import VALUES_FILE
from trainwright.select import Selection, select
from trainwright.targets import TARGETS
from trainwright.tree import Folder, read_regular

CANCELLED = "cancelled"
RETIRED = "retired"
NOT_IN_GIT = "not in git"


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One job as git has it. `wish` is active, suspended, cancelled, retired or "not rendered".

    `manifest` is the object that an operator makes pods of, `beside` all that is rendered with it;
    None and empty when nothing is.
    """

    job: JobFile
    wish: str
    manifest: Manifest | None = None
    beside: tuple[Manifest, ...] = ()

    @property
    def kind(self) -> Kind | None:
        return KINDS.get(self.manifest.identity[:2]) if self.manifest else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An environment and its selected jobs; `whole` when all of them were.

    `retired` are the objects of runs that the ledger says are finished.
    """

    environment: Environment
    intents: tuple[Intent, ...]
    jobs: frozenset[str]  # names of all jobs there are, selected or not
    retired: frozenset[str]
    whole: bool

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds that runs can be of here: of declared targets, and of what is rendered."""
        declared = [
            KINDS[group, target.kind]
            for target in TARGETS.values()
            for group in [target.api_version.rpartition("/")[0]]
            if target.name in self.environment.targets and (group, target.kind) in KINDS
        ]
        rendered = [intent.kind for intent in self.intents if intent.kind]
        return tuple(dict.fromkeys((*declared, *rendered)))


def places(root: Path, patterns: tuple[str, ...]) -> tuple[Place, ...]:
    """What git has of everything selected, environment by environment, from the rendered files.

    Raises SourceError for an environment whose own file is broken.
    """
    tree = Folder(root)
    available = survey(tree).jobs
    reader = Reader(tree)
    return tuple(
        _place(tree, reader, selection, available[selection.environment])
        for selection in select(patterns, available)
    )


def one(root: Path, name: str) -> tuple[Place, Intent]:
    """The one job of that name, with its environment."""
    found = [(p, intent) for p in places(root, (name,)) for intent in p.intents]
    if not found:
        raise SelectionError(f'"{name}" is no job that a cluster runs')
    if len(found) > 1 or "/" not in name:
        raise SelectionError(f'"{name}" is {len(found)} jobs: name one as ENV/JOB')
    return found[0]


def environment(reader: Reader, name: str) -> tuple[Environment, LoadedEnvironment]:
    """An environment by name. Raises SourceError when its own file is broken."""
    loaded = reader.environment(name)
    if loaded.document is None:
        first = loaded.findings[0]
        raise SourceError(f"{first.place}: {first.message}; run `trainwright check {name}`")
    return resolve.environment(name, loaded.document), loaded


def _place(tree: Folder, reader: Reader, selection: Selection, jobs: tuple[JobFile, ...]) -> Place:
    name = selection.environment
    resolved, loaded = environment(reader, name)
    finished = frozenset(ledger.read(tree, name).runs)

    def idle(file: JobFile) -> str:
        spec = reader.job(file, loaded).spec
        job = resolve.job(spec, resolved, file.path) if spec else ()
        if not isinstance(job, Job):
            return "not rendered"
        if names.object_name(job, names.spec_hash(job, resolved)) in finished:
            return RETIRED
        return CANCELLED if job.state == CANCELLED else "not rendered"

    return Place(
        environment=resolved,
        intents=tuple(_intents(tree.root / ENVIRONMENTS / name / RENDERED, selection, idle)),
        jobs=frozenset(job.name for job in jobs),
        retired=finished,
        whole=selection.whole,
    )


def _intents(
    folder: Path, selection: Selection, idle: Callable[[JobFile], str]
) -> Iterator[Intent]:
    """What is rendered of each job; `idle` tells why nothing is."""
    entries = index.read(folder)
    for file in selection.jobs:
        entry = entries.get(file.name)
        if entry is None:
            yield Intent(job=file, wish=idle(file))
        elif not TARGETS[entry.target].envelope:  # what no cluster runs has no state in one
            yield _rendered(folder, file, entry)


def _rendered(folder: Path, file: JobFile, entry: index.Entry) -> Intent:
    manifests = manifests_of(folder / file.name, entry)
    manifest = next((m for m in manifests if m.identity[:2] in OPERATORS), None)
    suspended = manifest is not None and _suspends(manifest)
    return Intent(
        job=file,
        wish="suspended" if suspended else "active",
        manifest=manifest,
        beside=manifests,
    )


def manifests_of(folder: Path, entry: index.Entry) -> tuple[Manifest, ...]:
    """The objects of one rendered job. Raises SourceError when a file cannot be read."""
    found = []
    for name in entry.files:
        if name == VALUES_FILE:
            continue
        try:
            text = read_regular(folder / name).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SourceError(
                f"cannot read {folder / name}: {error}; run `trainwright render`"
            ) from error
        found += [Manifest(body=body, path=name) for body in yamlio.load_rendered(text)]
    return tuple(found)


def _suspends(manifest: Manifest) -> bool:
    spec = manifest.body.get("spec") or {}
    return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))
