"""Whether adopted objects are still in the source from which they came."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trainwright.cluster.client import Access, Cluster, Resource
from trainwright.cluster.errors import ClusterError, NoKind
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import APPLICATION, KUSTOMIZATION, GroupKind
from trainwright.datatypes.layout import ENVIRONMENTS, JobFile
from trainwright.datatypes.listing import listed
from trainwright.datatypes.manifest import Manifest
from trainwright.documents.yamlio import Document
from trainwright.gitops.wiring import argocd, fluxcd
from trainwright.importing import engine_sources, letting_go
from trainwright.importing.engine_sources import EngineSource
from trainwright.importing.letting_go import Holder
from trainwright.kinds.reading import SourceObject
from trainwright.manifests import reading
from trainwright.objects.own_labels import is_ours
from trainwright.runs.adopted import Adopted
from trainwright.runs.workspace import Workspace
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, ok, warning

_EFFECT = (
    "Taken out of one source, it is deleted although the other one has it; and an edit of either "
    "is undone by the other."
)
# Where an engine's objects are by default, and how the API names them.
_ENGINES: Mapping[GroupKind, tuple[str, str, str]] = {
    APPLICATION: (argocd.NAMESPACE, "argoproj.io/v1alpha1", "applications"),
    KUSTOMIZATION: (fluxcd.NAMESPACE, "kustomize.toolkit.fluxcd.io/v1", "kustomizations"),
}


@dataclass(frozen=True, slots=True)
class _Run:
    """A job whose run is the object that was adopted."""

    file: JobFile
    adopted: Adopted

    @property
    def manifest(self) -> Manifest:
        return self.adopted.manifest


def sources(examined: Examined) -> Iterator[Diagnosis]:
    """Yield a diagnosis for adopted objects that are also in other files of the repository."""
    workspace = examined.workspace
    runs = [run for name in workspace.environments for run in _runs(workspace, name)]
    diagnoses = list(_in_files(examined.root, runs)) if runs else []
    yield from diagnoses
    if not diagnoses:
        yield ok("nothing adopted is in another file" if runs else "nothing was adopted")


def compared_sources(examined: Examined) -> Iterator[Diagnosis]:
    """Yield the same, and which are still in the inventory of an engine's former source."""
    yield from sources(examined)
    workspace = examined.workspace
    for name, environment in workspace.environments.items():
        runs = list(_runs(workspace, name))
        if runs:
            yield from _compared(environment, runs)


def _runs(workspace: Workspace, environment: str) -> Iterator[_Run]:
    """Yield the adopted runs that go on."""
    over = workspace.ledger(environment).runs
    for file in workspace.survey.jobs.get(environment, ()):
        adopted = workspace.adopted(file)
        if isinstance(adopted, Adopted) and adopted.name not in over:
            record = workspace.folder(environment).record(file.name)
            if record is None or record.object == adopted.name:
                yield _Run(file, adopted)


# --- files ---------------------------------------------------------------------------------------


def _in_files(root: Path, runs: Sequence[_Run]) -> Iterator[Diagnosis]:
    words = [run.manifest.name.encode() for run in runs]
    words += [kind.kind.encode() for kind in _ENGINES]
    parts = [part for entry in _entries(root) for part in _parts(root, entry, words)]
    engines = engine_sources.found(parts)
    for run in runs:
        for part in parts:
            if _is(part, run.manifest):
                source = next((engine for engine in engines if engine.reads(part)), None)
                yield _twice(run, part, source)


def _entries(root: Path) -> Iterator[Path]:
    """Yield the visible folders and YAML or JSON files beside environments/, but no links."""
    for entry in sorted(root.iterdir()):
        hidden = entry.name == ENVIRONMENTS or entry.name.startswith(".") or entry.is_symlink()
        if not hidden and (entry.is_dir() or entry.suffix in (".yaml", ".yml", ".json")):
            yield entry


def _parts(root: Path, entry: Path, words: Sequence[bytes]) -> Iterator[SourceObject]:
    """Yield the objects of files that contain any of the words."""
    try:
        files = reading.gather((str(entry),))
    except SourceError:  # a folder without manifests
        return
    for source in files:
        if any(word in source.raw for word in words):
            file = Path(source.file).resolve().relative_to(root.resolve()).as_posix()
            for chunk in reading.split(source):
                for document in reading.documents(chunk):
                    if isinstance(document, Document):
                        yield from _objects(document, file)


def _objects(document: Document, file: str) -> Iterator[SourceObject]:
    place = Location(file, document.place("").line)
    for manifest in reading.objects(document.data):
        if isinstance(manifest.body, dict):
            yield engine_sources.of_cluster(manifest.body, place)


def _is(part: SourceObject, manifest: Manifest) -> bool:
    same = (part.group_kind, part.name) == (manifest.group_kind, manifest.name)
    return same and part.namespace in ("", manifest.namespace)


def _twice(run: _Run, part: SourceObject, source: EngineSource | None) -> Diagnosis:
    there = part.place("").file
    holder = source.holder if source else Holder("kubectl")
    by = f", which {source.title} applies" if source else ""
    return warning(
        f"{run.manifest.title} of {run.file} has two sources: {run.adopted.path}, and {there}{by}",
        _EFFECT,
        _remedy(holder, [run.manifest]),
        part.place(""),
    )


# --- inventories ---------------------------------------------------------------------------------


def _compared(environment: Environment, runs: Sequence[_Run]) -> Iterator[Diagnosis]:
    try:
        engines = list(_engines(environment))
    except ClusterError as error:
        yield warning(
            f"{environment.name}: the inventories of engines were not read: {error}",
            "Who else applies what was adopted is not known.",
            "Name the cluster with KUBECONFIG or kubernetes.context, and bind the role that "
            "`trainwright status --print-rbac doctor` prints where the engine is.",
            environment.place,
        )
        return
    others = [engine for engine in engines if not is_ours(engine.part)]
    any_held = False
    for engine in others:
        held = [run for run in runs if any(_is(part, run.manifest) for part in engine.applied)]
        if held:
            any_held = True
            ours = {
                mine.title
                for mine in (engine for engine in engines if is_ours(engine.part))
                if any(_is(part, run.manifest) for part in mine.applied for run in held)
            }
            yield _held(environment, engine, held, listed(sorted(ours)))
    if not any_held:
        yield ok(f"{environment.name}: no other inventory has what was adopted")


def _engines(environment: Environment) -> Iterator[EngineSource]:
    """Yield every Application and Kustomization of the namespaces in which they may be."""
    cluster = Cluster(Access(context=environment.kube_context))
    for usual, api_version, plural in _ENGINES.values():
        resource = Resource(api_version=api_version, plural=plural)
        namespaces = filter(None, (usual, environment.gitops.namespace))
        for namespace in dict.fromkeys(namespaces):
            try:
                bodies = cluster.all(resource, namespace)
            except NoKind:
                break
            place = Location(f"{resource.plural} of {namespace}")
            parts = [engine_sources.of_cluster(body, place) for body in bodies]
            yield from engine_sources.found(parts)


def _held(
    environment: Environment, source: EngineSource, runs: Sequence[_Run], ours: str
) -> Diagnosis:
    names = listed([run.manifest.title for run in runs])
    also_in = f", and in that of {ours}" if ours else ", though it was adopted"
    return warning(
        f"{environment.name}: {names} in the inventory of {source.title}{also_in}",
        _EFFECT,
        _remedy(source.holder, [run.manifest for run in runs]),
        environment.place,
    )


def _remedy(holder: Holder, manifests: Sequence[Manifest]) -> str:
    steps = letting_go.after_merge(holder, manifests)
    return " ".join(f"{number}. {step}." for number, step in enumerate(steps, start=1))
