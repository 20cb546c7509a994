"""The registries and what lies under environments/, as rows for `trainwright list`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from trainwright.findings.diagnostics import DIAGNOSTICS, Diagnostic
from trainwright.gitops.wiring import WIRINGS
from trainwright.kinds import TARGETS
from trainwright.objects.rule import Rule
from trainwright.objects.transition import Transition
from trainwright.reports import FORMATS
from trainwright.rules import RULES
from trainwright.rules.transitions import TRANSITIONS
from trainwright.runs.decision import Held
from trainwright.specs import load
from trainwright.specs.tree import Folder
from trainwright.workspace import Workspace

Cell: TypeAlias = str | tuple[Held, ...]  # the latter is what a run is behind
Rows: TypeAlias = tuple[tuple[str, ...], Sequence[tuple[Cell, ...]]]
Root: TypeAlias = Callable[[], Path]  # asked only by lists that need the repository


def _jobs(root: Root) -> Rows:
    return ("job", "object", "state", "target", "behind", "source"), list(_job_rows(root()))


def _job_rows(root: Path) -> Iterator[tuple[Cell, ...]]:
    workspace = Workspace(Folder(root))
    for jobs in workspace.survey.jobs.values():
        for job in jobs:
            run = workspace.run(job)
            yield str(job), run.object, run.status, run.target, run.held, job.path


def _environments(root: Root) -> Rows:
    found = load.discover(Folder(root())).jobs
    rows = [(name, str(len(jobs)), load.environment_path(name)) for name, jobs in found.items()]
    return ("environment", "jobs", "source"), [tuple(row) for row in rows]


def _targets(root: Root) -> Rows:
    rows = [(t.name, t.kind, t.api_version, t.summary) for t in TARGETS.values()]
    return ("target", "kind", "apiVersion", "summary"), [tuple(row) for row in rows]


def _rules(root: Root) -> Rows:
    found: list[Rule | Transition] = [*RULES.values(), *TRANSITIONS.values()]
    every: list[Diagnostic | Rule | Transition] = [*DIAGNOSTICS.values()]
    every += sorted(found, key=lambda rule: rule.id)
    rows = [(rule.id, rule.severity.value, rule.name, rule.summary) for rule in every]
    return ("rule", "severity", "name", "summary"), [tuple(row) for row in rows]


def _formats(root: Root) -> Rows:
    return ("format", "summary"), [(f.name, f.summary) for f in FORMATS.values()]


def _wirings(root: Root) -> Rows:
    rows = [(w.engine, w.mode, w.summary) for w in WIRINGS.values()]
    return ("engine", "mode", "summary"), [tuple(row) for row in rows]


LISTINGS: dict[str, Callable[[Root], Rows]] = {
    "jobs": _jobs,
    "environments": _environments,
    "targets": _targets,
    "rules": _rules,
    "formats": _formats,
    "wirings": _wirings,
}
