"""The files of the repository that a spec names: their bytes travel with the run.

Each `from` in a layer gets the file's digest beside it. From then on the file is part of the layer:
an edit of a file that the job's own spec names is an edit of the job, one that a shared layer names
is held, and a record knows which bytes its run began with. A folder stands for all files in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import File, file_digest
from trainwright.datatypes.layout import ENVIRONMENTS
from trainwright.datatypes.pointer import Pointer, lookup, with_value
from trainwright.files.entry import above
from trainwright.findings import diagnostics as dx
from trainwright.specs.merge import JOB, ROLES, Layer, Layered, merge, stack

if TYPE_CHECKING:
    from trainwright.specs.load import Reader

# The most bytes that a ConfigMap may hold, all its keys together.
# https://kubernetes.io/docs/concepts/configuration/configmap/#motivation
LIMIT = 1024 * 1024
_FILES = Pointer.of("files")
_RENDERED = re.compile(rf"{ENVIRONMENTS}/[^/]+/rendered/")
_NOT_INSIDE = frozenset({"", ".", ".."})
_SEPARATOR = re.compile(r"[/\\]")  # a backslash is one on Windows
_NOT_MOUNTED = re.compile(r"[:\\\x00-\x1f]")  # in the name of a file


@dataclass(frozen=True, slots=True)
class WithFiles:
    """A spec with the digests and bytes of its files, and findings for those that cannot be read.

    `paths` are all files that its layers name, whether they exist or not.
    """

    spec: Layered
    paths: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def named(data: Mapping[str, Data]) -> Iterator[tuple[Pointer, str]]:
    """Yield the repository's files that a spec or a layer refers to, each after the pointer to it.

    Paths that the schema refuses, as they may lead out of the repository, are left out.
    """
    for at in _held(data):
        files = lookup(data, at)
        for path, file in files.items() if isinstance(files, Mapping) else ():
            if source := _source(file):
                yield at / path, source


def _held(data: Mapping[str, Data]) -> Iterator[Pointer]:
    """Where a spec or a layer may have files: at the top, and in each role."""
    yield _FILES
    yield from (Pointer.of(ROLES, name, "files") for name in mapping(data.get(ROLES)))


def _source(file: Data) -> str:
    """Return the path in the repository that an entry names, or "" if it names none in it."""
    source = file.get("from") if isinstance(file, Mapping) else None
    inside = isinstance(source, str) and not _NOT_INSIDE & set(_SEPARATOR.split(source))
    return str(source) if inside else ""


def with_folders(paths: Iterable[str]) -> frozenset[str]:
    """Files of the repository with the folders around them, which a spec may name instead.

    Rendered files, of which there are many, and their folders it may not.
    """
    everything = frozenset(paths)
    sources = (path for path in everything if not is_rendered(path))
    return everything | {folder for path in sources for folder in above(path)}


def is_rendered(path: str) -> bool:
    """Whether a path lies in a folder of rendered files, to which no spec may refer."""
    return bool(_RENDERED.match(path))


def digests(data: Mapping[str, Data]) -> dict[str, tuple[str, str]]:
    """Return the path and digest of each repository file that a spec refers to, by its pointer."""
    return {at: (path, str(lookup(data, at / "digest"))) for at, path in named(data)}


def with_files(spec: Layered, reader: Reader) -> WithFiles:
    """Return a spec with a digest for each file of the repository that its layers name; a digest in
    the spec is kept.
    """
    below = spec.layers
    holders = [at for at in _held(spec.data) if any(lookup(one.data, at) for one in below)]
    if not holders:
        return WithFiles(spec)
    contents: dict[str, bytes] = {}
    taken = []
    folders, spread = _Folders(reader), below
    for at in holders:
        spread = tuple(map(folders.at(at).spread, spread))
    findings = folders.findings
    paths: dict[str, None] = dict.fromkeys(folders.named)
    for layer in spread:
        added: Data = {}
        for at, source in named(layer.data):
            paths[source] = None
            raw = reader.repository_file(source)
            if isinstance(raw, Finding):
                findings.append(_at_line(layer, at / "from", raw))
                continue
            contents[source] = raw
            if not layer.wrote(at / "digest"):
                added = with_value(added, at / "digest", file_digest(raw))
        taken.append(_laid_over(layer, added) if added else layer)
    merged = replace(stack(tuple(taken)), contents=contents)
    unlike = () if findings else _unlike(merged)
    return WithFiles(merged, tuple(paths), (*findings, *unlike))


class _Folders:
    """The folders that layers name, each to be replaced by its files, from the lowest layer on:
    those of a job, or those of one of its roles, which are laid over the job's.
    """

    def __init__(self, reader: Reader):
        self._reader = reader
        self._at = _FILES
        self._below: dict[str, tuple[str, ...]] = {}  # the files that are there now, by the folder
        self._alone: set[str] = set()  # the paths that are one file each
        self.named: list[str] = []
        self.findings: list[Finding] = []

    def at(self, at: Pointer) -> _Folders:
        """Return a copy for the files of a role, which starts from the job's folders, or self if
        `at` is its own.
        """
        if at == self._at:
            return self
        found = copy(self)
        found._at, found._below, found._alone = at, dict(self._below), set(self._alone)
        return found

    def spread(self, layer: Layer) -> Layer:
        """The layer with each file of its folders by itself."""
        written = lookup(layer.data, self._at)
        if not isinstance(written, Mapping):
            return layer
        made: dict[str, Data] = {}
        places: dict[str, str] = {}  # of the folder that a file is of
        for path, file in written.items():
            expanded = self._files(layer, path, file)
            made |= {path: file} if expanded is None else expanded
            for name in expanded or ():
                places[name] = path
        self._alone.difference_update(path for path, file in made.items() if file is None)
        self._alone.update(path for path in written if made.get(path) is not None)
        return _replaced(layer, self._at, made, places) if made != written else layer

    def _files(self, layer: Layer, path: str, file: Data) -> dict[str, Data] | None:
        """Return the entries in place of one of `files`, or None if it is not a folder's."""
        source = _source(file)
        listed = self._reader.repository_folder(source) if source else None
        before = self._below.get(path, ())
        if listed is None:
            if not before:
                return None
            if isinstance(file, Mapping) and not {"content", "binaryData", "from"} & file.keys():
                return dict.fromkeys(before, file)  # the mode of them all
            del self._below[path]
            return {**dict.fromkeys(before), **_instead(path, file)}
        self.named += (source, *(f"{source}/{a}" for name in listed for a in above(name)))
        self._check(layer, path, file, listed)
        more = {key: value for key, value in file.items() if key == "mode"}
        entries = {f"{path}/{name}": {"from": f"{source}/{name}", **more} for name in listed}
        self._below[path] = tuple(entries)
        replaced = (*before, *({path} & self._alone))
        return {**dict.fromkeys(replaced), **entries}

    def _check(
        self, layer: Layer, path: str, file: Mapping[str, Data], names: Sequence[str]
    ) -> None:
        """Note what is wrong with a folder that a layer names."""
        at, source = self._at / path / "from", file["from"]
        if not names:
            self._refuse(layer, at, f"{source} is a folder without files", "Name another one.")
        if "digest" in file:
            message = f"{source} is a folder, and a digest is that of one file"
            self._refuse(layer, self._at / path / "digest", message, "Name the file by itself.")
        for name in filter(_NOT_MOUNTED.search, names):
            message = f"{source} has {name!r}, which cannot be mounted"
            self._refuse(layer, at, message, "Rename the file.")

    def _refuse(self, layer: Layer, at: Pointer, message: str, remedy: str) -> None:
        finding = dx.FILE.at(layer.place(at), message, remedy=remedy)
        self.findings.append(_at_line(layer, at, finding))


def _instead(path: str, file: Data) -> dict[str, Data]:
    """Return the entry that replaces a folder, without nulls: no key is there to be removed."""
    if not isinstance(file, Mapping):
        return {} if file is None else {path: file}
    return {path: {key: value for key, value in file.items() if value is not None}}


def _replaced(
    layer: Layer, at: Pointer, made: Mapping[str, Data], places: Mapping[str, str]
) -> Layer:
    """Return a layer with other files, each placed at the line that names its folder."""
    document, root = layer.document, layer.root + at
    value_places, keys = dict(document.places), dict(document.keys)
    for path, folder in places.items():
        if made[path] is not None:
            value_places[Pointer(root) / path] = value_places[Pointer(root) / folder]
            keys[Pointer(root) / path] = keys[Pointer(root) / folder]
    data = with_value(document.data, Pointer(root), made)
    return replace(layer, document=replace(document, data=data, places=value_places, keys=keys))


def _at_line(layer: Layer, at: Pointer, finding: Finding) -> Finding:
    """Return a finding about a file, placed where a layer refers to that file."""
    shared = layer.label != JOB  # by many jobs, which have this in common
    return dx.FILE.at(
        layer.place(at),
        finding.message,
        remedy=finding.remedy,
        subject=layer.document.file if shared else "",
        path=at,
    )


def _laid_over(layer: Layer, added: Data) -> Layer:
    document, data = layer.document, with_value(None, layer.root, added)
    return replace(layer, document=replace(document, data=merge(document.data, data)))


def _unlike(spec: Layered) -> Iterator[Finding]:
    """Yield a finding for each file whose digest differs from the one written beside it."""
    for at, source in named(spec.data):
        wanted = lookup(spec.data, at / "digest")
        raw = spec.contents.get(source)
        if raw is not None and wanted != (there := file_digest(raw)):
            path = at / "digest"
            message = f"{source} is not the file with this digest, but {there}"
            remedy = "Write its digest, or remove it (null): any file will do then."
            yield spec.finding(dx.FILE, path, message, remedy=remedy)


def source_of(spec: Layered, pointer: Pointer) -> str:
    """The file of the repository that has the text of an entry of `files`; empty where that is in
    the spec itself.
    """
    return next((source for at, source in named(spec.data) if pointer.within(at)), "")


def decided_by(spec: Layered, pointer: Pointer) -> Location | None:
    """Return the repository file that a digest was computed from, or that an entry stands for as
    part of a folder; None for what people write.
    """
    at = pointer.parent
    read = at.parent.last == _FILES.last and pointer in (at / "digest", at / "from")
    if not read or spec.setter(pointer).wrote(pointer):
        return None
    source = dict(named(spec.data)).get(at)
    return Location(source) if source else None


def resolved(files: Iterable[File], spec: Layered) -> tuple[File, ...]:
    """Return the files with their bytes, except where a recorded run began with other bytes."""
    sources = {at.last: source for at, source in named(spec.data) if at.parent == _FILES}
    return tuple(_with_bytes(file, spec.contents.get(sources.get(file.name, ""))) for file in files)


def _with_bytes(file: File, raw: bytes | None) -> File:
    loaded = File.of(file.name, raw, file.mode) if raw is not None else file
    return loaded if loaded.digest == file.digest else file
