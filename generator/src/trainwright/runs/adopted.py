"""Runs that existed before git had them: environments/<env>/adopted/<job>.yaml.

Such a file holds an object of the cluster. It is a source like the job's spec, and the job's first
run is the object exactly as written there, whatever the spec would render. The rendered file is a
copy of it, so that a reviewer sees the object in a diff, and only derived files are trusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

from trainwright.datatypes.data import dig
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ADOPTED, ENVIRONMENTS, JobFile
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, with_value
from trainwright.documents import yamlio
from trainwright.documents.dialect import GO
from trainwright.documents.yamlio import Document, Unseen
from trainwright.findings import diagnostics as dx
from trainwright.kinds import ADOPTED as AS_IT_IS
from trainwright.kinds import trains
from trainwright.kinds.kind import Kind
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.specs.load import Reader

_NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")  # of any run: that of a DNS label


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted:
    """An adopted object, the document it is in, and that document's lines with characters that
    people do not see or mistake for others.
    """

    manifest: Manifest
    document: Document
    unseen: Unseen = ()

    @property
    def name(self) -> str:
        return self.manifest.name

    @property
    def path(self) -> str:
        return self.document.file

    @property
    def kind(self) -> Kind:
        training_kind = trains(self.manifest)
        assert training_kind is not None  # see `unfit`
        return training_kind

    @property
    def suspended(self) -> bool:
        """Whether the object is suspended by its own field."""
        where = self.kind.suspend
        return bool(where and dig(self.manifest.body, *Pointer(where).parts))

    def fits(self, target: str) -> bool:
        """Whether it may be the run of a job of a target."""
        return target in (self.kind.name, AS_IT_IS.name)

    def values(self, target: str) -> str:
        """Return the chart values of the object: Argo CD finds the folders of runs by this file."""
        return yamlio.dump({"target": target, "fullnameOverride": self.name})

    @property
    def unstoppable(self) -> str:
        """Why the object as it is takes no other state, or "" if it does."""
        if self.kind.suspend and QUEUE_LABEL not in self.manifest.labels:
            return ""
        return "Kueue starts it" if self.kind.suspend else f"a {self.kind} has no field for it"

    def text(self, *, suspended: bool | None = None) -> str:
        """Return the object, however its file lays it out, as it is or in a state."""
        body = dict(self.manifest.body)
        if suspended not in (None, self.suspended):
            body = with_value(body, Pointer(self.kind.suspend), suspended)
        return yamlio.dump(body, blocks=True)


Reading: TypeAlias = Adopted | tuple[Finding, ...] | None  # None where there is no file


def path(file: JobFile) -> str:
    """Return where the object is that the first run of a job is."""
    return f"{ENVIRONMENTS}/{file.environment}/{ADOPTED}/{file.name}.yaml"


def is_adopted(path: str) -> bool:
    """Whether a file would be such an object."""
    return path.startswith(f"{ENVIRONMENTS}/") and path.split("/")[2:-1] == [ADOPTED]


def read(reader: Reader, file: JobFile) -> Reading:
    """Return the object that a job has adopted (None: no file), or what is wrong with its file."""
    where = path(file)
    if not reader.tree.kind(where):
        return None
    raw = reader.raw(where)
    if isinstance(raw, Finding):
        return (raw,)
    parsed = tuple(yamlio.documents(where, raw, GO))
    broken = tuple(finding for item in parsed if isinstance(item, tuple) for finding in item)
    documents = [item for item in parsed if isinstance(item, Document) and item.data is not None]
    if broken or len(documents) != 1 or not isinstance(documents[0].data, dict):
        several = dx.ADOPTED.at(Location(where), "exactly one object is expected here")
        return broken or (several,)
    (document,) = documents
    manifest = Manifest(body=document.data)
    problems = tuple(
        dx.ADOPTED.at(document.place(pointer), message) for pointer, message in unfit(manifest)
    )
    unseen = tuple(yamlio.unseen(where, raw))
    return problems or Adopted(manifest=manifest, document=document, unseen=unseen)


def unfit(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """Yield why an object can be no run, each reason with its pointer."""
    if trains(manifest) is None:
        yield "/kind", f"{manifest.title} is not a training workload"
        return
    if manifest.is_list:
        yield "/items", f"an engine takes {manifest.title} for the list of its items"
    if not _NAME.fullmatch(manifest.name):
        expected = "lower-case letters, digits and dashes that begin with a letter"
        yield "/metadata/name", f'"{manifest.name}" is not a valid name of a run: {expected}'


def elsewhere(manifest: Manifest, environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield why an object cannot be adopted in an environment as it is, each with its pointer.

    A run that is recorded stays where it is, wherever later ones begin.
    """
    yield from without_place(environment)
    if manifest.namespace != environment.namespace:
        theirs = manifest.namespace or "not set"
        message = f"the namespace is {theirs}, that of {environment.name} {environment.namespace}"
        yield "/metadata/namespace", message


def without_place(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield why an environment has no place for an object that no chart renders, if it has none."""
    if environment.gitops.mode == "chart":
        why = "an engine that renders the chart at each sync has no place for other objects"
        yield "/kind", f"gitops.mode is chart: {why}"
