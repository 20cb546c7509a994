"""Reading a folder of specs: finding its files and merging them into layered documents."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import cached_property
from operator import eq
from pathlib import Path

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.errors import SelectionError, SourceError
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import JOB_FIELDS
from trainwright.datatypes.layout import (
    ADOPTED,
    DEFAULTS,
    ENVIRONMENT_FILE,
    ENVIRONMENTS,
    NO_ENVIRONMENT,
    OBJECTS,
    RENDERED,
    JobFile,
    environment_files,
    environment_path,
)
from trainwright.datatypes.listing import listed
from trainwright.datatypes.pointer import Pointer, lookup, without_value
from trainwright.datatypes.same import digest
from trainwright.datatypes.suggestion import suggestion
from trainwright.documents.validation import schema
from trainwright.documents.validation.violation import Violation, show
from trainwright.documents.yamlio import Document, parse
from trainwright.documents.yamltext import LINE_BREAK
from trainwright.files.memo import Owner, cell_of, tracked
from trainwright.files.tracked import Tracked
from trainwright.files.tree import Tree
from trainwright.findings import diagnostics as dx
from trainwright.findings.credentials import HIDDEN
from trainwright.specs import files, layers
from trainwright.specs.merge import BUILT_IN, Layer, Layered, merge, stack, without_nulls
from trainwright.specs.misplaced import Misplaced, below_jobs, printable

_MAX_BASES = 8
_FILE_NAME = "Name it environments/<env>/jobs/<job>.yaml, in lower-case letters, digits and dashes."
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SPEC = re.compile(rf"{_NAME.pattern}\.yaml")
_BASE = "base"  # by convention the folder of specs that are only extended
# environment.yaml is asked for by name
_ENVIRONMENT_FILES = ("ledger.yaml", "jobs", OBJECTS, ADOPTED)
_SHARED_FILES = ("defaults.yaml", "images.lock.yaml")
_READ = frozenset({ENVIRONMENT_FILE, *_ENVIRONMENT_FILES, *_SHARED_FILES})
_RESERVED = frozenset({"jobs", RENDERED})
_TRACES = frozenset({RENDERED, "ledger.yaml"})  # of a folder that was once rendered
_NEAR = 0.82  # names at least this similar count as misspelt, but not projects for objects
_EXTENDS = re.compile(rb"""\bextends["']?\s*:\s*["']?([a-z0-9][-a-z0-9]*)/""")


@dataclass(frozen=True, slots=True)
class Inventory:
    """The jobs of each environment under environments/, and findings about misplaced files."""

    jobs: Mapping[str, tuple[JobFile, ...]]
    findings: tuple[Finding, ...]


def discover(tree: Tree) -> Inventory:
    """Every environment and job file, sorted by name; specs are not read."""
    return survey(Reader(tree))


def survey(reader: Reader) -> Inventory:
    """Every environment and job file, sorted by name; specs are not read.

    A folder whose environment.yaml is missing is an environment too where nothing else explains
    it, so that a misspelt file name is a finding and not an environment that is never rendered.
    """
    tree = reader.tree
    if tree.kind(ENVIRONMENTS) != "folder":
        return Inventory({}, ())
    jobs: dict[str, tuple[JobFile, ...]] = {}
    findings = list(_misspelt(tree, ENVIRONMENTS, _SHARED_FILES))
    extended = _Extended(reader)
    for folder in tree.entries(ENVIRONMENTS):
        inside = f"{ENVIRONMENTS}/{printable(folder.name)}"
        if folder.kind == "link":
            findings.append(is_link(inside))
        elif folder.kind == "folder" and _is_environment(tree, folder.name, extended):
            if problem := _unusable_name(folder.name):
                remedy = "Rename the folder to lower-case letters, digits and dashes."
                if folder.name in _RESERVED:
                    remedy = f"Move what is in it to {ENVIRONMENTS}/<env>/."
                findings.append(dx.LAYOUT.at(Location(inside), problem, remedy=remedy))
                continue
            names, misplaced = _job_names(tree, f"{inside}/jobs")
            jobs[folder.name] = tuple(JobFile(folder.name, name) for name in names)
            findings.extend((*misplaced, *_misspelt(tree, inside, _ENVIRONMENT_FILES)))
    elsewhere = Misplaced(tree, reader.raw, _READ)
    findings.extend(elsewhere.anywhere(jobs))
    for folder in tree.entries(ENVIRONMENTS):
        if folder.kind == "folder":
            findings.extend(elsewhere.beside_jobs(folder.name, jobs))
    return Inventory(jobs, tuple(findings))


def _unusable_name(name: str) -> str:
    """Why an environment cannot have a name; empty when it can."""
    if name in _RESERVED:
        return f'"{name}" cannot be the name of an environment: it is that of a folder inside one'
    if not _NAME.fullmatch(name):
        return f'"{printable(name)}" is not a valid name for an environment: it becomes a label'
    return ""


def _is_environment(tree: Tree, name: str, extended: _Extended) -> bool:
    """Whether a folder is an environment, or would be one if its files had their right names."""
    if tree.kind(environment_path(name)):
        return True
    inside = f"{ENVIRONMENTS}/{name}"
    there = {entry.name for entry in tree.entries(inside)}
    if _TRACES & there or any(_meant(other, (ENVIRONMENT_FILE,)) for other in there):
        return True
    specs = tree.kind(f"{inside}/jobs") == "folder" and any(
        entry.name.endswith((".yaml", ".yml")) for entry in tree.entries(f"{inside}/jobs")
    )
    return specs and name != _BASE and name not in extended.folders


class _Extended:
    """The folders from which specs are extended; looked for only where it matters."""

    def __init__(self, reader: Reader):
        self._reader = reader

    @cached_property
    def folders(self) -> frozenset[str]:
        return frozenset().union(*map(self._reader.extended, self._specs()))

    def _specs(self) -> Iterator[str]:
        tree = self._reader.tree
        for folder in tree.entries(ENVIRONMENTS):
            inside = f"{ENVIRONMENTS}/{folder.name}/jobs"
            if folder.kind == "folder" and tree.kind(inside) == "folder":
                for entry in tree.entries(inside):
                    if entry.kind == "file":
                        yield f"{inside}/{entry.name}"


def _misspelt(tree: Tree, folder: str, wanted: tuple[str, ...]) -> Iterator[Finding]:
    """Yield a finding for each file that is not read, but is nearly named like a missing one."""
    names = [entry.name for entry in tree.entries(folder)]
    missing = tuple(name for name in wanted if name not in names)
    for name in names:
        if name not in wanted and (meant := _meant(name, missing)):
            path = f"{folder}/{printable(name)}"
            message = f"{printable(name)} is not read: did you mean {meant}?"
            yield dx.LAYOUT.at(Location(path), message, remedy=f"Rename it to {meant}.")


def _meant(name: str, wanted: Sequence[str]) -> str:
    """Return the wanted name that this one nearly is, or "" if it is one itself or is near none."""
    if name in wanted:
        return ""
    return next(iter(get_close_matches(_usual(name), wanted, n=1, cutoff=_NEAR)), "")


def _usual(name: str) -> str:
    """A file name in the letters and with the suffix that names of ours have."""
    return re.sub(r"\.(yml|json)$", ".yaml", name.lower())


def _job_names(tree: Tree, inside: str) -> tuple[list[str], list[Finding]]:
    """Return the names of the jobs in a folder, and findings about its other entries."""
    names: list[str] = []
    findings: list[Finding] = []
    kind = tree.kind(inside)
    if kind == "link":
        return [], [is_link(inside)]
    for entry in tree.entries(inside) if kind == "folder" else ():
        if entry.name.startswith(".") or entry.name.endswith("~"):
            continue
        path = f"{inside}/{printable(entry.name)}"
        stem = entry.name.removesuffix(".yaml")
        if entry.kind == "link":
            findings.append(is_link(path))
        elif entry.kind == "special":
            findings.append(_special(path))
        elif stem != entry.name and entry.kind == "file" and _NAME.fullmatch(stem):
            names.append(stem)
        elif entry.kind == "folder" and (below := [*below_jobs(tree, inside, entry.name)]):
            findings.extend(below)
        else:
            message = f"{printable(entry.name)} is not a job spec: <job>.yaml is expected here"
            usual = _usual(entry.name)
            misnamed = entry.kind == "file" and _SPEC.fullmatch(usual)
            remedy = f"Rename it to {usual}." if misnamed else _FILE_NAME
            findings.append(dx.LAYOUT.at(Location(path), message, remedy=remedy))
    return names, findings


def is_link(path: str) -> Finding:
    return dx.LAYOUT.at(
        Location(path),
        f"{path} is a symbolic link, which could lead out of {ENVIRONMENTS}/",
        remedy="Replace it by a real file; share specs with `extends`.",
        effect="What it leads to is not read: it could be a file outside of the repository.",
    )


def _special(path: str) -> Finding:
    return dx.LAYOUT.at(
        Location(path),
        f"{path} is not a regular file: pipes, sockets and devices are not read",
        remedy="Replace it by a regular file, or remove it.",
    )


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
            return _special(path)
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
        near = [entry.name for entry in there if _meant(entry.name, (name,))]
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
            return _of_other_tools(path, raw) or parsed
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
        if wrapped := _wrapped(document):
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
        other = _of_other_kind(file, chain[0]) or _wrapped(chain[0], str(file))
        if other:
            return LoadedJob(file, None, (other,), tuple(paths), source)
        findings.extend(_name_agrees(file, chain[0]))
        taken = files.with_files(layers.stacked(below.layers, layers.of_job(chain)), self)
        findings.extend(taken.findings)
        spec = taken.spec
        own = below.document.data if below.document else {}
        known = {
            Pointer("/name"): (file.name,),
            **{Pointer.of(one): tuple(own.get(f"{one}s") or ()) for one in ("pool", "queue")},
        }
        findings.extend(_naming(known, found) for found in job_violations(spec, str(file)))
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
                remedy = self._extendable(str(base), seen) if base not in seen else _NO_CIRCLE
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
            meant = alike[0] if len(alike) == 1 else suggestion(meant, candidates)
        if meant:
            return f"Write `extends: {meant}`."
        there = f" There are: {listed(candidates, _MOST_BASES)}." if candidates else ""
        return f"Name another spec by its folder and name, such as base/mnist.{there}"

    def _specs(self) -> Iterator[str]:
        """Yield the specs that others can extend, as <folder>/<name>, those in base/ first."""
        folders = [
            entry.name for entry in self.tree.entries(ENVIRONMENTS) if entry.kind == "folder"
        ]
        for folder in sorted(folders, key=lambda name: (name != "base", name)):
            inside = f"{ENVIRONMENTS}/{folder}/jobs"
            names, _ = _job_names(self.tree, inside) if _NAME.fullmatch(folder) else ([], [])
            yield from (f"{folder}/{name}" for name in names)


def _of_other_kind(file: JobFile, document: Document) -> Finding | None:
    """Return one finding for a manifest or a compose file, instead of one per field, or None."""
    if document.data.get("kind") == "JobSpec":
        return None
    from trainwright.documents.validation import translation  # only mistakes need it

    remedy = translation.of_manifest(file.path, document.data)
    message = "this is not a job spec, but a file of another tool"
    at = document.place("")
    return dx.SCHEMA.at(at, message, subject=str(file), remedy=remedy) if remedy else None


def _wrapped(document: Document, subject: str = "") -> Finding | None:
    """Return one finding for fields that are under `spec`, as in a Kubernetes object, or under a
    key that is alone in the file; None if there are none.
    """
    data, path = document.data, Pointer("/spec")
    if len(data) == 1 and data.keys() <= _AROUND_SPECS:
        path = Pointer.of(*data)
    spec = lookup(data, path)
    if path != "/spec" and isinstance(spec, list):
        message = f"{path.dotted} are in one file"
        return dx.SCHEMA.at(
            document.key_place(path), message, subject=subject, path=path, remedy=_FILE_EACH
        )
    ours = str(data.get("apiVersion", _OURS)).startswith(_OURS)
    ours = data.get("kind") == "JobSpec" or (ours and data.get("kind") != "Defaults")
    if not isinstance(spec, Mapping) or not ours:
        return None
    name = mapping(data.get("metadata")).get("name")
    named = [f"`name: {name}`"] if isinstance(name, str) and data.get("kind") == "JobSpec" else []
    fields = listed([*named, *(_at_the_top(*field) for field in spec.items())], _MOST_FIELDS)
    without, like = "metadata and spec", ", as in a Kubernetes object"
    if path != "/spec":
        without, like = path.dotted, ""
    remedy = f"Write them at the top, without {without}: {fields}."
    message = f"the fields are under {path.dotted}{like}"
    return dx.SCHEMA.at(
        document.key_place(path), message, subject=subject, path=path, remedy=remedy
    )


def _at_the_top(key: str, value: Data) -> str:
    """Return a field, or what a job has in place of another tool's, in backticks."""
    from trainwright.documents.validation import translation  # only mistakes need it

    told = _WRITE.fullmatch("" if key in JOB_FIELDS else translation.of_key(key, value, {}))
    return f"`{told[1]}` for `{key}`" if told and len(told[1]) <= _SHORT else f"`{key}`"


_WRITE = re.compile(r"Write `([A-Za-z]+: [^`…]+)`\.")
_SHORT = 100  # characters that a remedy shows of what is written
_OURS = "trainwright.io/"
_AROUND_SPECS = frozenset({"job", "jobs", "training"})  # keys above specs, of which there are none
_FILE_EACH = "Write each to a file of its own, environments/<env>/jobs/<job>.yaml."
_MOST_FIELDS = 8  # that one line names


def _of_other_tools(path: str, raw: bytes) -> tuple[Finding, ...]:
    """Return findings that explain why a batch script or a template cannot be read as YAML."""
    from trainwright.documents.validation import translation

    if raw.startswith((b"#!", b"#SBATCH")):
        message = "this is not a job spec, but a script"
        return (dx.SHAPE.at(Location(path), message, remedy=translation.of_other_file(path)),)
    lines = raw.decode(errors="replace").splitlines()
    return tuple(
        dx.SHAPE.at(Location(path, number, line.index("{{") + 1), _TEMPLATE, remedy=_NO_TEMPLATES)
        for number, line in enumerate(lines, 1)
        if re.search(r"(?<!\$)\{\{[-\s]*[.\w]", line)
    )


_TEMPLATE = "this is a template of Helm, which nothing fills in here"
_NO_TEMPLATES = (
    "Write its value; what jobs share is in a base that they extend. "
    "`trainwright import` reads what `helm template` prints."
)


def _not_extended(file: JobFile, place: Location, problem: str, remedy: str) -> Finding:
    at = Pointer("/extends")
    return dx.EXTENDS.at(place, problem, subject=str(file), path=at, remedy=remedy)


_NO_CIRCLE = "Remove extends from one of them."
_AROUND = frozenset({ENVIRONMENTS, "jobs"})  # of the path of a spec, beside its folder and name
_MOST_BASES = 8


def _cannot_extend(base: object, seen: list[str]) -> str:
    """Return why a spec cannot be extended, or "" if it can."""
    if not isinstance(base, str):
        return "extends must be a string"
    folder, slash, name = base.partition("/")
    parts = (folder, name)
    if not slash or not all(p and p.replace("-", "").isalnum() and p.isascii() for p in parts):
        return f'"{base}" is not <folder>/<job> under {ENVIRONMENTS}/'
    if base in seen:
        return f"extends goes round in a circle: {' -> '.join([*seen, base])}"
    return f"more than {_MAX_BASES} specs extend each other" if len(seen) > _MAX_BASES else ""


def _name_agrees(file: JobFile, document: Document) -> Iterator[Finding]:
    """Yield a finding if a spec has another name than its file, or none."""
    name = document.data.get("name")
    if name is None:
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


def violations(against: schema.Schema, spec: Layered, subject: str) -> tuple[Finding, ...]:
    """Return the schema's findings about merged data, each at the line that wrote the value."""
    findings = []
    for violation in against.explain(spec.data):
        pointer = violation.pointer
        # A null is what removes a required value.
        value = pointer / violation.missing if violation.missing else pointer
        at = spec.key_origin(value) if violation.key else spec.origin(value)
        if at.file == BUILT_IN:
            at = spec.authored(pointer)
        message, remedy = _quoting(spec, violation)
        remedy = _merged(spec, violation, remedy)
        effect = _NOT_READ if violation.key else _LACKING if violation.missing else ""
        found = dx.SCHEMA.at(at, message, remedy=remedy, subject=subject, path=pointer)
        findings.append(replace(found, effect=effect))
    return tuple(findings)


def _merged(spec: Layered, violation: Violation, remedy: str) -> str:
    """Return the remedy for an unknown key; where it writes a field that the file has already, with
    what is in that: else who does as it says writes a key twice, or loses the rest of a mapping.
    """
    told = _WRITE.fullmatch(remedy) if violation.key else None
    wanted = parse("remedy", told[1].encode()) if told else None
    if not isinstance(wanted, Document) or len(wanted.data) != 1:
        return remedy
    from trainwright.documents.validation import translation  # only mistakes need it

    ((name, value),) = wanted.data.items()
    pointer, layer = violation.pointer, spec.setter(violation.pointer)
    around = pointer.parent
    while around and name not in mapping(lookup(layer.data, around)):
        around = around.parent
    field = around / name
    if field == "/entrypoint" and value.keys() == {"args"} and not lookup(spec.data, field):
        return translation.written({name: {"script": "…", **value}})
    if field == pointer or not layer.wrote(field):
        return remedy
    rest = lookup(without_value(layer.data, pointer, prune=True), field)
    line = layer.key_place(field).line
    if field.parent == pointer.parent and not isinstance(rest, Mapping | list | None):
        meant, there = (translation.shown({name: each}) for each in (value, rest))
        other = f"Keep one: `{there}` on line {line}, or `{meant}` there."
        return other if meant != there else f"Remove it: line {line} has `{there}`."
    if isinstance(rest, Mapping) and isinstance(value, Mapping):
        value = _with_arguments(rest, value) if name == "entrypoint" else merge(rest, value)
    full = translation.written({name: value})
    full = full if len(full) <= _SHORT and HIDDEN not in full else remedy
    return (
        full
        if pointer.within(field)
        else f"{full.removesuffix('.')} in place of that on line {line}."
    )


def _with_arguments(entrypoint: Mapping[str, Data], meant: Mapping[str, Data]) -> Data:
    """Return an entrypoint with the arguments that are meant for it, or what is meant in place of
    it: another command.
    """
    if meant.keys() != {"args"}:
        return meant
    of_command = next((key for key in ("argv", "args") if entrypoint.get(key)), "args")
    return {**entrypoint, of_command: [*entrypoint.get(of_command, ()), *meant["args"]]}


_NOT_READ = "It would be ignored, and the run would be without it."
_LACKING = "Nothing can be rendered without it."


def job_violations(spec: Layered, subject: str) -> tuple[Finding, ...]:
    """Return the schema's findings about a merged job or, if there are none, about its roles."""
    plain = replace(spec, data=without_nulls(spec.data))
    findings = violations(schema.effective_job(), plain, subject)
    roles = () if findings else spec.data.get("roles", {})
    return (*findings, *(finding for name in roles for finding in _of_role(spec, name, subject)))


def _naming(known: Mapping[Pointer, Sequence[str]], finding: Finding) -> Finding:
    """Return a finding about a name that is not valid, with the one that exists in its remedy."""
    names, value = known.get(Pointer(finding.path), ()), _NOT_A_NAME.search(finding.message)
    if not names or value is None:
        return finding
    if finding.path == "/name":
        return replace(finding, remedy=f"Write `name: {names[0]}`, as the file is called.")
    if value[1].lower() in names:
        return replace(finding, remedy=f"Write `{finding.path[1:]}: {value[1].lower()}`.")
    near = get_close_matches(value[1].lower(), names, n=1, cutoff=_NEAR_NAME)
    there = f"Did you mean {near[0]}?" if near else f"There are: {listed(names, _MOST_BASES)}."
    return replace(finding, remedy=there)


_NOT_A_NAME = re.compile(r'is "([^"]*)", which is not a valid')
_NEAR_NAME = 0.7  # h10O is near to h100


def _of_role(spec: Layered, name: str, subject: str) -> Iterator[Finding]:
    """Yield what is wrong with a role's merged spec; what it lacks, at the start of the role."""
    at = Pointer.of("roles", name)
    for finding in violations(schema.effective_job(), layers.of_role(spec, name), subject):
        if finding.path:
            yield finding
        else:
            message = f"roles.{name}: {finding.message}"
            yield replace(finding, place=spec.key_origin(at), message=message, path=at)


def _quoting(spec: Layered, violation: Violation) -> tuple[str, str]:
    """Return a violation's message and remedy, with a number at its end as it was written."""
    message, remedy = violation.message, violation.remedy
    layer = spec.setter(violation.pointer)
    written = layer.document.written.get(layer.root + violation.pointer)
    shown = show(lookup(spec.data, violation.pointer))
    if written is None or not message.endswith(f": {shown}"):
        return message, remedy
    return message.removesuffix(shown) + written, remedy.replace(f': "{shown}"', f': "{written}"')


def one_job(tree: Tree, name: str) -> Layered:
    """Return one job's merged spec, valid or not, to explain it.

    Raise SelectionError if there is no such job, SourceError if its files cannot be merged.
    """
    by_environment = discover(tree).jobs
    if not by_environment:
        raise SelectionError(NO_ENVIRONMENT)
    file = next((job for jobs in by_environment.values() for job in jobs if str(job) == name), None)
    if file is None:
        names = [str(job) for jobs in by_environment.values() for job in jobs]
        near, listed = suggestion(name, names), "see `trainwright list jobs`"
        if name in by_environment:
            raise SelectionError(f'"{name}" is an environment; name one of its jobs, {listed}')
        meant = f'did you mean "{near}"?' if near else f"name one of its jobs, {listed}"
        raise SelectionError(f'there is no job "{name}"; {meant}')
    reader = Reader(tree)
    environment = reader.environment(file.environment)
    findings: list[Finding] = list(environment.findings)
    chain = [document for _, document in reader.chain(file, findings) if document]
    if findings:
        raise unusable(findings, name)
    return layers.stacked(environment.layers, layers.of_job(chain))
