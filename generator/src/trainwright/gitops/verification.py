"""The rendered files of a commit, rendered again from its sources, and compared one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeAlias

from trainwright.datatypes.frozen import dataclass
from trainwright.errors import SourceError
from trainwright.gitops import statement
from trainwright.gitops.publish import provenance
from trainwright.gitops.statement import RenderedSet
from trainwright.render.derivation import Derivation, State, Underived
from trainwright.runs.folder import folder_of
from trainwright.runs.record import RECORD_FILE
from trainwright.runs.workspace import Workspace
from trainwright.specs import lineage
from trainwright.specs.layout import ENVIRONMENTS, RENDERED
from trainwright.specs.select import environments

# What was rendered again and is not the same differs; unproved is what could not be rendered.
Verdict: TypeAlias = Literal["equal", "different", "unproved"]

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
    sha256: str = ""  # nothing for what is missing
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
    """The rendered sets of a commit. `base` is the one that was believed; empty for none."""

    commit: str
    base: str
    sets: tuple[ComparedSet, ...]

    @property
    def equal(self) -> bool:
        return all(each.equal for each in self.sets)


def verify(
    root: Path, revision: str, patterns: tuple[str, ...], against: str, helm: str | None
) -> Verification:
    """Render what a commit holds again, each run from the sources of the commit that brought it.

    Nothing is believed but what the commit `against` holds, if there is one. Raises GitError where
    git lacks one of them, and SelectionError.
    """
    history = lineage.history(root, revision, against)
    commit, repository = history.tips[0], history.repository
    specs = Workspace(repository.tree(commit, history.inside, later=RENDERED))
    there = specs.survey.jobs if specs.tree.kind(ENVIRONMENTS) == "folder" else {}
    chosen = environments(patterns, there, "verified")
    derivation = Derivation(root, history, specs, helm, on_disk=False)
    found = {name: derivation.underived(name) for name in chosen}
    if not patterns:
        found |= {it.environment: (it,) for it in derivation.orphans()}
    if not any(it for it in found.values()) and not any(map(derivation.files, found)):
        raise SourceError(f"nothing is rendered in {revision}: name a commit with rendered files")
    base = history.bases[0] if against else ""
    url, limits = provenance.url(repository), _SHALLOW if repository.shallow and not base else ""
    sets = []
    for name, underived in found.items():
        state = {f"{folder_of(name)}/{path}": raw for path, raw in derivation.files(name).items()}
        files = {history.path(path): raw for path, raw in state.items()}
        rendered = RenderedSet(environment=name, files=files, commit=commit, url=url, base=base)
        compared = tuple(_compared(folder_of(name), state, underived, limits))
        sets.append(ComparedSet(environment=name, files=compared, rendered=rendered))
    return Verification(commit=commit, base=base, sets=tuple(sets))


def _compared(
    folder: str, files: State, underived: tuple[Underived, ...], limits: str
) -> Iterator[Compared]:
    """Every file that is there or missing, by path."""
    named = {it.path: it for it in underived}
    for it in underived:
        record = f"{folder}/{it.job}/{RECORD_FILE}"
        if record in files:
            named.setdefault(record, replace(it, path=record, why=_RECORD, line=1))
    whole = named.pop(folder, None)  # then none of its files has a reason of its own
    none = {folder} if whole else set()
    for path in sorted({*files, *named} or none):
        sha256 = statement.sum_of(files[path]) if path in files else ""
        found = named.get(path, whole)
        if found is None:
            yield Compared(path=path, sha256=sha256)
            continue
        yield Compared(
            path=path,
            verdict="unproved" if limits or found.by_another else "different",
            sha256=sha256,
            why=f"{found.why}{limits}",
            line=found.line,
        )
