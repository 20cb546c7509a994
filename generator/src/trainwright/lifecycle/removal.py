"""How a run that leaves git ends: by its GitOps engine, or only by a command."""

from __future__ import annotations

from contextlib import suppress

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.helm import values
from trainwright.kinds import NAMED
from trainwright.lifecycle.subject import Subject
from trainwright.objects.departure import confirmation, deletion
from trainwright.rules.gitops import Departure, leaving
from trainwright.runs.recorded_job import CannotAdjust, recorded_job


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """What happens to a run's object, and the command that ends it where no engine does."""

    leaving: Departure
    command: str = ""

    def note(self, name: str) -> tuple[str, ...]:
        """Return a note with the command to run after the run has left git, if there is one."""
        return (f"{name} stays in the cluster until `{self.command}`",) if self.command else ()


def removal_of(subject: Subject) -> Removal:
    """Return how a job's run ends when it leaves git: as rendered, by the present engine."""
    if not subject.valid:
        return Removal(leaving=Departure.PRUNED)  # so no cluster has it
    job, then = _as_begun(subject)
    environment, name = subject.environment, subject.object
    if not NAMED[job.target].is_served:
        return Removal(leaving=Departure.PRUNED)
    adopted = subject.sources.adopted
    if adopted is not None and adopted.name == name:
        metadata = adopted.manifest.metadata
    else:
        decided = values.build(job, then, name)
        metadata = {key: decided.get(key) for key in ("annotations", "labels")}
    # One engine ignores the annotations that were rendered for the other.
    if then.gitops.engine != environment.gitops.engine and not subject.is_adopted:
        metadata = {"annotations": job.annotations, "labels": job.labels}
    how = leaving(metadata, environment.gitops)
    if environment.gitops.engine == "none" or how is Departure.KEPT:
        kind = NAMED[job.target].kind or (adopted.manifest.kind if adopted else "")
        command = deletion(kind, job.namespace, name, environment, _objects(subject))
        return Removal(leaving=how, command=command)
    if how is Departure.CONFIRMED:
        return Removal(leaving=how, command=confirmation(name, environment))
    return Removal(leaving=how)


def _objects(subject: Subject) -> tuple[tuple[str, str], ...]:
    """The kind and name of each object of a job's run, as recorded."""
    return subject.record.objects_by_kind if subject.record is not None else ()


def _as_begun(subject: Subject) -> tuple[Job, Environment]:
    """The job and its environment as its run knows them."""
    sources, record = subject.sources, subject.record
    if record is not None and subject.object == record.object:
        with suppress(CannotAdjust):
            recorded = recorded_job(record, sources)
            return recorded.job, recorded.environment
    return sources.job, subject.environment
