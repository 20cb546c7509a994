"""The coordinator's registry of who holds which state of a training, as workers report it.

Each worker has a connection that closes when it ends, so that no dead worker passes for alive.
Nothing is stored: a coordinator that restarts learns it again, and lets no worker begin a training
until those that have one could report it. Over further connections workers request the next step
(`quorum`), send heartbeats meanwhile (`heartbeat`), and exchange their addresses (`store_server`).
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from trainwright_runtime.coordination import rules
from trainwright_runtime.coordination.activity import (
    IN_PROGRAM,
    IN_STEP,
    QUIET,
    WAITING,
    Activities,
    display_name,
)
from trainwright_runtime.coordination.addresses import own_addresses
from trainwright_runtime.coordination.channel import COORDINATOR, Channel
from trainwright_runtime.coordination.election import Election
from trainwright_runtime.coordination.messages import REPORT, REQUEST, checked
from trainwright_runtime.coordination.quorum import NO_QUORUM, Patience, Quorums
from trainwright_runtime.coordination.rules import Answer, Phase, Run
from trainwright_runtime.coordination.server import Server, Service
from trainwright_runtime.coordination.store_server import StoreServer

log = logging.getLogger(__name__)

_LINGER = 1.0  # seconds for which a connection has a thread after a message
_LOOK = 0.5  # seconds between two looks whether a worker still waits for the next step


class Registry:
    """Answers the workers' `session`s until it is closed."""

    def __init__(  # noqa: PLR0913 - each by its name
        self,
        port: int,
        *,
        recovery: float,
        silence: float,
        stall: float = 60,
        most: int = 0,
        election: Election | None = None,
        patience: Patience | None = None,
        addresses: Iterable[str] = (),
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`most` is the maximum number of workers, 0 if unknown; `addresses` are those to listen
        at, by default those of this machine's name.

        For `recovery` seconds no worker begins a training; one silent for `silence` seconds while
        connected is taken for lost; who is in a step for `stall` seconds while others wait hangs.
        With another `clock` than this machine's, the caller calls `quorums.tick`.

        With an `election` it serves workers from `serve` on, while its candidate is elected.
        """
        self._election = election
        self._serving = election is None
        self._life = uuid.uuid4().hex
        self._now = clock or time.monotonic
        self._activities = Activities(self._now)
        self._stall = stall
        self._run = Run(most=most)
        self._lock = threading.Lock()
        self._connections: dict[str, object] = {}  # worker -> the one that speaks for it
        self._ended: set[str] = set()
        self._missing: set[str] = set()
        self._patience = recovery
        self._recovery = self._now() + recovery
        self._silence = silence
        self._hearts: dict[str, Channel] = {}  # worker -> the connection for its signs of life
        self.quorums = Quorums(patience or Patience(), self._go_on_without, self._probe, clock)
        self._store = StoreServer()
        self._server = Server(addresses or own_addresses(), port, COORDINATOR, self._serve)

    @property
    def port(self) -> int:
        return self._server.port

    def serve(self) -> None:
        """Serve workers from now on: this candidate is elected."""
        assert self._election is not None
        with self._lock:
            self._run = replace(self._run, finished=self._election.finished)
            self._recovery = self._now() + self._patience
            self._serving = True

    @property
    def serves(self) -> bool:
        """Whether workers may connect here: the coordinator, or a candidate that knows of the end.

        That training is over stays true, from whichever worker the report comes.
        """
        election = self._election
        return election is None or election.finished or (self._serving and election.holds)

    @property
    def finished(self) -> bool:
        with self._lock:
            return self._run.finished

    def in_use(self) -> bool:
        """Whether workers are connected, or may be about to."""
        with self._lock:
            return bool(self._connections) or self._now() < self._recovery

    def leader(self) -> str:
        """Return the worker that runs the program's end, or "" before and after."""
        with self._lock:
            return "" if self._run.finished else display_name(self._run.leader)

    def missing(self) -> list[str]:
        """Return the workers, lost or still connected, that do not know yet that training is over;
        none while it is not.
        """
        with self._lock:
            if not self._run.finished:
                return []
            connected = map(display_name, self._connections.keys() - self._ended)
            return sorted({*self._missing, *connected})

    def close(self) -> None:
        self._server.close()
        self.quorums.close()

    def _serve(self, channel: Channel) -> Service:
        """Serve one connection of a worker or of another candidate."""
        channel.connection.settimeout(self._silence)
        worker = heart = ""
        awaited = False  # whether a quiet worker has had to report
        request: dict[str, Any] = {}  # the last one: the next has only the changes
        try:
            channel.write({"serves": self.serves, "life": self._life})
            while True:
                patience = self._silence if worker else None
                silent = not channel.readable(_LINGER) and (yield patience)
                while silent:
                    if awaited or not self._is_quiet(worker):  # paused, or its network is lost
                        self.leave(worker, channel)
                    elif self._is_awaited():
                        channel.write({"report": ""})
                        awaited = True
                    silent = yield patience
                message = channel.read()
                awaited = False
                if "beat" in message:
                    heart = str(message["beat"])
                    self._hearts[heart] = channel
                    self.quorums.beat(heart)
                elif "worker" in message:
                    checked(message, REPORT)
                    worker = message["worker"]
                    channel.write(self._reply(message, channel))
                else:
                    self._answer_message(message, channel, request)
        except (OSError, ValueError, KeyError, TypeError):
            pass  # it has ended, or is not a worker
        finally:
            self.leave(worker, channel)
            if self._hearts.get(heart) is channel:  # else it has another one by now
                del self._hearts[heart]
                self.quorums.lost(heart)

    def _is_quiet(self, worker: str) -> bool:
        with self._lock:
            return self._activities.does(worker, QUIET)

    def _is_awaited(self) -> bool:
        """Whether other workers wait for the quiet ones (see `activity.QUIET`)."""
        joining = self.quorums.joining()
        with self._lock:
            run = self._run
            return bool(joining or run.newcomers or run.completed or run.leader)

    def _answer_message(
        self, message: Mapping[str, Any], channel: Channel, request: dict[str, Any]
    ) -> None:
        """Answer a message that is neither a report nor a heartbeat."""
        if "candidate" in message:
            channel.write(self._vote(message))
        elif "board" in message:
            channel.write(self._store.answer(message))
        elif "place" in message:
            self._require_serving()
            channel.write({"place": self.quorums.state_address()})
        elif "withdraw" not in message:  # else it was answered before
            request |= message["quorum"]
            checked(request, REQUEST)
            self._answer_step_request({**request}, channel)

    def _answer_step_request(self, member: Mapping[str, Any], channel: Channel) -> None:
        """Answer a worker's request for the next step, once, even if the worker gives up."""
        self._require_serving()
        ticket = self.quorums.request(member["replica_id"], member)
        try:
            while (text := self.quorums.answer(ticket, _LOOK)) is None:
                self._require_serving()
                if channel.readable():
                    channel.read()  # that it withdraws, or the end of the connection
                    text = self.quorums.answer(ticket, 0) or NO_QUORUM
                    break
                if (text := self.quorums.refusal(member["replica_id"])) is not None:
                    text = self.quorums.answer(ticket, 0) or text
                    break
        finally:
            self.quorums.withdraw(ticket)
        self._require_serving()
        channel.write_encoded(text)

    def _probe(self, worker: str) -> None:
        """Request a heartbeat, which a process that does nothing else answers at once."""
        if (heart := self._hearts.get(worker)) is not None:
            with suppress(OSError):
                heart.write({})

    def _go_on_without(self, workers: frozenset[str]) -> None:
        with self._lock:
            self._run = rules.go_on_without(self._run, workers)

    def _vote(self, message: Mapping[str, Any]) -> dict[str, Any]:
        if self._election is None:
            raise ValueError("this coordinator has no other candidates")
        return self._election.answer(message)

    def _reply(self, message: Mapping[str, Any], connection: object) -> dict[str, str]:
        """Return the reply to a report.

        Raise ConnectionAbortedError if another candidate may be the coordinator.
        """
        self._require_serving()
        reply = self.answer(message, connection)
        if message["do"] == "finish" and not self._announced():
            raise ConnectionAbortedError("most candidates do not know yet that training is over")
        self._require_serving()  # it may have been paused
        return reply

    def _require_serving(self) -> None:
        if not self.serves:
            raise ConnectionAbortedError("another candidate may be the coordinator")

    def _announced(self) -> bool:
        """Whether training goes on, or a majority of candidates know that it is over."""
        return self._election is None or not self.finished or self._election.finish()

    def answer(self, message: Mapping[str, Any], connection: object) -> dict[str, str]:
        """Note what a worker reports over a connection, and return the reply."""
        worker, lineage, phase = message["worker"], message["lineage"], Phase(message["phase"])
        sure = message["sure"]
        # The quorums report to this, with a lock of their own: never within its own.
        apart = message["do"] == "step" and worker in self.quorums.apart()
        joining = display_name(self.quorums.joining())
        with self._lock:
            self._connections[worker] = connection
            if self._election is not None and self._election.finished:
                self._run = replace(self._run, finished=True)
            if self._now() >= self._recovery:
                self._run = rules.recovered(self._run)
            answer = ""
            if message["do"] != "complete":
                self._run, phase = rules.enter(self._run, worker, lineage, phase, sure=sure)
            match message["do"]:
                case "step":
                    self._run, answer = rules.request_step(
                        self._run, worker, phase, message["after"], apart=apart
                    )
                case "complete":
                    self._run, phase, answer = rules.complete(
                        self._run, worker, lineage, message["first"], sure=sure
                    )
                case "lead":
                    self._run = rules.lead(self._run, worker)
                case "finish":
                    self._run = rules.finish(self._run, worker)
                    answer = Answer.OVER if self._run.finished else Answer.WAIT
            self._missing.discard(display_name(worker))
            if answer in (Answer.OVER, Answer.LEAD):
                self._ended.add(worker)
            return {
                "phase": phase,
                "answer": answer,
                "lineage": self._run.lineage,
                "joining": joining,
                **self._waiting_and_late(worker, message),
            }

    def _waiting_and_late(self, worker: str, message: Mapping[str, Any]) -> dict[str, str]:
        """Return names of workers: "waiting" for this one, if it has been in one step for too long,
        and "late", for which it waits: in a step, or in program code between steps."""
        doing, holders = message.get("doing", ""), self._run.holders
        seconds = self._activities.note(worker, doing, message.get("steps", 0))
        waiting = late = ""
        if doing == IN_STEP and seconds >= self._stall:
            waiting = self._activities.longest(holders, WAITING, but=worker)
        if message["do"] == "await":
            late = self._activities.matching(message["workers"], holders, IN_STEP, IN_PROGRAM)
        elif doing == WAITING:
            late = self._activities.longest(holders, IN_STEP, IN_PROGRAM, QUIET, but=worker)
        return {"waiting": waiting, "late": late}

    def leave(self, worker: str, connection: object) -> None:
        """Note that a worker's connection has ended, or was silent for too long."""
        with self._lock:
            if self._connections.get(worker) is not connection:
                return  # it speaks through another one by now
            del self._connections[worker]
            self._activities.forget(worker)
            if worker not in self._ended:
                self._missing.add(display_name(worker))
            self._run = rules.leave(self._run, worker)
