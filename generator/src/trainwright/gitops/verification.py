"""Verification of a commit's rendered files: rendered again from source and compared one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import SelectionError, SourceError
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import (
    ENVIRONMENTS,
    RENDERED,
    JobFile,
    environment_path,
    rendered_folder,
)
from trainwright.datatypes.same import digest
from trainwright.files import lineage
from trainwright.files.git import Repository
from trainwright.files.tree import Tree
from trainwright.gitops import statement
from trainwright.gitops.publish import provenance
from trainwright.gitops.publish.holding import Holding
from trainwright.gitops.publish.model import PublishOptions, Unsound
from trainwright.gitops.publish.publisher import Publisher
from trainwright.gitops.statement import STATEMENT, RenderedSet
from trainwright.render.build import BuildOptions
from trainwright.render.derivation import Derivation, State, Underived, difference
from trainwright.runs.record import RECORD_FILE
from trainwright.runs.workspace import Workspace
from trainwright.specs import engine_files
from trainwright.specs.select import environments

# A file is "different" if rendering it again gave another result, and "unproved" if it could not be
# rendered again.
Verdict: TypeAlias = Literal["equal", "different", "unproved"]

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9-]+")  # of an environment: no pattern
_RECORD = "records files that are not equal"
_SHALLOW = (
    "; this clone is shallow, and may lack what it was rendered from: set `fetch-depth: 0` in "
    "actions/checkout, or run `git fetch --unshallow`"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A file by its path from the root, and why it is not equal, at the first line that is not."""

    path: str
    verdict: Verdict = "equal"
    sha256: str = ""  # empty for a missing file
    why: str = ""
    line: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSet:
    """The rendered files of an environment."""

    environment: str
    files: tuple[Compared, ...]
    rendered: RenderedSet

    @property
    def equal(self) -> bool:
        return all(file.verdict == "equal" for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The rendered sets of a commit. `base` is the trusted commit; empty if there was none."""

    commit: str
    base: str
    sets: tuple[ComparedSet, ...]

    @property
    def equal(self) -> bool:
        return all(each.equal for each in self.sets)


def verify(
    root: Path, revision: str, patterns: tuple[str, ...], against: str, options: BuildOptions
) -> Verification:
    """Render again all that a commit holds, each run from the sources of the commit that added it.

    Another file beside them counts as different too if it changes what an engine applies. Only
    the commit `against`, if there is one, is trusted; for a published commit, what the branch held
    before it. Raise GitError if git lacks one of these commits, and SelectionError.
    """
    history = lineage.history(root, revision, against)
    commit, repository = history.tips[0], history.repository
    specs = Workspace(repository.tree(commit, history.inside, later=RENDERED))
    jobs = specs.survey.jobs if specs.tree.kind(ENVIRONMENTS) == "folder" else {}
    has_specs = any(specs.tree.kind(environment_path(name)) for name in jobs)
    if not has_specs and (stated := tuple(_stated(repository, commit))):
        if against:
            raise SourceError(f"{revision} was published, and has no specs: leave out --against")
        publisher = Publisher(root, PublishOptions(build=options))
        named: dict[str, tuple[JobFile, ...]] = {statement.environment: () for statement in stated}
        chosen = environments(patterns, named, "verified")
        limits = _SHALLOW if repository.shallow else ""
        published = (
            _of_published(publisher, repository, commit, statement, limits)
            for statement in stated
            if statement.environment in chosen
        )
        return Verification(commit=commit, base="", sets=tuple(published))
    chosen = environments(patterns, jobs, "verified")
    derivation = Derivation(root, history, specs, options.helm, on_disk=False)
    by_environment = {name: derivation.underived(name) for name in chosen}
    if not patterns:
        by_environment |= {orphan.environment: (orphan,) for orphan in derivation.orphans()}
    if not any(by_environment.values()) and not any(map(derivation.files, by_environment)):
        raise SourceError(f"nothing is rendered in {revision}: name a commit with rendered files")
    base = history.bases[0] if against else ""
    url, limits = provenance.url(repository), _SHALLOW if repository.shallow and not base else ""
    sets = []
    for name, underived in by_environment.items():
        folder = rendered_folder(name)
        state = {f"{folder}/{path}": raw for path, raw in derivation.files(name).items()}
        files = {history.path(path): raw for path, raw in state.items()}
        rendered = RenderedSet(environment=name, files=files, commit=commit, url=url, base=base)
        compared = {
            comparison.path: comparison
            for comparison in _compared(folder, state, underived, limits)
        }
        for each in engine_files.findings(specs.tree, {name: jobs.get(name, ())}):
            compared.setdefault(each.place.file, _changed_beside(specs.tree, each))
        in_order = tuple(compared[path] for path in sorted(compared))
        sets.append(ComparedSet(environment=name, files=in_order, rendered=rendered))
    return Verification(commit=commit, base=base, sets=tuple(sets))


def _compared(
    folder: str, files: State, underived: tuple[Underived, ...], limits: str
) -> Iterator[Compared]:
    """Yield the verdict on every file that is present or missing, by path."""
    named = {file.path: file for file in underived}
    for file in underived:
        record = f"{folder}/{file.job}/{RECORD_FILE}"
        if record in files:
            named.setdefault(record, replace(file, path=record, why=_RECORD, line=1))
    whole = named.pop(folder, None)  # then none of its files has a reason of its own
    none = {folder} if whole else set()
    for path in sorted({*files, *named} or none):
        sha256 = digest(files[path]) if path in files else ""
        deviation = named.get(path, whole)
        if deviation is None:
            yield Compared(path=path, sha256=sha256)
            continue
        yield Compared(
            path=path,
            verdict="unproved" if limits or deviation.by_another else "different",
            sha256=sha256,
            why=f"{deviation.why}{limits}",
            line=deviation.line,
        )


def _changed_beside(tree: Tree, finding: Finding) -> Compared:
    """Return as different a file that makes an engine apply something else than the equal files."""
    place = finding.place
    is_file = tree.kind(place.file) == "file"
    return Compared(
        path=place.file,
        verdict="different",
        sha256=digest(tree.read(place.file)) if is_file else "",
        why=finding.message,
        line=place.line,
    )


# --- commits that were published -----------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stated:
    """What a published folder states about itself. It is not trusted."""

    folder: str
    environment: str
    source: str
    subjects: Data

    @property
    def path(self) -> str:
        return f"{self.folder}/{STATEMENT}".lstrip("/")


def _stated(repository: Repository, commit: str) -> Iterator[_Stated]:
    """Yield the statements in a commit. Raise SourceError for a malformed one."""
    tree = repository.tree(commit)
    for path in tree.paths:
        folder, _, name = path.rpartition("/")
        if name == STATEMENT:
            yield _parsed(tree.read(path), folder)


def _parsed(raw: bytes, folder: str) -> _Stated:
    try:
        data = json.loads(raw)
        environment = data["predicate"]["environment"]
        source = data["predicate"]["source"]["digest"]["gitCommit"]
        if not _COMMIT.fullmatch(source) or not _NAME.fullmatch(environment):
            raise ValueError
        return _Stated(
            folder=folder, environment=environment, source=source, subjects=data["subject"]
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        path = f"{folder}/{STATEMENT}".lstrip("/")
        raise SourceError(f"{path} is not a statement of Trainwright") from error


def _of_published(
    publisher: Publisher, repository: Repository, commit: str, stated: _Stated, limits: str
) -> ComparedSet:
    """Compare a published folder, rendering each of its commits again on top of its parent.

    A file that was not equal once stays so until it is rendered anew.
    """
    listed = ("rev-list", "--reverse", "--first-parent", commit, "--", stated.path)
    made = [each for each in repository.line(*listed).split() if repository.has(each, stated.path)]
    befores = ["".join(repository.parents(each)[:1]) for each in made]
    present: Mapping[str, bytes] = {}
    bad: dict[str, Compared] = {}
    for each, before, end in zip(made, befores, [*befores[1:], commit], strict=True):
        step = _parsed(repository.tree(each).read(stated.path), stated.folder)
        held = Holding(repository, before, stated.folder)
        at_end = Holding(repository, end, stated.folder).rendered
        expected, why = _published(publisher, repository, step, stated, held)
        kept = {path for path in bad if expected.get(path) == present.get(path)}
        comparisons = (
            _held_against(p, at_end, expected, why, limits) for p in {*at_end, *expected}
        )
        differing = {
            comparison.path: comparison
            for comparison in comparisons
            if comparison.verdict != "equal"
        }
        bad = differing | {path: comparison for path, comparison in bad.items() if path in kept}
        present = at_end
    rendered = RenderedSet(
        environment=stated.environment,
        files=present,
        commit=stated.source,
        url=provenance.url(repository),
        base=befores[-1],
    )
    if statement.subjects(rendered) != stated.subjects:
        lists = "lists other files than there are"
        bad[stated.path] = Compared(path=stated.path, verdict="different", why=lists)
    sums = {path: digest(raw) for path, raw in present.items()}
    files = (bad.get(p, Compared(path=p, sha256=sums.get(p, ""))) for p in sorted({*sums, *bad}))
    return ComparedSet(environment=stated.environment, files=tuple(files), rendered=rendered)


def _published(
    publisher: Publisher, repository: Repository, step: _Stated, last: _Stated, held: Holding
) -> tuple[Mapping[str, bytes], str]:
    """Return the files that a source renders to on top of what the branch held, and "" as the
    reason; if it cannot be rendered, return what the branch held, and why.
    """
    name = step.source[:12]
    for source in (step.source, last.source):
        if not repository.has(source):
            return held.rendered, f"its source {source[:12]} is not in this clone"
    if not repository.contains(last.source, step.source):
        return held.rendered, f"its source {name} is not in the history of {last.source[:12]}"
    try:
        return held.after(publisher.rendered(step.source, last.environment, held)), ""
    except (Unsound, SelectionError):
        return held.rendered, f"its source {name} cannot be rendered here"


def _held_against(
    path: str,
    present: Mapping[str, bytes],
    expected: Mapping[str, bytes],
    unproved: str,
    limits: str,
) -> Compared:
    raw = present.get(path)
    sha256 = "" if raw is None else digest(raw)
    if unproved:
        return Compared(path=path, verdict="unproved", sha256=sha256, why=unproved)
    if raw == expected.get(path):
        return Compared(path=path, sha256=sha256)
    why, line = difference(raw, expected.get(path))
    verdict: Verdict = "unproved" if limits else "different"
    return Compared(path=path, verdict=verdict, sha256=sha256, why=f"{why}{limits}", line=line)
