"""Which jobs have an object of a cluster: one may go from a job to another, or belong to two."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TypeAlias

from trainwright.datatypes.environment import Destination
from trainwright.datatypes.layout import ADOPTED, ENVIRONMENTS, JobFile
from trainwright.plan.revision import Revision
from trainwright.runs import identity
from trainwright.runs.decision import Step
from trainwright.runs.record import ENDED
from trainwright.runs.workspace import Workspace

# A cluster, a namespace in it, and the name of a run's object.
Place: TypeAlias = tuple[Destination, str, str]


def place_of(side: Workspace, file: JobFile) -> Place | None:
    """Return where the object of a job's run is, or None if nothing is applied for the job."""
    environment = side.environments.get(file.environment)
    if environment is None:
        return None
    cluster = environment.gitops.destination
    record = side.record(file)
    if record is not None:
        namespace = str(record.environment.get("namespace", ""))
        return None if record.state in ENDED else (cluster, namespace, record.object)
    if isinstance(side, Revision) and side.is_unrendered(file):
        return None
    decision = side.job(file).decision if side.has(file) else None
    if decision is None or decision.step is Step.END:
        return None
    return cluster, environment.namespace, decision.name


def sharing(
    file: JobFile, side: Workspace, other: Workspace, also: Collection[JobFile]
) -> Iterator[tuple[JobFile, str]]:
    """Yield each other job that has, on the other side, the object that a job has on one side, with
    the object's name.
    """
    if place := place_of(side, file):
        yield from ((job, place[2]) for job in jobs_at(other, place, also) if job != file)


def jobs_at(side: Workspace, place: Place, also: Collection[JobFile]) -> Iterator[JobFile]:
    """Yield the jobs that have an object, without a look at the records of all jobs.

    That of any other job has the name of its job, is one that was adopted, or is of `also`.
    """
    cluster, _, name = place
    for environment, files in sorted(side.survey.jobs.items()):
        there = side.environments.get(environment)
        if there is None or there.gitops.destination != cluster:
            continue
        adopted = _adopted(side, environment)
        for file in files:
            may = identity.is_of(file.name, name) or file.name in adopted or file in also
            if may and place_of(side, file) == place:
                yield file


def _adopted(side: Workspace, environment: str) -> frozenset[str]:
    """Return the names of the jobs of an environment whose first run was adopted."""
    folder = f"{ENVIRONMENTS}/{environment}/{ADOPTED}"
    if side.tree.kind(folder) != "folder":
        return frozenset()
    return frozenset(entry.name.removesuffix(".yaml") for entry in side.tree.entries(folder))
