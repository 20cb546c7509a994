"""What follows for jobs from a change of the additional objects of their environment, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, mapping, mappings, text, words
from trainwright.datatypes.environment import Environment
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
from trainwright.specs.demand import Demand

_NAMED = 3  # jobs in a sentence
_REMAIN = "pods that run stay as they are"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """An environment with its own objects, and what its jobs request, after a merge."""

    environment: Environment
    objects: Sequence[Manifest]
    demands: Sequence[tuple[Job, Demand]]

    def jobs(self, concerned: Callable[[Job], bool]) -> str:
        """Return the names of the active jobs that something concerns; "" if there are none."""
        return _named(job for job, demand in self.demands if demand.nodes and concerned(job))

    def requested(self, resource: str) -> float:
        """Return how much all active jobs request at least of the accelerators of pools."""
        pools = (it.name for it in self.environment.pools.values() if it.resource == resource)
        names = tuple(pools)
        return sum(demand.of(name).gpus.low for _, demand in self.demands for name in names)


def effects(was: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    """Yield what is to be known of an object that is added (it `was` not), changed or removed."""
    one = now or was
    assert one is not None
    if effect := _EFFECTS.get(one.group_kind):
        yield from effect(was, now, around)


def _named(jobs: Iterable[Job]) -> str:
    return listed([*dict.fromkeys(f"{job.environment}/{job.name}" for job in jobs)], _NAMED)


def _anywhere(_: Job) -> bool:
    return True


def _quota(was: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    old, new = (mapping(it.spec.get("hard")) if it else {} for it in (was, now))
    lowered = [key for key in new if _is_less(new[key], old.get(key))]
    if not lowered:
        return
    limits = ", ".join(f"{key} {_shown(old.get(key))} → {_shown(new[key])}" for key in lowered)
    part = "" if now and not {"scopes", "scopeSelector"} & now.spec.keys() else " in its scopes"
    yield f"allows less{part} ({limits}): pods beyond it are refused when they are made; {_REMAIN}"
    for key in lowered:
        resource, amount = key.removeprefix("requests."), quantity.read(new[key])
        asked = around.requested(resource)
        if asked and amount is not None:
            more = ", more than that" if asked > amount else ""
            yield f"active runs request {asked:g} {resource}{more}: {around.jobs(_anywhere)}"


def _is_less(new: Data, old: Data) -> bool:
    after, before = quantity.read(new), quantity.read(old)
    return after is not None and (before is None or after < before)


def _shown(limit: Data) -> str:
    return "(no limit)" if limit is None else str(limit)


def _limit_range(_: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    if now is not None and (jobs := around.jobs(_anywhere)):
        yield (
            f"new pods get its defaults, and are refused where they exceed it; {_REMAIN}: {jobs}"
        )


def _policy(was: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    if not (jobs := around.jobs(_anywhere)):
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
    jobs = around.jobs(lambda job: job.queue == one.name) or "no active job"
    if now is None:
        yield f"what waits in it is not admitted any more: {jobs}"
        return
    old, new = (mapping(it.spec) if it else {} for it in (was, now))
    if was and old.get("clusterQueue") != new.get("clusterQueue"):
        yield (
            "Kueue refuses it, and the sync fails: clusterQueue is immutable "
            f"({text(old.get('clusterQueue'))} → {text(new.get('clusterQueue'))}): {jobs}"
        )
    policy = text(new.get("stopPolicy")) or "None"
    if policy != (text(old.get("stopPolicy")) or "None"):
        yield f"{_STOPPED.get(policy, policy)}: {jobs}"


_STOPPED = {
    "None": "admits runs again",
    "Hold": "admits no run any more, and those that are admitted run to their end",
    "HoldAndDrain": "admits no run any more, and evicts those that are admitted",
}


def _role(was: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    one = now or was
    assert one is not None
    lost = _allowed(was) - _allowed(now)
    if was is None or not lost:
        return
    yield f"no longer allows {listed(sorted(lost), _NAMED)}"
    bindings = (it for it in around.objects if it.group_kind == ROLEBINDING)
    of_it = (it for it in bindings if text(mapping(it.body.get("roleRef")).get("name")) == one.name)
    yield from _bound(frozenset().union(*map(_accounts, of_it)), around)


def _allowed(role: Manifest | None) -> frozenset[str]:
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
    if now is not None and now.body.get("roleRef") != was.body.get("roleRef"):
        yield "the API server refuses it, and the sync fails: roleRef is immutable"
        return
    yield from _bound(_accounts(was) - (_accounts(now) if now else frozenset()), around)


def _accounts(binding: Manifest) -> frozenset[str]:
    subjects = mappings(binding.body.get("subjects"))
    return frozenset(text(it.get("name")) for it in subjects if it.get("kind") == "ServiceAccount")


def _bound(accounts: frozenset[str], around: Surroundings) -> Iterator[str]:
    if jobs := around.jobs(lambda job: job.service_account in accounts):
        named = listed([f"ServiceAccount/{name}" for name in sorted(accounts)], _NAMED)
        yield f"pods of {named} lose that at once: {jobs}"


def _claim(was: Manifest | None, now: Manifest | None, around: Surroundings) -> Iterator[str]:
    name = was.name if was and now is None else ""
    if jobs := around.jobs(lambda job: bool(name) and name in map(_claimed, job.volumes)):
        yield f"its data may go with it, and no new pod starts without it: {jobs}"


def _claimed(volume: Volume) -> str:
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
