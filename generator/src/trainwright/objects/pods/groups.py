"""The pods of a workload, grouped by template and made only when needed.

One template may have a thousand pods, of which an import looks at three, a hundred times or so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import field
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, overload

from trainwright.datatypes.frozen import dataclass

if TYPE_CHECKING:
    from trainwright.objects.pods.pod import Pod


@dataclass(frozen=True, slots=True)
class PodGroup:
    """The pods of one template, which differ by their number; each is made on first access."""

    role: str
    names: tuple[str, ...]
    hostnames: tuple[str, ...]
    make: Callable[[int], Pod]
    _made: dict[int, Pod] = field(default_factory=dict, compare=False)

    def pod(self, number: int) -> Pod:
        """Return the pod of a number in the group, made once."""
        if number not in self._made:
            self._made[number] = self.make(number)
        return self._made[number]


class Pods(Sequence["Pod"]):
    """The pods of several groups as one sequence, group after group."""

    def __init__(self, groups: Iterable[PodGroup]) -> None:
        self.groups = tuple(group for group in groups if group.names)

    @classmethod
    def of(cls, pods: Iterable[Pod]) -> Pods:
        """Return pods that exist already, each as a group of its own."""
        return cls(PodGroup(p.role, (p.name,), (p.hostname,), _always(p)) for p in pods)

    def __len__(self) -> int:
        return sum(len(group.names) for group in self.groups)

    @overload
    def __getitem__(self, at: int) -> Pod: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Pod, ...]: ...
    def __getitem__(self, at: int | slice) -> Pod | tuple[Pod, ...]:
        if isinstance(at, slice):
            return tuple(self[number] for number in range(len(self))[at])
        number = range(len(self))[at]
        for group in self.groups:
            if number < len(group.names):
                return group.pod(number)
            number -= len(group.names)
        raise IndexError(at)

    def __iter__(self) -> Iterator[Pod]:
        return (group.pod(number) for group in self.groups for number in range(len(group.names)))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all."""
        return tuple(chain.from_iterable(group.names for group in self.groups))

    @property
    def hostnames(self) -> tuple[str, ...]:
        """The host names of all."""
        return tuple(chain.from_iterable(group.hostnames for group in self.groups))

    @property
    def first_of_each(self) -> tuple[Pod, ...]:
        """The first pod of each template."""
        return tuple(group.pod(0) for group in self.groups)

    def where(self, condition: Callable[[str], bool]) -> Pods:
        """Return the pods of those groups whose role satisfies the condition."""
        return Pods(group for group in self.groups if condition(group.role))

    def mapped(self, change: Callable[[Pod], Pod]) -> Pods:
        """Return all pods with a change applied that keeps their names and roles."""

        def make(group: PodGroup, number: int) -> Pod:
            return change(group.pod(number))

        return Pods(
            PodGroup(group.role, group.names, group.hostnames, partial(make, group))
            for group in self.groups
        )


def _always(pod: Pod) -> Callable[[int], Pod]:
    return lambda _: pod
