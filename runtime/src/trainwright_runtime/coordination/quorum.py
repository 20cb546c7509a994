"""Who takes the next step together: workers that request it, while they are heard of.

The rules are those of torchft's lighthouse
(https://github.com/pytorch/torchft/blob/main/src/lighthouse.rs, `quorum_compute`), whose own server
requires no proof of its clients, and ends processes for all of them.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright_runtime.coordination import reach

_TICK = 0.02  # seconds between two looks for what only time decides


_NOBODY: Mapping[str, Any] = {"quorum": 0, "members": []}
NOBODY = json.dumps(_NOBODY).encode()
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
    if len(ready) < patience.least:
        return None
    if before and ready.issuperset(before):
        return ready
    if len(ready) <= len(alive) // 2:
        return None
    first = min((requested[name] for name in ready), default=now)
    if len(ready) < len(alive) and now - first < patience.join:
        return None
    return ready


class Quorums:
    """The requests for the next step, and the answers."""

    def __init__(
        self, patience: Patience, go_on_without: Callable[[frozenset[str]], object] = bool
    ) -> None:
        """Workers that a step is to be taken without are passed to `go_on_without` before."""
        self._patience, self._go_on_without = patience, go_on_without
        self._changed = threading.Condition()
        self._beats: dict[str, float] = {}
        self._requests: dict[str, tuple[float, object, Mapping[str, Any]]] = {}
        self._reports: dict[str, reach.Report] = {}
        self._disputed = False  # whether any of them could not connect with another one
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
            self._reports.pop(worker, None)

    def request(self, worker: str, member: Mapping[str, Any]) -> object:
        """A worker requests the next step; its ticket, for `answer`."""
        ticket = object()
        with self._changed:
            now = time.monotonic()
            self._beats[worker] = now
            self._reports[worker] = _report(member)
            self._disputed = self._disputed or bool(member["unreached"])
            passed_on = {name: member[name] for name in ("replica_id", "step", "data")}
            self._requests[worker] = now, ticket, passed_on
            self._decide()
        return ticket

    def answer(self, ticket: object, seconds: float) -> bytes | None:
        """The members of the step, as JSON; None where it has to wait for longer than that."""
        with self._changed:
            self._changed.wait_for(lambda: ticket in self._answers or self._closed, seconds)
            if self._closed:
                raise ConnectionAbortedError("the coordinator ends")
            return self._answers.pop(ticket, None)

    def apart(self) -> frozenset[str]:
        """Workers that no step is taken with, since others cannot reach them."""
        with self._changed:
            return self._reach().out

    def refusal(self, worker: str) -> bytes | None:
        """The answer to one that is not in the next step for that reason, or has none by it."""
        with self._changed:
            verdict = self._reach()
            few = len(self._beats.keys() - verdict.out) < self._patience.least
            if not verdict.out or not (few or worker in verdict.out):
                return None
            return json.dumps({**_NOBODY, "apart": self._described(verdict), "few": few}).encode()

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

    def _forget(self) -> None:
        """Who is not heard of any more."""
        now = time.monotonic()
        self._beats = {
            w: at for w, at in self._beats.items() if now - at < self._patience.heartbeat
        }

    def _reach(self) -> reach.Verdict:
        if not self._disputed:
            return reach.Verdict()
        self._forget()
        self._disputed = any(report.unreached for report in self._reports.values())
        # Of one that is silent for a moment the report stays: its request does, too.
        alive = {w: report for w, report in self._reports.items() if w in self._beats}
        return reach.decide(alive, self._before)

    def _decide(self) -> None:
        self._forget()
        verdict = self._reach()
        out = verdict.out
        requested = {w: at for w, (at, _, _) in self._requests.items() if w not in out}
        alive, before = self._beats.keys() - out, self._before - out
        chosen = members(requested, alive, before, time.monotonic(), self._patience)
        if not chosen:
            return
        if chosen != self._before:
            self._number += 1
        self._before = chosen
        if out:
            self._go_on_without(out)
        self._answer(chosen, verdict)

    def _answer(self, chosen: frozenset[str], verdict: reach.Verdict) -> None:
        names = sorted(chosen)
        answer = {"quorum": self._number, "members": [self._requests[name][2] for name in names]}
        if verdict.out:
            answer["apart"] = self._described(verdict)
        text = json.dumps(answer).encode()
        for name in names:
            self._answers[self._requests.pop(name)[1]] = text
        self._changed.notify_all()

    def _described(self, verdict: reach.Verdict) -> list[dict[str, Any]]:
        """Who they are, which workers cannot reach them, which they cannot reach, and why them."""
        return [
            {
                "worker": worker,
                "address": self._reports[worker].address,
                "by": sorted(w for w, each in self._reports.items() if worker in each.unreached),
                "to": sorted(self._reports[worker].unreached & self._reports.keys()),
                "needed": verdict.needed,
            }
            for worker in sorted(verdict.out)
        ]


def _report(member: Mapping[str, Any]) -> reach.Report:
    return reach.Report(
        unreached=frozenset(member["unreached"]),
        held=member["step"] if member["holds"] else 0,
        address=member["data"]["state"].partition(" ")[0].rpartition(":")[0],
    )
