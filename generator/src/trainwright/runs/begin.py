"""The record of a run that begins."""

from __future__ import annotations

from trainwright import __version__
from trainwright.helm import own_chart
from trainwright.runs import identity, meaning
from trainwright.runs.decision import Decision, Sources
from trainwright.runs.record import Record
from trainwright.specs.merge import stack


def begun(sources: Sources, decision: Decision, source: str) -> Record:
    """Return the record of a run that begins, as it is before its files are rendered.

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
        adopted=sources.adopted is not None and decision.name == sources.adopted.name,
    )
