"""Adoption of a cluster's objects as the runs of jobs: it starts, changes and ends nothing.

An object that runs, waits or is suspended becomes the first run of its job; one that has finished
becomes an entry of the ledger. The spec of the job describes its next run.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from trainwright.datatypes.data import Data, dig, mappings, text
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENTS, JobFile
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer
from trainwright.documents import yamlio
from trainwright.files import filetree
from trainwright.files.tree import Edited, Folder, Tree
from trainwright.findings import credentials
from trainwright.importing import ImportInput, as_it_is, forbidden
from trainwright.importing import text as words
from trainwright.importing.batch import ImportOptions, converted, refuse_taken
from trainwright.importing.convert import Imported
from trainwright.importing.engine_sources import of_cluster
from trainwright.importing.live import written_by_cluster
from trainwright.importing.object_as_written import as_written
from trainwright.importing.source import Source
from trainwright.importing.trial import ImportContext
from trainwright.kinds import ADOPTED, trains
from trainwright.kinds.reading import ImportingError, SourceObject
from trainwright.kinds.state import Phase, State
from trainwright.objects.own_labels import is_ours
from trainwright.rules.gitops import HOOKS
from trainwright.runs import adopted
from trainwright.runs.adopted import Adopted
from trainwright.runs.workspace import Workspace
from trainwright.specs import ledger
from trainwright.tasks import progress

_LONGEST = 200  # characters of a reason, by the schema of the ledger
_WIDTH = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class Adoption:
    """An object as the run of a job: its state in the cluster, and the spec of the next run.

    `body` is the object as the cluster has it, `manifest` as it is to be applied.
    """

    body: Mapping[str, Data]
    manifest: Manifest
    state: State
    imported: Imported

    @property
    def file(self) -> JobFile:
        return self.imported.file

    @property
    def expiry(self) -> str:
        """Why an object that trains is to be retired in time (TW502), or an empty string."""
        kind = trains(self.manifest)
        if self.state.over or kind is None or not kind.expires:
            return ""
        ttl = dig(self.manifest.body, *Pointer(kind.expires).parts)
        if ttl is None:
            return ""
        return (
            f"the object deletes itself {ttl} seconds after it is finished, and GitOps makes it "
            f"again: `trainwright retire {self.file}` before that"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionBatch:
    """All that was adopted, why the rest was not, and the objects that another one controls."""

    adoptions: tuple[Adoption, ...]
    problems: tuple[str, ...]
    made: tuple[str, ...]


def run(root: Path, inputs: ImportInput, options: ImportOptions, today: str) -> AdoptionBatch:
    """Adopt all, then write the files of all that could be adopted.

    `today` is an ISO date, from which waivers hold of what an environment forbids and runs already.
    Raise ImportingError when there is nothing to adopt, SelectionError and SourceError when the
    environment is not usable, and OutputError.
    """
    if options.name and len(inputs.sources) > 1:
        raise ImportingError(f"--name is for one workload, and there are {len(inputs.sources)}")
    tree = Folder(root)
    place = ImportContext(tree, options.environment)
    _ = place.environment  # whose errors are no object's
    adoptions: list[Adoption] = []
    problems: list[str] = []
    made = tuple(_made(source) for source in inputs.sources if _owner(source.parts[0]))
    sources = [source for source in inputs.sources if not _owner(source.parts[0])]
    if not (sources or inputs.problems or inputs.findings):
        raise ImportingError("no training workload found in the input")
    for source in progress.counted(sources, len(sources), "workloads"):
        try:
            adoption = _adopted(source, place, options)
            _refuse_there(tree, adoption, options)
            refuse_taken(tree, adoption.imported, (done.imported for done in adoptions), options)
            adoptions.append(adoption)
        except ImportingError as error:
            problems.append(str(error))
        except TrainwrightError as error:  # of its runtime, say, which is not among the files
            problems.append(f"{source.place}: {source.title}: {error}")
    adoptions = list(_permitted(place, adoptions, problems, today))
    if options.write and adoptions:
        _write(tree, options.environment, adoptions)
    return AdoptionBatch(adoptions=tuple(adoptions), problems=tuple(problems), made=made)


def not_adopted(
    workspace: Workspace, environment: str, bodies: Iterable[Mapping[str, Data]]
) -> Iterator[SourceObject]:
    """Yield a namespace's objects that have no job: not Trainwright's runs, and not adopted."""
    files = workspace.survey.jobs.get(environment, ())
    adopted_objects = [workspace.adopted(file) for file in files]
    identities = {
        other.manifest.identity for other in adopted_objects if isinstance(other, Adopted)
    }
    for body in bodies:
        manifest = Manifest(body=body)
        if not is_ours(manifest) and manifest.identity not in identities:
            yield of_cluster(body, Location(f"{manifest.kind.lower()}/{manifest.name}"))


def _refuse_there(tree: Tree, adoption: Adoption, options: ImportOptions) -> None:
    for path in (adoption.file.path, adopted.path(adoption.file)) if options.write else ():
        if tree.kind(path):
            raise ImportingError(f"{path} is there already: name the job otherwise by --name")


def _owner(part: SourceObject) -> str:
    """Return an object's controller as "kind/name" (a JobSet's TrainJob); empty if none."""
    owners = mappings(part.metadata.get("ownerReferences"))
    owner = next((reference for reference in owners if reference.get("controller")), {})
    return f"{owner.get('kind')}/{owner.get('name')}" if owner else ""


def _made(source: Source) -> str:
    return f"{source.place}: {source.title} belongs to {_owner(source.parts[0])}"


def _adopted(source: Source, place: ImportContext, options: ImportOptions) -> Adoption:
    """Return the adoption of an object. Raise ImportingError if it cannot be adopted."""
    part = source.parts[0]
    kind = trains(part)
    if kind is None or not written_by_cluster(part):
        raise ImportingError(
            f"{source.place}: {source.title} was not read from a cluster, which alone knows "
            "whether it runs: add --live to look there, adopt what `kubectl get -o yaml` prints, "
            "or import the file"
        )
    state = kind.status.state_of(part.body)
    manifest = Manifest(body=as_written(part.body, kind))
    for pointer, problem in _refusals(part, manifest, place.environment):
        raise ImportingError(f"{part.place(pointer)}: {source.title} is not adopted: {problem}")
    written = replace(part, body=manifest.body)
    source = replace(source, parts=(written, *source.parts[1:]))
    if source.unsaid:
        imported = as_it_is.adopted(source, place, options.pool, options.name)
    else:
        imported = converted(source, place, options)
    wanted = imported.spec.get("target", place.inherited["target"])
    if wanted not in (kind.name, ADOPTED.name):
        raise ImportingError(
            f"{source.place}: {source.title} is not adopted: its next run would be a {wanted}"
        )
    return Adoption(body=part.body, manifest=manifest, state=state, imported=imported)


def _permitted(
    place: ImportContext, adoptions: list[Adoption], problems: list[str], today: str
) -> Iterator[Adoption]:
    """Yield the adoptions that can be rendered, with their waivers; note why others cannot be."""
    workspace = Workspace(Edited(place.tree, _files(adoptions)))
    for adoption in adoptions:
        file, source = adoption.file, adoption.imported.source
        found = forbidden.errors(workspace, file, today, over=adoption.state.over)
        refused = list(forbidden.refusals(found, place.environment))
        for pointer, why in refused:
            where = source.parts[0].place(pointer)
            problems.append(f"{where}: {adoption.manifest.title} is not adopted: {why}")
        if refused:
            continue
        waivers = forbidden.waivers(found, adoption.manifest.title, today)
        notes = tuple(
            f"waives {one.rule} until {waivers[one.rule]['until']}: {one.message}" for one in found
        )
        yield replace(adoption, imported=_with_waivers(adoption.imported, waivers, notes))


def _with_waivers(
    imported: Imported, waivers: Mapping[str, Data], notes: tuple[str, ...]
) -> Imported:
    if not waivers:
        return imported
    spec = {**imported.spec, "waivers": waivers}
    return replace(imported, spec=spec, notes=(*imported.notes, *notes))


def _refusals(
    part: SourceObject, manifest: Manifest, environment: Environment
) -> Iterator[tuple[str, str]]:
    """Yield each reason why an object cannot be a run, after the pointer that it is about."""
    if part.metadata.get("deletionTimestamp"):
        yield "/metadata/deletionTimestamp", "it is being deleted"
    if is_ours(part):
        yield "/metadata/labels", "it is a run of Trainwright already"
    for key, engine in HOOKS.items():
        if manifest.annotations.get(key):
            yield "/metadata/annotations", f"it is a hook of {engine}, which each sync recreates"
    yield from adopted.unfit(manifest)
    yield from adopted.elsewhere(manifest, environment)


# --- what is written -----------------------------------------------------------------------------


def _write(tree: Tree, environment: str, adoptions: list[Adoption]) -> None:
    files = _files(adoptions)
    over = [adoption for adoption in adoptions if adoption.state.over]
    path = ledger.path(environment)
    before = {path: tree.read(path)} if over and tree.kind(path) else {}
    if over:
        files[path] = _ledger(Workspace(Edited(tree, files)), over, before.get(path, b""))
    assert isinstance(tree, Folder)
    filetree.write(tree.root, ENVIRONMENTS, files, before)


def _files(adoptions: list[Adoption]) -> dict[str, bytes]:
    """Return the files of each: its spec and its object."""
    specs = {adoption.file.path: words.spec(adoption.imported).encode() for adoption in adoptions}
    objects = {adopted.path(adoption.file): _object(adoption).encode() for adoption in adoptions}
    return specs | objects


def _object(adoption: Adoption) -> str:
    """Return the object as YAML, below a comment on what its next run would lack or change."""
    head = f"{adoption.manifest.title} as it was in the cluster. "
    head += f"The first run of {adoption.file.path} is "
    if adoption.imported.source.unsaid:
        head += "this object, and there is no next one: no spec can say it."
    else:
        head += "this object, whatever the spec says; the spec is for the next run."
    losses = sorted(adoption.imported.left, key=lambda left: -left.severity.weight)
    others = sorted(adoption.imported.differing, key=lambda differing: -differing.severity.weight)
    lines = [
        *textwrap.wrap(head, _WIDTH, break_on_hyphens=False),
        *(["The next run would not have:"] if losses else []),
        *(f"  {left.severity}: {left.field}: {left.why}" for left in losses),
        *(["It would have otherwise:"] if others else []),
        *(f"  {differing.severity}: {differing}" for differing in others),
    ]
    comment = "".join(f"# {credentials.redact(line)}\n" for line in lines)
    return comment + yamlio.dump(dict(adoption.manifest.body), blocks=True)


def _ledger(workspace: Workspace, over: list[Adoption], raw: bytes) -> bytes:
    """Return a ledger with the runs that are over."""
    for adoption in over:
        sources = workspace.resolve(adoption.file).sources
        if sources is None:
            raise TrainwrightError(f"{adoption.file.path} is not valid: it cannot be in the ledger")
        entry = {
            "job": adoption.file.name,
            "own": sources.digest,
            "outcome": "succeeded" if adoption.state.phase is Phase.SUCCEEDED else "failed",
            "finished": adoption.state.since[:10],
            "reason": _reason(adoption.state),
            "adopted": True,
        }
        raw = ledger.with_run(raw, adoption.file.environment, adoption.manifest.name, entry)
    return raw


def _reason(state: State) -> str:
    reason = text(state.reason)[:_LONGEST]
    return reason if state.phase is Phase.FAILED and credentials.redact(reason) == reason else ""
