"""A recorded run as the values that it was rendered from."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment, GitOps, Pool, TargetOptions
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import Job
from trainwright.datatypes.layout import JobFile
from trainwright.documents.validation import schema
from trainwright.runs import meaning
from trainwright.runs.decision import Sources
from trainwright.runs.fields import operated, operation
from trainwright.runs.record import API_VERSION, Record
from trainwright.specs import convert, resolve
from trainwright.specs.merge import Layered, without_nulls


class CannotAdjust(TrainwrightError):
    """The recorded files cannot take the edit without changing elsewhere as well."""


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A recorded run as the values that it was rendered from."""

    record: Record
    job: Job
    environment: Environment


def recorded_job(record: Record, sources: Sources) -> RecordedJob:
    """Return the job of a record as this version understands it. Raise CannotAdjust if it does not.

    The `sources` are today's: they lend what no rendered byte depends on.
    """
    then = began_in(record, sources.environment)
    job = _typed(record, record.spec, sources, then)
    return RecordedJob(record, in_state(job, record), then)


def in_state(job: Job, record: Record) -> Job:
    """Return a job in the state of its run."""
    return replace(job, state="suspended" if record.state == "suspended" else "active")


def _typed(
    record: Record, data: Mapping[str, Data], sources: Sources, environment: Environment
) -> Job:
    about = {key: sources.spec.data[key] for key in ("apiVersion", "kind", "name")}
    layered = replace(sources.spec, data={**data, **about})
    if not schema.effective_job().accepts(without_nulls(layered.data)):
        raise CannotAdjust(f"{record.object} was rendered from a spec that is not valid any more")
    return resolve.typed(layered, environment, sources.job.source)


def edited_job(recorded: RecordedJob, sources: Sources, names: Collection[str]) -> Job:
    """Return the job of a run with some fields of operation as its own file has them now.

    Raise CannotAdjust if the result is not a job.
    """
    data = meaning.with_operation(recorded.record, sources.own, sources.spec.data, names)
    job = _typed(recorded.record, data, sources, recorded.environment)
    return replace(job, state=recorded.job.state)


def edited_operation(record: Record, sources: Sources) -> tuple[str, ...]:
    """Return the operational fields in which a job's own file has changed the value of its run."""
    names = tuple(dict.fromkeys(map(operation, meaning.operated(record, sources.own))))
    if not names:
        return ()
    try:
        run = recorded_job(record, sources)
        now = operated(edited_job(run, sources, names))
    except CannotAdjust:
        return names
    was = operated(run.job)
    return tuple(name for name in names if was[name] != now[name])


def in_same_pools(run: Job, now: Job) -> Job:
    """Return the job of a run, whose pools are those of the job now where these are the same nodes,
    by whatever name.
    """
    pools = {group.role and group.role.name: group.pool for group in now.groups}
    roles = tuple(_in_pool(role, pools.get(role.role and role.role.name)) for role in run.roles)
    return replace(_in_pool(run, now.pool), roles=roles)


def _in_pool(group: Job, pool: Pool | None) -> Job:
    was = group.pool
    if was is None or pool is None:
        return group
    facts, now = ((it.resource, it.tolerations, it.node_selector) for it in (was, pool))
    return replace(group, pool=pool) if facts == now else group


def job_of(record: Record, file: JobFile, environment: Environment) -> Job | None:
    """Return the recorded spec as a job in an environment, or None if this version refuses it."""
    about = {"apiVersion": API_VERSION, "kind": "JobSpec", "name": file.name}
    spec = Layered(data={**record.spec, **about}, layers=())
    accepted = schema.effective_job().accepts(without_nulls(spec.data))
    return resolve.typed(spec, environment, file.path) if accepted else None


def began_in(record: Record, today: Environment) -> Environment:
    """Return the environment of a run: today's, with the recorded facts in their place."""
    facts = record.environment
    options = today.targets.get(record.target) or TargetOptions()
    # These are only recorded if they are set.
    options = replace(
        options,
        runtime="",
        rendezvous_backend="",
        rendezvous_endpoint="",
        restart_agent="",
        restart_account="",
    )
    recorded = facts.get("targets", {}).get(record.target, {})
    written = convert.written(TargetOptions, recorded)
    gitops: Data = facts.get("gitops", {})
    return replace(
        today,
        namespace=facts["namespace"],
        targets={**today.targets, record.target: replace(options, **written)},
        gitops=replace(
            today.gitops,
            engine=gitops.get("engine", GitOps().engine),
            prune=gitops.get("prune", GitOps().prune),
        ),
        pools={**today.pools, **_pools(facts.get("pools", {}), today.pools)},
        queueing=facts.get("queueing", "none"),
        pod_security=facts.get("podSecurity", "restricted"),
        service_mesh=facts.get("serviceMesh", "none"),
        git_sync=facts.get("images", {}).get("gitSync", today.git_sync),
    )


def _pools(facts: Data, today: Mapping[str, Pool]) -> dict[str, Pool]:
    """Return the recorded placement of pools, with today's prices and capacities."""
    placed = {name: convert.value(Pool, data, name=name) for name, data in facts.items()}
    return {
        name: replace(
            today.get(name, pool),
            resource=pool.resource or today.get(name, pool).resource,
            tolerations=pool.tolerations,
            node_selector=pool.node_selector,
        )
        for name, pool in placed.items()
    }
