"""The registries and what lies under environments/, as rows for `trainwright list`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from trainwright import index, load
from trainwright.diagnostics import DIAGNOSTICS, Diagnostic
from trainwright.reports import FORMATS
from trainwright.rules import RULES
from trainwright.rules.rule import Rule
from trainwright.targets import TARGETS
from trainwright.tree import Folder

Rows: TypeAlias = tuple[tuple[str, ...], list[tuple[str, ...]]]
Root: TypeAlias = Callable[[], Path]  # asked only by lists that need the repository


def _jobs(root: Root) -> Rows:
    return ("job", "object", "target", "source"), list(_job_rows(root()))


def _job_rows(root: Path) -> Iterator[tuple[str, ...]]:
    for environment, jobs in load.survey(Folder(root)).jobs.items():
        folder = root / load.ENVIRONMENTS / environment / load.RENDERED
        entries = index.read(folder)
        for job in jobs:
            entry = entries.get(job.name)
            known = (entry.object, entry.target) if entry else ("(not rendered)", "")
            yield (str(job), *known, job.path)


def _environments(root: Root) -> Rows:
    found = load.survey(Folder(root())).jobs
    rows = [(name, str(len(jobs)), load.environment_path(name)) for name, jobs in found.items()]
    return ("environment", "jobs", "source"), [tuple(row) for row in rows]


def _targets(root: Root) -> Rows:
    rows = [(t.name, t.kind, t.api_version, t.summary) for t in TARGETS.values()]
    return ("target", "kind", "apiVersion", "summary"), [tuple(row) for row in rows]


def _rules(root: Root) -> Rows:
    every: list[Diagnostic | Rule] = [*DIAGNOSTICS.values(), *RULES.values()]
    rows = [(rule.id, rule.severity.value, rule.name, rule.summary) for rule in every]
    return ("rule", "severity", "name", "summary"), [tuple(row) for row in rows]


def _formats(root: Root) -> Rows:
    return ("format", "summary"), [(f.name, f.summary) for f in FORMATS.values()]


LISTINGS: dict[str, Callable[[Root], Rows]] = {
    "jobs": _jobs,
    "environments": _environments,
    "targets": _targets,
    "rules": _rules,
    "formats": _formats,
}
