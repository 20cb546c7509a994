"""Processes on this machine: started together, watched, and ended to the last descendant."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import IO, Protocol

from trainwright.datatypes.frozen import dataclass
from trainwright.pods.pod import Restart, Workload
from trainwright.rehearsal import RehearsalError
from trainwright.rehearsal.staging import MARK, LocalProcess

# Seconds that pods have for ending by themselves once the job has succeeded without them; ranks of
# one training end within moments of each other.
_LINGER = 10.0
# A process that is being killed still shows its env, and may have forked before: look again, but
# not for ever, since one that waits for a dead disk cannot be killed. And one shows no env for the
# moment in which it becomes another program: only several looks in a row say that none is left.
_ROUNDS, _ROUND = 100, 0.02  # and seconds
_LOOKS = 3
_POLL = 0.05  # seconds, where a process cannot be waited for without reaping it
_DRAIN = 5.0  # seconds for the last output of a process that has ended

POSSIBLE = hasattr(os, "killpg")


class Audience(Protocol):
    """Who wants to know what happens, while it does."""

    def line(self, label: str, text: str) -> None:
        """A process wrote a line."""

    def state(self, running: int, ended: int) -> None:
        """Pods began or ended."""

    def say(self, text: str) -> None:
        """Something that people should know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How it ended: exit codes of pods in the order in which they ended, and why it was stopped.

    A code is 128 + n after signal n, as a container runtime reports it. `failed` is the pod whose
    end ended the rehearsal, `signal` what the user sent.
    """

    codes: Mapping[str, int] = field(default_factory=dict)
    failed: str = ""
    signal: int = 0
    succeeded: bool = False

    @property
    def code(self) -> int:
        """The exit code of all of it."""
        if self.succeeded:
            return 0
        if self.signal:
            return 128 + self.signal
        return self.codes.get(self.failed) or 1


def run(
    processes: tuple[LocalProcess, ...], workload: Workload, cwd: Path, audience: Audience
) -> Outcome:
    """Start everything and return when all of it, descendants included, has ended."""
    stage = _Stage(processes, workload, audience)
    with _signals(stage.interrupt):
        try:
            stage.start(cwd)
            stage.watch()
        finally:
            stage.kill()
    return stage.outcome()


@contextmanager
def _signals(handler: Callable[[int], None]) -> Iterator[None]:
    """What asks this process to end, to a handler for the time being, in a thread of its own.

    Python's own handlers wait for the main thread, which a signal does not wake when it comes in
    the moment before the thread begins to wait. The descriptor is written to in any case.
    https://docs.python.org/3/library/signal.html#signal.set_wakeup_fd
    """
    asked = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # Under nohup, and behind the & of a script, some of them are ignored on purpose.
    caught = [number for number in asked if signal.getsignal(number) is not signal.SIG_IGN]
    heard, written = os.pipe()
    os.set_blocking(written, False)

    def listen() -> None:
        while number := os.read(heard, 1):
            if number[0] in caught:
                handler(number[0])
        os.close(heard)

    listener = Thread(target=listen, daemon=True)
    listener.start()
    wakeup = signal.set_wakeup_fd(written)
    before = {number: signal.signal(number, lambda *_: None) for number in caught}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)
        signal.set_wakeup_fd(wakeup)
        os.close(written)
        listener.join()


@dataclass(frozen=True, slots=True)
class _Line:
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class _Ended:
    process: LocalProcess
    code: int


class _Stage:
    """The running processes, and the one queue by which threads and signals report."""

    def __init__(self, processes: tuple[LocalProcess, ...], workload: Workload, audience: Audience):
        self._processes = processes
        self._workload = workload
        self._restarts: dict[str, Restart] = {pod.name: pod.restart for pod in workload.pods}
        self._audience = audience
        self._queue: SimpleQueue[_Line | _Ended | int] = SimpleQueue()
        self._running: dict[str, _Child] = {}
        self._left = {pod.name: 0 for pod in workload.pods}  # processes that have not ended
        self._codes: dict[str, int] = {}  # of pods, once all of their processes have ended
        self._failed = ""
        self._signal = 0
        self._deadline: float | None = None  # then what is left is stopped harder
        self._asked = False  # SIGTERM was sent

    def interrupt(self, number: int) -> None:
        self._queue.put(number)

    def start(self, cwd: Path) -> None:
        for process in self._processes:
            self._left[process.pod] += 1
        for process in self._processes:
            try:
                started = _Child(process, cwd)
            except OSError as error:
                raise RehearsalError(f"{process.argv[0]} cannot be started: {error}") from error
            self._running[process.label] = started
            Thread(target=self._follow, args=(process, started), daemon=True).start()
        self._tell()

    def _tell(self) -> None:
        running = sum(1 for left in self._left.values() if left)
        self._audience.state(running, len(self._left) - running)

    def _follow(self, process: LocalProcess, started: _Child) -> None:
        """Report a process's output and then its end, in a thread of its own."""
        reader = Thread(target=self._read, args=(process, started), daemon=True)
        reader.start()
        code = started.wait()
        reader.join(_DRAIN)
        self._queue.put(_Ended(process, 128 - code if code < 0 else code))

    def _read(self, process: LocalProcess, started: _Child) -> None:
        with started.output as output:
            for raw in output:
                # Progress bars return the carriage: a terminal would show the last state.
                text = raw.decode(errors="replace").rstrip("\r\n").rpartition("\r")[2]
                self._queue.put(_Line(process.label, text))

    def watch(self) -> None:
        """Pass on what is reported, and decide what follows from it, until all has ended."""
        while self._running:
            wait = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            try:
                event = self._queue.get(timeout=wait)
            except Empty:
                self._out_of_time()
                continue
            if isinstance(event, _Line):
                self._audience.line(event.label, event.text)
            elif isinstance(event, _Ended):
                self._ended(event)
            else:
                self._interrupted(event)

    def _ended(self, event: _Ended) -> None:
        pod = event.process.pod
        del self._running[event.process.label]
        self._left[pod] -= 1
        # Where an agent runs several processes in a pod, the first that fails speaks for it.
        self._codes[pod] = self._codes.pop(pod, 0) or event.code
        if self._left[pod] and not event.code:
            return
        self._tell()
        if self._asked or self._deadline is not None:
            return
        if event.code and not self._goes_on(pod, event.code):
            self._failed = pod
            self._stop(f"{event.process.label} ended with exit code {event.code}")
        elif self._succeeded() and self._running:
            self._deadline = time.monotonic() + _LINGER

    def _goes_on(self, pod: str, code: int) -> bool:
        """Elastic jobs do without a pod that the operator would start again."""
        elastic = self._workload.needs == "any"
        return elastic and self._restarts[pod].helps(code) and bool(self._running)

    def _succeeded(self) -> bool:
        done = {pod: code for pod, code in self._codes.items() if not self._left[pod]}
        return self._workload.succeeded(done)

    def _interrupted(self, number: int) -> None:
        if self._signal:
            self._audience.say("killing what is left")
            self.kill()
            return
        self._signal = number
        self._stop(f"{signal.Signals(number).name} received")

    def _stop(self, why: str) -> None:
        """SIGTERM to the first process of each pod, as the kubelet does, and a time limit."""
        if not self._running:
            return
        graces = [p.grace_period for p in self._processes if p.label in self._running]
        self._audience.say(
            f"{why}: stopping {len(self._running)} more, which have {max(graces)} s "
            "(Ctrl-C kills them)"
        )
        self._asked = True
        self._deadline = time.monotonic() + max(graces)
        for started in self._running.values():
            started.terminate()

    def _out_of_time(self) -> None:
        if self._asked:
            self._audience.say(f"out of time: killing {', '.join(self._running)}")
            self._deadline = None
            self.kill()
        else:
            self._stop("the job has succeeded")

    def kill(self) -> None:
        """SIGKILL to everything that is still there."""
        for started in self._running.values():
            started.kill()

    def outcome(self) -> Outcome:
        return Outcome(
            codes=dict(self._codes),
            failed=self._failed or next((p for p, code in self._codes.items() if code), ""),
            signal=self._signal,
            succeeded=not self._failed and not self._signal and self._succeeded(),
        )


class _Child:
    """A process in a session of its own, and what it starts.

    It is reaped last: until then its number, which is its group's too, cannot become another's.
    """

    def __init__(self, process: LocalProcess, cwd: Path) -> None:
        self._mark = process.env[MARK]
        self._reaping = Lock()
        self._popen = subprocess.Popen(  # noqa: S603 - an argument list, and no shell
            process.argv,
            cwd=cwd,
            env=process.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # so that Ctrl-C reaches this process alone
        )

    @property
    def output(self) -> IO[bytes]:
        assert self._popen.stdout is not None
        return self._popen.stdout

    def wait(self) -> int:
        """Its exit code, once all that it has left behind has ended, as a container's would."""
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
            with self._reaping:
                _kill_group(self._popen.pid)
                code = self._popen.wait()
        else:
            code = self._polled()
        _kill_marked(self._mark)
        return code

    def _polled(self) -> int:
        """Its exit code where to wait is to reap, as on macOS before Python 3.13.

        What is left of its group stays: the number is not known to be its own any more.
        """
        while True:
            with self._reaping:
                code = self._popen.poll()
            if code is not None:
                return code
            time.sleep(_POLL)

    def terminate(self) -> None:
        """SIGTERM to the first process alone, as the kubelet does."""
        with self._reaping:
            if self._popen.returncode is None:  # not poll(), which reaps
                os.kill(self._popen.pid, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to it and to everything that it has started."""
        with self._reaping:
            if self._popen.returncode is None:
                _kill_group(self._popen.pid)
        _kill_marked(self._mark)


def _kill_group(pid: int) -> None:
    # macOS says EPERM of a group whose only process waits to be reaped.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _kill_marked(mark: str) -> None:
    """SIGKILL to descendants that left their process group, as torchrun's workers do."""
    empty = 0
    for _ in range(_ROUNDS):
        found = list(_marked(f"{MARK}={mark}".encode()))
        empty = 0 if found else empty + 1
        if empty == _LOOKS:
            return
        for pid in found:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_ROUND)


def _marked(entry: bytes) -> Iterator[int]:
    """Processes that have this entry in their env."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # gone by now, or another user's
            if entry in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)
