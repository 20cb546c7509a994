"""What follows for jobs from a change of the additional objects of their environment, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, mapping, mappings, text, words
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import (
    LIMITRANGE,
    LOCALQUEUE,
    NETWORKPOLICY,
    PERSISTENTVOLUMECLAIM,
    RESOURCEQUOTA,
    ROLE,
    ROLEBINDING,
    GroupKind,
)
from trainwright.datatypes.job import Job
from trainwright.datatypes.listing import listed
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.volumes import Volume
from trainwright.specs.demand import Demand, Range, nodes_of

_NAMED = 3  # jobs in a sentence
_REMAIN = "pods that run stay as they are"
_PODS = frozenset({"pods", "count/pods"})
_BINARY = frozenset({"memory", "ephemeral-storage"})  # as people write them, in Gi


@dataclass(frozen=True, slots=True)
class ActiveRun:
    """A run that goes on after a merge, or `begins` by it, and the namespace that it is in. One
    that has ended, or is suspended, requests nothing. `further` is in which namespace and queue
    another run of its job is.
    """

    job: Job
    demand: Demand
    namespace: str
    begins: bool = False
    further: tuple[str, str] = ("", "")

    def requested(self, resource: str) -> Range:
        """Return how much of a resource it requests: its pods, accelerators of pools, and what its
        containers that train request.
        """
        if resource in _PODS:
            return self.demand.nodes
        groups = self.job.groups
        each = [(nodes_of(it), it.resources.requests.get(resource)) for it in groups]
        amounts = [nodes * float(quantity.read(it) or 0) for nodes, it in each if it]
        pools = {it.pool.name for it in groups if it.pool and it.pool.resource == resource}
        return sum((*amounts, *(self.demand.of(name).gpus for name in pools)), start=Range())


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The own objects of an environment, and the active runs of its cluster, after a merge."""

    objects: Sequence[Manifest]
    runs: Sequence[ActiveRun]

    def runs_in(self, namespace: str) -> tuple[ActiveRun, ...]:
        """Return the active runs in a namespace."""
        return tuple(run for run in self.runs if run.demand.nodes and run.namespace == namespace)

    def jobs(self, namespace: str, concerned: Callable[[Job], bool]) -> str:
        """Return the names of jobs with active runs there that something concerns, or ""."""
        return _named(run for run in self.runs_in(namespace) if concerned(run.job))


def effects(was: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    """Yield what is to be known of an object that is added (it `was` not), changed or removed."""
    one = now or was
    assert one is not None
    if effect := _EFFECTS.get(one.group_kind):
        yield from effect(was, now, around)


def later(follows: Iterable[str], one: Manifest, around: Surroundings) -> Iterator[str]:
    """Yield what is to be known of an object that leaves git and stays until a person deletes it,
    after which that follows.
    """
    if one.group_kind == PERSISTENTVOLUMECLAIM:
        if jobs := around.jobs(one.namespace, lambda job: one.name in map(claimed, job.volumes)):
            yield f"do not delete it before the runs that mount it have ended: {jobs}"
        return
    yield from (f"once it is deleted: {it}" for it in follows)


def _named(runs: Iterable[ActiveRun]) -> str:
    names = (f"{run.job.environment}/{run.job.name}" for run in runs)
    return listed([*dict.fromkeys(names)], _NAMED)


def _quota(was: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    old, new = (mapping(it.spec.get("hard")) if it else {} for it in (was, now))
    runs = around.runs_in(now.namespace) if now else ()
    lowered = [key for key in new if _is_less(new[key], old.get(key))]
    lowered = [key for key in lowered if key not in old or not _has_room(key, new[key], runs)]
    if now is None or not lowered or not runs:
        return
    limits = ", ".join(f"{key} {_shown(old.get(key))} → {_shown(new[key])}" for key in lowered)
    part = " in its scopes" if {"scopes", "scopeSelector"} & now.spec.keys() else ""
    yield (
        f"allows less{part} ({limits}): pods beyond it are refused when they are made, those in "
        f"place of failed ones too; {_REMAIN}"
    )
    for key in lowered:
        yield from _beyond(key, new[key], runs)


def _has_room(key: str, limit: Data, runs: Sequence[ActiveRun]) -> bool:
    """Whether it is known that all that active runs request of a resource is within a limit."""
    resource, hard = key.removeprefix("requests."), quantity.read(limit)
    asked = sum((run.requested(resource) for run in runs), start=Range())
    return hard is not None and bool(asked) and asked.high <= hard


def _beyond(key: str, limit: Data, runs: Sequence[ActiveRun]) -> Iterator[str]:
    """Yield what active runs request of what a ResourceQuota limits, and which of them begin
    beyond it.
    """
    resource, hard = key.removeprefix("requests."), quantity.read(limit)
    each = [(run.requested(resource), run) for run in runs]
    asking = sorted(((it, run) for it, run in each if it), key=lambda one: -one[0].high)
    asked = sum((it for it, _ in asking), start=Range())
    if not asking or hard is None:
        return
    is_beyond = asked.low > hard
    more = ", more than that" if is_beyond else ""
    jobs = _named(run for _, run in asking)
    request = "have" if resource in _PODS else "request"
    yield f"active runs {request} {_amount(asked, resource)} {resource}{more}: {jobs}"
    if is_beyond and (begun := _named(run for _, run in asking if run.begins)):
        yield f"pods of runs that begin are refused until there is room: {begun}"


def _amount(asked: Range, resource: str) -> str:
    """Return an amount as "16 to 18", or "256Gi"."""
    unit, size = ("Gi", 2**30) if resource in _BINARY else ("", 1)
    ends = dict.fromkeys(f"{round(end / size, 2):,g}{unit}" for end in (asked.low, asked.high))
    return " to ".join(ends)


def _is_less(new: Data, old: Data) -> bool:
    after, before = quantity.read(new), quantity.read(old)
    return after is not None and (before is None or after < before)


def _shown(limit: Data) -> str:
    return "(no limit)" if limit is None else str(limit)


def _limit_range(_: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    if now is None or not around.runs_in(now.namespace):
        return
    yield f"new pods get its defaults; {_REMAIN}"
    bounds = [it for it in mappings(now.spec.get("limits")) if it.get("type") in _OF_PODS]

    def is_outside(job: Job) -> bool:
        return any(_is_outside(group, bound) for group in job.groups for bound in bounds)

    if jobs := around.jobs(now.namespace, is_outside):
        yield f"new pods of these are refused, those in place of failed ones too: {jobs}"


_OF_PODS = ("Container", "Pod")  # types of bounds


def _is_outside(group: Job, bound: Mapping[str, Data]) -> bool:
    """Whether the container that trains has more than the most, or less than the least, of a
    resource; what other containers of its pods have is not counted.
    """
    resources = group.resources
    gpus = {group.pool.resource: str(resources.gpu)} if group.pool and resources.gpu else {}
    most, least = mapping(bound.get("max")), mapping(bound.get("min"))
    high, low = ({**side, **gpus} for side in (resources.limits, resources.requests))
    return any(
        _is_less(most[it], high.get(it) or low.get(it)) for it in most if low.get(it)
    ) or any(_is_less(low[it], least[it]) for it in least if low.get(it))


def _policy(was: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    one = now or was
    assert one is not None
    if not (jobs := _named(around.runs_in(one.namespace))):
        return
    selectors = [mapping(it.spec.get("podSelector")) for it in (was, now) if it]
    pods = "the pods that it selects" if all(selectors) else "all pods of the namespace"
    if now is None:
        yield f"no longer holds for {pods}, those that run too: {jobs}"
    else:
        yield f"holds for {pods}, those that run too, which lose what no policy allows: {jobs}"


def _queue(was: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    one = now or was
    assert one is not None
    jobs = around.jobs(one.namespace, lambda job: job.queue == one.name)
    if now is None:
        yield from (f"what waits in it is not admitted any more: {it}" for it in (jobs,) if it)
        others = (it for it in around.runs if it.job.queue != one.name or not it.demand.nodes)
        if further := _named(it for it in others if it.further == (one.namespace, one.name)):
            yield f"further runs of these are not admitted without it: {further}"
        return
    old, new = (mapping(it.spec) if it else {} for it in (was, now))
    policy = text(new.get("stopPolicy")) or "None"
    if jobs and policy != (text(old.get("stopPolicy")) or "None"):
        yield f"{_STOPPED.get(policy, policy)}: {jobs}"


_STOPPED = {
    "None": "admits runs again",
    "Hold": "admits no run any more, and those that are admitted run to their end",
    "HoldAndDrain": "admits no run any more, and evicts those that are admitted",
}


def _role(was: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    one = now or was
    assert one is not None
    lost = allowed(was) - allowed(now)
    if was is None or not lost:
        return
    bindings = (it for it in around.objects if it.group_kind == ROLEBINDING)
    of_it = (
        it
        for it in bindings
        if it.namespace == one.namespace
        and text(mapping(it.body.get("roleRef")).get("name")) == one.name
    )
    if bound := [*_bound(frozenset().union(*map(_accounts, of_it)), around)]:
        yield f"no longer allows {listed(sorted(lost), _NAMED)}"
        yield from bound


def allowed(role: Manifest | None) -> frozenset[str]:
    """Return each thing that a role allows: "delete of jobs.batch"."""
    allowed = set[str]()
    for rule in mappings(role.body.get("rules")) if role else ():
        groups = [f".{group}" if group else "" for group in words(rule.get("apiGroups"))] or [""]
        names = [f" named {name}" for name in words(rule.get("resourceNames"))] or [""]
        each = product(words(rule.get("verbs")), words(rule.get("resources")), groups, names)
        allowed |= {f"{verb} of {resource}{group}{name}" for verb, resource, group, name in each}
    return frozenset(allowed)


def _binding(was: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    if was is None:
        return
    yield from _bound(_accounts(was) - (_accounts(now) if now else frozenset()), around)


def _accounts(binding: Manifest) -> frozenset[tuple[str, str]]:
    """Return the ServiceAccounts of a binding: namespace and name."""
    subjects = mappings(binding.body.get("subjects"))
    return frozenset(
        (text(it.get("namespace")), text(it.get("name")))
        for it in subjects
        if it.get("kind") == "ServiceAccount"
    )


def _bound(accounts: frozenset[tuple[str, str]], around: Surroundings) -> Iterator[str]:
    bound = (it for it in around.runs if (it.namespace, it.job.service_account) in accounts)
    if jobs := _named(it for it in bound if it.demand.nodes):
        named = listed([f"ServiceAccount/{name}" for _, name in sorted(accounts)], _NAMED)
        yield f"pods of {named} lose that at once: {jobs}"


def _claim(was: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    if was is None or now is not None:
        return

    def mounts(job: Job) -> bool:
        return was.name in map(claimed, job.volumes)

    mounting = [it for it in around.runs_in(was.namespace) if mounts(it.job)]
    if jobs := _named(it for it in mounting if not it.begins):
        yield (
            "it stays Terminating until the pods that mount it have ended, then its data may go, "
            f"and no new pod starts without it: {jobs}"
        )
    if jobs := _named(it for it in mounting if it.begins):
        yield f"runs that begin cannot start, as their pods stay Pending without it: {jobs}"
    active = {run.job.name for run in around.runs_in(was.namespace)}
    others = (it for it in around.runs if it.namespace == was.namespace)
    if jobs := _named(it for it in others if mounts(it.job) and it.job.name not in active):
        yield f"what these have saved there may go with it: {jobs}"


def checkpoints(claim: Manifest, around: Surroundings) -> str:
    """Return the jobs of which runs that there are save to a claim that is deleted."""

    def saves(job: Job) -> bool:
        volume = job.checkpoint.volume if job.checkpoint else ""
        return claim.name in (claimed(it) for it in job.volumes if it.name == volume)

    there = (it for it in around.runs if it.namespace == claim.namespace and not it.begins)
    is_claim = claim.group_kind == PERSISTENTVOLUMECLAIM
    return _named(it for it in there if saves(it.job)) if is_claim else ""


def claimed(volume: Volume) -> str:
    """Return the claim of a volume, "" if it has none."""
    return text(mapping(volume.source.get("persistentVolumeClaim")).get("claimName"))


_EFFECTS: Mapping[
    GroupKind, Callable[[Manifest | None, Manifest | None, Surroundings], Iterator[str]]
] = {
    RESOURCEQUOTA: _quota,
    LIMITRANGE: _limit_range,
    NETWORKPOLICY: _policy,
    LOCALQUEUE: _queue,
    ROLE: _role,
    ROLEBINDING: _binding,
    PERSISTENTVOLUMECLAIM: _claim,
}
