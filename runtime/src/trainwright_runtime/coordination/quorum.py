"""Quorums: which workers take the next step together, of those that request it and are alive.

The rules are those of torchft's lighthouse
(https://github.com/pytorch/torchft/blob/main/src/lighthouse.rs, `quorum_compute`), whose own server
does not authenticate its clients, and lets any of them end processes.
"""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from trainwright_runtime.coordination import reach, view
from trainwright_runtime.coordination.view import View

_TICK = 0.02  # seconds between two looks for what only time decides


_KEPT = 8
"""Views whose changes can be sent: most members have the last one."""

_NO_QUORUM: Mapping[str, Any] = {"quorum": 0}
NO_QUORUM = json.dumps(_NO_QUORUM).encode()
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
    """Return the workers that take the next step, or None while it has to wait.
    `requested` maps each worker that requests the step to when it did.

    `before` are the members of the last step: once all of them are ready, they wait for no others.
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


@dataclass(slots=True, kw_only=True, eq=False)
class Request:
    """A worker's request for the next step."""

    worker: str
    member: Mapping[str, Any]
    at: float
    answer: bytes | None = None


class Quorums:
    """The requests for the next step, and the answers."""

    def __init__(
        self,
        patience: Patience,
        go_on_without: Callable[[frozenset[str]], object] = bool,
        probe: Callable[[str], object] = bool,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`go_on_without` is called, before a step, with the workers that are left out of it.

        While a worker waits for the step, those that are silent are requested to `beat` by `probe`.
        With another `clock` than this machine's, the caller calls `tick`.
        """
        self._patience, self._go_on_without, self._probe = patience, go_on_without, probe
        self._now = clock or time.monotonic
        self._changed = threading.Condition()
        self._heard: dict[str, float] = {}  # of workers that are believed alive
        self._probed: dict[str, float] = {}  # since when a heartbeat is awaited
        self._requests: dict[str, Request] = {}
        self._awaited: set[str] = set()  # members of the last step that have not requested this one
        self._views: dict[int, View] = {}
        self._view = View()
        self._reports: dict[str, reach.Report] = {}
        self._disputed = False  # whether any of them could not connect with another one
        self._before: frozenset[str] = frozenset()
        self._number = 0
        self._closed = False
        if clock is None:
            threading.Thread(target=self._run, daemon=True, name="quorums").start()

    def beat(self, worker: str) -> None:
        """Note that a worker is alive."""
        with self._changed:
            self._note_alive(worker)

    def _note_alive(self, worker: str) -> float:
        self._heard[worker] = now = self._now()
        self._probed.pop(worker, None)
        return now

    def lost(self, worker: str) -> None:
        """Note that a worker's connection for heartbeats has ended."""
        with self._changed:
            for by_worker in (self._heard, self._probed, self._reports):
                by_worker.pop(worker, None)

    def request(self, worker: str, member: Mapping[str, Any]) -> Request:
        """Note that a worker requests the next step; return the request, for `answer`."""
        with self._changed:
            request = Request(worker=worker, member=member, at=self._note_alive(worker))
            self._reports[worker] = _report(member)
            self._disputed = self._disputed or bool(member["unreached"])
            self._requests[worker] = request
            self._awaited.discard(worker)
            if self._before and not self._awaited:
                self._decide()  # else it is time that decides
        return request

    def answer(self, request: Request, seconds: float) -> bytes | None:
        """Return the members of the step as JSON, or None if there are none within `seconds`.

        Raise ConnectionAbortedError once this is closed.
        """
        with self._changed:
            self._changed.wait_for(lambda: request.answer or self._closed, seconds)
            if self._closed:
                raise ConnectionAbortedError("the coordinator ends")
            return request.answer

    def apart(self) -> frozenset[str]:
        """Return the workers that steps go on without, since others cannot reach them."""
        with self._changed:
            return self._reach().out

    def joining(self) -> str:
        """Return a worker that waits for the next step and was not in the last one; empty if none.

        Members of the last step request the next one only if there is such a worker.
        """
        with self._changed:
            return next((name for name in self._requests if name not in self._before), "")

    def state_address(self) -> str:
        """Return where a random live member of the last step serves its state; empty if none."""
        with self._changed:
            addresses = [at for name, at in self._view.addresses.items() if name in self._heard]
            return secrets.choice(addresses) if addresses else ""

    def refusal(self, worker: str) -> bytes | None:
        """Return the JSON for a worker that gets no step because some cannot connect: it is one of
        them, or too few are left without them. None if neither."""
        with self._changed:
            verdict = self._reach()
            few = len(self._heard.keys() - verdict.out) < self._patience.least
            if not verdict.out or not (few or worker in verdict.out):
                return None
            return json.dumps(
                {**_NO_QUORUM, "apart": self._described(verdict), "few": few}
            ).encode()

    def withdraw(self, request: Request) -> None:
        """Remove a request whose worker does not wait any more."""
        with self._changed:
            if self._requests.get(request.worker) is request:
                del self._requests[request.worker]
                self._awaited |= {request.worker} & self._before

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def tick(self) -> None:
        """Decide what depends on time alone."""
        with self._changed:
            if self._requests:
                self._probe_all()
                self._decide()

    def _run(self) -> None:
        while not self._closed:
            time.sleep(_TICK)
            self.tick()

    def _probe_all(self) -> None:
        """Request a heartbeat from workers that were silent for a moment (`Patience.heartbeat`).

        For workers that already wait for the next step, that moment is shorter.
        """
        now, patience = self._now(), self._patience.heartbeat
        for worker, at in self._heard.items():
            moment = patience / 3 if worker in self._requests else patience
            if worker not in self._probed and now - at >= moment:
                self._probed[worker] = now
                self._probe(worker)

    def _forget(self) -> None:
        """Forget workers that have not answered a probe in time, until they are heard of again."""
        late = self._now() - self._patience.heartbeat
        for worker in [worker for worker, since in self._probed.items() if since <= late]:
            del self._probed[worker], self._heard[worker]

    def _reach(self) -> reach.Verdict:
        """Return which workers to leave out, since they and others cannot connect."""
        if not self._disputed:
            return reach.Verdict()
        self._forget()
        self._disputed = any(report.unreached for report in self._reports.values())
        # Of one that is silent for a moment the report stays: its request does, too.
        alive = {w: report for w, report in self._reports.items() if w in self._heard}
        return reach.decide(alive, self._before)

    def _decide(self) -> None:
        """Form a quorum if the rules allow one now, and answer its members."""
        self._forget()
        verdict = self._reach()
        out = verdict.out
        requested = {w: each.at for w, each in self._requests.items() if w not in out}
        alive, before = self._heard.keys() - out, self._before - out
        chosen = members(requested, alive, before, self._now(), self._patience)
        if not chosen:
            return
        self._before, self._awaited = chosen, set(chosen)
        if out:
            self._go_on_without(out)
        self._answer(chosen, verdict)

    def _answer(self, chosen: frozenset[str], verdict: reach.Verdict) -> None:
        """Answer each member with the changes since the view that it has."""
        requests = [self._requests.pop(name) for name in chosen]
        before = self._view
        self._view = view.of({each.worker: each.member for each in requests}, before)
        if before.names != self._view.names or not _is_one_group(self._view):
            self._number += 1  # no two groups may meet under the same name
        answer: dict[str, Any] = {"quorum": self._number}
        if verdict.out:
            answer["apart"] = self._described(verdict)
        texts: dict[int, bytes] = {}
        for each in requests:
            last_view = self._views.get(each.member["view"], View())
            if last_view.number not in texts:
                text = json.dumps({**answer, "members": view.news(last_view, self._view)})
                texts[last_view.number] = text.encode()
            each.answer = texts[last_view.number]
        self._views[self._view.number] = self._view
        self._views.pop(self._view.number - _KEPT, None)
        self._changed.notify_all()

    def _described(self, verdict: reach.Verdict) -> list[dict[str, Any]]:
        """Return, for each worker left out, its address and whom it cannot connect with."""
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


def _is_one_group(members: View) -> bool:
    """Whether the members are connected with each other already, in one group."""
    groups = members.values("group")
    return len(groups) == 1 and 0 not in groups


def _report(member: Mapping[str, Any]) -> reach.Report:
    return reach.Report(
        unreached=frozenset(member["unreached"]),
        held=member["step"] if member["holds"] else 0,
        address=member["state"].partition(" ")[0].rpartition(":")[0],
    )
