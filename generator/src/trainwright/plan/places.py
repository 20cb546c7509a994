"""Which jobs have an object of a cluster: one may go from a job to another, or belong to two."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from trainwright.datatypes.environment import Destination
from trainwright.datatypes.layout import JobFile
from trainwright.plan.revision import Revision
from trainwright.runs.decision import Step
from trainwright.runs.record import ENDED

# A cluster, a namespace in it, and the name of a run's object.
Place: TypeAlias = tuple[Destination, str, str]


def place_of(side: Revision, file: JobFile) -> Place | None:
    """Return where the object of a job's run is, or None if nothing is applied for the job."""
    environment = side.environments.get(file.environment)
    if environment is None:
        return None
    cluster = environment.gitops.destination
    record = side.folder(file.environment).record(file.name)
    if record is not None:
        namespace = str(record.environment.get("namespace", ""))
        return None if record.state in ENDED else (cluster, namespace, record.object)
    decision = side.job(file).decision if side.has(file) else None
    if decision is None or decision.step is Step.END:
        return None
    return cluster, environment.namespace, decision.name


def jobs_by_place(side: Revision) -> Mapping[Place, tuple[JobFile, ...]]:
    """Return the jobs of all environments by where their objects are."""
    found: defaultdict[Place, list[JobFile]] = defaultdict(list)
    for place, file in _places(side):
        found[place].append(file)
    return {place: tuple(files) for place, files in found.items()}


def _places(side: Revision) -> Iterator[tuple[Place, JobFile]]:
    for name in sorted(side.survey.jobs):
        for file in side.survey.jobs[name]:
            if place := place_of(side, file):
                yield place, file
