"""Reading a folder of specs: finding its files and merging them into layered documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from operator import eq
from pathlib import Path

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import (
    DEFAULTS,
    ENVIRONMENTS,
    RENDERED,
    JobFile,
    environment_files,
    environment_path,
)
from trainwright.datatypes.listing import listed
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.same import digest
from trainwright.datatypes.suggestion import suggestion
from trainwright.documents.validation import schema
from trainwright.documents.yamlio import Document, parse
from trainwright.documents.yamltext import LINE_BREAK
from trainwright.files.memo import Owner, cell_of, tracked
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Tree
from trainwright.findings import diagnostics as dx
from trainwright.specs import files, layers
from trainwright.specs.file_names import NAME, is_link, is_special, job_names, nearest
from trainwright.specs.merge import BUILT_IN, Layer, Layered, stack
from trainwright.specs.misplaced import printable
from trainwright.specs.other_tools import of_other_kind, script_or_template, wrapped_fields
from trainwright.specs.violations import MOST_NAMES, job_violations, violations, with_valid_name

_MAX_BASES = 8
_EXTENDS = re.compile(rb"""\bextends["']?\s*:\s*["']?([a-z0-9][-a-z0-9]*)/""")


@dataclass(frozen=True, slots=True)
class LoadedEnvironment:
    """An environment's own file and the layers that lie below each of its jobs.

    `document` is None when the file is not usable; `findings` then say why.
    """

    document: Document | None
    layers: tuple[Layer, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job's merged spec, or None with the findings that prevented it.

    `files` are all paths that the spec depends on, also missing or broken ones. `source` is the
    digest of the job's own file.
    """

    file: JobFile
    spec: Layered | None
    findings: tuple[Finding, ...]
    files: tuple[str, ...]
    source: str


def _around(path: str) -> Iterator[str]:
    """Yield a path and the folders around it, except environments/ itself, which exists."""
    while path and path != ENVIRONMENTS:
        yield path
        path = path.rpartition("/")[0]


_FLAG = re.compile(r"(?:(?:/pools/[^/]+)?/defaults)?/(?:flags|launcherOptions|entrypoint/args)/.")


def read_spec(file: str, raw: bytes) -> Document | tuple[Finding, ...]:
    """Return the parsed document of a file that people write, or findings about what is wrong.

    A flag is part of a command line, so a number that Python would print in another form (1e3,
    1.10, 0o14) stays the text that was written. Anywhere else 2.0 is 2, as in JSON Schema.
    """
    document = parse(file, raw)
    if not isinstance(document, Document) or not document.written:
        return document
    return replace(document, data=_numbers(document.data, Pointer(), document.written))


def _numbers(value: Data, pointer: Pointer, written: Mapping[str, str]) -> Data:
    """Return data with its numbers as `read_spec` has them; `written` are their texts."""
    if isinstance(value, dict):
        return {key: _numbers(v, pointer / key, written) for key, v in value.items()}
    if isinstance(value, list):
        return [_numbers(v, pointer / index, written) for index, v in enumerate(value)]
    if pointer not in written:
        return value
    if _FLAG.match(pointer):
        return value if str(value) == written[pointer] else written[pointer]
    return int(value) if isinstance(value, float) and value.is_integer() else value


_LEFT_BEHIND = frozenset({"__pycache__", ".ipynb_checkpoints", ".DS_Store", ".git"})


def _is_of_git(path: str) -> bool:
    return f"{path}/".startswith(".git/")


def _holds_rendered(tree: Tree, path: str) -> bool:
    """Whether a path is that of rendered files, or of a folder that has or will have them."""
    environments, *inside = path.split("/")
    if environments != ENVIRONMENTS:
        return False
    if len(inside) > 1:
        return inside[1] == RENDERED
    there = (environment_path(name), f"{path}/{RENDERED}") if (name := "".join(inside)) else ()
    return not there or any(map(tree.kind, there))


def _below(tree: Tree, folder: str) -> Iterator[str]:
    for entry in tree.entries(folder):
        if entry.kind == "folder" and entry.name not in _LEFT_BEHIND:
            yield from (f"{entry.name}/{path}" for path in _below(tree, f"{folder}/{entry.name}"))
        elif entry.name not in _LEFT_BEHIND:
            yield entry.name


def _is_among(name: str, ignored: frozenset[str]) -> bool:
    """Whether a file is ignored by itself, or because a repository that it lies in is."""
    return name in ignored or any(f"{above}/" in ignored for above in _around(name))


class Reader(Owner):
    """Reads each file under the root once, and never a file outside of it."""

    def __init__(self, tree: Tree):
        self.tree = Tracked.of(tree)
        super().__init__(self.tree.memo)

    @tracked(same=eq)
    def raw(self, path: str) -> bytes | Finding:
        """The bytes of a file, or the finding that it cannot be read."""
        kind = self.tree.kind(path)
        # There is nothing behind a link, so that folders are looked at where there is no file.
        if kind == "link" or (not kind and "link" in map(self.tree.kind, _around(path))):
            return is_link(path)
        if kind == "special":
            return is_special(path)
        try:
            return self.tree.read(path)
        except (FileNotFoundError, NotADirectoryError):
            return self._missing(path)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            return dx.LAYOUT.at(Location(path), f"{path} cannot be read: {reason}")

    def _missing(self, path: str) -> Finding:
        """Return the finding that a file does not exist, with the one that may be meant."""
        folder, _, name = path.rpartition("/")
        there = self.tree.entries(folder) if self.tree.kind(folder) == "folder" else ()
        near = [entry.name for entry in there if nearest(entry.name, (name,))]
        if not near:
            return dx.LAYOUT.at(Location(path), f"{path} does not exist", remedy="Create the file.")
        existing = printable(near[0])
        message = f"{path} does not exist; did you mean {existing}?"
        remedy = f"Rename {folder}/{existing} to {name}."
        if not path.startswith(f"{ENVIRONMENTS}/"):  # where a spec says what files are called
            remedy = f"Write {existing} where {name} is named."
        return dx.LAYOUT.at(Location(path), message, remedy=remedy)

    @tracked(same=eq)
    def state(self, path: str) -> str:
        """Return the SHA-256 of a file's bytes or a folder's listing, or why there is none.
        Whatever a reader makes of the file depends on this alone.
        """
        raw = self.raw(path)
        if not isinstance(raw, Finding):
            return digest(raw)
        names = self.repository_folder(path)
        return raw.message if names is None else digest("\0".join(names).encode())

    def is_as(self, states: Mapping[str, str]) -> bool:
        """Whether files have the states that they had, by path."""
        return all(self.state(path) == state for path, state in states.items())

    def source(self, path: str) -> str:
        """SHA-256 of a file, whichever line ends a checkout gave it; empty when it is not there."""
        return "" if isinstance(self.raw(path), Finding) else self.tree.digest(path)

    def repository_file(self, path: str) -> bytes | Finding:
        """A file of the repository that a spec names, or the finding that it cannot be used."""
        for name in _around(path):
            if self.tree.kind(name) == "link":
                message = f"{name} is a symbolic link, which could lead out of the repository"
                return dx.FILE.at(Location(path), message, remedy="Name the file itself.")
        if _is_of_git(path):
            message = f"{path} is git's own, and in no commit"
            return dx.FILE.at(Location(path), message, remedy="Name a file that is committed.")
        if _holds_rendered(self.tree, path):
            message = f"{path} has what is rendered, so that each run would begin another one"
            remedy = "Name another file, or another folder."
            return dx.FILE.at(Location(path), message, remedy=remedy)
        return self.raw(path)

    @tracked(same=eq)
    def repository_folder(self, path: str) -> tuple[str, ...] | None:
        """Return the paths of all files in a folder of the repository, or None if it is no folder.

        Files that programs and desktops leave behind are left out, and so is what git ignores:
        it is in no commit, so that a clean checkout would begin another run.
        """
        if any(self.tree.kind(name) != "folder" for name in _around(path)):
            return None
        if _is_of_git(path) or _holds_rendered(self.tree, path):
            return None
        ignored = self.tree.ignored(path)
        return tuple(name for name in _below(self.tree, path) if not _is_among(name, ignored))

    @tracked()
    def document(self, path: str) -> Document | tuple[Finding, ...]:
        """Return a file's parsed document, or findings about what is wrong with it."""
        raw = self.raw(path)
        parsed = (raw,) if isinstance(raw, Finding) else read_spec(path, raw)
        if isinstance(raw, bytes) and isinstance(parsed, tuple):
            return script_or_template(path, raw) or parsed
        return parsed

    @tracked(same=eq)
    def extended(self, path: str) -> frozenset[str]:
        """The folders that a file seems to extend specs of, whether or not it can be parsed."""
        try:
            raw = self.tree.read(path)
        except (OSError, SourceError):
            return frozenset()
        return frozenset(folder.decode() for folder in _EXTENDS.findall(raw))

    def forget(self, path: str) -> None:
        """Drop a parsed file that nothing else reads, so that thousands of jobs take little
        memory.
        """
        if cell := cell_of(self, Reader.document, path):
            cell.forget()

    def lines(self, path: str) -> tuple[str, ...]:
        """The text of a file for showing it, line by line."""
        raw = self.raw(path)
        if isinstance(raw, Finding):
            return ()
        lines = LINE_BREAK.split(raw.decode(errors="replace"))
        return tuple(lines if lines[-1] else lines[:-1])

    @cached_property
    def built_in(self) -> Layer:
        """Trainwright's own defaults, the lowest layer of all."""
        raw = (Path(__file__).parents[1] / "defaults.yaml").read_bytes()
        document = parse(BUILT_IN, raw)
        assert isinstance(document, Document)
        return Layer(BUILT_IN, document, Pointer("/defaults"))

    # --- environments ------------------------------------------------------------------------

    @tracked()
    def environment(self, name: str) -> LoadedEnvironment:
        """environment.yaml, checked, with the layers below its jobs."""
        findings: list[Finding] = []
        defaults = None
        if isinstance(self.raw(DEFAULTS), bytes) or self.tree.kind(DEFAULTS):
            defaults = self._checked(DEFAULTS, schema.defaults_file, findings)
        own = self._checked(environment_path(name), schema.environment_file, findings)
        below = layers.of_environment(self.built_in, defaults, own)
        return LoadedEnvironment(None if findings else own, below, tuple(findings))

    def _checked(
        self, path: str, against: Callable[[], schema.Schema], findings: list[Finding]
    ) -> Document | None:
        """Return a document that is valid; else None, and add the findings."""
        document = self.document(path)
        if not isinstance(document, Document):
            findings.extend(document)
            return None
        broken = self._violations(path, against)
        findings.extend(broken)
        return None if broken else document

    @tracked()
    def _violations(self, path: str, against: Callable[[], schema.Schema]) -> tuple[Finding, ...]:
        """Return what is wrong with a file by itself; several environments or jobs may use it."""
        document = self.document(path)
        assert isinstance(document, Document)
        if wrapped := wrapped_fields(document):
            return (wrapped,)
        return violations(against(), stack((Layer("file", document),)), path)

    # --- jobs --------------------------------------------------------------------------------

    def job(self, file: JobFile) -> LoadedJob:
        """A job with everything it inherits, merged and checked against the schema."""
        findings: list[Finding] = []
        chain: list[Document] = []
        below, paths = self.environment(file.environment), [*environment_files(file.environment)]
        source = self.source(file.path)
        for path, document in self.chain(file, findings):
            paths.append(path)
            if document:
                chain.append(document)
        if findings:
            return LoadedJob(file, None, tuple(findings), tuple(paths), source)
        other = of_other_kind(file, chain[0]) or wrapped_fields(chain[0], str(file))
        if other:
            return LoadedJob(file, None, (other,), tuple(paths), source)
        taken = files.with_files(layers.stacked(below.layers, layers.of_job(chain)), self)
        findings.extend(taken.findings)
        spec = taken.spec
        own = below.document.data if below.document else {}
        known = {
            Pointer("/name"): (file.name,),
            **{Pointer.of(one): tuple(own.get(f"{one}s") or ()) for one in ("pool", "queue")},
        }
        broken = [with_valid_name(known, found) for found in job_violations(spec, str(file))]
        if file.name[0].isdigit() or all(found.path != "/name" for found in broken):
            broken = [one for one in broken if one.path != "/name" and one.message != _NO_NAME]
            findings.extend(_misnamed(file, chain[0]))
        findings.extend(broken)
        usable = None if findings else spec
        return LoadedJob(file, usable, tuple(findings), (*paths, *taken.paths), source)

    def chain(
        self, file: JobFile, findings: list[Finding]
    ) -> Iterator[tuple[str, Document | None]]:
        """Yield the path and document of the job's file, of the one it extends, and so on.

        Whatever breaks the chain adds a finding; a missing or invalid file comes last, with None.
        """
        path, seen = file.path, [str(file)]
        while True:
            document = self.document(path)
            if not isinstance(document, Document):
                findings.extend(replace(finding, subject=seen[-1]) for finding in document)
                yield path, None
                return
            if path != file.path and (broken := self._violations(path, schema.job_file)):
                findings.extend(broken)
                yield path, None
                return
            yield path, document
            base = document.data.get("extends")
            if base is None:
                return
            place = document.place("/extends")
            if problem := _cannot_extend(base, seen):
                one = str(base[0] if isinstance(base, list) and base else base)
                remedy = self._extendable(one, seen) if one not in seen else _NO_CIRCLE
                findings.append(_not_extended(file, place, problem, remedy))
                return
            seen.append(base)
            folder, _, name = base.partition("/")
            path = JobFile(folder, name).path
            if isinstance(raw := self.raw(path), Finding):
                problem = f'"{base}" cannot be used: {raw.message}'
                remedy = raw.remedy if self.tree.kind(path) else self._extendable(base, seen)
                findings.append(_not_extended(file, place, problem, remedy))
                yield path, None
                return

    def _extendable(self, base: str, seen: list[str]) -> str:
        """Return what to write for a missing base: the one probably meant, or some that exist."""
        candidates = [name for name in self._specs() if name not in seen]
        parts = re.sub(r"\.ya?ml$", "", base).split("/")
        meant = "/".join(part for part in parts if part.strip(".") and part not in _AROUND)
        if meant not in candidates:
            alike = [name for name in candidates if name.partition("/")[2] == meant]
            only = alike[:1] if len(alike) == 1 or alike[:1] == [f"base/{meant}"] else []
            meant = only[0] if only else suggestion(meant, candidates)
        if meant:
            return f"Write `extends: {meant}`."
        there = f" There are: {listed(candidates, MOST_NAMES)}." if candidates else ""
        return f"Name another spec by its folder and name, such as base/mnist.{there}"

    def _specs(self) -> Iterator[str]:
        """Yield the specs that others can extend, as <folder>/<name>, those in base/ first."""
        folders = [
            entry.name for entry in self.tree.entries(ENVIRONMENTS) if entry.kind == "folder"
        ]
        for folder in sorted(folders, key=lambda name: (name != "base", name)):
            inside = f"{ENVIRONMENTS}/{folder}/jobs"
            names, _ = job_names(self.tree, inside) if NAME.fullmatch(folder) else ([], [])
            yield from (f"{folder}/{name}" for name in names)


def _not_extended(file: JobFile, place: Location, problem: str, remedy: str) -> Finding:
    at = Pointer("/extends")
    return dx.EXTENDS.at(place, problem, subject=str(file), path=at, remedy=remedy)


_NO_CIRCLE = "Remove extends from one of them."
_AROUND = frozenset({ENVIRONMENTS, "jobs"})  # of the path of a spec, beside its folder and name


def _cannot_extend(base: object, seen: list[str]) -> str:
    """Return why a spec cannot be extended, or "" if it can."""
    if not isinstance(base, str):
        return "extends must be a string: one spec, which may extend another"
    folder, slash, name = base.partition("/")
    parts = (folder, name)
    if not slash or not all(p and p.replace("-", "").isalnum() and p.isascii() for p in parts):
        return f'"{base}" is not <folder>/<job> under {ENVIRONMENTS}/'
    if base in seen:
        return f"extends goes round in a circle: {' -> '.join([*seen, base])}"
    return f"more than {_MAX_BASES} specs extend each other" if len(seen) > _MAX_BASES else ""


_NO_NAME = "name is missing"  # which is told with the name to write


def _misnamed(file: JobFile, document: Document) -> Iterator[Finding]:
    """Yield a finding if a spec has another name than its file, or none, or if no job can have the
    name of the file.
    """
    name = document.data.get("name")
    if file.name[0].isdigit():
        message = f"a name begins with a letter, and the file is {file.name}.yaml"
        remedy = f"Rename it to job-{file.name}.yaml, and write `name: job-{file.name}`."
        place, path = document.place("/name"), Pointer("/name")
        yield dx.NAME.at(place, message, subject=str(file), path=path, remedy=remedy)
    elif name is None:
        message = f"the file does not set its name: {file.name}"
        remedy = f"Add a line: `name: {file.name}`."
        place, path = document.place(""), Pointer("/name")
        yield dx.NAME.at(place, message, subject=str(file), path=path, remedy=remedy)
    elif name != file.name:
        message = f'the name is "{name}", but the file is {file.name}.yaml'
        yield dx.NAME.at(document.place("/name"), message, subject=str(file), path=Pointer("/name"))


def unusable(findings: Sequence[Finding], name: object) -> SourceError:
    """The first of the findings that keep an environment or a job from being used."""
    first = findings[0]
    return SourceError(f"{first.place}: {first.message}; run `trainwright check {name}`")
