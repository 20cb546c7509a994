"""A repository's report, out of its folder and git's history."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trainwright.cluster.status import RunStatus
from trainwright.overview.history import events
from trainwright.overview.model import EnvironmentOverview, JobOverview, Overview
from trainwright.plan.sides import Side
from trainwright.render.build import Build
from trainwright.reports import redacted
from trainwright.specs import demand
from trainwright.specs.capacity import check_capacity
from trainwright.specs.ledger import LedgerEntry
from trainwright.specs.load import JobFile
from trainwright.specs.tree import Folder


def overview(root: Path, build: Build, live: Sequence[RunStatus] = ()) -> Overview:
    """Everything that was built, with the clusters' own words where they were asked."""
    side = Side(Folder(root))
    seen = {(str(status), status.object): status for status in live}
    chosen = set(build.jobs)
    found = events(root)
    return Overview(
        environments=tuple(
            _environment(side, one.name, one.jobs, seen) for one in build.environments
        ),
        events=tuple(event for event in found if event.file in chosen),
        findings=tuple(map(redacted, build.findings)),
        sources=build.sources,
    )


def _environment(
    side: Side,
    name: str,
    files: Sequence[JobFile],
    live: Mapping[tuple[str, str], RunStatus],
) -> EnvironmentOverview:
    environment = side.sound(name)
    finished: defaultdict[str, list[LedgerEntry]] = defaultdict(list)
    for entry in side.ledger(name).runs.values():
        finished[entry.job].append(entry)
    jobs = tuple(_job(side, file, tuple(finished[file.name]), live) for file in files)
    active = [(one.job, one.demand) for one in jobs if one.job and one.demand != demand.NOTHING]
    return EnvironmentOverview(
        name=name,
        jobs=jobs,
        active=demand.total(one.demand for one in jobs),
        fits=tuple(check_capacity(environment, active)) if environment else (),
    )


def _job(
    side: Side,
    file: JobFile,
    finished: tuple[LedgerEntry, ...],
    live: Mapping[tuple[str, str], RunStatus],
) -> JobOverview:
    run, job = side.run(file), side.active(file)
    return JobOverview(
        file=file,
        run=run,
        job=job or side.job(file).job,
        demand=side.demand(job) if job else demand.NOTHING,
        finished=tuple(sorted(finished, key=lambda one: one.finished, reverse=True)),
        live=live.get((str(file), run.object)),
    )


def outcomes(found: Overview) -> Iterator[tuple[str, LedgerEntry]]:
    """Every finished run with its environment."""
    for environment in found.environments:
        for job in environment.jobs:
            for entry in job.finished:
                yield environment.name, entry
