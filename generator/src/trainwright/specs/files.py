"""The files of the repository that a spec names: their bytes travel with the run.

Each layer that says `from` gets the digest of the file beside it. From there on the file is part of
what the layer says: an edit of a file that the job's own spec names is an edit of the job, one that
a shared layer names is held, and a record knows which bytes its run began with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from trainwright.findings import diagnostics as dx
from trainwright.frozen import dataclass
from trainwright.model import Data, File, Finding, Location, file_digest
from trainwright.pointer import Pointer
from trainwright.specs.merge import Layer, Layered, lookup, merge, stack

# What all keys of a ConfigMap may hold together.
# https://kubernetes.io/docs/concepts/configuration/configmap/#motivation
LIMIT = 1024 * 1024
_FILES = Pointer.of("files")
_NOT_INSIDE = frozenset({"", ".", ".."})
_SEPARATOR = re.compile(r"[/\\]")  # a backslash is one on Windows

Read = Callable[[str], bytes | Finding]


@dataclass(frozen=True, slots=True)
class WithFiles:
    """A spec with the digests of its files and their bytes, and what cannot be read.

    `paths` are all files that its layers name, there or not.
    """

    spec: Layered
    paths: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def named(data: Mapping[str, Data]) -> Iterator[tuple[Pointer, str]]:
    """The files of the repository that a spec or a layer names, by where it says so.

    A path that the schema refuses, as it may lead out of the repository, names none.
    """
    files = data.get("files")
    for path, file in files.items() if isinstance(files, Mapping) else ():
        source = file.get("from") if isinstance(file, Mapping) else None
        if isinstance(source, str) and not _NOT_INSIDE.intersection(_SEPARATOR.split(source)):
            yield _FILES / path, source


def with_files(spec: Layered, read: Read) -> WithFiles:
    """A spec whose files of the repository have their digests; one that is written stays."""
    if not any("files" in layer.data for layer in spec.layers):
        return WithFiles(spec)
    contents: dict[str, bytes] = {}
    findings: list[Finding] = []
    layers = []
    paths: dict[str, None] = {}
    for layer in spec.layers:
        added: dict[str, Data] = {}
        for at, source in named(layer.data):
            paths[source] = None
            raw = read(source)
            if isinstance(raw, Finding):
                findings.append(_at_line(layer, at / "from", raw))
                continue
            contents[source] = raw
            if not layer.wrote(at / "digest"):
                added[at.parts[-1]] = {"digest": file_digest(raw)}
        layers.append(_laid_over(layer, {"files": added}) if added else layer)
    found = replace(stack(tuple(layers)), contents=contents)
    unlike = () if findings else _unlike(found)
    return WithFiles(found, tuple(paths), (*findings, *unlike))


def _at_line(layer: Layer, at: Pointer, finding: Finding) -> Finding:
    """What is wrong with a file, where a layer names it."""
    shared = layer.label != "job"  # by many jobs, which have this in common
    return dx.FILE.at(
        layer.place(at),
        finding.message,
        remedy=finding.remedy,
        subject=layer.document.file if shared else "",
        path=at,
    )


def _laid_over(layer: Layer, added: Data) -> Layer:
    for key in reversed(layer.root.parts):
        added = {key: added}
    document = layer.document
    return replace(layer, document=replace(document, data=merge(document.data, added)))


def _unlike(spec: Layered) -> Iterator[Finding]:
    """The files that are not what the digest beside them says."""
    for at, source in named(spec.data):
        wanted = lookup(spec.data, at / "digest")
        raw = spec.contents.get(source)
        if raw is not None and wanted != (there := file_digest(raw)):
            path = at / "digest"
            message = f"{source} is not the file with this digest, but {there}"
            remedy = "Write its digest, or remove it (null): any file will do then."
            yield dx.FILE.at(spec.origin(path), message, remedy=remedy, path=path)


def decided_by(spec: Layered, pointer: Pointer) -> Location | None:
    """The file of the repository that a digest is that of; None for what people write."""
    at = pointer.parent
    if at.parent != _FILES or pointer != at / "digest" or spec.setter(pointer).wrote(pointer):
        return None
    source = dict(named(spec.data)).get(at)
    return Location(source) if source else None


def resolved(files: Iterable[File], spec: Layered) -> tuple[File, ...]:
    """Files with their bytes where they are at hand: a recorded run may have begun with others."""
    sources = {at.parts[-1]: source for at, source in named(spec.data)}
    return tuple(_with_bytes(file, spec.contents.get(sources.get(file.name, ""))) for file in files)


def _with_bytes(file: File, raw: bytes | None) -> File:
    found = File.of(file.name, raw, file.mode) if raw is not None else file
    return found if found.digest == file.digest else file
