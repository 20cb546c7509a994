"""Another name for a pool, a queue, a volume or a job, everywhere that it is written."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from trainwright.authoring.names import VOLUME_NAMES
from trainwright.authoring.place import Place, Target, layered, target
from trainwright.authoring.text import Span
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENTS, JobFile, job_of
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents import yamlio
from trainwright.specs.merge import BASE, JOB, Layer
from trainwright_editor.language_server import navigation

if TYPE_CHECKING:
    from trainwright.authoring.session import Session

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_RENAMED = ("pools", "queues")


class CannotRename(TrainwrightError):
    """There is no name at the cursor that can be changed here."""


@dataclass(frozen=True, slots=True)
class Renaming:
    """The new texts of spans, by file, and the file that moves, as its old and its new path."""

    edits: Mapping[str, tuple[tuple[Span, str], ...]]
    moved: tuple[str, str] | None = None
    note: str = ""


def span_of(place: Place) -> Span | None:
    """Return the span of what would be renamed, or None if there is nothing to rename."""
    entry = place.entry
    if entry is None or _subject(place) is None:
        return None
    return entry.key if entry.key and place.at in entry.key else entry.value


def _subject(place: Place) -> tuple[str, str] | None:
    """Return what kind of thing is pointed at, and its name, or None if it cannot be renamed."""
    pointer, parts = place.pointer, place.pointer.parts
    declared = navigation.declaration(place)
    if declared and declared[0] in _RENAMED:
        return declared
    value = place.value
    if place.kind == "job" and pointer == "/name" and isinstance(value, str):
        return "job", value
    if place.kind == "job" and pointer in VOLUME_NAMES and isinstance(value, str):
        return "volume", value
    if place.kind == "job" and len(parts) == 2 and parts[0] == "volumes":
        return "volume", parts[1]
    return None


def rename(place: Place, name: str) -> Renaming:
    """Return the edits that rename what is at a place. Raise CannotRename if it cannot be."""
    subject = _subject(place)
    if subject is None:
        raise CannotRename("pools, queues, volumes and jobs can be renamed, and nothing else here")
    what, was = subject
    if not _NAME.fullmatch(name):
        raise CannotRename(f'"{name}" is not a valid name: lower-case letters, digits and dashes')
    if what == "job":
        return _job(place, was, name)
    lines = (
        list(_volume(place, was, name))
        if what == "volume"
        else list(_declared(place, what, was, name))
    )
    return Renaming(_edits(lines, name))


def _edits(targets: list[Target], name: str) -> dict[str, tuple[tuple[Span, str], ...]]:
    grouped: defaultdict[str, dict[Span, str]] = defaultdict(dict)
    for occurrence in targets:
        grouped[occurrence.path][occurrence.span] = yamlio.inline(name)
    return {path: tuple(edits.items()) for path, edits in grouped.items()}


def _declared(place: Place, key: str, was: str, name: str) -> Iterator[Target]:
    """Yield where an environment declares a pool or queue, and where its jobs name it."""
    environment = place.environment
    at = navigation.declaring(place, key, was)
    if at is None:
        raise CannotRename(f"{was} is not declared by an environment that this file belongs to")
    if navigation.declaring(place, key, name) is not None:
        raise CannotRename(f"{environment} has {name} already")
    yield at
    inside = f"{ENVIRONMENTS}/{environment}/"
    for used in navigation.uses(place, environment, key, was):
        if not used.path.startswith(inside):
            raise CannotRename(
                f"{used.path}:{used.span.start.line + 1} names {was} for other environments, too"
            )
        yield _value_of(place, used)


def _value_of(place: Place, occurrence: Target) -> Target:
    """Return the scalar under the key of an occurrence; the occurrence itself if there is none."""
    entry = place.session.text(occurrence.path).at(occurrence.span.start)
    return Target(occurrence.path, entry.value) if entry and entry.shape == "scalar" else occurrence


def _volume(place: Place, was: str, name: str) -> Iterator[Target]:
    """Yield where a job, its bases, and all jobs that share a line of these name a volume."""
    session = place.session
    for file in sorted(_sharing(place, was)):
        spec = layered(session, file)
        if spec is None:
            continue
        if lookup(spec.data, Pointer.of("volumes", name)) is not None:
            raise CannotRename(f"{file} has a volume {name} already")
        if lookup(spec.data, Pointer.of("volumes", was, "create")) is not None:
            raise CannotRename(f"{was} is a claim of its own: under another name it is another one")
        for layer in spec.layers:
            yield from _in_layer(session, layer, was)


def _sharing(place: Place, was: str) -> set[JobFile]:
    """Return the jobs that are made of a file in which this job or a base of it names a volume."""
    session, own = place.session, job_of(place.path)
    spec, paths = layered(session, own), {place.path}
    for layer in spec.layers if spec else ():
        paths.update(line.path for line in _in_layer(session, layer, was))
    return {own, *(file for path in paths for file in session.check.reached(path))}


def _in_layer(session: Session, layer: Layer, was: str) -> Iterator[Target]:
    """Yield where a layer names a volume."""
    path, volume = layer.document.file, Pointer.of("volumes", was)
    mounts = layer.wrote(volume)
    saves = [at for at in VOLUME_NAMES if lookup(layer.data, at) == was]
    if (mounts or saves) and layer.label not in (JOB, BASE):
        raise CannotRename(f"{path} names {was} for other jobs, too")
    if mounts:
        yield target(session, path, volume)
    for at in saves:
        if entry := session.text(path).by_pointer.get(at):
            yield Target(path, entry.value)


def _job(place: Place, was: str, name: str) -> Renaming:
    """Rename a job: its name, its file, and the lines that extend it."""
    session, file = place.session, job_of(place.path)
    there = JobFile(file.environment, name).path
    if session.workspace.tree.kind(there):
        raise CannotRename(f"{there} is there already")
    entry = place.entry
    assert entry is not None
    edits: defaultdict[str, list[tuple[Span, str]]] = defaultdict(list)
    edits[place.path].append((entry.value, yamlio.inline(name)))
    for used in navigation.extending(place, place.path):
        value = session.text(used.path).by_pointer[Pointer("/extends")].value
        edits[used.path].append((value, yamlio.inline(f"{file.environment}/{name}")))
    note = f"{was} is another job under another name: it begins a run of its own"
    grouped = {path: tuple(replacements) for path, replacements in edits.items()}
    return Renaming(grouped, (place.path, there), note)
