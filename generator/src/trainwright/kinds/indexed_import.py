"""How groups of pods are imported that several kinds have: roles, and gangs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainwright.datatypes.data import Data, dig, mapping, mappings, sequence, text
from trainwright.datatypes.groupkind import PODGROUPS
from trainwright.datatypes.pointer import Pointer, holders
from trainwright.kinds.indexed_pods import GROUP_ANNOTATION, POD_GROUP_LABEL
from trainwright.kinds.reading import ImportingError, SourceObject, reasons
from trainwright.kinds.roles import Role, described, roles

_TPU = "google.com/tpu"


# What follows from a group that trains and the roles that serve it.
OF_GROUPS = reasons(__file__)


def check_groups(part: SourceObject, pointer: str, whole: str, job_set: Mapping[str, Data]) -> None:
    """Raise ImportingError unless the groups of pods are a single one that trains and its roles."""
    groups = job_set.get("replicatedJobs")
    if not isinstance(groups, list):
        return
    held = f"its groups of pods are {described(roles({'replicatedJobs': groups}))}"
    on_tpus = (group for group in groups if any(map(_asks_for_tpus, roles(mapping(group)))))
    slices = sum(map(_replicas, on_tpus))
    if slices > 1:
        # https://cloud.google.com/kubernetes-engine/docs/how-to/tpu-multislice
        raise ImportingError(
            f"{part.place(pointer)}: {whole} trains on {slices} slices of TPUs (multislice), each "
            f"a Job that numbers its own pods, and a job spec is one group of equal pods: {held}. "
            "Keep applying it as it is, or import it with a single slice"
        )
    if why := next(_not_roles(job_set), ""):
        raise ImportingError(
            f"{part.place(pointer)}: {whole} has {len(groups)} roles, and they are not those of "
            f"a job: {why}; {held}. Keep applying it as it is (`trainwright adopt` takes it so), "
            "or change it first: one group trains and decides the success, and waits until each "
            "other one is ready"
        )
    for index, group in enumerate(groups):
        if (count := _replicas(group)) > 1:
            at = Pointer(pointer) / index / "replicas"
            # Each Job of a group numbers its own pods: as one Job they would get other ranks and
            # other names.
            raise ImportingError(
                f"{part.place(at)}: {whole} has {count} replicas of one "
                f"role, each a Job that numbers its own pods, and a job spec is one group of equal "
                f"pods: {held}. Import it with replicas: 1 and all pods in parallelism and "
                "completions if their program takes ranks so, or make each replica a workload of "
                "its own"
            )


def _not_roles(job_set: Mapping[str, Data]) -> Iterator[str]:
    """Yield why the groups are not one trainer that decides success and roles that serve it."""
    groups = {text(group.get("name")): group for group in mappings(job_set.get("replicatedJobs"))}
    if len(groups) < 2:
        return
    awaited = {name: _status(group) for name, group in groups.items()}
    for name, others in awaited.items():
        for other, status in others.items():
            if status != "Ready":
                yield (
                    f"{name} starts once {other} has ended: give that to initContainers of "
                    f"{name}, or run it as a job before"
                )
    targets = [text(t) for t in sequence(dig(job_set, "successPolicy", "targetReplicatedJobs"))]
    deciding = [name for name in groups if name in targets] or [*groups]
    if len(deciding) > 1:
        yield f"{' and '.join(deciding)} decide together whether it succeeds"
        return
    (trainer,) = deciding
    in_order = dig(job_set, "startupPolicy", "startupPolicyOrder") == "InOrder"
    for name in groups:
        if name != trainer and awaited[name]:
            yield f"{name} waits for {' and '.join(awaited[name])}, and roles start at once"
        before = [*groups].index(name) < [*groups].index(trainer)
        if name != trainer and name not in awaited[trainer] and not (in_order and before):
            yield f"{trainer} does not wait until {name} is ready"
    if in_order and len(groups) > 2:
        yield "its groups start one after the other, and roles start at once"


def _status(group: Mapping[str, Data]) -> dict[str, str]:
    """Return the status that a group awaits of each group it depends on, by name."""
    depends = mappings(group.get("dependsOn"))
    return {text(d.get("name")): text(d.get("status")) or "Ready" for d in depends}


def _replicas(group: Data) -> int:
    count = mapping(group).get("replicas", 1)
    return count if isinstance(count, int) else 1


def _asks_for_tpus(role: Role) -> bool:
    containers = role.spec.get("containers")
    all_amounts = (
        mapping(mapping(mapping(container).get("resources")).get(amounts))
        for container in (containers if isinstance(containers, list) else ())
        for amounts in ("limits", "requests")
    )
    return any(_TPU in amounts for amounts in all_amounts)


def pod_groups(part: SourceObject, others: Sequence[SourceObject]) -> tuple[SourceObject, ...]:
    """Return the PodGroups that an object's pods name by label or annotation."""
    named = frozenset(_memberships(part.body))
    return tuple(o for o in others if o.group_kind in PODGROUPS and o.name in named)


def _memberships(data: Data) -> Iterator[str]:
    for _, holder in holders(data):
        for key in (GROUP_ANNOTATION, POD_GROUP_LABEL):
            if isinstance(holder.get(key), str):
                yield holder[key]
