"""Everything selected, rendered and compared with what is on disk: the one plan of every verb."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainwright import batch, cache, filetree, index, ledger, overlays, render, resolve
from trainwright.cache import Remembered
from trainwright.filetree import Changes
from trainwright.load import (
    ENVIRONMENTS,
    RENDERED,
    JobFile,
    Reader,
    survey,
)
from trainwright.model import Finding, Severity
from trainwright.select import Selection, select
from trainwright.settle import Judged, distinct, settle
from trainwright.tree import Folder, Snapshot, Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to plan: `helm` names a binary to use instead of the embedded engine.

    With `fresh`, as if nothing were rendered yet: then all there is to write is `added`.
    """

    today: str  # ISO date, for the expiry of waivers
    helm: str | None = None
    kubernetes: str = ""  # a minor version instead of each environment's own
    use_cache: bool = True
    fresh: bool = False


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


def plan(
    root: Path, patterns: tuple[str, ...], options: Options, specs: Tree | None = None
) -> Plan:
    """Load, merge, validate, render, check and compare whatever the patterns select.

    `specs` are read instead of those on disk: a commit's, say, or edited ones.
    """
    tree = Snapshot(specs or Folder(root))
    found = survey(tree)
    reader = Reader(tree)
    nothing = not found.jobs and bool(found.findings)  # which say why there is nothing to select
    selected = () if nothing else select(patterns, found.jobs)
    ledgers = {s.environment: ledger.read(tree, s.environment) for s in selected}
    work = [_Work(root, reader, s, ledgers[s.environment], options) for s in selected]
    _render(tree, work, options)
    idle = {item.name: item.idle for item in work}
    shared = overlays.shared(idle, reader, whole=len(work) == len(found.jobs))
    environments = tuple(item.finished(shared[item.name]) for item in work)
    everything = (*found.findings, *(f for e in environments for f in e.findings))
    findings = tuple(sorted(distinct(everything), key=lambda finding: finding.order))
    return Plan(
        environments=environments,
        findings=findings,
        sources={
            path: reader.lines(path) for path in _files(findings) if tree.kind(path) == "file"
        },
    )


def _render(tree: Tree, work: list[_Work], options: Options) -> None:
    """Render what is pending, of all environments together."""
    pending = [(item, file) for item in work for file in item.pending()]
    outcomes = batch.run(tree, [file for _, file in pending], options.helm, options.kubernetes)
    for (item, _), outcome in zip(pending, outcomes, strict=True):
        item.take(*outcome)


def _files(findings: tuple[Finding, ...]) -> set[str]:
    return {
        place.file for f in findings for place in (f.place, *(r.place for r in f.related)) if place
    }


class _Work:
    """One environment on its way to an `EnvironmentPlan`."""

    def __init__(
        self,
        root: Path,
        reader: Reader,
        selection: Selection,
        known: ledger.Ledger,
        options: Options,
    ):
        self.name = selection.environment
        self._reader = reader
        self._selection = selection
        self._ledger = known
        self._options = options
        self._folder = root / ENVIRONMENTS / selection.environment / RENDERED
        self._cache_path = cache.location(root, selection.environment)
        self._mark = cache.fingerprint(options.helm or cache.EMBEDDED)
        self._loaded = reader.environment(selection.environment)
        document = self._loaded.document
        self.environment = (
            None if document is None else resolve.environment(self._loaded.name, document)
        )
        listed = () if options.fresh else filetree.listing(self._folder)
        self._there = filetree.hashes(self._folder, listed)
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
        if any(self._reader.state(path) != state for path, state in known.inputs.items()):
            return False
        if known.retired != (known.run in self._ledger.runs):
            return False
        files = known.entry.files if known.entry else {}
        return all(self._there.get(f"{job}/{name}") == sha for name, sha in files.items())

    def take(self, rendered: render.Rendered, inputs: Mapping[str, str]) -> None:
        """Note what a job came to."""
        job = rendered.file.name
        self._outcomes[job] = Remembered(
            inputs=inputs,
            usable=rendered.usable,
            run=rendered.name,
            retired=rendered.retired,
            entry=index.entry(rendered) if rendered.files else None,
            findings=rendered.findings,
            waivers=rendered.waivers,
            idle=rendered.idle,
        )
        self._texts |= {f"{job}/{name}": text for name, text in rendered.files.items()}

    @property
    def idle(self) -> tuple[overlays.Idle, ...] | None:
        """What decides nothing, job by job; None unless it is known of all jobs there are."""
        found = [outcome.idle for outcome in self._outcomes.values()]
        known = tuple(idle for idle in found if idle is not None)
        whole = self._selection.whole and len(known) == len(self._selection.jobs)
        return known if whole else None

    def finished(self, shared: tuple[Finding, ...]) -> EnvironmentPlan:
        """The plan; `shared` are findings about files that several jobs inherit from."""
        if self._options.use_cache and self.environment is not None:
            kept = {} if self._selection.whole else self._remembered
            known = {**kept, **self._outcomes}
            if known != self._remembered:
                cache.save(self._cache_path, self._mark, known)
        findings = self._findings(shared)
        was = {} if self._options.fresh else index.read(self._folder)
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

    def _findings(self, shared: tuple[Finding, ...]) -> tuple[Finding, ...]:
        if self.environment is None:
            return self._loaded.findings
        if self._ledger.findings:
            return self._ledger.findings
        judged = [
            Judged(job, outcome.findings, outcome.waivers)
            for job, outcome in sorted(self._outcomes.items())
        ]
        judged.append(Judged("", shared, ()))
        today, whole = self._options.today, self._selection.whole
        settled = settle(self.environment, judged, today, whole=whole)
        jobs = {file.name for file in self._selection.jobs}
        return (*settled, *ledger.strangers(self._ledger, jobs, self.name)) if whole else settled

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
