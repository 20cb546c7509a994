"""The user's own objects: environments/<env>/objects/*.yaml, applied along with the runs.

They are copied when rendering, since a kustomization takes no files from outside its folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENTS, OBJECTS
from trainwright.datatypes.manifest import IDENTIFYING, Manifest
from trainwright.documents import yamlio
from trainwright.documents.dialect import GO
from trainwright.documents.yamlio import Document
from trainwright.files.tree import Tree
from trainwright.findings import diagnostics as dx
from trainwright.specs.file_names import is_link
from trainwright.specs.load import Reader
from trainwright.specs.misplaced import printable

COPIES = "_objects"  # no job can have this name
_FILE = re.compile(r"[a-z0-9]([-a-z0-9.]{0,200}[a-z0-9])?\.yaml")
_TAKEN = "values.yaml"  # by which Argo CD finds the folders of runs


def folder(environment: str) -> str:
    """Where people write them."""
    return f"{ENVIRONMENTS}/{environment}/{OBJECTS}"


def copied(paths: Iterable[str]) -> tuple[str, ...]:
    """The copies among the files of a rendered folder."""
    return tuple(path for path in paths if path.startswith(f"{COPIES}/"))


@dataclass(frozen=True, slots=True)
class OwnObject:
    """One object of the user's own, and the document that it is in."""

    manifest: Manifest
    document: Document

    @property
    def place(self) -> Location:
        """The line that names it."""
        return self.document.place("/metadata/name")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnObjects:
    """All own objects of an environment: the files to render, each object, and findings about what
    cannot be read.

    `copies` are by path in the rendered folder, `unseen` lines with what people do not see.
    """

    copies: Mapping[str, str]
    objects: tuple[OwnObject, ...]
    findings: tuple[Finding, ...]
    unseen: yamlio.Unseen = ()


NONE = OwnObjects(copies={}, objects=(), findings=())


def read(reader: Reader, environment: str) -> OwnObjects:
    """Every object in the folder of an environment."""
    inside = folder(environment)
    kind = reader.tree.kind(inside)
    if kind == "link":
        return replace(NONE, findings=(is_link(inside),))
    if kind != "folder":
        return NONE
    names, misplaced = _names(reader.tree, inside)
    copies: dict[str, str] = {}
    objects: list[OwnObject] = []
    findings = list(misplaced)
    unseen: list[tuple[Location, str]] = []
    for name in names:
        path = f"{inside}/{name}"
        raw = reader.raw(path)
        if isinstance(raw, Finding):
            findings.append(raw)
            continue
        copies[f"{COPIES}/{name}"] = _copy(path, environment, raw)
        unseen.extend(yamlio.unseen(path, raw))
        for document in yamlio.documents(path, raw, GO):
            if isinstance(document, tuple):
                findings.extend(document)
            elif document.data is not None:
                if absent := _absent(document):
                    findings.append(absent)
                else:
                    objects.append(OwnObject(Manifest(body=document.data), document))
    return OwnObjects(
        copies=copies, objects=tuple(objects), findings=tuple(findings), unseen=tuple(unseen)
    )


def _names(tree: Tree, inside: str) -> tuple[list[str], list[Finding]]:
    """Return the names of the files of objects in a folder, and findings about other entries."""
    names: list[str] = []
    findings: list[Finding] = []
    for entry in tree.entries(inside):
        if entry.name.startswith(".") or entry.name.endswith("~"):
            continue
        named = entry.kind != "folder" and _FILE.fullmatch(entry.name)
        if named and entry.name != _TAKEN:
            names.append(entry.name)
            continue
        shown = printable(entry.name)
        message = f"{shown} is not a file of objects: <name>.yaml is expected here"
        if entry.name == _TAKEN:
            message = f"{_TAKEN} is the name of the chart's values beside a run"
        remedy = "Name it in lower-case letters, digits, dashes and dots, and end it in .yaml."
        findings.append(dx.LAYOUT.at(Location(f"{inside}/{shown}"), message, remedy=remedy))
    return names, findings


def _absent(document: Document) -> Finding | None:
    data: Data = document.data
    absent = [k for k in IDENTIFYING if not isinstance(data, dict) or not _is_text(data.get(k))]
    if not absent:
        return None
    message = f"{' and '.join(absent)} must say what this is"
    remedy = "Write one Kubernetes object in each document."
    return dx.SHAPE.at(document.place(""), message, remedy=remedy)


def _is_text(value: Data) -> bool:
    return isinstance(value, str) and bool(value)


def _copy(path: str, environment: str, raw: bytes) -> str:
    """Return a file as people wrote it, below a comment with its path."""
    text = raw.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    end = "" if text.endswith("\n") else "\n"
    return (
        f"# Copied by Trainwright from {path}. Do not edit this file:\n"
        f"# change the source and run `trainwright render {environment}`.\n{text}{end}"
    )
