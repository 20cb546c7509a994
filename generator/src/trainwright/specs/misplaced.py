"""Job specs in folders where none is read, and where each of them belongs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator

from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENT_FILE, ENVIRONMENTS, RENDERED, JobFile
from trainwright.files.tree import Tree
from trainwright.findings import diagnostics as dx

_JOBS = "jobs"
_YAML = (".yaml", ".yml")
_KIND = re.compile(rb"""^["']?kind["']?\s*:\s*["']?JobSpec\b""", re.MULTILINE)
_FIELDS = re.compile(rb"^(?:entrypoint\s*:|extends\s*:\s*\S+/\S)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Looks for specs beside the folders that are read; `known` are the names that are read."""

    tree: Tree
    read: Callable[[str], bytes | Finding]
    known: Collection[str]

    def anywhere(self, environments: Collection[str]) -> Iterator[Finding]:
        """Yield those directly in environments/, and those in folders beside it."""
        yield from self._of_folder(ENVIRONMENTS, environments, "")
        for inside in (_JOBS, *(f"{name}/{_JOBS}" for name in environments)):
            if self.tree.kind(inside) != "folder":
                continue
            own = inside.rpartition("/")[0]
            yield from self._of_folder(inside, environments, own, anything=False)
            for entry in self.tree.entries(inside):
                if entry.kind == "folder" and not own:
                    of = entry.name if entry.name in environments else ""
                    below = f"{inside}/{entry.name}"
                    yield from self._of_folder(below, environments, of, anything=False)

    def beside_jobs(self, folder: str, environments: Collection[str]) -> Iterator[Finding]:
        """Yield those of a folder of environments/ that lie beside its jobs/."""
        inside, own = f"{ENVIRONMENTS}/{folder}", "" if folder == _JOBS else folder
        yield from self._of_folder(inside, environments, own)
        for entry in self.tree.entries(inside):
            read = entry.name in (*self.known, RENDERED) or entry.name.startswith(".")
            if entry.kind != "folder" or read:
                continue
            below = f"{inside}/{entry.name}"
            if self.tree.kind(f"{below}/{ENVIRONMENT_FILE}"):
                message = f"{below} is not read: an environment is a folder of {ENVIRONMENTS}/"
                remedy = f"Move it to {ENVIRONMENTS}/{entry.name}."
                yield _finding(below, message, remedy)
            else:
                of = entry.name if not own and entry.name in environments else own
                yield from self._of_folder(below, environments, of)

    def _of_folder(
        self, folder: str, environments: Collection[str], own: str, *, anything: bool = True
    ) -> Iterator[Finding]:
        """Yield the specs among the files of a folder; `own` is the environment that they are of,
        if that is known. Where `anything` is false, only a file with its kind is one."""
        for entry in self.tree.entries(folder):
            path, stem = f"{folder}/{entry.name}", _stem(entry.name)
            if entry.kind != "file" or entry.name in self.known or stem == entry.name:
                continue
            raw = self.read(path)
            if isinstance(raw, Finding) or not _is_spec(raw, anything=anything):
                continue
            only = own or (next(iter(environments)) if len(environments) == 1 else "")
            to = JobFile(only or "<env>", stem).path
            which = "" if only else f"; <env> is one of {', '.join(sorted(environments))}"
            message = f"{path} is not read: job specs are in {ENVIRONMENTS}/<env>/{_JOBS}/"
            remedy = f"Move it to {to}{which if environments else ''}."
            yield _finding(path, message, remedy)


def below_jobs(tree: Tree, inside: str, folder: str) -> Iterator[Finding]:
    """Yield the specs of a folder below the jobs/ of an environment."""
    for entry in tree.entries(f"{inside}/{folder}"):
        if entry.kind == "file" and entry.name.endswith(_YAML):
            stem = _stem(entry.name)
            taken = bool(tree.kind(f"{inside}/{stem}.yaml"))
            name = f"{folder}-{stem}" if taken else stem
            also = f", with `name: {name}`" if taken else ""
            message = f"{folder}/{entry.name} is not read: {_JOBS}/ has specs and no folders"
            remedy = f"Move it to {inside}/{name}.yaml{also}."
            yield _finding(f"{inside}/{folder}/{entry.name}", message, remedy)


def _is_spec(raw: bytes, *, anything: bool) -> bool:
    return bool(_KIND.search(raw) or (anything and _FIELDS.search(raw)))


def _stem(name: str) -> str:
    return next((name.removesuffix(end) for end in _YAML if name.endswith(end)), name)


def _finding(path: str, message: str, remedy: str) -> Finding:
    return dx.LAYOUT.at(Location(printable(path)), printable(message), remedy=printable(remedy))


def printable(text: str) -> str:
    """Return file names, or a text with some, as valid UTF-8; bytes that are not are replaced."""
    return text.encode("utf-8", "replace").decode("utf-8")
