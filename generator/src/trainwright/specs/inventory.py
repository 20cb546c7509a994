"""The environments and jobs of a repository, by the names of their files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from trainwright.datatypes.errors import SelectionError
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import (
    ADOPTED,
    ENVIRONMENT_FILE,
    ENVIRONMENTS,
    NO_ENVIRONMENT,
    OBJECTS,
    RENDERED,
    JobFile,
    environment_path,
)
from trainwright.datatypes.suggestion import suggestion
from trainwright.files.tree import Tree
from trainwright.findings import diagnostics as dx
from trainwright.specs import layers
from trainwright.specs.file_names import NAME, is_link, job_names, misspelt, nearest
from trainwright.specs.load import Reader, unusable
from trainwright.specs.merge import Layered
from trainwright.specs.misplaced import Misplaced, printable

_BASE = "base"  # by convention the folder of specs that are only extended
# environment.yaml is asked for by name
_ENVIRONMENT_FILES = ("ledger.yaml", "jobs", OBJECTS, ADOPTED)
_SHARED_FILES = ("defaults.yaml", "images.lock.yaml")
_READ = frozenset({ENVIRONMENT_FILE, *_ENVIRONMENT_FILES, *_SHARED_FILES})
_RESERVED = frozenset({"jobs", RENDERED})
_TRACES = frozenset({RENDERED, "ledger.yaml"})  # of a folder that was once rendered


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
    findings = list(misspelt(tree, ENVIRONMENTS, _SHARED_FILES))
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
            names, misplaced = job_names(tree, f"{inside}/jobs")
            jobs[folder.name] = tuple(JobFile(folder.name, name) for name in names)
            findings.extend((*misplaced, *misspelt(tree, inside, _ENVIRONMENT_FILES)))
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
    if not NAME.fullmatch(name):
        return f'"{printable(name)}" is not a valid name for an environment: it becomes a label'
    return ""


def _is_environment(tree: Tree, name: str, extended: _Extended) -> bool:
    """Whether a folder is an environment, or would be one if its files had their right names."""
    if tree.kind(environment_path(name)):
        return True
    inside = f"{ENVIRONMENTS}/{name}"
    there = {entry.name for entry in tree.entries(inside)}
    if _TRACES & there or any(nearest(other, (ENVIRONMENT_FILE,)) for other in there):
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
