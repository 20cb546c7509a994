"""Paths to documents: files, folders and standard input, split where clients of the API do it."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.documents import fast_yaml, yamlio
from trainwright.documents.dialect import GO, MAX_DOCUMENT
from trainwright.documents.yamlio import Document
from trainwright.files.tree import read_given

STDIN = "<stdin>"
_SUFFIXES = (".yaml", ".yml", ".json")
KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")


@dataclass(frozen=True, slots=True)
class Source:
    """One file that was read: its name in findings, its bytes, and if it was found in a folder."""

    file: str
    raw: bytes
    found: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """The text between two document markers, after `above` lines of its file."""

    file: str
    above: int
    raw: bytes
    found: bool = False  # in a folder, where files of other kinds may lie


@dataclass(frozen=True, slots=True)
class Object:
    """One object of a document; for an item of a List, `prefix` is its pointer in the List.

    `body` may be of any type, as nothing is checked yet.
    """

    body: Data
    prefix: str = ""


def gather(paths: tuple[str, ...]) -> tuple[Source, ...]:
    """Return all files below the paths, each once, in the order of the paths and then of names.

    "-" is standard input. Folders give their .yaml, .yml and .json files, hidden ones left out.
    Raise SourceError for a folder without any.
    """
    sources: dict[str, Source] = {}
    for path in paths:
        if path == "-":
            sources.setdefault(STDIN, Source(STDIN, sys.stdin.buffer.read()))
            continue
        is_folder = Path(path).is_dir()
        files = sorted(_below(Path(path))) if is_folder else [path]
        if not files:
            raise SourceError(f"{path} holds no {', '.join(_SUFFIXES)} file")
        for file in files:
            label = _label(file)
            if label not in sources:
                sources[label] = Source(label, _bytes(file), is_folder)
    return tuple(sources.values())


def _below(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from _below(Path(entry.path))
                elif _is_read(entry.name) and entry.is_file():
                    yield entry.path
    except OSError as error:
        raise SourceError(f"cannot read {folder}: {error.strerror}") from error


def _is_read(name: str) -> bool:
    return name.endswith(_SUFFIXES) or name in KUSTOMIZATIONS


def _bytes(file: str) -> bytes:
    try:
        return read_given(file)
    except OSError as error:
        raise SourceError(f"cannot read {file}: {error.strerror}") from error


def _label(file: str) -> str:
    """Return the path relative to here, so that a report is the same wherever the tree is."""
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else Path(relative).as_posix()


# A document ends only at a marker on a line of its own, whatever is around it, so that one broken
# document leaves the next ones readable. `...` and directives are so rare that a file with them is
# read as one stream.
_STREAM = (b"%", b"...")
_MARKED = re.compile(rb"---[ ]*(?:#[^\n]*)?(?=\n)")  # a marker with nothing else on its line
_NOTHING = re.compile(rb"(?:[ \t\r]*(?:#[^\n]*)?(?:\n|\Z))*\Z")


def split(source: Source) -> Iterator[Chunk]:
    """Yield the documents of a file as texts, leaving out empty ones."""
    raw = source.raw
    # A single search for both would meet a line break every thirty bytes.
    if raw.startswith(_STREAM) or any(s in raw and b"\n" + s in raw for s in _STREAM):
        yield Chunk(source.file, 0, raw, source.found)
        return
    above, begin = 0, 0
    for end in _ends(raw):
        text = raw[begin:end]
        if not _NOTHING.match(text.removeprefix(b"---")):
            yield from _parts(Chunk(source.file, above, text, source.found))
        above += text.count(b"\n")
        begin = end


def _ends(raw: bytes) -> Iterator[int]:
    """Yield the offset where each document ends: at the next `---` line or the file's end."""
    at = -1
    while (at := raw.find(b"\n---", at + 1)) >= 0:
        if raw[at + 4 : at + 5] in (b" ", b"\t", b"\r", b"\n", b""):
            yield at + 1
    yield len(raw)


def _parts(chunk: Chunk) -> Iterator[Chunk]:
    """Yield each of several JSON objects in a row (as of `kubectl get -o json`) by itself."""
    starts = chunk.raw.lstrip()[:1]
    if starts != b"{":
        yield chunk
        return
    try:
        text = chunk.raw.decode()
    except UnicodeDecodeError:
        yield chunk
        return
    decoder, at, parts = json.JSONDecoder(), 0, []
    try:
        while (at := at + len(text[at:]) - len(text[at:].lstrip())) < len(text):
            _, end = decoder.raw_decode(text, at)
            line_start = text.rfind("\n", 0, at) + 1
            # What precedes it on its line is replaced by blanks, so that columns stay right.
            part = " " * (at - line_start) + _joined(text[at:end])
            above = chunk.above + text.count("\n", 0, line_start)
            parts.append(replace(chunk, above=above, raw=part.encode()))
            at = end
    except (ValueError, RecursionError):  # not JSON: YAML in flow style, or broken
        yield chunk
        return
    yield from parts


_PAIR = re.compile(
    r"(?<!\\)((?:\\\\)*)(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
)


def _joined(text: str) -> str:
    """Return text with escaped surrogate pairs joined: libyaml splits those that JSON writes."""
    return _PAIR.sub(lambda match: match[1] + str(json.loads(f'"{match[2]}"')), text)


def documents(chunk: Chunk) -> Iterator[Document | tuple[Finding, ...]]:
    """Yield each document with the positions of its values, or its findings if invalid."""
    return yamlio.documents(chunk.file, chunk.raw, GO, above=chunk.above, limit=MAX_DOCUMENT)


def glance(chunk: Chunk) -> tuple[Data] | None:
    """Return the data, without positions, of what is surely one document; None if in doubt."""
    marked = _MARKED.match(chunk.raw)
    if len(chunk.raw) > MAX_DOCUMENT or (marked is None and chunk.raw.startswith(b"---")):
        return None
    return fast_yaml.read(chunk.raw[marked.end() :] if marked else chunk.raw)


def objects(data: Data) -> tuple[Object, ...]:
    """Return the objects of a document: none, itself, or the items of a List, even nested."""
    if data is None:
        return ()
    if not isinstance(data, Mapping) or not is_list(data):
        return (Object(data),)
    return tuple(
        Object(inner.body, f"/items/{index}{inner.prefix}")
        for index, item in enumerate(data["items"])
        for inner in objects(item)
    )


def is_list(data: Mapping[str, Data]) -> bool:
    """Whether clients take it for several objects: a kind such as List or JobList, with items."""
    kind = data.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and isinstance(data.get("items"), list)


def name_of(body: Mapping[str, Data]) -> str:
    """Return an object's name, or its generateName; empty if it has neither."""
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    name = metadata.get("name") or metadata.get("generateName")
    return name if isinstance(name, str) else ""


def data(chunk: Chunk) -> Iterator[tuple[int, Data]]:
    """Yield the number and data, without positions, of each document that can be read."""
    glanced = glance(chunk)
    if glanced is not None:
        yield 0, glanced[0]
        return
    for number, document in enumerate(documents(chunk)):
        if isinstance(document, Document):
            yield number, document.data


def manifests(chunk: Chunk) -> Iterator[tuple[int, str, Manifest]]:
    """Yield each object that can be read, after its document's number and its pointer in it."""
    for number, content in data(chunk):
        for item in objects(content):
            if isinstance(item.body, Mapping):
                yield number, item.prefix, Manifest(body=item.body)


def is_manifest(path: str) -> bool:
    """Whether a folder gives this file, by the file's path in it."""
    return path.endswith(_SUFFIXES) and not any(name.startswith(".") for name in path.split("/"))
