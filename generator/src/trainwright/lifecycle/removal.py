"""How a run that leaves git ends: by its GitOps engine, or only by a command."""

from __future__ import annotations

from contextlib import suppress

from trainwright.datatypes.environment import Environment
from trainwright.datatypes.errors import EngineError
from trainwright.datatypes.job import Job
from trainwright.helm import engines, values
from trainwright.helm.engines import ChartRefusal
from trainwright.kinds import NAMED
from trainwright.lifecycle.subject import Subject
from trainwright.objects.departure import Departure, End, ended
from trainwright.render import objects
from trainwright.runs.record import Record
from trainwright.runs.recorded_job import CannotAdjust, recorded_job


def note(subject: Subject) -> tuple[str, ...]:
    """Return until when a job's present run stays once it has left git, if it does."""
    stays = end_of(subject).stays(subject.object)
    return (stays,) if stays else ()


def end_of(subject: Subject) -> End:
    """Return how a job's run ends when it leaves git: as rendered, by the present engine."""
    if not subject.valid:
        return End(Departure.PRUNED)  # so no cluster has it
    job, then = _as_begun(subject)
    environment, name = subject.environment, subject.object
    if not NAMED[job.target].is_served:
        return End(Departure.PRUNED)
    adopted = subject.sources.adopted
    if adopted is not None and adopted.name == name:
        metadata = adopted.manifest.metadata
    else:
        decided = values.build(job, then, name)
        metadata = {"annotations": decided.get("annotations"), "labels": decided["commonLabels"]}
    kind = NAMED[job.target].kind or (adopted.manifest.kind if adopted else "")
    others = _objects(subject.record, job, then)
    return ended((kind, job.namespace, name), metadata, environment, others)


def _objects(record: Record | None, job: Job, then: Environment) -> tuple[tuple[str, str], ...]:
    """The kind and name of each object of a job's run: as recorded, or of one that was cancelled,
    as it was rendered.
    """
    if record is None or record.objects or record.adopted:
        return record.objects_by_kind if record else ()
    try:
        texts = objects.texts(job, then, record.object, engines.engine())
    except (ChartRefusal, EngineError):
        return ()
    return tuple((it.kind, it.name) for it in objects.manifests(texts, job.target))


def _as_begun(subject: Subject) -> tuple[Job, Environment]:
    """The job and its environment as its run knows them."""
    sources, record = subject.sources, subject.record
    if record is not None and subject.object == record.object:
        with suppress(CannotAdjust):
            recorded = recorded_job(record, sources)
            return recorded.job, recorded.environment
    return sources.job, subject.environment
