"""One candidate's part in electing the coordinator: requesting the others' votes, and voting.

The rules are in `lease`. Candidates connect to each other at the registry's port. One that does
not serve workers answers only other candidates there.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainwright_runtime.coordination import lease
from trainwright_runtime.coordination.channel import Channel, connected
from trainwright_runtime.coordination.lease import LENGTH

log = logging.getLogger(__name__)

_RENEW = LENGTH / 4
_ANSWER = LENGTH / 2  # seconds for another candidate's answer
_ORDER = 0.1  # seconds that a candidate waits for each one before it

_NEVER = float("-inf")


def now() -> float:
    """Return the seconds of a clock that also runs while the machine sleeps: votes expire then."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class Election:
    """The candidate at `index` of `candidates` ("host:port" each)."""

    def __init__(self, candidates: Sequence[str], index: int) -> None:
        self._index, self._count = index, len(candidates)
        self._process = uuid.uuid4().hex
        # Candidate -> its process, and until when another process is not to be it.
        self._processes = {index: (self._process, float("inf"))}
        self._duplicate = _NEVER  # when another process was last heard of that is this candidate
        self._lock = threading.Condition()
        self._vote = lease.started(now())
        self._granted: dict[int, float] = {}  # voter -> when a vote was requested that it granted
        self._confirmed: dict[int, int] = {}  # voter -> number of the last request that it granted
        self._number = 0
        self._given_up = 0  # the number of the last request whose votes were given back
        self._won = self._lost = False
        self._finished = False
        self._heard = now()
        self._closed = threading.Event()
        others = [each for each in range(self._count) if each != index]
        self._peers = {each: _Peer(candidates[each], self._reply_handler(each)) for each in others}

    @property
    def finished(self) -> bool:
        """Whether training is over, as far as this candidate has heard."""
        with self._lock:
            return self._finished

    @property
    def heard(self) -> float:
        """When (by `now`) this candidate last voted for another; -inf once none needs its vote."""
        with self._lock:
            return self._heard

    @property
    def holds(self) -> bool:
        """Whether this candidate is the coordinator, and was all the time since it has won."""
        with self._lock:
            self._expire()
            return self._won and not self._lost

    def win(self) -> bool:
        """Wait until this candidate is the coordinator; return False if it was closed before."""
        while True:
            if self._closed.wait(_ORDER * self._index):
                return False
            with self._lock:
                free = self._vote.until - now()
            if free > 0:  # another one may be the coordinator
                self._closed.wait(free)
                continue
            number = self._request_votes()
            with self._lock:
                if self._lock.wait_for(lambda: now() < self._elected_until(), _ANSWER):
                    self._won = True
                    break
                self._withdraw(number)
        threading.Thread(target=self._renew, daemon=True, name="lease").start()
        return True

    def finish(self) -> bool:
        """Report to the candidates that training is over; return whether most confirmed it."""
        with self._lock:
            self._finished = True
        number = self._request_votes()
        with self._lock:
            return self._lock.wait_for(lambda: self._is_known_to_majority(number), _ANSWER)

    def resign(self) -> None:
        """Stop being the coordinator, and let another candidate take over at once."""
        self._closed.set()
        with self._lock:
            self._lost = True
            self._withdraw(self._number + 1)
        for peer in self._peers.values():
            peer.close(_RENEW)

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Answer another candidate that requests this one's vote or gives it back."""
        owner, number = str(message["process"]), int(message["number"])
        other = owner != self._process
        with self._lock:
            self._finished = self._finished or bool(message["finished"])
            duplicate = self._is_duplicate(int(message["candidate"]), owner)
            if message["do"] == "withdraw":
                self._vote = lease.take_back(self._vote, owner, number, now())
                given = False
                if self._finished and other:
                    self._heard = _NEVER
            elif duplicate:
                given = False
            else:
                self._vote, given = lease.give(self._vote, owner, number, now())
                if given and other and self._heard != _NEVER:
                    self._heard = now()
            reply = {"given": given, "number": number, "finished": self._finished}
            return {**reply, "duplicate": duplicate}

    def _is_duplicate(self, candidate: int, process: str) -> bool:
        """Whether another process is this candidate, and sent requests as it at most a second ago.

        Each of the two has a vote of its own: with one more they could be elected both.
        """
        last_process, until = self._processes.get(candidate, (process, _NEVER))
        if last_process != process and now() < until:
            return True
        if candidate != self._index:
            self._processes[candidate] = process, now() + LENGTH
        return False

    def _expire(self) -> None:
        """Stop being the coordinator, for good, once another candidate may have been elected."""
        if self._won and now() >= self._elected_until():
            self._lost = True

    def _elected_until(self) -> float:
        if now() < self._duplicate + LENGTH:
            return _NEVER
        return lease.held_until(self._granted.values(), self._count)

    def _is_known_to_majority(self, number: int) -> bool:
        granted = [each for each in self._confirmed.values() if each >= number]
        return len(granted) >= lease.needed(self._count)

    def _request_votes(self) -> int:
        """Request a vote of each candidate, also of this one; return the number of the request."""
        with self._lock:
            if self._closed.is_set():  # what it sent would go before the votes it gave back
                return self._number
            self._number += 1
            requested = now()
            request = self._request("vote", self._number)
            self._note_reply(self._index, requested, self.answer(request))
            for peer in self._peers.values():
                peer.send(request, requested)
            return self._number

    def _request(self, do: str, number: int) -> dict[str, Any]:
        who = {"candidate": self._index, "process": self._process}
        return {"do": do, **who, "number": number, "finished": self._finished}

    def _reply_handler(self, voter: int) -> Callable[[float, Mapping[str, Any]], None]:
        def take(requested: float, reply: Mapping[str, Any]) -> None:
            with self._lock:
                self._note_reply(voter, requested, reply)

        return take

    def _note_reply(self, voter: int, requested: float, reply: Mapping[str, Any]) -> None:
        """Note a candidate's reply to a request for its vote. The caller holds the lock."""
        self._finished = self._finished or bool(reply["finished"])
        if reply["duplicate"]:
            if now() >= self._duplicate + LENGTH:
                log.error("another process is candidate %d for the coordinator too", self._index)
            self._duplicate = now()
        self._expire()
        # Of an election that was given up, the votes are given back.
        if reply["given"] and int(reply["number"]) > self._given_up:
            self._granted[voter] = max(requested, self._granted.get(voter, requested))
            self._confirmed[voter] = int(reply["number"])
            self._lock.notify_all()

    def _withdraw(self, number: int) -> None:
        """Give the granted votes back, first of all in this candidate's own records."""
        self._given_up = self._number = number
        self._granted.clear()
        request = self._request("withdraw", number)
        self.answer(request)
        for peer in self._peers.values():
            peer.send(request, 0.0)

    def _renew(self) -> None:
        while not self._closed.wait(_RENEW):
            self._request_votes()


class _Peer:
    """A sender to another candidate: of the newest request only, since that voids older ones."""

    def __init__(self, address: str, answered: Callable[[float, Mapping[str, Any]], None]) -> None:
        self._address, self._reply_handler = address, answered
        self._lock = threading.Condition()
        self._next: tuple[Mapping[str, Any], float] | None = None
        self._idle = True
        self._channel: Channel | None = None
        threading.Thread(target=self._run, daemon=True, name=f"to {address}").start()

    def send(self, request: Mapping[str, Any], requested: float) -> None:
        with self._lock:
            self._next = request, requested
            self._lock.notify_all()

    def close(self, seconds: float) -> None:
        """Wait up to `seconds` until the last request is sent."""
        with self._lock:
            self._lock.wait_for(lambda: self._next is None and self._idle, seconds)

    def _run(self) -> None:
        """Send the newest request whenever there is one, and pass on the reply."""
        while True:
            with self._lock:
                self._idle = True
                self._lock.notify_all()
                self._lock.wait_for(lambda: self._next is not None)
                assert self._next is not None
                (request, requested), self._next, self._idle = self._next, None, False
            try:
                self._reply_handler(requested, self._exchange(request))
            except (OSError, ValueError, KeyError, TypeError):
                self._disconnect()

    def _exchange(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self._channel is None:
            self._channel, _ = connected(self._address, _ANSWER)
        self._channel.write(request)
        return self._channel.read()

    def _disconnect(self) -> None:
        if self._channel is not None:
            self._channel.close()
            self._channel = None
