"""Everything selected, rendered and compared with what is on disk: the one plan of every verb."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

from trainwright import cache, filetree, helm, index, render, resolve
from trainwright.cache import Remembered
from trainwright.filetree import Changes
from trainwright.load import (
    ENVIRONMENTS,
    RENDERED,
    JobFile,
    LoadedEnvironment,
    Reader,
    environment_path,
    survey,
)
from trainwright.model import Environment, Finding, Severity
from trainwright.select import Selection, select
from trainwright.settle import Judged, settle

# Below this many jobs a second process costs more to start than it saves.
_WORTH_A_PROCESS = 150
_CHUNK = 50
_MAX_PROCESSES = 4  # each holds a Helm engine and schemas, some 90 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to plan: `helm` names a binary to use instead of the embedded engine."""

    today: str  # ISO date, for the expiry of waivers
    helm: str | None = None
    use_cache: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentPlan:
    """One environment: what rendered/ should hold, how it differs, and what is wrong.

    `changes` is None when errors leave nothing to write. `edited` are files that differ from
    what the index says was rendered: somebody changed them by hand.
    """

    name: str
    jobs: tuple[JobFile, ...]
    entries: Mapping[str, index.Entry]
    findings: tuple[Finding, ...]
    changes: Changes | None
    edited: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        return f"{ENVIRONMENTS}/{self.name}/{RENDERED}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that was selected, and the files that findings point into."""

    environments: tuple[EnvironmentPlan, ...]
    findings: tuple[Finding, ...]  # of all environments, and of what belongs to none
    sources: Mapping[str, tuple[str, ...]]  # lines of every file that a finding names

    @property
    def jobs(self) -> tuple[JobFile, ...]:
        return tuple(job for environment in self.environments for job in environment.jobs)

    @property
    def failed(self) -> bool:
        return any(finding.severity is Severity.ERROR for finding in self.findings)


def plan(root: Path, patterns: tuple[str, ...], options: Options) -> Plan:
    """Load, merge, validate, render, check and compare whatever the patterns select."""
    found = survey(root)
    reader = Reader(root)
    work = [_Work(root, reader, selection, options) for selection in select(patterns, found.jobs)]
    _render_all(root, work, options)
    environments = tuple(item.finished() for item in work)
    everything = (*found.findings, *(f for e in environments for f in e.findings))
    findings = tuple(sorted(_distinct(everything), key=lambda finding: finding.order))
    return Plan(
        environments=environments,
        findings=findings,
        sources={path: reader.lines(path) for path in _files(findings) if (root / path).is_file()},
    )


def _distinct(findings: tuple[Finding, ...]) -> Iterator[Finding]:
    """Findings about a shared file once, however many jobs inherit from it."""
    seen = set()
    for finding in findings:
        key = replace(finding, subject="") if "/" not in finding.manifest else finding
        if key not in seen:
            seen.add(key)
            yield finding


def _files(findings: tuple[Finding, ...]) -> set[str]:
    return {
        place.file for f in findings for place in (f.place, *(r.place for r in f.related)) if place
    }


class _Work:
    """One environment on its way to an `EnvironmentPlan`."""

    def __init__(self, root: Path, reader: Reader, selection: Selection, options: Options):
        self._reader = reader
        self._selection = selection
        self._options = options
        self._folder = root / ENVIRONMENTS / selection.environment / RENDERED
        self._cache_path = cache.location(root, selection.environment)
        self._mark = cache.fingerprint(options.helm or "embedded")
        self._loaded = reader.environment(selection.environment)
        document = self._loaded.document
        self.environment = (
            None if document is None else resolve.environment(self._loaded.name, document)
        )
        self._there = filetree.hashes(self._folder, filetree.listing(self._folder))
        self._remembered = cache.load(self._cache_path, self._mark) if options.use_cache else {}
        self._outcomes: dict[str, Remembered] = {}
        self._texts: dict[str, str] = {}

    def pending(self) -> tuple[JobFile, ...]:
        """The jobs that have to be rendered: everything that is not exactly as remembered."""
        if self.environment is None:
            return ()
        for file in self._selection.jobs:
            known = self._remembered.get(file.name)
            if known and self._still_true(file.name, known):
                self._outcomes[file.name] = known
        return tuple(file for file in self._selection.jobs if file.name not in self._outcomes)

    def _still_true(self, job: str, known: Remembered) -> bool:
        if any(self._reader.digest(path) != sha for path, sha in known.inputs.items()):
            return False
        files = known.entry.files if known.entry else {}
        return all(self._there.get(f"{job}/{name}") == sha for name, sha in files.items())

    def take(self, rendered: render.Rendered, inputs: Mapping[str, str]) -> None:
        """Note what a job came to."""
        job = rendered.file.name
        self._outcomes[job] = Remembered(
            inputs=inputs,
            usable=rendered.usable,
            entry=index.entry(rendered) if rendered.files else None,
            findings=rendered.findings,
            waivers=rendered.waivers,
        )
        self._texts |= {f"{job}/{name}": text for name, text in rendered.files.items()}

    def finished(self) -> EnvironmentPlan:
        if self._options.use_cache and self.environment is not None:
            kept = {} if self._selection.whole else self._remembered
            cache.save(self._cache_path, self._mark, {**kept, **self._outcomes})
        findings = self._findings()
        was = index.read(self._folder)
        entries = {job: o.entry for job, o in self._outcomes.items() if o.entry is not None}
        if not self._selection.whole:
            others = {job: e for job, e in was.items() if job not in self._outcomes}
            entries = {**others, **entries}
        failed = any(finding.severity is Severity.ERROR for finding in findings)
        return EnvironmentPlan(
            name=self._selection.environment,
            jobs=self._selection.jobs,
            entries=entries,
            findings=findings,
            changes=None if failed else self._changes(entries),
            edited=tuple(self._edited(was)),
        )

    def _findings(self) -> tuple[Finding, ...]:
        if self.environment is None:
            return self._loaded.findings
        judged = [
            Judged(job, outcome.findings, outcome.waivers)
            for job, outcome in sorted(self._outcomes.items())
        ]
        today, whole = self._options.today, self._selection.whole
        return settle(self.environment, judged, today, whole=whole)

    def _changes(self, entries: Mapping[str, index.Entry]) -> Changes:
        name = self._selection.environment
        wanted = {
            **self._texts,
            index.INDEX_FILE: index.text(name, entries),
            index.KUSTOMIZATION_FILE: index.kustomization(name, entries),
        }
        selected = {file.name for file in self._selection.jobs}
        right = {f"{job}/{file}" for job, e in entries.items() for file in e.files}
        others = {
            path
            for path in self._there
            if not self._selection.whole and path.partition("/")[0] not in selected
        }
        return filetree.compare(wanted, self._there, frozenset(right | others))

    def _edited(self, was: Mapping[str, index.Entry]) -> Iterator[str]:
        for job, known in was.items():
            for file, sha in known.files.items():
                path = f"{job}/{file}"
                if path in self._there and self._there[path] != sha:
                    yield path


# --- rendering, here or in several processes -----------------------------------------------------

Outcome: TypeAlias = tuple[render.Rendered, dict[str, str]]  # with the hashes of what was read


def _render_all(root: Path, work: list[_Work], options: Options) -> None:
    pending = [(item, item.pending()) for item in work]
    total = sum(len(files) for _, files in pending)
    if not total:
        return
    processes = min(_MAX_PROCESSES, len(os.sched_getaffinity(0)))
    if processes == 1 or total < _WORTH_A_PROCESS:
        renderer = _Renderer(root, options.helm)
        for item, files in pending:
            for file in files:
                item.take(*renderer.render(file))
        return
    from concurrent.futures import ProcessPoolExecutor  # 30 ms, and only large plans need it
    from multiprocessing import get_context

    # Spawned, not forked: the Go runtime inside the Helm engine does not survive a fork.
    with ProcessPoolExecutor(
        processes, get_context("spawn"), initializer=_start, initargs=(root, options.helm)
    ) as pool:
        for item, files in pending:
            for outcome in pool.map(_render_in_worker, files, chunksize=_CHUNK):
                item.take(*outcome)


class _Renderer:
    """Renders job files, keeping the engine and the shared layers from one to the next."""

    def __init__(self, root: Path, binary: str | None):
        self._reader = Reader(root)
        self._engine = helm.engine(binary)
        self._environments: dict[str, tuple[LoadedEnvironment, Environment | None]] = {}

    def render(self, file: JobFile) -> Outcome:
        loaded, environment = self._environment(file.environment)
        if environment is None:  # it broke since the plan began
            return render.Rendered(file=file, usable=False, findings=loaded.findings), {}
        rendered = render.job(self._reader.job(file, loaded), environment, self._engine)
        shared = f"{ENVIRONMENTS}/defaults.yaml", environment_path(file.environment)
        paths = sorted({*rendered.inputs, *shared})
        inputs = {path: self._reader.digest(path) for path in paths}
        self._reader.forget(file.path)
        return rendered, inputs

    def _environment(self, name: str) -> tuple[LoadedEnvironment, Environment | None]:
        if name not in self._environments:
            loaded = self._reader.environment(name)
            document = loaded.document
            resolved = None if document is None else resolve.environment(name, document)
            self._environments[name] = (loaded, resolved)
        return self._environments[name]


_worker: _Renderer | None = None  # set once in each worker process, never in the main one


def _start(root: Path, binary: str | None) -> None:
    global _worker  # noqa: PLW0603 - what an initializer is for
    _worker = _Renderer(root, binary)


def _render_in_worker(file: JobFile) -> Outcome:
    assert _worker is not None
    return _worker.render(file)
