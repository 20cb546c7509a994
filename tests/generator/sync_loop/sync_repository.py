"""A repository as whole trees: rendered by the product in memory, committed, branched and merged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import merge3
import pytest
import yaml
from sync_cluster import Body, Identity
from sync_requests import Tree

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.layout import JobFile, environment_files
from trainwright.documents import yamlio
from trainwright.documents.yamlio import Document
from trainwright.files.tree import NOTHING, Edited
from trainwright.helm import engines, own_chart
from trainwright.render import build as plan
from trainwright.render.history import History
from trainwright.runs import begin
from trainwright.runs import record as records
from trainwright.runs.record import RECORD_FILE
from trainwright.runs.workspace import Workspace
from trainwright.specs import load, resolve
from trainwright.specs.load import LoadedEnvironment, Reader

RENDERED = "environments/prod/rendered"
LIST = f"{RENDERED}/kustomization.yaml"
LEDGER = "environments/prod/ledger.yaml"
_UNION = (LIST, LEDGER)  # as .gitattributes says
_MOST = 2_000  # trees that are remembered
_NOWHERE = Path("/nowhere")
_OPTIONS = plan.BuildOptions(today="2026-06-01", use_cache=False, check_next_runs=False)


def identity(body: Body) -> Identity:
    return (str(body["kind"]), str(body["metadata"]["name"]))


def folder(job: str) -> str:
    return f"{RENDERED}/{job}/"


def tree_of(files: Tree) -> Edited:
    return Edited(NOTHING, files)


@cache
def bodies(text: bytes) -> tuple[Body, ...]:
    """The objects in a rendered file."""
    return tuple(yamlio.load_rendered(text.decode()))


def manifests(tree: Tree, job: str) -> dict[Identity, Body]:
    """What is rendered for a job, listed or not."""
    inside = folder(job)
    paths = (p for p in sorted(tree) if p.startswith(inside) and p.endswith(".yaml"))
    texts = (tree[path] for path in paths if not path.endswith("/values.yaml"))
    return {identity(body): body for text in texts for body in bodies(text)}


def applied(tree: Tree) -> dict[Identity, tuple[str, Body]] | None:
    """What a GitOps engine takes out of git, with the job; None where that cannot be built."""
    if LIST not in tree:
        return None
    try:
        (listed,) = bodies(tree[LIST])
    except yaml.YAMLError:  # a merge that has to be rendered
        return None
    found = {}
    for name in listed["resources"]:
        if f"{RENDERED}/{name}" not in tree:
            return None
        job = name.partition("/")[0]
        found |= {identity(b): (job, b) for b in bodies(tree[f"{RENDERED}/{name}"])}
    return found


# --- versions of the tool ------------------------------------------------------------------------


@dataclass(frozen=True)
class Tool:
    """A version of Trainwright and the chart in it, and what it has rendered already."""

    version: str
    chart: Path
    engine: engines.Engine = field(compare=False, repr=False)
    remembered: dict[Any, Tree | None] = field(default_factory=dict, compare=False, repr=False)


class _Engine(engines.Engine):
    """Helm, asked once for each values file."""

    def __init__(self) -> None:
        self._engine = engines.Embedded()
        self._known: dict[tuple[str, str, str], dict[str, str]] = {}

    def render(self, values: Mapping[str, Any], release: str, namespace: str) -> dict[str, str]:
        key = (json.dumps(values), release, namespace)
        if key not in self._known:
            self._known[key] = self._engine.render(values, release, namespace)
        return dict(self._known[key])


_LABELS = "{{- $own := dict "
_PATCH = '{{- $own = set $own "example.com/patch" "NUMBER" -}}'


def tools(root: Path) -> tuple[Tool, ...]:
    """The version at hand, and two whose charts write a harmless line more into every object."""
    found = [Tool("0.1.0", own_chart.FOLDER, _Engine())]
    for number in ("1", "2"):
        chart = root / f"chart-{number}" / "chart"
        shutil.copytree(own_chart.FOLDER, chart)
        names = chart / "templates" / "_names.tpl"
        text = names.read_text(encoding="utf-8")
        end = text.index("\n", text.index(_LABELS))
        patch = "\n" + _PATCH.replace("NUMBER", number)
        names.write_text(text[:end] + patch + text[end:], encoding="utf-8")
        about = chart / "Chart.yaml"
        lines = about.read_text(encoding="utf-8").replace(
            "version: 0.1.0", f"version: 0.1.{number}"
        )
        about.write_text(lines, encoding="utf-8")
        found.append(Tool(f"0.1.{number}", chart, _Engine()))
    return tuple(found)


_parse = cache(load.parse)
_read_spec = cache(load.read_spec)
_load_rendered = cache(yamlio.load_rendered)
_read_environment = Reader.environment
_resolve = resolve.environment


@cache
def _environment_of(name: str, files: tuple[tuple[str, bytes], ...]) -> LoadedEnvironment:
    return _read_environment(Reader(tree_of(dict(files))), name)


def _environment(reader: Reader, name: str) -> LoadedEnvironment:
    files = tuple((path, reader.raw(path)) for path in environment_files(name))
    if all(isinstance(raw, bytes) for _, raw in files):
        return _environment_of(name, files)
    return _read_environment(reader, name)


_RESOLVED: dict[tuple[str, int, str], tuple[Document, Environment]] = {}


def _resolved(name: str, document: Document, gitops: Mapping[str, Any]) -> Environment:
    key = name, id(document), json.dumps(gitops)
    if key not in _RESOLVED:
        _RESOLVED[key] = document, _resolve(name, document, gitops)
    return _RESOLVED[key][1]


@contextmanager
def installed(tool: Tool) -> Iterator[None]:
    """That version instead of the one at hand; it reads each text once."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(own_chart, "FOLDER", tool.chart)
        patched.setattr(engines, "engine", lambda _binary=None: tool.engine)
        patched.setattr(own_chart, "version", lambda: tool.version)
        patched.setattr(begin, "__version__", tool.version)
        patched.setattr(load, "parse", _parse)
        patched.setattr(load, "read_spec", _read_spec)
        patched.setattr(Reader, "environment", _environment)
        patched.setattr(resolve, "environment", _resolved)
        patched.setattr(yamlio, "load_rendered", lambda text: list(_load_rendered(text)))
        yield


# --- commits -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Commit:
    tree: Tree
    parents: tuple[int, ...]


@dataclass
class Memory:
    """Commits by number, and the last one of each branch."""

    commits: list[Commit] = field(default_factory=list)
    tips: dict[str, int] = field(default_factory=dict)

    def commit(self, branch: str, tree: Tree, *others: str) -> None:
        heads = (self.tips.get(name) for name in (branch, *others))
        self.commits.append(Commit(tree, tuple(head for head in heads if head is not None)))
        self.tips[branch] = len(self.commits) - 1

    def tree(self, branch: str) -> Tree:
        return self.commits[self.tips[branch]].tree

    def branch(self, name: str, start: str) -> None:
        self.tips[name] = self.tips[start]

    def first_parents(self, branch: str) -> list[int]:
        """The commits of a branch, newest first, that have one parent."""
        found, at = [], self.tips[branch]
        while parents := self.commits[at].parents:
            if len(parents) == 1:
                found.append(at)
            at = parents[0]
        return found

    def merged(self, ours: str, theirs: str) -> tuple[dict[str, bytes], dict[str, Tree]]:
        """A merge of two branches without what conflicts, and the versions of that."""
        base = max(self._ancestors(self.tips[ours]) & self._ancestors(self.tips[theirs]))
        trees = self.commits[base].tree, self.tree(ours), self.tree(theirs)
        return three_way(*trees)

    def reverted(self, branch: str, number: int) -> tuple[dict[str, bytes], dict[str, Tree]]:
        """A branch without what a commit did."""
        done = self.commits[number]
        return three_way(done.tree, self.tree(branch), self.commits[done.parents[0]].tree)

    def past(self, branch: str) -> _Past | None:
        """The commits of a branch; None before the first one."""
        return _Past(self, self.tips[branch]) if branch in self.tips else None

    def rendered(
        self,
        branch: str,
        tree: Tree,
        tool: Tool,
        selected: tuple[str, ...] = (),
        *,
        new_runs: bool = False,
    ) -> Tree | None:
        """A tree after `trainwright render` on a branch; None when that refuses."""
        past = self.past(branch)
        key = (frozenset(tree.items()), selected, new_runs, past is None)
        if key in tool.remembered:
            return tool.remembered[key]
        with installed(tool):
            found = _rendered(tree, selected, past, new_runs=new_runs)
        if past is None or not past.asked:  # what history decided is no function of the tree
            if len(tool.remembered) > _MOST:
                tool.remembered.clear()
            tool.remembered[key] = found
        return found

    def _ancestors(self, number: int) -> set[int]:
        found, todo = set(), [number]
        while todo:
            at = todo.pop()
            if at not in found:
                found.add(at)
                todo += self.commits[at].parents
        return found


class _Past(History):
    """git's history, of commits in memory."""

    def __init__(self, memory: Memory, head: int):
        super().__init__(_NOWHERE)
        self._memory = memory
        self._head = head
        self._seen: dict[int, Workspace] = {}
        self.asked = False

    @property
    def _found(self) -> Any:  # type: ignore[override]
        self.asked = True
        return SimpleNamespace(shallow=False), ""

    def _at(self, revision: str) -> Workspace:
        if revision == "HEAD":
            number = self._head
        else:
            number = self._memory.commits[int(revision.removesuffix("^"))].parents[0]
        if number not in self._seen:
            self._seen[number] = Workspace(tree_of(self._memory.commits[number].tree))
        return self._seen[number]

    _joined = ()  # a merge is committed as it was resolved, at once

    def _sides(self, file: JobFile, source: str) -> tuple[str, ...]:
        """None: who resolves here keeps the record and the file of the same side."""
        return ()

    def begun(self, file: JobFile) -> set[str]:
        path = f"{folder(file.name)}{RECORD_FILE}"
        texts = {
            self._memory.commits[it].tree.get(path) for it in self._memory._ancestors(self._head)
        }
        found = (records.parse(text) for text in texts if text)
        return {record.object for record in found if record}

    def _lost(self, files: Collection[JobFile]) -> Iterator[tuple[JobFile, str]]:
        commits = self._memory.commits
        for number in sorted(self._memory._ancestors(self._head), reverse=True):
            gone = {
                path
                for parent in commits[number].parents
                for path in commits[parent].tree.keys() - commits[number].tree.keys()
            }
            for file in files:
                if f"{folder(file.name)}{RECORD_FILE}" in gone:
                    yield file, str(number)


# --- rendering -----------------------------------------------------------------------------------


def _rendered(
    tree: Tree, selected: tuple[str, ...], past: History | None, *, new_runs: bool
) -> Tree | None:
    below = tree_of(tree)
    patterns = tuple(f"prod/{job}" for job in selected)
    options = replace(_OPTIONS, new_runs=new_runs)
    made = plan.build(_NOWHERE, patterns, options, specs=below, rendered=below, history=past)
    if made.failed:
        return None
    after = dict(tree)
    for environment in made.environments:
        changes = environment.changes
        assert changes is not None
        for path in changes.removed:
            del after[f"{environment.folder}/{path}"]
        for path, text in changes.written.items():
            after[f"{environment.folder}/{path}"] = text.encode()
    return after


# --- merging -------------------------------------------------------------------------------------


def three_way(base: Tree, ours: Tree, theirs: Tree) -> tuple[dict[str, bytes], dict[str, Tree]]:
    """A merge by path, and by line; what conflicts is left out, with the versions of each side."""
    found: dict[str, bytes] = {}
    conflicts: dict[str, Tree] = {}
    for path in sorted({*base, *ours, *theirs}):
        sides = base.get(path), ours.get(path), theirs.get(path)
        if sides[1] == sides[2] or sides[2] == sides[0]:
            result = sides[1]
        elif sides[1] == sides[0]:
            result = sides[2]
        else:
            result = _union(*sides) if path in _UNION else _by_line(*sides)
            if result is None:
                versions = {"ours": sides[1], "theirs": sides[2]}
                conflicts[path] = {k: v for k, v in versions.items() if v is not None}
        if result is not None:
            found[path] = result
    return found, conflicts


def _by_line(base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes | None:
    """Lines that one side changed, where no side added or removed any."""
    if base is None or ours is None or theirs is None:
        return None
    lines = [text.splitlines(keepends=True) for text in (base, ours, theirs)]
    if len({len(side) for side in lines}) > 1:
        return None
    merged = []
    for was, our, their in zip(*lines, strict=True):
        if was not in (our, their) and our != their:
            return None
        merged.append(their if our == was else our)
    return b"".join(merged)


def _union(base: bytes | None, ours: bytes | None, theirs: bytes | None) -> bytes | None:
    """As git merges with merge=union: where both sides changed, the lines of both."""
    if ours is None or theirs is None:
        return None
    was, our, their = ((text or b"").splitlines(keepends=True) for text in (base, ours, theirs))
    merge = merge3.Merge3(was, our, their)
    merged: list[bytes] = []
    for what, *at in merge.reprocess_merge_regions(merge.merge_regions()):
        if what == "conflict":
            merged += our[at[2] : at[3]] + their[at[4] : at[5]]
        else:
            side = {"unchanged": was, "same": our, "a": our, "b": their}[what]
            merged += side[at[0] : at[1]]
    return b"".join(merged)


def changed(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> set[str]:
    """The paths at which two trees differ."""
    return {path for path in {*one, *other} if one.get(path) != other.get(path)}
