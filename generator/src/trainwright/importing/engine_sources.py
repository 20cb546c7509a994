"""The objects that an Argo CD Application or a Flux Kustomization applies, which are to be adopted.

If it was read from a cluster, it lists what it has applied. Otherwise the objects are in the given
files, below its path in a repository. It never shows what runs: only the cluster does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from posixpath import normpath

from trainwright.datatypes.data import Data, dig, mapping, mappings, text
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import APPLICATION, KUSTOMIZATION
from trainwright.datatypes.manifest import Manifest
from trainwright.importing.letting_go import Holder
from trainwright.importing.live import written_by_cluster
from trainwright.kinds import trains
from trainwright.kinds.reading import ImportingError, SourceObject

Identity = tuple[str, str, str, str]  # group, kind, namespace and name


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSource:
    """An Application or Kustomization: the objects that it applied, or its repository's folders.

    `namespace` is that of objects that name none.
    """

    engine: str
    part: SourceObject
    paths: tuple[str, ...]
    namespace: str
    applied: tuple[SourceObject, ...]

    @property
    def title(self) -> str:
        return self.part.title

    @property
    def holder(self) -> Holder:
        """Return what identifies it in the steps by which it lets go of objects."""
        return Holder(self.engine, self.part.name, self.part.namespace)

    def reads(self, part: SourceObject) -> bool:
        """Whether an object is in its path, wherever the root of its repository is around it."""
        folders = [str(folder) for folder in PurePosixPath(_file(self.part)).parents]
        paths = map(normpath, self.paths)
        return any(_below(_file(part), root, path) for path in paths for root in folders)


def found(parts: Sequence[SourceObject]) -> tuple[EngineSource, ...]:
    """Return the engines' sources among some objects."""
    return tuple(source for part in parts if (source := _source(part)))


def chosen(parts: Sequence[SourceObject]) -> tuple[list[SourceObject], list[str]]:
    """Return the objects to adopt, and a message for each source whose objects are missing.

    Without an engine's source, those are all objects; else those that it applies, and those that do
    not train but may be referred to. An object that is given twice counts as the cluster has it.
    """
    sources = found(parts)
    others = [part for part in parts if not any(part is source.part for source in sources)]
    by_identity = _as_seen(others)
    if not sources:
        return list(by_identity.values()), []
    wanted: dict[Identity, SourceObject] = {}
    problems: list[str] = []
    for source in sources:
        try:
            for applied_part in source.applied or _of_paths(source, list(by_identity.values())):
                identity = _identity(applied_part, source.namespace)
                wanted[identity] = by_identity.get(identity) or _placed(applied_part, identity)
        except ImportingError as error:
            problems.append(str(error))
    beside = [part for part in by_identity.values() if trains(part) is None]
    return [*wanted.values(), *beside], problems


def as_in_cluster(
    parts: Sequence[SourceObject], look: Callable[[Manifest], Mapping[str, Data] | None]
) -> tuple[list[SourceObject], list[str]]:
    """Return the objects as a cluster has them now, and a message for each that it lacks."""
    present: list[SourceObject] = []
    gone: list[str] = []
    for part in parts:
        if trains(part) is None or written_by_cluster(part):
            present.append(part)
        elif body := look(part):
            present.append(of_cluster(body, part.place("")))
        else:
            gone.append(
                f"{part.place('')}: {part.title} is not in the cluster, so that nothing of it "
                "goes on: adopting it would begin it. `trainwright import` makes a job of it"
            )
    return present, gone


def of_cluster(body: Mapping[str, Data], place: Location) -> SourceObject:
    """Return an object that a cluster returned, which has no line in a file."""
    return SourceObject(body=body, place=lambda _: place)


def _as_seen(parts: Sequence[SourceObject]) -> dict[Identity, SourceObject]:
    """Return each object once, as the cluster has it if that version was given."""
    by_identity: dict[Identity, SourceObject] = {}
    for number, part in enumerate(parts):
        identity = _identity(part, "")
        if not identity[3]:
            identity = ("", "", "", str(number))  # refused later, each by its place
        if identity not in by_identity or (
            written_by_cluster(part) and not written_by_cluster(by_identity[identity])
        ):
            by_identity[identity] = part
    return by_identity


def _identity(part: SourceObject, namespace: str) -> Identity:
    group, kind, own, name = part.identity
    return group, kind, own or namespace, name


def _placed(part: SourceObject, identity: Identity) -> SourceObject:
    """Return an object in the namespace into which its engine puts it."""
    body = {**part.body, "metadata": {**part.metadata, "namespace": identity[2]}}
    return SourceObject(body=body, place=part.place)


def _source(part: SourceObject) -> EngineSource | None:
    reader = {APPLICATION: _argocd, KUSTOMIZATION: _flux}.get(part.group_kind)
    return reader(part) if reader else None


def _argocd(part: SourceObject) -> EngineSource:
    """Return an Application as what applies objects."""
    spec = part.spec
    sources = (mapping(spec.get("source")), *mappings(spec.get("sources")))
    applied = mappings(dig(part.body, "status", "resources"))
    return EngineSource(
        engine="Argo CD",
        part=part,
        paths=tuple(path for entry in sources if (path := text(entry.get("path")))),
        namespace=text(dig(spec, "destination", "namespace")),
        applied=tuple(
            _named(part, entry, f"/status/resources/{at}") for at, entry in enumerate(applied)
        ),
    )


def _flux(part: SourceObject) -> EngineSource:
    """Return a Kustomization as what applies objects."""
    entries = mappings(dig(part.body, "status", "inventory", "entries"))
    named = enumerate(zip(map(_entry, entries), entries, strict=True))
    return EngineSource(
        engine="Flux",
        part=part,
        paths=(text(part.spec.get("path")) or ".",),
        namespace=text(part.spec.get("targetNamespace")),
        applied=tuple(
            _named(part, {**identity, "version": entry.get("v")}, f"/status/inventory/entries/{at}")
            for at, (identity, entry) in named
        ),
    )


def _entry(entry: Mapping[str, Data]) -> dict[str, Data]:
    """Return the namespace, name, group and kind that an inventory entry refers to.

    https://github.com/fluxcd/kustomize-controller/blob/v1.9.4/api/v1/inventory_types.go
    """
    parts = (*text(entry.get("id")).split("_"), "", "", "", "")
    return dict(zip(("namespace", "name", "group", "kind"), parts, strict=False))


def _named(part: SourceObject, entry: Mapping[str, Data], pointer: str) -> SourceObject:
    """Return an object of which only the kind, name and namespace are known."""
    version = "/".join(filter(None, (text(entry.get("group")), text(entry.get("version")))))
    metadata = {key: text(entry.get(key)) for key in ("name", "namespace")}
    body = {"apiVersion": version, "kind": text(entry.get("kind")), "metadata": metadata}
    return SourceObject(body=body, place=lambda _: part.place(pointer))


def _of_paths(source: EngineSource, parts: Sequence[SourceObject]) -> Iterator[SourceObject]:
    """Yield the training below the paths of a source. Raise ImportingError if it is not given."""
    training = [part for part in parts if trains(part)]
    for path in map(normpath, source.paths):
        root = _root(source, path, training)
        yield from (part for part in training if _below(_file(part), root, path))


def _root(source: EngineSource, path: str, parts: Sequence[SourceObject]) -> str:
    """Return the folder in which a repository's path exists: the nearest one above the source's
    file, or else the only one. Raise ImportingError if there is none, or several.
    """
    roots = {root for part in parts for root in _roots(_file(part), path)}
    above = [str(folder) for folder in PurePosixPath(_file(source.part)).parents]
    around = [root for root in above if root in roots]
    if around or len(roots) == 1:
        return around[0] if around else next(iter(roots))
    if not roots:
        raise ImportingError(
            f"{source.part.place('/spec')}: {source.title} reads the path {path} of its "
            "repository, and no training of it is among the files: name a clone of the repository, "
            "too, or what the cluster has of the source: `kubectl get … -o yaml`"
        )
    raise ImportingError(
        f"{source.part.place('/spec')}: the path {path} of {source.title} is in several folders: "
        f"{', '.join(sorted(roots))}. Name one of them"
    )


def _roots(file: str, path: str) -> Iterator[str]:
    """Yield each folder in which a path would lead to a file."""
    if path == ".":
        yield from (str(folder) for folder in PurePosixPath(file).parents)
        return
    for folder in PurePosixPath(file).parents:
        if _below(file, str(folder), path):
            yield str(folder)


def _below(file: str, root: str, path: str) -> bool:
    return PurePosixPath(file).is_relative_to(PurePosixPath(root) / path)


def _file(part: SourceObject) -> str:
    return part.place("").file
