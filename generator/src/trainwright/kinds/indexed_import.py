"""What importing knows of groups of pods that several kinds have: the one that trains, its gang."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from trainwright.groupkind import PODGROUPS
from trainwright.kinds.indexed_pods import GROUP_ANNOTATION, POD_GROUP_LABEL
from trainwright.kinds.reading import ImportingError, NotImported, SourceObject, mapping, shown
from trainwright.model import Data, Manifest
from trainwright.pointer import Pointer

ONE_GROUP = "a job spec is one group of pods: run it as a job of its own"


def only_group(
    part: SourceObject,
    pointer: str,
    job_set: Mapping[str, Data],
    size: Callable[[Mapping[str, Data]], int],
) -> tuple[SourceObject, tuple[NotImported, ...]]:
    """The object with the group that trains alone; the others are left, as they come."""
    groups = job_set.get("replicatedJobs")
    if not isinstance(groups, list) or not groups:
        return part, ()
    chosen = max(range(len(groups)), key=lambda index: (size(mapping(groups[index])), index))

    _refuse_replicas(part, f"{pointer}/{chosen}", mapping(groups[chosen]))
    if len(groups) == 1:
        return part, ()

    def original(inside: str) -> str:
        first = f"{pointer}/0"
        moved = inside == first or inside.startswith(f"{first}/")
        return f"{pointer}/{chosen}{inside[len(first) :]}" if moved else inside

    left = tuple(
        NotImported(
            field=part.called(f"{pointer}/{index}"),
            place=part.place(f"{pointer}/{index}"),
            value=f"{{name: {shown('', mapping(group).get('name'))}}}",
            why=ONE_GROUP,
        )
        for index, group in enumerate(groups)
        if index != chosen
    )
    body = _put(part.body, list(Pointer(pointer).parts), [groups[chosen]])
    narrowed = replace(
        part,
        body=body,
        place=lambda inside: part.place(original(inside)),
        called=lambda inside: part.called(original(inside)),
    )
    return narrowed, left


def _refuse_replicas(part: SourceObject, pointer: str, group: Mapping[str, Data]) -> None:
    """Several Jobs of one group count their pods each for itself: as one they get other ranks."""
    count = group.get("replicas", 1)
    if isinstance(count, int) and count > 1:
        name = shown("", group.get("name"))
        raise ImportingError(
            f"{part.place(f'{pointer}/replicas')}: group {name} has {count} replicas, and a job "
            "spec is one group of pods: import it with replicas: 1 and the pods of all in "
            "parallelism and completions, or make each replica a job of its own"
        )


def _put(body: Mapping[str, Data], keys: list[str], value: Data) -> dict[str, Data]:
    key, *rest = keys
    return {**body, key: _put(mapping(body.get(key)), rest, value) if rest else value}


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
