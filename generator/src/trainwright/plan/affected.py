"""Which jobs a merge touches at all: those that read a file which changed."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.plan.sides import Side
from trainwright.specs import ledger
from trainwright.specs.load import RENDERED, JobFile


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
    touched = {
        file
        for file, known in after.jobs.items()
        if (file.environment, file.name) in rendered or not changed.isdisjoint(known.loaded.files)
    }
    touched |= {file for file in _retired(before, after, changed) if after.has(file)}
    gone = {file for jobs in before.survey.jobs.values() for file in jobs if file not in after.jobs}
    return frozenset(touched | gone)


def _retired(before: Side, after: Side, changed: frozenset[str]) -> Iterator[JobFile]:
    """The jobs with a run that one side's ledger has and the other's has not."""
    for name in after.survey.jobs:
        if ledger.path(name) in changed:
            old, new = before.ledger(name).runs, after.ledger(name).runs
            for run in {*old} ^ {*new}:
                yield JobFile(name, (new.get(run) or old[run]).job)
