"""The rows of `trainwright list`: the registries, and what is under environments/."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

from trainwright.datatypes.finding import ValueChange
from trainwright.datatypes.layout import environment_path
from trainwright.files.tree import Tree
from trainwright.gitops.wiring import WIRINGS
from trainwright.kinds import TARGETS
from trainwright.lifecycle import replaced
from trainwright.reports import FORMATS
from trainwright.reports.report import every_rule
from trainwright.runs.workspace import Workspace
from trainwright.specs import fabrics, inventory
from trainwright.specs.select import environments, select

# Of those that are no text: what outdates a run, and the object that another has replaced.
Cell: TypeAlias = str | tuple[ValueChange, ...] | Mapping[str, str] | None
Rows: TypeAlias = tuple[tuple[str, ...], Sequence[tuple[Cell, ...]]]
_OUTCOME = "outcome"  # stands behind a state
Patterns: TypeAlias = tuple[str, ...]  # ENV or ENV/JOB; none selects all
Files: TypeAlias = Callable[[], Tree]  # asked only by lists that need the repository


def _jobs(files: Files, patterns: Patterns) -> Rows:
    headers = ("job", "object", "state", _OUTCOME, "target", "outdated", "source", "replaced")
    return headers, list(_job_rows(files(), patterns))


def _job_rows(tree: Tree, patterns: Patterns) -> Iterator[tuple[Cell, ...]]:
    workspace = Workspace(tree)
    there = workspace.survey.jobs
    for selection in select(patterns, there) if there or patterns else ():
        for job in selection.jobs:
            run = workspace.run(job)
            old = replaced.by_run_of(workspace, job)
            before = {"object": old.object, "command": old.command} if old else None
            of_run = (run.object, run.state, run.outcome, run.target, run.held)
            yield str(job), *of_run, job.path, before


def for_people(headers: tuple[str, ...], rows: Sequence[tuple[Cell, ...]]) -> Rows:
    """Return rows with the outcome of a run behind its state."""
    if _OUTCOME not in headers:
        return headers, rows
    at = headers.index(_OUTCOME)
    joined = [
        (*row[: at - 1], f"{row[at - 1]}: {row[at]}" if row[at] else row[at - 1], *row[at + 1 :])
        for row in rows
    ]
    return (*headers[:at], *headers[at + 1 :]), joined


def _environments(files: Files, _patterns: Patterns) -> Rows:
    by_environment = inventory.discover(files()).jobs
    rows = [(name, str(len(jobs)), environment_path(name)) for name, jobs in by_environment.items()]
    return ("environment", "jobs", "source"), [tuple(row) for row in rows]


def _objects(files: Files, patterns: Patterns) -> Rows:
    workspace = Workspace(files())
    there = workspace.survey.jobs
    names = environments(patterns, there, "listed") if there or patterns else ()
    rows = [
        (name, item.manifest.title, item.manifest.namespace, str(item.place))
        for name in names
        for item in workspace.own_objects(name).objects
    ]
    return ("environment", "object", "namespace", "source"), rows


def _targets(_files: Files, _patterns: Patterns) -> Rows:
    rows = [(t.name, t.kind, t.api_version, t.summary) for t in TARGETS.values()]
    return ("target", "kind", "apiVersion", "summary"), [tuple(row) for row in rows]


def _fabrics(_files: Files, _patterns: Patterns) -> Rows:
    profiles = [profile for name in fabrics.names() if (profile := fabrics.profile(name))]
    rows = [(f.name, f.needs.resource or "any", ", ".join(f.allow), f.summary) for f in profiles]
    return ("fabric", "accelerator", "allows", "summary"), [tuple(row) for row in rows]


def _rules(_files: Files, _patterns: Patterns) -> Rows:
    every = every_rule().values()
    rows = [(rule.id, rule.severity.value, rule.name, rule.summary) for rule in every]
    return ("rule", "severity", "name", "summary"), [tuple(row) for row in rows]


def _formats(_files: Files, _patterns: Patterns) -> Rows:
    return ("format", "summary"), list(FORMATS.items())


def _engines(_files: Files, _patterns: Patterns) -> Rows:
    rows = [(w.engine, w.mode, w.summary) for w in WIRINGS.values()]
    return ("engine", "mode", "summary"), [tuple(row) for row in rows]


LISTINGS: dict[str, Callable[[Files, Patterns], Rows]] = {
    "jobs": _jobs,
    "environments": _environments,
    "own-objects": _objects,
    "targets": _targets,
    "fabrics": _fabrics,
    "rules": _rules,
    "formats": _formats,
    "engines": _engines,
}
