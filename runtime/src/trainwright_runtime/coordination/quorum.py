"""Who takes the next step together: workers that request it, while they are heard of.

The rules are those of torchft's lighthouse
(https://github.com/pytorch/torchft/blob/main/src/lighthouse.rs, `quorum_compute`), whose own server
requires no proof of its clients, and ends processes for all of them.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

_TICK = 0.02  # seconds between two looks for what only time decides


NOBODY = json.dumps({"quorum": 0, "members": []}).encode()
"""The answer to a worker that gives up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How many workers a step needs, and how long it waits."""

    least: int = 1
    """No step without so many."""
    heartbeat: float = 0.3
    """Seconds without a sign of life after which a worker is lost."""
    join: float = 10.0
    """Seconds for which a step waits for a worker that is alive and does something else."""


def members(
    requested: Mapping[str, float],
    alive: Collection[str],
    before: Collection[str],
    now: float,
    patience: Patience,
) -> frozenset[str] | None:
    """Who takes the next step, of those who have `requested` it then; None while it has to wait.

    `before` are those of the last one: all of them together wait for no other.
    """
    ready = frozenset(requested) & frozenset(alive)
    if before and ready.issuperset(before):
        return ready
    if len(ready) < patience.least or len(ready) <= len(alive) // 2:
        return None
    first = min((requested[name] for name in ready), default=now)
    if len(ready) < len(alive) and now - first < patience.join:
        return None
    return ready


class Quorums:
    """The requests for the next step, and the answers."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._changed = threading.Condition()
        self._beats: dict[str, float] = {}
        self._requests: dict[str, tuple[float, object, Mapping[str, Any]]] = {}
        self._before: frozenset[str] = frozenset()
        self._number = 0
        self._answers: dict[object, bytes] = {}  # of requests that are not answered yet
        self._closed = False
        threading.Thread(target=self._tick, daemon=True, name="quorums").start()

    def beat(self, worker: str) -> None:
        """A worker is alive."""
        with self._changed:
            self._beats[worker] = time.monotonic()

    def lost(self, worker: str) -> None:
        """A worker's sign of life has ended with its connection."""
        with self._changed:
            self._beats.pop(worker, None)

    def request(self, worker: str, member: Mapping[str, Any]) -> object:
        """A worker requests the next step; its ticket, for `answer`."""
        ticket = object()
        with self._changed:
            now = time.monotonic()
            self._beats[worker] = now
            self._requests[worker] = now, ticket, member
            self._decide()
        return ticket

    def answer(self, ticket: object, seconds: float) -> bytes | None:
        """The members of the step, as JSON; None where it has to wait for longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: ticket in self._answers or self._closed, seconds)
            if self._closed:
                raise ConnectionAbortedError("the coordinator ends")
            return self._answers.pop(ticket, None)

    def withdraw(self, ticket: object) -> None:
        """Who requested it does not wait any more."""
        with self._changed:
            self._answers.pop(ticket, None)
            self._requests = {w: r for w, r in self._requests.items() if r[1] is not ticket}

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _tick(self) -> None:
        while not self._closed:
            time.sleep(_TICK)
            with self._changed:
                if self._requests:
                    self._decide()

    def _decide(self) -> None:
        now = time.monotonic()
        self._beats = {
            w: at for w, at in self._beats.items() if now - at < self._patience.heartbeat
        }
        requested = {worker: at for worker, (at, _, _) in self._requests.items()}
        chosen = members(requested, self._beats, self._before, now, self._patience)
        if not chosen:
            return
        if chosen != self._before:
            self._number += 1
        self._before = chosen
        names = sorted(chosen)
        answer = {"quorum": self._number, "members": [self._requests[name][2] for name in names]}
        text = json.dumps(answer).encode()
        for name in names:
            self._answers[self._requests.pop(name)[1]] = text
        self._changed.notify_all()
