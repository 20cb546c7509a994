"""A recorded run with another `state` or `maxDuration`, and nothing else of today in it.

What the edit changes under today's tool is laid onto the recorded bytes: a three-way merge whose
base and one side are rendered from what the record says, and whose other side is the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from trainwright.errors import TrainwrightError
from trainwright.frozen import dataclass
from trainwright.model import Data, Environment, GitOps, Job, Pool, TargetOptions
from trainwright.pointer import Pointer
from trainwright.runs import meaning, threeway
from trainwright.runs.record import API_VERSION, Record
from trainwright.specs import convert, editing, resolve, schema, yamlio
from trainwright.specs.filetree import digest
from trainwright.specs.layout import JobFile
from trainwright.specs.merge import Layered

Texts = Mapping[str, str]
Render = Callable[[Job, Environment, str], Texts]  # a job as files by name, for an object's name


class CannotAdjust(TrainwrightError):
    """The recorded files do not take the edit without changing in another place."""


@dataclass(frozen=True, slots=True)
class RecordedJob:
    """A recorded run as the values that it was rendered from."""

    record: Record
    job: Job
    environment: Environment


def recorded_job(
    record: Record, spec: Layered, environment: Environment, source: str
) -> RecordedJob:
    """What a record says, as this version understands it. Raises CannotAdjust where it does not.

    `spec` and `environment` are today's: they lend what no rendered byte depends on.
    """
    about = {key: spec.data[key] for key in ("apiVersion", "kind", "name")}
    data = {**record.spec, **about}
    if not schema.effective_job().accepts(data):
        raise CannotAdjust(f"{record.object} was rendered from a spec that is not valid any more")
    then = began_in(record, environment)
    job = resolve.typed(replace(spec, data=data), then, source)
    suspended = record.state == "suspended"
    return RecordedJob(record, replace(job, state="suspended" if suspended else "active"), then)


def job_of(record: Record, file: JobFile, environment: Environment) -> Job | None:
    """The recorded spec as a job in an environment; None where this version does not accept it."""
    about = {"apiVersion": API_VERSION, "kind": "JobSpec", "name": file.name}
    spec = Layered(data={**record.spec, **about}, layers=())
    accepted = schema.effective_job().accepts(spec.data)
    return resolve.typed(spec, environment, file.path) if accepted else None


def began_in(record: Record, today: Environment) -> Environment:
    """The environment as a run knows it: today's, with what is recorded of it."""
    facts = record.environment
    options = today.targets.get(record.target) or TargetOptions()
    # What is recorded only where it is set.
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
    """The recorded placement of pools, with today's prices and capacities."""
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


def restored(found: RecordedJob, render: Render) -> Texts | None:
    """The recorded files rendered again; None where this version renders other bytes."""
    texts = render(found.job, found.environment, found.record.object)
    if not found.record.files:
        return texts  # what is rendered elsewhere, from the same sources
    same = {name: digest(text) for name, text in texts.items()} == found.record.files
    return texts if same else None


def adjusted(
    found: RecordedJob, texts: Texts, state: str, max_duration: int | None, render: Render
) -> dict[str, str]:
    """The recorded texts in another state, or with another deadline (seconds).

    Raises CannotAdjust.
    """
    name = found.record.object
    suspended = state == "suspended"
    edited = replace(
        found.job, state="suspended" if suspended else "active", max_duration=max_duration
    )
    before = render(found.job, found.environment, name)
    after = render(edited, found.environment, name)
    if before == texts:
        return dict(after)
    files = {file for file in {*before, *after} if before.get(file) != after.get(file)}
    if not files <= before.keys() & after.keys() & texts.keys():
        raise CannotAdjust(f"the edit adds or removes files of {name}")
    return {
        file: _laid(file, text, before[file], after[file]) if file in files else text
        for file, text in texts.items()
    }


def _laid(file: str, recorded: str, before: str, after: str) -> str:
    """What differs between two texts, in a third one, and nothing else."""
    for merged in (threeway.merge(before, after, recorded), _edited(file, recorded, before, after)):
        if merged is not None and threeway.same_edit(before, after, recorded, merged):
            return merged
    raise CannotAdjust(
        f"{file} was rendered by another version of Trainwright, and this one would change more of "
        "it than was asked for"
    )


def _edited(file: str, recorded: str, before: str, after: str) -> str | None:
    """The same by keys, wherever their lines are now."""
    was, now = yamlio.load_rendered(before), yamlio.load_rendered(after)
    if len(was) != 1 or len(now) != 1:
        return None
    raw = recorded.encode()
    try:
        for path, _, value in meaning.differences(was[0], now[0]):
            pointer = Pointer.of(*path)
            if value is None:
                raw = editing.drop(file, raw, pointer)
            else:
                raw = editing.put(file, raw, pointer, value)
    except editing.EditError:
        return None
    return raw.decode()
