"""The jobs that a merge can affect: those that read a changed file."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache

from trainwright.datatypes.layout import ENVIRONMENTS, JobFile, environment_files, rendered_job
from trainwright.plan.revision import Revision, SpecText
from trainwright.runs.kustomization import KUSTOMIZATION_FILE
from trainwright.specs import files, ledger


def jobs(before: Revision, after: Revision, changed: frozenset[str]) -> frozenset[JobFile]:
    """Return the jobs of either side whose specs the changed paths can make a difference to, and
    those that were never rendered.

    A job that is on both sides and reads no changed file reads the same chain of files on both,
    so that what it renders to is the same as well.
    """
    changed = files.with_folders(changed)
    deciding = _Deciding(after, changed)
    readers = deciding.readers(file.path for file in _files(after))
    touched = {
        file
        for file in _files(after)
        if (file.path in readers or deciding.is_shared(file.environment))
        and not changed.isdisjoint(after.job(file).loaded.files)
    }
    touched |= {file for file in _retired(before, after, changed) if after.has(file)}
    touched |= {*_unrendered(before, after)}
    gone = {file for file in _files(before) if not after.has(file)}
    return frozenset(touched | gone)


def rendered(before: Revision, after: Revision, changed: frozenset[str]) -> frozenset[JobFile]:
    """Return the jobs whose rendered files changed, or are listed otherwise in a kustomization.yaml
    that is applied: that is what counts, whatever the specs say.
    """
    job_files = set(filter(None, map(rendered_job, changed)))
    for environment in {*before.survey.jobs, *after.survey.jobs}:
        folders = [side.folder(environment) for side in (before, after)]
        listed = "list" in (side.finds_runs_by(environment) for side in (before, after))
        if listed and f"{folders[0].path}/{KUSTOMIZATION_FILE}" in changed:
            old, new = (folder.applied() for folder in folders)
            job_files |= {JobFile(environment, path.partition("/")[0]) for path in old ^ new}
    return frozenset(job_files)


def _files(side: Revision) -> Iterator[JobFile]:
    return (file for jobs in side.survey.jobs.values() for file in jobs)


class _Deciding:
    """Which specs may read a changed file, by their bytes: thousands need not be parsed for it."""

    def __init__(self, side: Revision, changed: frozenset[str]):
        self._side = side
        self._changed = changed
        # What a spec that takes a changed file must contain of its path. YAML may break lines at
        # spaces, so it is the last word, or the first of a path in the environments folder.
        paths = (path for path in changed if path.split() and not files.is_rendered(path))
        self._words = {os.fsencode(_shown(path)) for path in paths}
        self.is_shared = cache(self._is_shared)

    def readers(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the specs that may read a changed file, directly or through a spec they extend."""
        extending: defaultdict[str, list[str]] = defaultdict(list)
        specs, seen, ahead = set[str](), set[str](), list(paths)
        while ahead:
            path = ahead.pop()
            if path in seen:
                continue
            seen.add(path)
            text = self._side.text(path)
            if path in self._changed or self._takes(text):
                specs.add(path)
                continue
            for named in text.names:
                extending[named].append(path)
                ahead.append(named)
        ahead = list(specs)
        while ahead:
            new = [path for path in extending.get(ahead.pop(), ()) if path not in specs]
            specs.update(new)
            ahead += new
        return frozenset(specs)

    def _is_shared(self, environment: str) -> bool:
        """Whether a changed file is an environment's own, or may be named in one of those."""
        shared = environment_files(environment)
        return not self._changed.isdisjoint(shared) or any(
            self._takes(self._side.text(path)) for path in shared
        )

    def _takes(self, text: SpecText) -> bool:
        """Whether a spec may name a changed file as one to take from the repository."""
        if text.is_spelt:
            return True
        return text.takes and any(word in text.raw for word in self._words)


def _shown(path: str) -> str:
    return path.split()[0 if path.startswith(f"{ENVIRONMENTS}/") else -1]


def _unrendered(before: Revision, after: Revision) -> Iterator[JobFile]:
    """Yield the jobs without errors that were merged unrendered: the next rendering begins them."""
    for file in _files(before):
        unrendered = before.is_unrendered(file) and after.has(file)
        if unrendered and after.job(file).decision is not None:
            yield file


def _retired(before: Revision, after: Revision, changed: frozenset[str]) -> Iterator[JobFile]:
    """Yield the jobs with a run that is in the ledger of only one of the two sides."""
    for name in after.survey.jobs:
        if ledger.path(name) in changed:
            old, new = before.ledger(name).runs, after.ledger(name).runs
            for run in {*old} ^ {*new}:
                yield JobFile(name, (new.get(run) or old[run]).job)
