"""The schemas as files: for editors, for CI, and for readers of what is written."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.documents.validation.schema import FOLDER
from trainwright.files import filetree

_SUFFIX = ".schema.json"


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """One schema: `job` at job.schema.json, `kinds/job` at kinds/job.schema.json."""

    name: str
    text: str

    @property
    def title(self) -> str:
        return str(json.loads(self.text).get("title", ""))

    @property
    def path(self) -> str:
        return f"{self.name}{_SUFFIX}"

    def referred(self) -> set[str]:
        """Return the names of the schemas in the same folder tree that it refers to."""
        files = (reference.partition("#")[0] for reference in _references(json.loads(self.text)))
        here = self.name.rpartition("/")[0]
        return {
            f"{here}/{file}".removeprefix("/").removesuffix(_SUFFIX)
            for file in files
            if file and "://" not in file
        }


def found() -> dict[str, SchemaFile]:
    """Return every schema by its name: those of what people write first, those of kinds last."""
    paths = sorted(FOLDER.rglob(f"*{_SUFFIX}"), key=lambda path: (len(path.parts), path))
    names = [path.relative_to(FOLDER).as_posix().removesuffix(_SUFFIX) for path in paths]
    return {
        name: SchemaFile(name, path.read_text(encoding="utf-8"))
        for name, path in zip(names, paths, strict=True)
    }


def write(folder: Path, names: Iterable[str]) -> list[Path]:
    """Write schemas into a folder, with those that they refer to. Return their paths."""
    schemas = found()
    wanted, pending = set[str](), set(names) & set(schemas)
    while pending:
        wanted |= pending
        referred = {name for referrer in pending for name in schemas[referrer].referred()}
        pending = (referred & set(schemas)) - wanted
    paths = []
    with filetree.writing(folder):
        for name in sorted(wanted):
            path = folder / schemas[name].path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(schemas[name].text, encoding="utf-8", newline="\n")
            paths.append(path)
    return paths


def _references(data: Data) -> Iterable[str]:
    if isinstance(data, dict):
        if isinstance(reference := data.get("$ref"), str):
            yield reference
        for value in data.values():
            yield from _references(value)
    elif isinstance(data, list):
        for value in data:
            yield from _references(value)
