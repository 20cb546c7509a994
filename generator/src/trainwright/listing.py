"""The registries and what lies under environments/, as rows for `trainwright list`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from trainwright import index, ledger, load, names, resolve
from trainwright.diagnostics import DIAGNOSTICS, Diagnostic
from trainwright.model import Job
from trainwright.reports import FORMATS
from trainwright.rules import RULES
from trainwright.rules.rule import Rule
from trainwright.rules.transition import Transition
from trainwright.rules.transitions import TRANSITIONS
from trainwright.targets import TARGETS
from trainwright.tree import Folder
from trainwright.wiring import WIRINGS

Rows: TypeAlias = tuple[tuple[str, ...], list[tuple[str, ...]]]
Root: TypeAlias = Callable[[], Path]  # asked only by lists that need the repository

_UNRENDERED = "not rendered"


def _jobs(root: Root) -> Rows:
    return ("job", "object", "state", "target", "source"), list(_job_rows(root()))


def _job_rows(root: Path) -> Iterator[tuple[str, ...]]:
    tree = Folder(root)
    reader = load.Reader(tree)
    for environment, jobs in load.survey(tree).jobs.items():
        folder = root / load.ENVIRONMENTS / environment / load.RENDERED
        entries, finished = index.read(folder), ledger.read(tree, environment)
        for job in jobs:
            entry = entries.get(job.name)
            object_, state = (entry.object, "rendered") if entry else _idle(reader, finished, job)
            yield str(job), object_, state, entry.target if entry else "", job.path


def _idle(reader: load.Reader, finished: ledger.Ledger, file: load.JobFile) -> tuple[str, str]:
    """The object of a job that has nothing rendered, as far as there was one, and why."""
    loaded = reader.environment(file.environment)
    spec = reader.job(file, loaded).spec
    if loaded.document is None or spec is None:
        return "", _UNRENDERED
    place = resolve.environment(file.environment, loaded.document)
    job = resolve.job(spec, place, file.path)
    if not isinstance(job, Job):
        return "", _UNRENDERED
    name = names.object_name(job, names.spec_hash(job, place))
    if name in finished.runs:
        return name, f"retired: {finished.runs[name].outcome}"
    return "", "cancelled" if job.state == "cancelled" else _UNRENDERED


def _environments(root: Root) -> Rows:
    found = load.survey(Folder(root())).jobs
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
