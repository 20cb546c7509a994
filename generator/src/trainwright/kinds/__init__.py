"""The targets, in the order they are listed: adding one is its module and its line here."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.kinds import queueing
from trainwright.kinds.compose import target as compose
from trainwright.kinds.job import target as indexed_job
from trainwright.kinds.jobset import target as jobset
from trainwright.kinds.pytorchjob import target as pytorchjob
from trainwright.kinds.target import Target, Unsupported
from trainwright.kinds.trainingjob import target as trainingjob
from trainwright.kinds.trainjob import target as trainjob
from trainwright.model import Environment, Job
from trainwright.pointer import Pointer

TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        pytorchjob.TARGET,
        trainingjob.TARGET,
        trainjob.TARGET,
        jobset.TARGET,
        indexed_job.TARGET,
        compose.TARGET,
    )
}


def placed_by_kueue(job: Job, environment: Environment) -> bool:
    """Whether nothing but a ResourceFlavor says on which nodes the pods run."""
    return TARGETS[job.target].immutable_template and queueing.in_kueue(job, environment)


def unsupported(job: Job, environment: Environment) -> Iterator[Unsupported]:
    """Everything the job asks for that its target cannot express."""
    target = TARGETS[job.target]
    if job.elastic and not target.elastic:
        able = " or ".join(t.name for t in TARGETS.values() if t.elastic)
        yield Unsupported(
            Pointer("/elastic"),
            "nodes may come and go in an elastic job, but here their number is fixed at the start",
            f"Use target {able}, or set nodes instead of elastic.",
        )
    for other in TARGETS.values():
        if other.section and other is not target and _is_set(job, other.section):
            yield Unsupported(
                Pointer.of(other.section),
                f"{other.section} is for a {other.kind} only",
                f"Remove {other.section} ({other.section}: null), or use target {other.name}.",
            )
    if placed_by_kueue(job, environment):
        yield from queueing.unplaceable(job)
    yield from queueing.unlabelled(job, environment)
    yield from target.unsupported(job, environment)


def _is_set(job: Job, section: str) -> bool:
    """Whether a part of the spec says anything but what it says by default."""
    value = getattr(job, section)
    return bool(value != type(value)())
