"""What importing knows of groups of pods that several kinds have: roles, and gangs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainwright.datatypes.groupkind import PODGROUPS
from trainwright.datatypes.model import Data, Manifest
from trainwright.kinds.indexed_pods import GROUP_ANNOTATION, POD_GROUP_LABEL
from trainwright.kinds.reading import ImportingError, SourceObject, mapping
from trainwright.kinds.roles import Role, described, roles

_TPU = "google.com/tpu"


def refuse_roles(part: SourceObject, pointer: str, whole: str, job_set: Mapping[str, Data]) -> None:
    """Raise ImportingError for anything but one Job: a job spec is one group of equal pods."""
    groups = job_set.get("replicatedJobs")
    if not isinstance(groups, list):
        return
    held = f"a job spec is one group of equal pods: {described(roles({'replicatedJobs': groups}))}"
    on_tpus = (group for group in groups if any(map(_asks_for_tpus, roles(mapping(group)))))
    slices = sum(map(_replicas, on_tpus))
    if slices > 1:
        # https://cloud.google.com/kubernetes-engine/docs/how-to/tpu-multislice
        raise ImportingError(
            f"{part.place(pointer)}: {whole} trains on {slices} slices of TPUs (multislice), each "
            f"a Job that numbers its own pods, and {held}. Keep applying it as it is, or import it "
            "with a single slice"
        )
    if len(groups) > 1:
        raise ImportingError(
            f"{part.place(pointer)}: {whole} has {len(groups)} roles, and {held}. Split it into "
            "one workload for each, or keep applying it as it is"
        )
    count = _replicas(groups[0]) if groups else 1
    if count > 1:
        # Several Jobs of one group count their pods each for itself: as one they get other ranks.
        raise ImportingError(
            f"{part.place(f'{pointer}/0/replicas')}: {whole} has {count} replicas of one role, "
            f"each a Job that numbers its own pods, and {held}. Import it with replicas: 1 and all "
            "pods in parallelism and completions if their program takes ranks so, or make each "
            "replica a workload of its own"
        )


def _replicas(group: Data) -> int:
    count = mapping(group).get("replicas", 1)
    return count if isinstance(count, int) else 1


def _asks_for_tpus(role: Role) -> bool:
    containers = role.spec.get("containers")
    asked = (
        mapping(mapping(mapping(container).get("resources")).get(amounts))
        for container in (containers if isinstance(containers, list) else ())
        for amounts in ("limits", "requests")
    )
    return any(_TPU in amounts for amounts in asked)


def pod_groups(part: SourceObject, others: Sequence[SourceObject]) -> tuple[SourceObject, ...]:
    """Gangs that its pods say they belong to, by label or annotation."""
    named = frozenset(_memberships(part.body))
    groups = ((other, Manifest(body=other.body)) for other in others)
    return tuple(o for o, group in groups if group.group_kind in PODGROUPS and group.name in named)


def _memberships(data: Data) -> Iterator[str]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            if key in (GROUP_ANNOTATION, POD_GROUP_LABEL) and isinstance(value, str):
                yield value
            yield from _memberships(value)
    elif isinstance(data, list):
        for item in data:
            yield from _memberships(item)
