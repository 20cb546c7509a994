"""Processes on this machine: started together, watched, and ended to the last descendant."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import IO, Protocol

from trainwright.datatypes.frozen import dataclass
from trainwright.objects.pods.pod import Restart, Workload
from trainwright.rehearsal import RehearsalError, probes
from trainwright.rehearsal.probes import Probe
from trainwright.rehearsal.staging import MARK, LocalProcess

# Seconds for pods to end by themselves once the job has succeeded without them, since the ranks of
# one training end within moments of each other; and for a job to end once a role that serves it has
# ended successfully, as a role does when the job tells it to.
_LINGER = 10.0
_PROBE = 0.2  # seconds between two attempts of a probe
# A process that is being killed still shows its env, and may have forked before: look again, but
# not for ever, since a process that waits for a dead disk cannot be killed. And during exec a
# process shows no env for a moment, so only several looks in a row prove that none is left.
_ROUNDS, _ROUND = 100, 0.02  # and seconds
_LOOKS = 3
# Seconds within which two ends are seen in either order, on a machine that has much to do.
_TOGETHER = 1.0
_POLL = 0.05  # seconds, where a process cannot be waited for without reaping it
_DRAIN = 5.0  # seconds for the last output of a process that has ended

POSSIBLE = hasattr(os, "killpg")


class Audience(Protocol):
    """A listener that is told what happens while it happens."""

    def line(self, label: str, text: str) -> None:
        """Show a line that a process wrote."""

    def state(self, running: int, ended: int) -> None:
        """Show how many pods run and how many have ended."""

    def say(self, text: str) -> None:
        """Show a message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a rehearsal ended: the pods' exit codes, in the order they ended, and why it was stopped.

    A code is 128 + n after signal n, as a container runtime reports it. `failed` is the pod whose
    end ended the rehearsal, `signal` the signal that the user sent. `ready` are the pods that
    became ready, so that others could start; `late` is why the failed pod did not in time. `gone`
    are the pods of roles that had ended by themselves.
    """

    codes: Mapping[str, int] = field(default_factory=dict)
    failed: str = ""
    ready: frozenset[str] = frozenset()
    late: str = ""
    gone: tuple[str, ...] = ()
    signal: int = 0
    succeeded: bool = False

    @property
    def code(self) -> int:
        """The exit code of the whole rehearsal."""
        if self.succeeded:
            return 0
        if self.signal:
            return 128 + self.signal
        return 1 if self.late else self.codes.get(self.failed) or 1


def run(processes: tuple[LocalProcess, ...], workload: Workload, audience: Audience) -> Outcome:
    """Start everything, and return when all processes and their descendants have ended."""
    stage = _Stage(processes, workload, audience)
    with _signals(stage.interrupt):
        try:
            stage.start()
            stage.watch()
        finally:
            stage.kill()
            stage.end_probes()
    return stage.outcome()


@contextmanager
def _signals(handler: Callable[[int], None]) -> Iterator[None]:
    """Pass SIGINT, SIGTERM and SIGHUP to a handler in a thread of its own, while in the context.

    Python's own handlers wait for the main thread, which a signal does not wake when it comes in
    the moment before the thread begins to wait. The descriptor is written to in any case.
    https://docs.python.org/3/library/signal.html#signal.set_wakeup_fd
    """
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    # Under nohup, and behind the & of a script, some of them are ignored on purpose.
    caught = [number for number in signals if signal.getsignal(number) is not signal.SIG_IGN]
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
class _Failure:
    """The end of a pod that failed."""

    pod: str
    at: float  # seconds of the monotonic clock
    killed: bool  # by a signal that the rehearsal did not send

    def precedes(self, other: _Failure) -> bool:
        """Whether the other may be its result: the end of a peer has no process killed."""
        if self.killed != other.killed and abs(self.at - other.at) < _TOGETHER:
            return self.killed
        return self.at < other.at


class _Stage:
    """The running processes, and what is to be done about them.

    Threads and signal handlers put calls into one queue; only `watch` makes them, one by one.
    """

    def __init__(self, processes: tuple[LocalProcess, ...], workload: Workload, audience: Audience):
        self._processes = processes
        self._workload = workload
        self._restarts: dict[str, Restart] = {pod.name: pod.restart for pod in workload.pods}
        self._awaited = {
            pod.name: awaited
            for role, awaited in workload.serving.items()
            for pod in workload.of_role(role)
        }
        self._audience = audience
        self._queue: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._waiting = list(processes)
        self._running: dict[str, _Child] = {}
        self._probing: list[Thread] = []
        self._over = Event()  # nothing is started any more
        self._ready: set[str] = set()  # pods
        self._gone: list[str] = []  # pods of roles that ended well before the job
        self._missed = ""  # the first of them that was there to serve
        self._late = ""
        self._left = {pod.name: 0 for pod in workload.pods}  # processes that have not ended
        self._codes: dict[str, int] = {}  # of pods, once all of their processes have ended
        self._failure: _Failure | None = None
        self._signal = 0
        self._deadline: float | None = None  # then what is left is stopped harder
        self._asked = False  # SIGTERM was sent
        self._lingering = False  # the job has succeeded, and its last pods may end by themselves

    def interrupt(self, number: int) -> None:
        self._queue.put(partial(self._interrupted, number))

    def start(self) -> None:
        """Start the pods that wait for no role."""
        for process in self._processes:
            self._left[process.pod] += 1
        self._start_due()

    def _start_due(self) -> None:
        """Start the pods whose awaited roles are ready, until no more can start."""
        while due := [process for process in self._waiting if self._is_due(process.pod)]:
            for process in due:
                self._waiting.remove(process)
                self._start(process)
        self._tell()

    def _is_due(self, pod: str) -> bool:
        """Whether a pod may start: of a role at once, others after the roles that they await."""
        return pod in self._awaited or all(
            not awaited or other in (self._ready if awaited == "ready" else self._gone)
            for other, awaited in self._awaited.items()
        )

    def _start(self, process: LocalProcess) -> None:
        """Start a process, follow what it prints, and probe it if others wait for its pod."""
        try:
            started = _Child(process)
        except OSError as error:
            raise RehearsalError(f"{process.argv[0]} cannot be started: {error}") from error
        self._running[process.label] = started
        Thread(target=self._follow, args=(process, started), daemon=True).start()
        if process.probe is None or process.pod not in self._awaited:
            self._ready.add(process.pod)
            return
        prober = Thread(target=self._probe, args=(process, process.probe, started), daemon=True)
        self._probing.append(prober)
        prober.start()

    def _probe(self, process: LocalProcess, probe: Probe, started: _Child) -> None:
        """Report once a process is ready, or that its time for that is over, in a thread."""
        deadline = time.monotonic() + probe.within
        while not self._over.is_set() and not started.ended.is_set():
            why = probes.attempt(probe, process.env, process.folder)
            if not why:
                self._queue.put(partial(self._probed, process))
                return
            if time.monotonic() >= deadline:
                self._queue.put(partial(self._probed, process, late=f"{probe}: {why}"))
                return
            started.ended.wait(_PROBE)

    def end_probes(self) -> None:
        """Wait for the threads of probes, since nothing else would end their commands."""
        for prober in self._probing:
            prober.join()

    def _tell(self) -> None:
        running = {process.pod for process in self._processes if process.label in self._running}
        ended = sum(1 for left in self._left.values() if not left)
        self._audience.state(len(running), ended)

    def _follow(self, process: LocalProcess, started: _Child) -> None:
        """Report a process's output and then its end, in a thread of its own."""
        reader = Thread(target=self._read, args=(process, started), daemon=True)
        reader.start()
        code = started.wait()
        reader.join(_DRAIN)
        code = 128 - code if code < 0 else code
        killed = code > 128 and code - 128 not in started.sent
        failure = _Failure(process.pod, started.ended_at, killed)
        self._queue.put(partial(self._ended, process, code, failure))

    def _read(self, process: LocalProcess, started: _Child) -> None:
        with started.output as output:
            for raw in output:
                # Progress bars return the carriage: a terminal would show the last state.
                text = raw.decode(errors="replace").rstrip("\r\n").rpartition("\r")[2]
                self._queue.put(partial(self._audience.line, process.label, text))

    def watch(self) -> None:
        """Handle what is reported until all processes have ended."""
        while self._running or self._waiting:
            wait = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
            try:
                handle = self._queue.get(timeout=wait)
            except Empty:
                handle = self._out_of_time
            handle()

    def _probed(self, process: LocalProcess, late: str = "") -> None:
        if process.label not in self._running or self._asked:
            return
        if late:
            self._late = late
            self._fail_now(process.pod, f"{process.label} was not ready in time")
            return
        self._ready.add(process.pod)
        self._audience.say(f"{process.label} is ready")
        self._start_due()

    def _ended(self, process: LocalProcess, code: int, failure: _Failure) -> None:
        pod = process.pod
        del self._running[process.label]
        self._left[pod] -= 1
        # Where an agent runs several processes in a pod, the first that fails speaks for it.
        self._codes[pod] = self._codes.pop(pod, 0) or code
        if self._left[pod] and not code:
            return
        self._tell()
        what = f"{process.label} ended with exit code {code}"
        if self._asked or self._lingering:
            # Of two that failed, the first is to blame, whichever was reported first.
            if self._failure and code and failure.precedes(self._failure):
                self._failure, self._late = failure, ""
        elif (code and not self._goes_on(pod, code)) or pod not in self._ready:
            self._fail(failure, what)
        elif self._succeeded():
            self._end()
        elif pod in self._awaited:
            self._gone_well(process, what)

    def _fail(self, failure: _Failure, what: str) -> None:
        self._failure = failure
        self._stop(what)

    def _fail_now(self, pod: str, what: str) -> None:
        self._fail(_Failure(pod, time.monotonic(), killed=False), what)

    def _end(self) -> None:
        """End a job that has succeeded: stop serving roles left alone, or else let its pods end."""
        running = {process.pod for process in self._processes if process.label in self._running}
        if running <= self._awaited.keys():
            self._stop("the job has succeeded")
        else:
            self._lingering = True
            self._deadline = time.monotonic() + _LINGER

    def _gone_well(self, process: LocalProcess, what: str) -> None:
        """Handle the end of a role: one with a probe was there to serve, and the job needs it."""
        self._gone.append(process.pod)
        self._start_due()
        if process.probe is None or self._missed:
            return
        self._missed = process.pod
        self._audience.say(f"{what}, before the job: the job has {_LINGER:.0f} s to end without it")
        self._deadline = time.monotonic() + _LINGER

    def _goes_on(self, pod: str, code: int) -> bool:
        """Whether an elastic job continues without a pod that the operator would start again."""
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
        """Send SIGTERM to the first process of each pod, as the kubelet does, with a time limit."""
        self._waiting.clear()
        self._asked = True
        if not self._running:
            return
        graces = [p.grace_period for p in self._processes if p.label in self._running]
        self._audience.say(
            f"{why}: stopping {len(self._running)} more, which have {max(graces)} s "
            "(Ctrl-C kills them)"
        )
        self._deadline = time.monotonic() + max(graces)
        for started in self._running.values():
            started.terminate()

    def _out_of_time(self) -> None:
        if self._asked:
            self._audience.say(f"out of time: killing {', '.join(self._running)}")
            self._deadline = None
            self.kill()
        elif self._lingering:
            self._stop("the job has succeeded")
        else:
            self._fail_now(self._missed, "the job has not ended")

    def kill(self) -> None:
        """Send SIGKILL to all processes that are left."""
        self._waiting.clear()
        self._over.set()
        for started in self._running.values():
            started.kill()

    def outcome(self) -> Outcome:
        failed = next((pod for pod, code in self._codes.items() if code), "")
        return Outcome(
            codes=dict(self._codes),
            failed=self._failure.pod if self._failure else failed,
            ready=frozenset(self._ready),
            late=self._late,
            gone=tuple(self._gone),
            signal=self._signal,
            succeeded=not self._failure and not self._signal and self._succeeded(),
        )


class _Child:
    """A process in a session of its own, and its descendants.

    It is reaped last: until then its PID, which is also its group's, cannot be reused.
    """

    def __init__(self, process: LocalProcess) -> None:
        self.ended = Event()
        self.ended_at = 0.0
        self.sent: set[int] = set()  # signals
        self._mark = process.env[MARK]
        self._reaping = Lock()
        self._popen = subprocess.Popen(  # noqa: S603 - an argument list, and no shell
            process.argv,
            cwd=process.folder,
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
        """Return its exit code after ending all that it left behind, as happens in a container."""
        if hasattr(os, "waitid"):
            os.waitid(os.P_PID, self._popen.pid, os.WEXITED | os.WNOWAIT)
            self.ended_at = time.monotonic()
            with self._reaping:
                _kill_group(self._popen.pid)
                code = self._popen.wait()
        else:
            code = self._polled()
            self.ended_at = time.monotonic()
        self.ended.set()
        _kill_marked(self._mark)
        return code

    def _polled(self) -> int:
        """Return its exit code where waiting also reaps, as on macOS before Python 3.13.

        What is left of its group is not killed: its PID may have been reused by then.
        """
        while True:
            with self._reaping:
                code = self._popen.poll()
            if code is not None:
                return code
            time.sleep(_POLL)

    def terminate(self) -> None:
        """Send SIGTERM to the first process alone, as the kubelet does."""
        with self._reaping:
            if self._popen.returncode is None:  # not poll(), which reaps
                self.sent.add(signal.SIGTERM)
                os.kill(self._popen.pid, signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to it and to everything that it has started."""
        with self._reaping:
            if self._popen.returncode is None:
                self.sent.add(signal.SIGKILL)
                _kill_group(self._popen.pid)
        _kill_marked(self._mark)


def _kill_group(pid: int) -> None:
    # macOS says EPERM of a group whose only process waits to be reaped.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _kill_marked(mark: str) -> None:
    """Send SIGKILL to descendants that left their process group, as torchrun's workers do."""
    empty = 0
    for _ in range(_ROUNDS):
        pids = list(_marked(f"{MARK}={mark}".encode()))
        empty = 0 if pids else empty + 1
        if empty == _LOOKS:
            return
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_ROUND)


def _marked(entry: bytes) -> Iterator[int]:
    """Yield the ids of processes that have this entry in their env."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # gone by now, or another user's
            if entry in path.read_bytes().split(b"\0"):
                yield int(path.parent.name)
