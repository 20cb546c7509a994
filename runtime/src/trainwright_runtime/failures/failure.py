"""Which rank failed first, where, how and why: one value, reported in the log and to Kubernetes.

A rank notes its own error at once (`Record`), before it shuts down: errors are ordered by that
moment, and not by when their processes ended. The entrypoint makes a `Failure` of it and writes
one sentence into the log, JSON into /dev/termination-log, where `kubectl` and `trainwright status`
find it, and a line into the metrics file of the rank.
"""

from __future__ import annotations

import json
import logging
import os
import re
import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from trainwright_runtime.failures import causes, exit_codes
from trainwright_runtime.failures.causes import Cause, Evidence
from trainwright_runtime.observe import logs
from trainwright_runtime.observe.journal import Event, append
from trainwright_runtime.observe.redaction import redact

_log = logging.getLogger(f"{logs.ROOT}.entrypoint")

# The kubelet keeps 4096 bytes of a container, and 12 KiB of all containers of a pod together.
# https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
TERMINATION_BYTES = 4096
TERMINATION_LOG = "/dev/termination-log"

KILLED = "killed by "  # how a process ended by a signal, before its name

_LONGEST = 600  # characters of an error: more is in the log
_RECORD_BYTES = 4096  # PIPE_BUF of Linux: one write to a pipe is whole up to here

# Where torch goes on with frames of C++, which help few readers.
_NATIVE_FRAMES = re.compile(r"\n(Exception raised from |frame #0|C\+\+ CapturedTraceback)")
_FROM_A_WORKER = "Original Traceback (most recent call last)"  # torch's ExceptionWrapper


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A container's place in its job: its node rank, and the name of its pod or machine."""

    rank: int | None  # None where nodes have no ranks
    name: str  # of the pod, or of the machine

    def __str__(self) -> str:
        return self.name if self.rank is None else f"node {self.rank} ({self.name})"


# --- what a rank notes ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What a training process reports about its own end, while it still can."""

    at: float  # on the monotonic clock, which the processes of a machine share
    error: str
    exit_code: int
    cause: str = ""

    def encode(self) -> bytes:
        """Return one line that is short enough for an atomic write to a pipe."""
        kept = self
        while len(line := json.dumps(asdict(kept)).encode() + b"\n") > _RECORD_BYTES:
            kept = replace(kept, error=kept.error[: len(kept.error) // 2])
        return line

    @classmethod
    def decode(cls, line: bytes) -> Record | None:
        """Return the record, or None if there is none: scripts may write to any descriptor."""
        try:
            data = json.loads(line.partition(b"\n")[0])
            return cls(
                at=float(data["at"]),
                error=str(data["error"]),
                exit_code=int(data["exit_code"]),
                cause=str(data["cause"]),
            )
        except (ValueError, KeyError, TypeError):
            return None


def error_line(error: BaseException) -> str:
    """Return the line of an exception's traceback that names what happened."""
    return _first_line(_type_and_message(error))


def cause_of(error: BaseException, *, oom_killed: bool = False) -> Cause | None:
    """Return the cause that an error's message shows, else the message of one that it was raised
    from; None if unknown."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        evidence = Evidence(error=_type_and_message(error), oom_killed=oom_killed)
        if cause := causes.recognise(evidence):
            return cause
        if error.__cause__ is None:
            break
        error = error.__cause__
    return None


def _type_and_message(error: BaseException) -> str:
    """Return an error's type and message, without frames; of a group, its first error's."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = "".join(traceback.format_exception_only(error)).strip()
    text = _NATIVE_FRAMES.split(text, maxsplit=1)[0]
    if _FROM_A_WORKER in text:
        return text.rstrip().rpartition("\n")[2]
    return text


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        return ""
    if isinstance(lines[0], str) and lines[0].startswith("File ") and len(lines) > 1:
        return lines[-1]  # SyntaxError shows the place first
    return lines[0]


# --- what the entrypoint makes of it -------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The first failure of a node's training."""

    who: str  # "rank 1"; empty where the entrypoint itself failed
    rank: int | None
    worker: str  # whose metrics file has it too; empty with who
    node: Node
    time: float  # Unix seconds
    how: str  # "exit code 1", "killed by SIGKILL"
    error: str
    own_exit_code: int
    cause: Cause | None = None
    detail: str = ""  # what was measured: "2 of 3 ranks wait for it"

    @property
    def exit_code(self) -> int:
        """The container's exit code: that of the cause, unless the script chose one itself."""
        chosen = (
            exit_codes.FAILED < self.own_exit_code < exit_codes.RETRY
        )  # by the script: it knows
        if chosen or self.cause is None or self.cause.exit_code is None:
            return self.own_exit_code
        return self.cause.exit_code

    @property
    def retry(self) -> bool:
        """Whether the same run can succeed when it is started again."""
        return self.exit_code >= exit_codes.RETRY

    def sentence(self) -> str:
        """Return one sentence: who failed, where, how and why, and what to do."""
        who = f"{self.who} on {self.node} failed: " if self.who else ""
        what = ": ".join(filter(None, (self.how, self.error)))
        if self.detail:
            what += f", {self.detail}"
        if self.cause is None:
            return who + what
        return f"{who}{what} (cause: {self.cause.title}; help: {self.cause.remedy})"


def shortened(text: str) -> str:
    """Return the text as one line of limited length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def report(failure: Failure, environ: Mapping[str, str]) -> int:
    """Report a failure in the log, the termination message and the metrics.

    Return its exit code.
    """
    public = _redacted(failure, environ)
    _log.error("%s", public.sentence())
    write_message(public, environ)
    _append(public, environ)
    return public.exit_code


def note(failure: Failure, environ: Mapping[str, str]) -> None:
    """Record the failure in the metrics only, since training goes on."""
    _append(_redacted(failure, environ), environ)


def _redacted(failure: Failure, environ: Mapping[str, str]) -> Failure:
    return replace(
        failure,
        error=shortened(redact(failure.error, environ)),
        detail=redact(failure.detail, environ),
    )


def _append(public: Failure, environ: Mapping[str, str]) -> None:
    """Append the failure to the metrics file of its worker, if there is one."""
    folder = environ.get("TRAINWRIGHT_METRICS_DIR")
    if folder and public.worker:
        event = Event(
            time=public.time,
            name="failure",
            fields={
                "cause": public.cause.name if public.cause else "unknown",
                "error": _error(public),
                "exit_code": public.exit_code,
                "node": public.node.name,
            },
        )
        append(Path(folder) / f"{public.worker}.jsonl", event)


def _error(public: Failure) -> str:
    """Return why it ended, in a line; the last line of a killed process is seldom the reason."""
    if public.error and public.how.startswith(KILLED):
        return f"{public.how}; last line: {public.error}"
    return public.error or public.how


# --- the termination message ---------------------------------------------------------------------


def write_message(failure: Failure, environ: Mapping[str, str]) -> None:
    """Write the termination message, where there is a place for it.

    A failure that follows from another one doesn't replace a message that is there: under other
    agents than ours, each process writes its own.
    """
    path = _termination_log(environ)
    if path is None:
        return
    with suppress(OSError):
        follows = failure.cause is not None and failure.cause.follows
        if not (follows and path.exists() and path.stat().st_size):
            path.write_bytes(message(failure))


def clear_message(exit_code: int, environ: Mapping[str, str]) -> None:
    """Empty the message of an earlier attempt, which is not how this container ended.

    What a program has left there itself stays.
    """
    path = _termination_log(environ)
    if path is None:
        return
    with suppress(OSError):
        report = _report(path.read_bytes())
        if report is not None and report["exitCode"] != exit_code:
            path.write_bytes(b"")


def _report(text: bytes) -> Mapping[str, object] | None:
    """Return the fields of a message as `message` makes it; None for any other text."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and {"message", "exitCode"} <= fields.keys() else None


def message(failure: Failure) -> bytes:
    """Return the failure as JSON of at most TERMINATION_BYTES."""
    cause = failure.cause
    fields: dict[str, object] = {
        "message": failure.sentence(),
        "cause": cause.name if cause else "unknown",
        "rank": failure.rank,
        "node": failure.node.rank,
        "host": failure.node.name,
        "exitCode": failure.exit_code,
        "retry": failure.retry,
        "follows": bool(cause and cause.follows),
        "time": logs.at(failure.time),
        "error": failure.error,
        "help": cause.remedy if cause else "",
    }
    return _encode_bounded(fields)


def _encode_bounded(fields: dict[str, object]) -> bytes:
    """Return the fields as JSON of at most TERMINATION_BYTES: texts are cut as far as necessary."""
    length = TERMINATION_BYTES
    while True:
        kept = {
            key: value[:length] if isinstance(value, str) else value
            for key, value in fields.items()
        }
        # Lone surrogates, as of a file name that is not UTF-8, are escapes in JSON.
        text = json.dumps(kept, ensure_ascii=False).encode(errors="backslashreplace")
        if len(text) <= TERMINATION_BYTES:
            return text
        length //= 2


def _termination_log(environ: Mapping[str, str]) -> Path | None:
    """Return the file that Kubernetes mounts, or the one that is named; never create the former."""
    if named := environ.get("TRAINWRIGHT_TERMINATION_LOG"):
        return Path(named)
    mounted = Path(TERMINATION_LOG)
    return mounted if mounted.is_file() else None


def send(record: Record, environ: Mapping[str, str]) -> None:
    """Report to the parent entrypoint, if there is one, through the pipe that it left open."""
    descriptor = environ.get("TRAINWRIGHT_FAILURE_FD", "")
    if descriptor.isdecimal():
        with suppress(OSError):
            os.write(int(descriptor), record.encode())
