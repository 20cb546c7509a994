"""The state of a run, from its object's own status, in words that all kinds share."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace

from trainwright.datatypes.data import Data, mapping, mappings, text
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.groupkind import GroupKind


class Phase(enum.StrEnum):
    """Where a run is in its life."""

    ABSENT = "not applied"  # git has it, the cluster does not
    SUSPENDED = "suspended"  # on purpose
    QUEUED = "queued"  # a queue has not let it start
    PENDING = "pending"  # it may start, and its pods do not run yet
    RUNNING = "running"
    RESTARTING = "restarting"  # pods failed and are started again
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    DELETING = "deleting"
    DELETED = "deleted"  # neither git nor the cluster has it any more


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A phase, why, and how many of all ranks are ready; None if they are not counted.

    `reason` is one word in Kubernetes' style, `message` a sentence from the cluster.
    `since` is when the phase began, in UTC as the cluster wrote it.
    """

    phase: Phase
    reason: str = ""
    message: str = ""
    ready: int | None = None
    total: int | None = None
    restarts: int = 0
    since: str = ""

    @property
    def over(self) -> bool:
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)


def _as_it_is(_: Mapping[str, Data]) -> int | None:
    return None


def _nothing(_: Mapping[str, Data]) -> tuple[()]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """How to read the status of the objects of one kind.

    `state_of` is pure: it turns an object, as the API server returns it, into a state. `waits` has
    words for what the operator's own init containers wait for. `size` is how many pods an elastic
    object has been given, None if that is what its spec requests. `makes` are the objects between
    this one and its pods, by kind and name: their warnings count as its own. `pod_labels` are what
    its pods have besides the label with its name, as labels and values.
    """

    state_of: Callable[[Mapping[str, Data]], State]
    waits: Mapping[str, str] = field(default_factory=dict, hash=False)
    size: Callable[[Mapping[str, Data]], int | None] = _as_it_is
    makes: Callable[[Mapping[str, Data]], tuple[tuple[GroupKind, str], ...]] = _nothing
    pod_labels: Callable[[Mapping[str, Data]], tuple[tuple[str, str], ...]] = _nothing


def status_of(body: Mapping[str, Data]) -> Mapping[str, Data]:
    return mapping(body.get("status"))


def holding(conditions: Sequence[Mapping[str, Data]] | None) -> dict[str, Mapping[str, Data]]:
    """Return the conditions whose status is True, by type; False ones tell what was before."""
    return {text(c.get("type")): c for c in mappings(conditions) if c.get("status") == "True"}


def suspended(held: Mapping[str, Mapping[str, Data]], counted: State) -> State:
    """Return the state of what its spec suspends, from its Suspended condition if it has one."""
    asleep = first(held, (("Suspended", Phase.SUSPENDED),), counted)
    return asleep or replace(counted, phase=Phase.SUSPENDED)


def first(
    held: Mapping[str, Mapping[str, Data]], phases: Sequence[tuple[str, Phase]], counted: State
) -> State | None:
    """Return the state of the first of these conditions that holds, or None if none does.

    Its numbers are those of `counted`.
    """
    for name, phase in phases:
        if name in held:
            return state_of(held[name], phase, counted)
    return None


def state_of(condition: Mapping[str, Data], phase: Phase, counted: State) -> State:
    """Return the state of a phase, in the words of the condition that shows it."""
    return State(
        phase=phase,
        reason=text(condition.get("reason")),
        message=text(condition.get("message")),
        ready=counted.ready,
        total=counted.total,
        restarts=counted.restarts,
        since=text(condition.get("lastTransitionTime")),
    )
