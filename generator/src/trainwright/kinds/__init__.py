"""The workload kinds, in the order they are listed: adding one is its folder and its line here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module

from trainwright.datatypes.groupkind import GroupKind, recognize
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import adopted
from trainwright.kinds.kind import Kind
from trainwright.kinds.target import Target

_FOLDERS = (
    "pytorchjob",
    "trainingjob",
    "trainjob",
    "jobset",
    "job",
    "rayjob",
    "compose",
)


def _kind(folder: str) -> Kind:
    kind: Kind = import_module(f"{__name__}.{folder}").KIND
    return kind


KINDS: Mapping[tuple[str, str], Kind] = {kind.group_kind: kind for kind in map(_kind, _FOLDERS)}
# Those that an API server serves.
SERVED: Mapping[tuple[str, str], Kind] = {
    known: kind for known, kind in KINDS.items() if kind.is_served
}
TRAINING: tuple[GroupKind, ...] = tuple(kind.group_kind for kind in SERVED.values())
# Those whose containers no cluster runs.
_ELSEWHERE = KINDS.keys() - SERVED.keys()
recognize(TRAINING)
ADOPTED = adopted.KIND
OTHERS = adopted.OTHERS  # that are adopted, and that no job can become
# As targets, with that of what was adopted as it is.
NAMED: Mapping[str, Kind] = {kind.name: kind for kind in (*KINDS.values(), ADOPTED)}
DEFAULT = next(iter(NAMED))  # what a job becomes that names no target
# By the identities of objects that its modules are about.
OWNERS: Mapping[GroupKind, Kind] = {
    known: kind for kind in KINDS.values() for known in (kind.group_kind, *kind.runtimes)
}


class _Targets(Mapping[str, Target]):
    """The targets that a job can be rendered to, by name. Each is imported on first access.

    A job that was adopted as it is also has a target, which is not listed.
    """

    def __getitem__(self, name: str) -> Target:
        return NAMED[name].target

    def __iter__(self) -> Iterator[str]:
        return (kind.name for kind in KINDS.values())

    def __contains__(self, name: object) -> bool:
        return name in [*self]

    def __len__(self) -> int:
        return len(KINDS)


TARGETS: Mapping[str, Target] = _Targets()


def trains(manifest: Manifest) -> Kind | None:
    """Return the kind of an object that may be a run, in its own API version, or None."""
    served = SERVED.get(manifest.group_kind)
    other = OTHERS.get(manifest.group_kind)
    return served or (other and replace(other, api_version=manifest.api_version))


def is_for_clusters(kind: GroupKind) -> bool:
    """Whether an API server sees an object, and admits its pods."""
    return kind not in _ELSEWHERE
