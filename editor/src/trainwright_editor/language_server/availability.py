"""How much of the pools and queues of an environment is free, and what it costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from trainwright.authoring.session import Session
from trainwright.datatypes.environment import Environment, Pool
from trainwright.datatypes.layout import JobFile
from trainwright.runs.workspace import Asking
from trainwright.specs.demand import Demand, total

_MOST_JOBS = 300  # of an environment, whose requests are added up while an editor waits


def availability(
    session: Session, environment: str, key: str, edited: JobFile | None = None
) -> Mapping[str, str]:
    """Return the facts of each pool or queue that an environment declares; empty for other keys.

    What the job `edited` requests counts as free for it. Nothing is called free before the requests
    of all jobs are known.
    """
    declared = session.workspace.sound(environment) if environment else None
    if declared is None or key not in ("pools", "queues"):
        return {}
    others = _others(session, environment, edited)
    facts = _pools(declared, others) if key == "pools" else _queues(declared, others)
    return {name: " · ".join(parts) for name, parts in facts}


def _others(
    session: Session, environment: str, edited: JobFile | None
) -> tuple[Asking, ...] | None:
    """Return what the other jobs request, or None if it is not known yet or they are too many."""
    files = [it for it in session.workspace.survey.jobs.get(environment, ()) if it != edited]
    if len(files) > _MOST_JOBS or not set(session.check.stale).isdisjoint(files):
        return None
    return tuple(session.workspace.asking(file) for file in files)


def _pools(
    environment: Environment, others: tuple[Asking, ...] | None
) -> Iterator[tuple[str, list[str]]]:
    for name, pool in environment.pools.items():
        facts = list(_room(pool.capacity, _unit(pool), others, _held(pool)))
        if pool.gpus_per_node:
            facts.append(f"{pool.gpus_per_node} per node")
        if pool.price_per_gpu_hour is not None:
            facts.append(f"{pool.price_per_gpu_hour:g} {environment.currency} per GPU-hour")
        yield name, [*facts, "spot"] if pool.spot else facts


def _unit(pool: Pool) -> str:
    return "GPUs" if pool.resource else "nodes"


def _held(pool: Pool) -> Callable[[Asking], Demand]:
    return lambda request: request.demand.of(pool.name)


def _queues(
    environment: Environment, others: tuple[Asking, ...] | None
) -> Iterator[tuple[str, list[str]]]:
    for name, quota in environment.queues.items():

        def held(request: Asking, queue: str = name) -> Demand:
            return request.demand if request.job and request.job.queue == queue else Demand()

        yield name, list(_room(quota, "GPUs", others, held))


def _room(
    has: int | None,
    unit: str,
    others: tuple[Asking, ...] | None,
    held: Callable[[Asking], Demand],
) -> Iterator[str]:
    """Yield how many there are, and how many are free even if all other jobs run at once."""
    if has is None:
        return
    if others is None:
        yield f"{has} {unit}"
        return
    taken = total(map(held, others))
    most = taken.nodes.high if unit == "nodes" else taken.gpus.high
    yield f"{max(0, has - most):g} of {has} {unit} free"
