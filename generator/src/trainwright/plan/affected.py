"""Which jobs a merge touches at all: those that read a file which changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import cache

from trainwright.plan.sides import Side
from trainwright.specs import files, ledger
from trainwright.specs.load import ENVIRONMENTS, RENDERED, JobFile, Reader, environment_files

# What may be the name of a spec, <folder>/<job>, wherever it stands in a file.
_NAMED = re.compile(rb"([A-Za-z0-9-]+)/([A-Za-z0-9-]+)")
_SPELT = re.compile(rb"[\\\xfe\xff]")  # escapes, and UTF-16, in which a name may look otherwise


def jobs(before: Side, after: Side, changed: frozenset[str]) -> frozenset[JobFile]:
    """The jobs of either side that the changed paths can make a difference to.

    A job that is on both sides and reads no changed file reads the same chain of files on both,
    so that what it renders to is the same as well.
    """
    rendered = frozenset(
        (parts[1], parts[3])
        for parts in (path.split("/") for path in changed)
        if len(parts) > 4 and parts[2] == RENDERED
    )
    changed = files.with_folders(changed)
    text = _Text(after.reader, changed)
    touched = {
        file
        for file in _files(after)
        if (file.environment, file.name) in rendered
        or (text.may_decide(file) and not changed.isdisjoint(after.job(file).loaded.files))
    }
    touched |= {file for file in _retired(before, after, changed) if after.has(file)}
    gone = {file for file in _files(before) if not after.has(file)}
    return frozenset(touched | gone)


def _files(side: Side) -> Iterator[JobFile]:
    return (file for jobs in side.survey.jobs.values() for file in jobs)


class _Text:
    """What the bytes of specs say of each other: thousands need not be parsed to rule them out."""

    def __init__(self, reader: Reader, changed: frozenset[str]):
        self._reader = reader
        self._changed = changed
        # How a spec that takes one of them from the repository names it, wherever YAML may break
        # the line: at least by the end of its name, and by the folder of environments if it has it.
        paths = (path for path in changed if path.split() and not files.is_rendered(path))
        self._words = {os.fsencode(_shown(path)) for path in paths}
        self._named = cache(self._names)
        self._shared = cache(self._shared_names)

    def may_decide(self, file: JobFile) -> bool:
        """Whether a job may read a changed file. True where that takes parsing its specs."""
        if self._shared(file.environment):
            return True
        ahead, seen = [file], set[JobFile]()
        while ahead:
            spec = ahead.pop()
            if spec in seen:
                continue
            seen.add(spec)
            if spec.path in self._changed or self._takes(spec.path):
                return True
            named = self._named(spec)
            if named is None:
                return True
            ahead += named
        return False

    def _shared_names(self, environment: str) -> bool:
        """Whether a changed file is one of an environment's own, or may be named in one."""
        shared = environment_files(environment)
        return not self._changed.isdisjoint(shared) or any(map(self._takes, shared))

    def _takes(self, path: str) -> bool:
        """Whether a file may name a changed one that it takes from the repository."""
        raw = self._reader.raw(path)
        if not isinstance(raw, bytes) or not self._words:
            return False
        named = b"from" in raw and any(word in raw for word in self._words)
        return named or bool(_SPELT.search(raw))

    def _names(self, file: JobFile) -> frozenset[JobFile] | None:
        """Every spec that a file may extend, and others; None where its text does not show it."""
        raw = self._reader.raw(file.path)
        if not isinstance(raw, bytes):
            return frozenset()
        if _SPELT.search(raw):
            return None
        return frozenset(JobFile(*map(bytes.decode, found)) for found in _NAMED.findall(raw))


def _shown(path: str) -> str:
    return path.split()[0 if path.startswith(f"{ENVIRONMENTS}/") else -1]


def _retired(before: Side, after: Side, changed: frozenset[str]) -> Iterator[JobFile]:
    """The jobs with a run that one side's ledger has and the other's has not."""
    for name in after.survey.jobs:
        if ledger.path(name) in changed:
            old, new = before.ledger(name).runs, after.ledger(name).runs
            for run in {*old} ^ {*new}:
                yield JobFile(name, (new.get(run) or old[run]).job)
