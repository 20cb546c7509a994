"""A worker's connection to the coordinator's `registry`: what the worker holds, and may do."""

from __future__ import annotations

import faulthandler
import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from queue import Queue
from typing import Any, NoReturn

from trainwright_runtime.coordination.activity import IN_PROGRAM, IN_STEP, QUIET, WAITING
from trainwright_runtime.coordination.channel import Channel, connected
from trainwright_runtime.coordination.lease import LENGTH
from trainwright_runtime.coordination.rules import Answer, Phase, generation
from trainwright_runtime.failures import exit_codes
from trainwright_runtime.failures.failure import Record, send

log = logging.getLogger(__name__)

_BEAT = 0.5  # seconds between two signs of life
_RETRY = 0.1  # seconds before a coordinator that is gone is looked for again
_CONNECT = 1.0  # seconds to reach a port
_REPLY = 5.0  # seconds for an answer
_RECENT = 2 * _BEAT
"""Seconds for which what a worker heard holds, for it and those that it speaks for."""


_AFTER = {Answer.LEAD: Phase.LEADS, Answer.OVER: Phase.ENDING}


class Session:
    """A worker's session with the coordinator: reports its state, again to one that comes back.

    Every method that sends a request raises OSError while there is none.
    """

    def __init__(self, candidates: Sequence[str], worker: str, silence: float) -> None:
        """The coordinator is one of the `candidates` ("host:port").

        A worker that is silent for `silence` seconds may be taken for lost.
        """
        self._candidates = tuple(candidates)
        self._reply = _REPLY if len(self._candidates) == 1 else LENGTH
        self.coordinator, self.life = self._candidates[0], ""
        """The candidate that was the coordinator when it was last heard of, and its process."""
        self._worker = worker
        self.lineage, self.phase = "", Phase.NEW
        self.doing = IN_PROGRAM
        self.steps = 0
        """Steps that it began, local ones too: each restarts the clock that times `doing`."""
        self.joining = ""
        """Another worker that waits for the next step."""
        self._began = self._before = 0.0
        """When this worker began its step, and the one before."""
        self._settled = 0.0
        self._quiet = self._known_quiet = False
        self.late = ""
        """Other workers that the next step waits for, a few of them by name."""
        self._silence = silence
        self._heard = time.monotonic()
        self._lock = threading.RLock()
        self._channel: Channel | None = None
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        _close_in_children(self)

    @property
    def holds(self) -> bool:
        """Whether this worker holds the lineage's state, and is to take steps with it."""
        return self.phase is Phase.HOLDS

    @property
    def behind(self) -> bool:
        """Whether this worker has to get the state first."""
        return self.phase in (Phase.NEW, Phase.STALE)

    @property
    def uncertain(self) -> bool:
        """Whether another candidate may be the coordinator by now, or this worker taken for lost.

        With one candidate, after a third of `silence`: a step takes some time as well.
        """
        several, heard = len(self._candidates) > 1, self._settled if self._quiet else self._heard
        return time.monotonic() - heard > (LENGTH if several else self._silence / 3)

    def begin_step(self) -> None:
        """Note that this worker is in a step, or a local one, from now on."""
        self.doing = IN_STEP
        self.steps += 1
        self._before, self._began = self._began, time.monotonic()

    def wait_for_step(self) -> None:
        self.doing, self._quiet = WAITING, False

    def settled(self, *, speaks: bool) -> bool:
        """Whether the members of this step take the next one too, as far as this worker knows.

        A worker that `speaks` for all must have heard just now that no worker is about to join.
        """
        heard = not self.joining and time.monotonic() - self._heard < _RECENT
        return self.holds and (heard or not speaks)

    def settle(self, *, speaks: bool) -> None:
        """Note that all members are `settled`. One that does not speak is quiet from now on.

        One that speaks had heard it at most `_RECENT` before its sums of this step, and began these
        when all had done their part of the step before.
        """
        self._settled = time.monotonic()
        self._quiet = not speaks
        if self._quiet:
            self._heard = max(self._heard, self._before - _RECENT)

    def request_step(self, after: int) -> Answer:
        """Request the next step; return what to do. FOUND makes this a lineage's first holder."""
        with self._lock:
            reply = self._request("step", after=after)
            answer = Answer(reply["answer"])
            if answer is Answer.FOUND:
                self.lineage, self.phase = reply["lineage"], Phase.HOLDS
            elif self.behind:
                self.lineage = reply["lineage"]  # the one to follow
            self._start_reporting()
            return answer

    def forget(self) -> None:
        """Note that this worker holds no trained state."""
        with self._lock:
            self.lineage, self.phase = "", Phase.NEW

    def hold(self) -> None:
        """Report that this worker now holds the state of the lineage that it was to follow."""
        with self._lock:
            self.phase = Phase.HOLDS
            self._request("enter")

    def confirm(self) -> bool:
        """Whether this worker's state still counts, by the coordinator's answer."""
        with self._lock:
            self._request("enter")
            return not self.behind

    def awaits(self, workers: Sequence[str]) -> bool:
        """Whether one of these workers is still in its steps; a name is that of all its lives."""
        with self._lock:
            return bool(self._request("await", workers=workers)["late"])

    def complete(self, first: str) -> Answer:
        """Report that the last epoch is committed; return LEAD, OVER (another leads) or WAIT."""
        with self._lock:
            self.phase = Phase.COMPLETE
            answer = Answer(self._request("complete", first=first)["answer"])
            if answer in _AFTER:
                self.phase = _AFTER[answer]
            return answer

    @property
    def leads(self) -> bool:
        """Whether this worker is still the one that runs the program's end."""
        with self._lock, suppress(OSError):
            if self.phase is Phase.LEADS and time.monotonic() - self._heard > _RECENT:
                self._request("enter")  # it was paused, or very busy
        return self.phase is Phase.LEADS

    def lead(self) -> None:
        """Report that what another worker would need to lead is saved."""
        with self._lock:
            self._request("lead")

    def finish(self) -> Answer:
        """Report that the program has ended well; return OVER, or WAIT if another worker leads."""
        with self._lock:
            return Answer(self._request("finish")["answer"])

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._disconnect()

    def _request(self, do: str, **more: Any) -> dict[str, str]:
        """Return the reply. Raise OSError, and leave all as it was, if there is no usable one."""
        channel = self._channel or self._connect()
        self._quiet = self._quiet and do == "enter"
        doing = QUIET if self._quiet else self.doing
        try:
            now = time.monotonic()
            sure = now - self._heard < self._silence
            request = {"do": do, "worker": self._worker, "phase": self.phase, "sure": sure, **more}
            request |= {"lineage": "", "doing": doing, "steps": self.steps}
            if self.phase not in (Phase.NEW, Phase.STALE):
                request["lineage"] = self.lineage
            channel.write(request)
            reply = _validated(_reply(channel), do)
        except OSError:
            self._disconnect()
            raise
        except ValueError as error:
            self._disconnect()
            raise ConnectionError(str(error)) from error
        self.phase, self.late = Phase(reply["phase"]), reply["late"]
        self.joining, self._known_quiet = reply["joining"], doing == QUIET
        if reply["waiting"] and self.doing == IN_STEP:
            _end_stalled(reply["waiting"])
        if sure or self.lineage == reply["lineage"]:
            self._heard = now
        return reply

    def reach(self) -> tuple[str, str]:
        """Connect if necessary; return the coordinator's address and process."""
        with self._lock:
            if self._channel is None:
                self._connect()
            return self.coordinator, self.life

    def _connect(self) -> Channel:
        self.coordinator, self._channel, self.life = _find_coordinator(self._candidates)
        self._channel.connection.settimeout(self._reply)
        return self._channel

    def _disconnect(self) -> None:
        if self._channel is not None:
            self._channel.close()
        self._channel = None

    def _start_reporting(self) -> None:
        """Start the thread that sends signs of life while the program runs."""
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._report_regularly, daemon=True, name="session"
            )
            self._thread.start()

    def _report_regularly(self) -> None:
        """Report this worker's state again and again, in a thread of its own."""
        pause = _BEAT
        while not self._closed.wait(pause):
            try:
                with self._lock:
                    if not (self._closed.is_set() or self._has_nothing_to_report()):
                        self._request("enter")
                pause = _BEAT
            except OSError:
                pause = _RETRY

    def _has_nothing_to_report(self) -> bool:
        """Whether it is quiet and the coordinator knows it, requests nothing and is still there."""
        if not (self._quiet and self._known_quiet) or self._channel is None:
            return False
        if not self._channel.readable():
            return True
        self._quiet = False  # until it settles again
        return False


def _reply(channel: Channel) -> dict[str, Any]:
    """Return the reply to the request that was sent, past requests for a report: that was one."""
    reply = channel.read()
    while "report" in reply:
        reply = channel.read()
    return reply


_TEXTS = ("phase", "answer", "lineage", "joining", "waiting", "late")
_ANSWERED = ("step", "complete", "finish")


def _validated(reply: Mapping[str, Any], do: str) -> dict[str, str]:
    """Return the registry's answer. Raise ValueError for anything else, as from another program."""
    texts = {name: text for name in _TEXTS if isinstance(text := reply.get(name), str)}
    if len(texts) < len(_TEXTS):
        raise ValueError(f"not an answer of the coordinator: {reply!r:.200}")
    Phase(texts["phase"])
    if do in _ANSWERED:
        Answer(texts["answer"])
    if do == "step":
        generation(texts["lineage"])
    return texts


def _find_coordinator(candidates: Sequence[str]) -> tuple[str, Channel, str]:
    """Return the candidate that serves. All are tried at once: one on a lost node never answers."""
    if len(candidates) == 1:
        return _connect_if_serving(candidates[0])
    answers: Queue[tuple[str, Channel, str] | Exception] = Queue()
    first = threading.Lock()

    def connect(candidate: str) -> None:
        try:
            answer = _connect_if_serving(candidate)
        except (OSError, ValueError) as error:
            answers.put(error)
        else:
            if first.acquire(blocking=False):
                answers.put(answer)
            else:  # several may know that training is over
                answer[1].close()

    for candidate in candidates:
        threading.Thread(target=connect, args=(candidate,), daemon=True).start()
    failure: Exception = ConnectionRefusedError("no candidate answers")
    for _ in candidates:
        answer = answers.get()
        if not isinstance(answer, Exception):
            return answer
        failure = answer
    raise ConnectionRefusedError(str(failure))


def _connect_if_serving(candidate: str) -> tuple[str, Channel, str]:
    channel, greeting = connected(candidate, _CONNECT)
    if not (greeting.get("serves") and "life" in greeting):
        channel.close()
        raise ConnectionRefusedError(f"the candidate at {candidate} is not the coordinator")
    return candidate, channel, str(greeting["life"])


def _end_stalled(waiting: str) -> NoReturn:
    """End the process: a step that hangs cannot be interrupted from another thread."""
    error = f"it was in one step for too long while {waiting} waited for it"
    send(Record(at=time.monotonic(), error=error, exit_code=exit_codes.STALLED), os.environ)
    log.error("this worker hangs in a step while %s wait for it: its stacks follow", waiting)
    with suppress(OSError, ValueError):
        faulthandler.dump_traceback(all_threads=True)
        sys.stderr.flush()
    os._exit(exit_codes.STALLED)


def _close_in_children(session: Session) -> None:
    """Close the connection in forked loader processes: they would keep a killed worker's open."""
    weak = weakref.ref(session)

    def close() -> None:
        forked = weak()
        if forked is not None and forked._channel is not None:
            os.close(forked._channel.connection.detach())

    os.register_at_fork(after_in_child=close)
