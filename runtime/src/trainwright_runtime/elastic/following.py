"""A newcomer takes over the state while the others take steps, and repeats their updates.

A member copies its state at the end of a step, and from then on the sums of each step: gradients,
running averages, the position. The newcomer makes the same updates from them until it has caught
up, and only then requests a step. Before that step all of its tensors are compared with the others'
(`transport`), so its updates need not be exact: if an optimizer draws random numbers, or a program
changes its state elsewhere than in `on_step`, the tensors that differ are sent again.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from trainwright_runtime.coordination.channel import STATE, Channel, connect
from trainwright_runtime.elastic.members import State
from trainwright_runtime.elastic.transport import (
    Part,
    Received,
    Stream,
    header,
    pack,
    read,
    written,
)
from trainwright_runtime.launch import cgroup

log = logging.getLogger(__name__)

UPDATE = "update"
_CONNECT = 2.0  # seconds to reach a port: a member may be one that this worker cannot reach
_LOOK = 0.5  # seconds between two looks whether a copy is still to be expected
_LEAST = 64 * 1024 * 1024  # bytes that may wait for a newcomer, however small the state is

Parts = Mapping[str, Part]


@dataclass(slots=True, eq=False)
class _Follower:
    """A newcomer, with the parts that are still to be sent to it."""

    parts: deque[Parts] = field(default_factory=deque)
    begun: bool = False
    waiting: int = 0
    """Bytes of updates that are still to be sent."""
    most: int = _LEAST
    ended: bool = False


class Followers:
    """The newcomers that follow this worker, which waits for none of them.

    One that is too slow is dropped, and joins as if it had not followed.
    """

    def __init__(self, waits: Callable[[], bool]) -> None:
        """`waits` is whether this worker waits for the next step, and with it for newcomers."""
        self._waits = waits
        self._changed = threading.Condition()
        self._all: set[_Follower] = set()

    def begin(self, dump: Callable[[], State]) -> None:
        """Copy the state at the end of a step, for newcomers that wait for it."""
        if new := self._with_state(begun=False):
            parts: Parts = pack(dump())
            most = max(_size(parts), _LEAST)
            room = 2 * most < _available_memory()  # for later updates too
            parts = _copy(parts) if room else {}
            with self._changed:
                for each in new:
                    each.begun, each.ended, each.most = True, not room, most
                    each.parts.append(parts)
                self._changed.notify_all()

    def pass_on(self, update: Callable[[], State]) -> None:
        """Copy a step's update for all followers, before the update changes anything."""
        if followers := self._with_state(begun=True):
            parts = _copy(pack({UPDATE: update()}))
            with self._changed:
                for each in followers:
                    each.parts.append(parts)
                    each.waiting += _size(parts)
                    each.ended = each.ended or each.waiting > each.most
                self._changed.notify_all()

    def end(self) -> None:
        """End all followers: the state is about to be replaced, or this worker leaves."""
        with self._changed:
            for each in self._all:
                each.ended = True
            self._changed.notify_all()

    def serve(self, channel: Channel) -> None:
        """Send a newcomer the state, and then all updates, until it has joined."""
        follower = _Follower()
        with self._changed:
            self._all.add(follower)
        try:
            # A newcomer sends nothing: a readable connection has ended.
            while self._has_more(follower, channel) and not channel.readable():
                with self._changed:
                    parts = follower.parts.popleft()
                    left = len(follower.parts)
                channel.write({"parts": header(parts), "left": left})
                for data in written(parts):
                    channel.connection.sendall(data)
                if is_update(parts):
                    with self._changed:
                        follower.waiting -= _size(parts)
        except OSError as error:
            log.info("a newcomer follows no more: %s", error)
        finally:
            with self._changed:
                self._all.discard(follower)

    def _with_state(self, *, begun: bool) -> list[_Follower]:
        if not self._all:
            return []
        with self._changed:
            return [each for each in self._all if each.begun is begun and not each.ended]

    def _has_more(self, to: _Follower, channel: Channel) -> bool:
        """Wait for something to send; return False if the newcomer is to join without it."""
        waited = False
        while True:
            with self._changed:
                if self._changed.wait_for(lambda: to.parts or to.ended, _LOOK):
                    return not to.ended
            if not to.begun:
                if waited and self._waits():
                    return False
                waited = self._waits()
                channel.write({})
            elif channel.readable():
                return False


class Following:
    """A newcomer's connection with the member that it follows. Its methods raise OSError."""

    def __init__(
        self,
        address: str,
        declared: str,
        patience: float,
        take: Callable[[Received], None],
        progress: Callable[[], object] = lambda: None,
    ) -> None:
        """`declared` must be equal to the member's declaration; `take` gets each copy or update.

        `progress` is called meanwhile, and may raise what ends it.
        """
        self._address, self._take, self._progress = address, take, progress
        self._channel = connect(address, STATE, min(patience, _CONNECT))
        self._channel.connection.settimeout(patience)
        self._channel.write({"follow": declared})

    def advance(self) -> int:
        """Take the next copy or update, and return how many more are known to be on their way."""
        try:
            while "parts" not in (message := self._channel.read()):
                self._progress()
            stream = Stream(self._address, self._channel, self._progress)
            self._take(Received(read(stream, message["parts"])))
            return int(message["left"])
        except ValueError as error:
            raise ConnectionError(f"{self._address} did not send its state: {error}") from error

    def readable(self, within: float = 0.0) -> bool:
        return self._channel.readable(within)

    def close(self) -> None:
        self._channel.close()


def is_update(parts: Collection[str]) -> bool:
    """Whether these are the parts of a step's update, and not those of a copy of the state."""
    return {*parts} == {UPDATE}


def _copy(parts: Parts) -> Parts:
    """Return parts whose tensors are copies on the CPU."""
    return {
        name: Part(
            part.values,
            {each: t.detach().to("cpu", copy=True) for each, t in part.tensors.items()},
            part.shards,
        )
        for name, part in parts.items()
    }


def _size(parts: Parts) -> int:
    return sum(t.nbytes for part in parts.values() for t in part.tensors.values())


def _available_memory() -> float:
    """Return how many bytes this process may still allocate, or infinity if unknown."""
    free = cgroup.memory_available()
    limit, used = cgroup.memory_limit(), cgroup.memory_used()
    within = None if limit is None or used is None else limit - used
    return min((each for each in (free, within) if each is not None), default=float("inf"))
