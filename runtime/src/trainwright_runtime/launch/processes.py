"""Processes of this node: each in a session of its own, its output labelled, its end observed.

Each process has a thread for each of its two streams and one that waits for its end, so that ends
are reported in the order in which they happened: the first failure is the cause, later ones follow.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from queue import Empty, SimpleQueue
from types import FrameType
from typing import IO, BinaryIO

from trainwright_runtime import metrics
from trainwright_runtime.failures import errors, exit_codes, stacks
from trainwright_runtime.failures.failure import KILLED, Record
from trainwright_runtime.launch import cgroup
from trainwright_runtime.observe import logs

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

_CHUNK = 1 << 16  # bytes read at once, and the longest line that is kept whole
_DRAIN = 5.0  # seconds for the last output of a process that has ended
_EARLIER = 0.1  # seconds in which a rank that failed before has noted it too
_FOLLOW = 1.0  # seconds in which the cause of a lost rank shows itself
_KILLED = 10.0  # seconds for the kernel to end what got SIGKILL

_DUMP = 2.0  # seconds for a hanging process to write its stacks
_PAUSE = 0.05
_TAIL_LINES, _TAIL_WIDTH = 500, 2000  # a crash with many threads is clear from its first lines

# The last line of a traceback, in a group of exceptions too: "| pkg.SomeError: what happened".
_EXCEPTION = re.compile(
    r"[|+\- ]*[A-Za-z_][\w.]*(Error|Exception|Exit|Interrupt|Fault|Stop)\b.*", re.DOTALL
)


_TERMINATE = re.compile(r"\s*what\(\):\s+(.+)")
_FATAL = "Fatal Python error: "  # faulthandler's, on SIGSEGV, SIGBUS, SIGABRT and their like


@dataclass(frozen=True, slots=True)
class Signalled:
    """The entrypoint got a signal to end."""

    number: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A process has ended, and its last output is written."""

    process: Process


@dataclass(frozen=True, slots=True)
class Failed:
    """Something that was waited for besides the processes has failed."""

    error: errors.RuntimeFailure


@dataclass(frozen=True, slots=True)
class Finished:
    """The training is over on the node that leads it, which ends with this exit code."""

    exit_code: int


Event = Signalled | Ended | Failed | Finished

# SimpleQueue, since its put() may interrupt its own get(): signal handlers put here.
Events = SimpleQueue[Event]


def next_event(events: Events, by: float | None) -> Event | None:
    """Return the next event, or None if there is none by then; without a time, wait for ever."""
    timeout = None if by is None else max(0.0, by - time.monotonic())
    try:
        return events.get(timeout=timeout)
    except Empty:
        return None


class Tail:
    """The last lines of a stream."""

    def __init__(self) -> None:
        self.count = 0  # of all lines that there were
        self._lines: deque[str] = deque(maxlen=_TAIL_LINES)

    def add(self, lines: list[bytes]) -> None:
        """Add the lines that were just read."""
        kept = [line[:_TAIL_WIDTH].decode(errors="replace") for line in lines[-_TAIL_LINES:]]
        self._lines.extend(kept)
        self.count += len(lines)

    def since(self, count: int) -> list[str]:
        """Return the lines after the first `count`, as far as they are kept."""
        lines = list(self._lines)
        return lines[max(0, count - self.count + len(lines)) :]


class Process:
    """One process in a session of its own, whose output is copied line by line to ours."""

    def __init__(
        self,
        argv: Sequence[str],
        environ: Mapping[str, str],
        *,
        label: logs.Label,
        log_format: str,
        events: Events,
        quiet: bool = False,
    ) -> None:
        """If `quiet`, its output is not copied to ours."""
        self.label = label
        self.ended_at: float | None = None  # on the monotonic clock, before its output was drained
        self.done = threading.Event()
        self.tail = Tail()  # of its stderr
        self.worker = metrics.worker_name(None, environ)
        self._oom_kills = cgroup.oom_kills()
        # A pipe, not a file: the disk may be what fails.
        reader, failure_pipe = os.pipe()
        os.set_blocking(reader, False)
        self._records: int | None = reader
        try:
            self._popen = subprocess.Popen(  # noqa: S603 - the user's own program, and no shell
                argv,
                env={**environ, "TRAINWRIGHT_FAILURE_FD": str(failure_pipe)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                pass_fds=(failure_pipe,),
            )
        finally:
            os.close(failure_pipe)
        self._record: Record | None = None
        self._reading = threading.Lock()
        streams = (
            (self._popen.stdout, sys.stdout.buffer, "stdout"),
            (self._popen.stderr, sys.stderr.buffer, "stderr"),
        )
        pumps = []
        for source, sink, name in streams:
            assert source is not None
            relabel = _relabel(log_format, label, name)
            tail = self.tail if name == "stderr" else None
            shown = None if quiet else sink
            pump = threading.Thread(target=_pump, args=(source, shown, relabel, tail), daemon=True)
            pump.start()
            pumps.append(pump)
        threading.Thread(target=self._wait, args=(pumps, events), daemon=True).start()

    @property
    def pid(self) -> int:
        """The process id, which is also that of its session and its process group."""
        return self._popen.pid

    @property
    def exit_code(self) -> int:
        """The exit code, 128 + n after signal n; 137 if the process has not ended."""
        code = self._popen.returncode
        return exit_codes.of_process(-signal.SIGKILL if code is None else code)

    @property
    def name(self) -> str:
        """The label as text, as in the log lines."""
        return " ".join(f"{key} {value}" for key, value in self.label.items())

    def send(self, number: int) -> None:
        """Signal the process itself, not its group: it knows what its children are to do."""
        if self.ended_at is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it and all processes that it started, at once."""
        if not self.done.is_set():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    @property
    def signal(self) -> int | None:
        """The signal that ended it, if one did."""
        code = self._popen.returncode
        return -code if code is not None and code < 0 else None

    @property
    def record(self) -> Record | None:
        """Its own record of its failure, if any, readable even while it is still exiting."""
        with self._reading:
            if self._record is None and self._records is not None:
                with suppress(BlockingIOError):  # nothing yet
                    self._record = Record.decode(os.read(self._records, _CHUNK))
            return self._record

    @property
    def failed_at(self) -> float | None:
        """When it failed, on the monotonic clock; None while all is well."""
        if self.record is not None:
            return self.record.at
        if self.done.is_set() and self.exit_code != exit_codes.DONE:
            return self.ended_at
        return None

    @property
    def lost_a_peer(self) -> bool:
        """Whether it failed only because another rank did."""
        code = self.record.exit_code if self.record else self.exit_code
        return code == exit_codes.PEER_LOST

    @property
    def oom_killed(self) -> bool:
        """Whether the kernel has ended a process of this container, for want of memory, since."""
        return cgroup.oom_kills() > self._oom_kills

    def how_it_ended(self) -> str:
        """Return one line: the exit code or signal, and the last exception on its stderr."""
        joint = "; last line: " if self.signal else ": "
        return joint.join(filter(None, (self.how, self.error)))

    @property
    def how(self) -> str:
        """The exit code or the signal."""
        if self.signal is not None:
            return f"{KILLED}{_signal_name(self.signal)}"
        code = self._popen.returncode
        return f"exit code {self.record.exit_code if self.record and code is None else code}"

    @property
    def error(self) -> str:
        """The line of its record, else of its stderr, that names what happened; "" if unknown."""
        if self.record is not None and self.record.error:
            return self.record.error
        if self.signal == signal.SIGKILL:
            return ""  # killed from outside: what it printed before is not the reason
        return last_error(self.tail.since(0))

    def frames(self) -> list[stacks.Frame]:
        """Return its main thread's calls, also written to its log; [] if it does not answer."""
        if self.done.is_set() or not stacks.answers(self.pid):
            return []
        begin = self.tail.count
        assert stacks.SIGNAL is not None
        self.send(stacks.SIGNAL)
        deadline = time.monotonic() + _DUMP
        seen = begin
        while time.monotonic() < deadline:
            time.sleep(_PAUSE)
            if seen == self.tail.count > begin:  # nothing more has come
                break
            seen = self.tail.count
        return stacks.main_thread(self.tail.since(begin))

    def _close_records(self) -> None:
        """Read the record that the process may have left, and close the pipe."""
        _ = self.record
        with self._reading:
            if self._records is not None:
                os.close(self._records)
                self._records = None

    def _wait(self, pumps: Iterable[threading.Thread], events: Events) -> None:
        """Wait for the process, end its group, and report its end once all output is written."""
        if hasattr(os, "waitid"):
            # WNOWAIT keeps the process id ours until its group is killed: DataLoader workers and
            # other children must not outlive it, nor keep its pipes open.
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
            self.ended_at = time.monotonic()
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)
        else:  # macOS before Python 3.13, where a job may be rehearsed
            self._popen.wait()
            self.ended_at = time.monotonic()
        for pump in pumps:
            pump.join(_DRAIN)
        self._popen.wait()
        self._close_records()
        self.done.set()
        events.put(Ended(self))


def last_error(lines: Sequence[str]) -> str:
    """Return the line of a process's last output that names what happened."""
    lines = [line.rstrip() for line in lines if line.strip()]
    for line in reversed(lines):
        if match := _TERMINATE.match(line):  # C++: "terminate called after throwing", then this
            return match[1]
    crashes = [at for at, line in enumerate(lines) if line.startswith(_FATAL)]
    if crashes:
        frame = stacks.own_frame(stacks.crashed_thread(lines[crashes[-1] :]))
        return lines[crashes[-1]] + (f", at {frame}" if frame else "")
    raised = [line for line in lines if _EXCEPTION.fullmatch(line)]
    last = (raised or lines)[-1:]
    return last[0].lstrip("|+- ") if last else ""


def stop(processes: Iterable[Process], number: int, grace: float) -> None:
    """Signal all that still run, wait `grace` seconds for all together, then kill the rest."""
    processes = list(processes)
    for process in processes:
        process.send(number)
    deadline = time.monotonic() + grace
    for process in processes:
        process.done.wait(max(0.0, deadline - time.monotonic()))
    for process in processes:
        process.kill()
    for process in processes:
        process.done.wait(_KILLED)


def first_failure(processes: Iterable[Process]) -> Process | None:
    """Return the process whose failure caused the others', or None if none has failed.

    It has to be known before the others are stopped. A rank that merely lost another one is the
    cause only if no other fails within a moment: the lost one may be on another node, or still be
    dying.
    """
    processes = list(processes)
    began = time.monotonic()
    while cause := _earliest(processes):
        waited = time.monotonic() - began
        over = waited > (_FOLLOW if cause.lost_a_peer else _EARLIER)
        if over or all(process.done.is_set() for process in processes):
            break
        time.sleep(0.01)
    return cause


def _earliest(processes: Iterable[Process]) -> Process | None:
    """Return the first to have failed, by the ranks' own times: they may end in another order."""
    failed = [(p.lost_a_peer, at, p) for p in processes if (at := p.failed_at) is not None]
    return min(failed, key=lambda entry: entry[:2], default=(None,))[-1]


@contextmanager
def signals_to(events: Events) -> Iterator[None]:
    """Put SIGTERM and SIGINT on the queue instead of ending this process.

    By a thread, and a descriptor that is written to in any case: Python's own handlers wait for the
    main thread, which a signal does not wake when it comes in the moment before the thread begins
    to wait for an event. https://docs.python.org/3/library/signal.html#signal.set_wakeup_fd
    """
    heard, written = os.pipe()
    os.set_blocking(written, False)

    def listen() -> None:
        while number := os.read(heard, 1):
            if number[0] in STOP_SIGNALS:
                events.put(Signalled(number[0]))
        os.close(heard)

    listener = threading.Thread(target=listen, daemon=True, name="signals")
    listener.start()
    wakeup = signal.set_wakeup_fd(written)
    try:
        with handling(lambda *_: None):
            yield
    finally:
        signal.set_wakeup_fd(wakeup)
        os.close(written)
        listener.join()


@contextmanager
def handling(handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Handle the signals that stop a training by `handle` in the block, then as before."""
    previous = {number: signal.signal(number, handle) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


# --- output --------------------------------------------------------------------------------------

_encode = json.JSONEncoder(ensure_ascii=False).encode
_writing = threading.Lock()  # lines of different processes never mix


Relabel = Callable[[list[bytes]], bytes]
"""Turns lines of a process's stream into lines of our log."""


def _relabel(log_format: str, label: logs.Label, stream: str) -> Relabel:
    """Return the function for a stream of a process with this label."""
    if log_format == "json":
        return partial(_as_json, label, stream)
    text = f"[{' '.join(f'{key} {value}' for key, value in label.items())}] "
    prefix = text.encode(errors="backslashreplace")  # a host's name may be any bytes
    return lambda lines: b"".join([prefix + line + b"\n" for line in lines])


def _as_json(label: logs.Label, stream: str, lines: list[bytes]) -> bytes:
    """Return each line as a JSON object; a line that already is one keeps its fields."""
    common = {"time": logs.now(), "level": "info", **label}
    return b"".join([_line_as_json(line, stream, common) for line in lines])


def _line_as_json(line: bytes, stream: str, common: logs.Label) -> bytes:
    # What is nested too deep to be read or written is a line like any other.
    with suppress(ValueError, RecursionError):
        if fields := _fields(line):
            return _json_line({**common, **fields})
    message = line.decode(errors="replace")
    return _json_line({**common, "stream": stream, "message": message})


def _fields(line: bytes) -> dict[str, object] | None:
    if line.startswith(b'{"') and line.endswith(b"}"):
        fields = json.loads(line)
        if isinstance(fields, dict) and "message" in fields:
            return fields
    return None


def _json_line(record: Mapping[str, object]) -> bytes:
    # A lone surrogate, which UTF-8 has no bytes for, stays the escape that it is in JSON.
    return _encode(record).encode(errors="backslashreplace") + b"\n"


def _pump(
    source: IO[bytes],
    sink: BinaryIO | None,
    relabel: Relabel,
    tail: Tail | None,
) -> None:
    """Copy whole lines until the end of the stream, then the rest that has no newline."""
    rest = b""
    while chunk := os.read(source.fileno(), _CHUNK):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) >= _CHUNK:
            lines.append(rest)
            rest = b""
        _write(sink, lines, relabel, tail)
    if rest:
        _write(sink, [rest], relabel, tail)
    source.close()


def _write(
    sink: BinaryIO | None,
    lines: list[bytes],
    relabel: Relabel,
    tail: Tail | None,
) -> None:
    """Write lines to our own stream, and keep them in the tail."""
    if not lines:
        return
    # A progress bar rewrites its line after each carriage return: the last state is what counts.
    lines = [line.rstrip(b"\r").rpartition(b"\r")[2] for line in lines]
    if tail is not None:
        tail.add(lines)
    if sink is None:
        return
    text = relabel(lines)
    with _writing, suppress(OSError):  # a reader of ours that is gone must not block the training
        sink.write(text)
        sink.flush()
