"""The place that a query is about: its file, its value, and the job specs that it is part of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from trainwright.authoring.text import Entry, Position, Span, Text
from trainwright.datatypes.data import Data, dig
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import (
    DEFAULTS,
    ENVIRONMENT_FILE,
    ENVIRONMENTS,
    JobFile,
    environment_path,
    job_of,
)
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents.yamlio import Document
from trainwright.specs import layers
from trainwright.specs.fields import Field, field
from trainwright.specs.merge import Layered

if TYPE_CHECKING:
    from trainwright.authoring.session import Session

_JOB = re.compile(rf"{ENVIRONMENTS}/[^/]+/jobs/[^/]+\.yaml")
_OTHERS = {"ledger.yaml": "ledger", "images.lock.yaml": "lock", ENVIRONMENT_FILE: "environment"}
_POOL_DEFAULTS = re.compile(r"/pools/[^/]+/defaults")
_ROOT = Pointer()


@dataclass(frozen=True)
class Place:
    """A position in a file of a session."""

    session: Session
    path: str
    at: Position

    @cached_property
    def text(self) -> Text:
        return self.session.text(self.path)

    @cached_property
    def kind(self) -> str:
        return kind_of(self.path)

    @cached_property
    def entry(self) -> Entry | None:
        """The key or scalar that is pointed at."""
        return self.text.at(self.at)

    @property
    def pointer(self) -> Pointer:
        return self.entry.pointer if self.entry else _ROOT

    @property
    def value(self) -> Data:
        """The file's value at the pointer."""
        return self.lookup(self.pointer)

    def lookup(self, pointer: str) -> Data:
        return lookup(self.text.document.data, pointer) if self.text.document else None

    @property
    def field(self) -> Field:
        return field(self.kind, self.pointer)

    @property
    def environment(self) -> str:
        """The environment that the file belongs to; empty for a base and for shared files."""
        return environment_of(self.session, self.path)

    @cached_property
    def root(self) -> Pointer | None:
        """Pointer to the job spec that contains the value, or None if it is in no spec."""
        return spec_root(self.path, self.pointer)

    @property
    def in_spec(self) -> Pointer | None:
        """Pointer to the value within its job spec, or None if it is in no spec."""
        return None if self.root is None else Pointer(self.pointer.removeprefix(self.root))


def kind_of(path: str) -> str:
    """Return the kind of the file at a path, or "" for a file that people do not write."""
    if path == DEFAULTS:
        return "defaults"
    if _JOB.fullmatch(path):
        return "job"
    return _OTHERS.get(path.rpartition("/")[2], "") if path.count("/") <= 2 else ""


def spec_root(path: str, pointer: Pointer) -> Pointer | None:
    """Return the pointer to the job spec that a value of a file is in, or None if it is in none."""
    kind = kind_of(path)
    if kind == "job":
        return _ROOT
    if kind in ("defaults", "environment") and pointer.within("/defaults"):
        return Pointer("/defaults")
    match = _POOL_DEFAULTS.match(pointer) if kind == "environment" else None
    return Pointer(match.group()) if match else None


def environment_of(session: Session, path: str) -> str:
    """Return the environment that a file belongs to; empty for a base and for shared files."""
    name = path.removeprefix(f"{ENVIRONMENTS}/").partition("/")[0]
    return name if name in session.workspace.survey.jobs else ""


def layered(session: Session, file: JobFile) -> Layered | None:
    """Return a job's merged spec from texts as they are, broken or not, or None if its own file has
    nothing that can be read."""
    chain = list(_chain(session, file.path))
    if not chain:
        return None
    defaults, own = (
        session.text(p).document for p in (DEFAULTS, environment_path(file.environment))
    )
    below = layers.of_environment(session.workspace.reader.built_in, defaults, own)
    return layers.stacked(below, layers.of_job(chain))


def _chain(session: Session, path: str) -> Iterator[Document]:
    seen: set[str] = set()
    while path and path not in seen:
        seen.add(path)
        document = session.text(path).document
        if document is None:
            return
        yield document
        path = extended(document)


def extended(document: Document) -> str:
    """Return the path of the spec that this one extends, or "" if it extends none."""
    base = document.data.get("extends")
    folder, slash, name = base.partition("/") if isinstance(base, str) else ("", "", "")
    return JobFile(folder, name).path if slash else ""


def job_at(place: Place) -> Layered | None:
    """The spec of the job whose file it is."""
    return layered(place.session, job_of(place.path)) if place.kind == "job" else None


def environment_document(session: Session, environment: str) -> Document | None:
    """An environment's own file, as far as it can be understood."""
    return session.text(environment_path(environment)).document if environment else None


def value_at(document: Document | None, *keys: str) -> Data:
    """Return the value under nested keys of a file, or None."""
    return dig(document.data, *keys) if document else None


@dataclass(frozen=True, slots=True)
class Target:
    """A part of a file that an answer leads to."""

    path: str
    span: Span


def target(session: Session, path: str, pointer: str) -> Target:
    """Where a file writes a value: its key, its item, or its first line."""
    entry = session.text(path).by_pointer.get(Pointer(pointer))
    if entry is None:
        return Target(path, Span(Position(0, 0), Position(0, 0)))
    return Target(path, entry.key or entry.value)
