"""The record of a run from what the sources say: of one that begins, or that began unrecorded."""

from __future__ import annotations

from dataclasses import replace

from trainwright import __version__
from trainwright.helm import own_chart
from trainwright.runs import identity, meaning
from trainwright.runs.decision import Decision, Sources, Step
from trainwright.runs.record import Record, Recorded, Unrecorded
from trainwright.specs.merge import stack

UNKNOWN = "unknown"  # the version that rendered it


def begun(sources: Sources, decision: Decision, source: str) -> Record:
    """What is recorded of a run that begins, before its files are.

    `source` is the digest of the job's own file.
    """
    job = sources.job
    return Record(
        object=decision.name,
        target=job.target,
        state=decision.state,
        trainwright=__version__,
        chart=own_chart.version(),
        source=source,
        job=meaning.recorded(sources.own),
        inherited=meaning.inherited(stack(sources.spec.layers[:-1]).data),
        environment=identity.facts(job, sources.environment),
        replaces=decision.replaces,
    )


def adopt(sources: Sources, found: Unrecorded, source: str) -> Recorded | None:
    """The run that an index lists; None when the sources are not those that it began with.

    They are when they give the run's name, by the hash that named it. `source` is the digest of the
    job's own file.
    """
    job, environment = sources.job, sources.environment
    named = identity.object_name(job, identity.unrecorded_hash(job, environment))
    if found.object != named or found.target != job.target or job.state == "cancelled":
        return None
    decision = Decision(step=Step.KEEP, name=found.object, state=job.state, record=None)
    record = begun(sources, decision, source)
    unknown = replace(record, trainwright=UNKNOWN, chart=UNKNOWN, files=found.files.sums)
    return Recorded(unknown, found.files)
