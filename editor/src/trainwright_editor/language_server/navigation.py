"""From a name to where it is declared, from a value to the line that set it, and back again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from trainwright.authoring import names
from trainwright.authoring.place import Place, Target, extended, job_at, layered, target
from trainwright.datatypes.data import Data
from trainwright.datatypes.layout import JobFile, environment_path, job_of
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.specs.merge import BUILT_IN, Layered

if TYPE_CHECKING:
    from trainwright.authoring.session import Session


def definition(place: Place) -> Iterator[Target]:
    """Where the thing that is pointed at comes from."""
    if place.entry is None or place.in_spec is None:
        return
    declared = list(_declared(place, place.in_spec))
    yield from declared or _set_by(place)


def _declared(place: Place, at: Pointer) -> Iterator[Target]:
    session, document = place.session, place.text.document
    if document is None:
        return
    value = lookup(document.data, place.pointer)
    if at == "/extends" and (path := extended(document)):
        if session.workspace.tree.kind(path) == "file":
            yield target(session, path, "/name")
    elif at in names.VOLUME_NAMES and (spec := job_at(place)):
        yield from _origin(place, spec, Pointer.of("volumes", str(value)))
    elif key := names.declared_as(at):
        for name in names.declared(session, place.environment, key):
            if name.text == value and (at_name := name.target(session)):
                yield at_name


def _set_by(place: Place) -> Iterator[Target]:
    """Yield the line that set a value, or if that is this one, the line that it overrides."""
    spec = job_at(place)
    if spec is None:
        return
    pointer = place.pointer
    for layer, _ in spec.history(pointer):
        document, at = layer.written_as(pointer)
        if layer.label != BUILT_IN and document.file != place.path:
            yield target(place.session, document.file, at)
            return


def _origin(place: Place, spec: Layered, pointer: Pointer) -> Iterator[Target]:
    layer = spec.setter(pointer)
    if layer.label != BUILT_IN and layer.wrote(pointer):
        document, at = layer.written_as(pointer)
        yield target(place.session, document.file, at)


# --- references ----------------------------------------------------------------------------------


def references(place: Place, *, declared: bool) -> Iterator[Target]:
    """Yield every line that names what is pointed at, and every job that a shared value reaches.

    With `declared`, also the line that declares it or sets the value.
    """
    if place.entry is None:
        return
    targets = dict.fromkeys(_references(place))
    own = _own(place)
    if own is not None:
        targets.pop(own, None)
        if declared:
            yield own
    yield from targets


def _own(place: Place) -> Target | None:
    """Return the line that declares what is pointed at, or that sets it."""
    pointer = place.pointer
    if named := declaration(place):
        return declaring(place, *named)
    document = place.text.document
    if place.kind == "job" and pointer == "/extends" and document:
        base = extended(document)
        is_there = base and place.session.workspace.tree.kind(base) == "file"
        return target(place.session, base, "/name") if is_there else None
    return target(place.session, place.path, pointer) if place.in_spec is not None else None


def _references(place: Place) -> Iterator[Target]:
    pointer = place.pointer
    if place.kind == "environment" and len(pointer.parts) == 2:
        key, name = pointer.parts
        if key in names.DECLARING:
            yield from uses(place, place.environment, key, name)
            return
    if place.kind == "job" and pointer in ("/name", "/extends"):
        document = place.text.document
        base = extended(document) if document and pointer == "/extends" else place.path
        yield from extending(place, base)
        return
    if place.kind == "job" and len(pointer.parts) == 2 and pointer.parts[0] == "volumes":
        yield from _volume(place, pointer.last)
        return
    key, value = names.declared_as(place.in_spec), place.value
    if key and isinstance(value, str):
        yield from uses(place, place.environment, key, value)
    else:
        yield from _reached(place)


def uses(place: Place, environment: str, key: str, name: str) -> Iterator[Target]:
    """Where the specs of an environment name something that it declares."""
    session = place.session
    for file in session.workspace.survey.jobs.get(environment, ()):
        spec = layered(session, file)
        for pointer in _naming(spec.data, key, name) if spec else ():
            assert spec is not None
            layer = spec.setter(pointer)
            if layer.label != BUILT_IN and layer.wrote(pointer):
                yield target(session, layer.document.file, layer.root + pointer)


def naming(session: Session, environment: str, key: str, name: str) -> Iterator[JobFile]:
    """Yield the jobs whose specs, in any layer, name something that an environment declares."""
    for file in session.workspace.survey.jobs.get(environment, ()):
        spec = layered(session, file)
        if spec and any(_naming(spec.data, key, name)):
            yield file


def _naming(data: Mapping[str, Data], key: str, name: str) -> Iterator[Pointer]:
    """The values of a spec that name something that is declared under a key."""
    if key in ("pools", "queues", "targets"):
        field = key.removesuffix("s")
        if data.get(field) == name:
            yield Pointer.of(field)
    secrets = data.get("secrets") if key == "secrets" else None
    for variable, secret in secrets.items() if isinstance(secrets, Mapping) else ():
        if isinstance(secret, Mapping) and secret.get("name") == name:
            yield Pointer.of("secrets", variable, "name")


def extending(place: Place, path: str) -> Iterator[Target]:
    """The lines that extend a spec."""
    session, name = place.session, str(job_of(path)).encode()
    for file in every(place):
        raw = session.workspace.reader.raw(file.path)  # thousands, few of which have to be parsed
        if file.path == path or not isinstance(raw, bytes) or name not in raw:
            continue
        document = session.text(file.path).document
        if document is not None and extended(document) == path:
            yield target(session, file.path, "/extends")


def every(place: Place) -> Iterator[JobFile]:
    """Yield every spec, including those that are only extended."""
    yield from names.only_bases(place.session)
    yield from place.session.jobs()


def _volume(place: Place, name: str) -> Iterator[Target]:
    yield target(place.session, place.path, place.pointer)
    for at in names.VOLUME_NAMES:
        if place.text.value(at) == name:
            yield target(place.session, place.path, at)


def _reached(place: Place) -> Iterator[Target]:
    """The jobs for which a shared value decides something."""
    at, root = place.in_spec, place.root
    if at is None or root is None or place.entry is None:
        return
    session = place.session
    if place.kind == "job" and job_of(place.path) in session.check.reached(place.path):
        yield target(session, place.path, place.pointer)
    for file in sorted(session.check.reached(place.path)):
        if file.path == place.path:
            continue
        spec = layered(session, file)
        if spec is None or not spec.setter(at).wrote(at):
            continue
        layer = spec.setter(at)
        if layer.document.file == place.path and layer.root == root:
            yield target(session, file.path, "/name")


def declaration(place: Place) -> tuple[str, str] | None:
    """Return the key and name of what is pointed at, if an environment declares it."""
    pointer = place.pointer
    if place.kind == "environment" and len(pointer.parts) == 2:
        key, name = pointer.parts
        return (key, name) if key in names.DECLARING else None
    key, value = names.declared_as(place.in_spec), place.value
    return (key, value) if key and isinstance(value, str) else None


def declaring(place: Place, key: str, name: str) -> Target | None:
    """Return where an environment declares something."""
    path, pointer = environment_path(place.environment), Pointer.of(key, name)
    is_there = pointer in place.session.text(path).by_pointer
    return target(place.session, path, pointer) if is_there else None
