"""The roles of an object with several groups of equal pods, in a few words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, mapping
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import Pointer
from trainwright.kinds.reading import shown

_COUNTS = ("replicas", "completions", "parallelism", "size")
_OF_NO_ROLE = frozenset({"spec", "template", "jobTemplate", "podTemplate", "workload"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """One pod template, how many pods are made of it, and what they wait for."""

    name: str
    pods: int
    spec: Mapping[str, Data]
    after: tuple[str, ...] = ()
    pointer: Pointer = Pointer()  # of the pod's spec

    def __str__(self) -> str:
        count = "1 pod" if self.pods == 1 else f"{self.pods} pods"
        holds = [
            *_containers(self.spec, "containers", ""),
            *_containers(self.spec, "initContainers", "init "),
        ]
        waits = f", after {' and '.join(self.after)}" if self.after else ""
        return f"{self.name} ({count}: {', '.join(holds) or 'no containers'}{waits})"


def _containers(spec: Mapping[str, Data], field: str, what: str) -> Iterator[str]:
    containers = spec.get(field)
    for container in containers if isinstance(containers, list) else ():
        image = mapping(container).get("image")
        name = f"{what}container {shown('', mapping(container).get('name')) or 'without a name'}"
        yield f"{name} of {shown('', image)}" if image else f"{name} without an image"


def roles(body: Mapping[str, Data]) -> tuple[Role, ...]:
    """Return the roles of every pod template of an object of any kind, in order."""
    return tuple(_roles(body, str(body.get("kind", "pods")), 1, (), Pointer()))


def _roles(data: Data, name: str, pods: int, after: tuple[str, ...], at: Pointer) -> Iterator[Role]:
    """Yield each group of equal pods below a value, with its name and its number of pods."""
    if isinstance(data, list):
        for index, item in enumerate(data):
            yield from _roles(item, name, pods, after, at / str(index))
        return
    if not isinstance(data, Mapping):
        return
    if isinstance(data.get("containers"), list):
        yield Role(name=name, pods=pods, spec=data, after=after, pointer=at)
        return
    own = data.get("name") or data.get("groupName")
    name = str(own) if isinstance(own, str) else name
    pods = pods * _count(data)
    after = (*after, *_after(data))
    for key, value in data.items():
        inside = name if key in _OF_NO_ROLE or not isinstance(value, Mapping) else str(key)
        if key not in ("metadata", "status"):
            called = inside if not isinstance(own, str) else name
            yield from _roles(value, called, pods, after, at / str(key))


def _count(data: Mapping[str, Data]) -> int:
    """Return how many there are of what this part describes; 1 if it does not say."""
    counts = (data[key] for key in _COUNTS if isinstance(data.get(key), int))
    return next((number for number in counts if not isinstance(number, bool)), 1)


def _after(data: Mapping[str, Data]) -> Iterator[str]:
    """Yield what a group of a JobSet waits for."""
    dependencies = data.get("dependsOn")
    for other in dependencies if isinstance(dependencies, list) else ():
        status = str(mapping(other).get("status", "Ready")).lower()
        yield f"{mapping(other).get('name')} is {status}"


def described(pod_roles: tuple[Role, ...]) -> str:
    """Return roles as text for a sentence."""
    return "; ".join(map(str, pod_roles)) or "no pods"
