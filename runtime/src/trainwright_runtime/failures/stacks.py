"""Where a process is: the stacks that faulthandler writes on a signal, read back."""

from __future__ import annotations

import faulthandler
import re
import signal
import sysconfig
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Real-time: scripts and schedulers use SIGUSR1 and SIGUSR2 themselves (Lightning, submitit).
SIGNAL = signal.SIGRTMIN + 7 if hasattr(signal, "SIGRTMIN") else None

_THREAD = re.compile(r"(Current thread|Thread) 0x")
_FRAME = re.compile(r'  File "(.+)", line (\d+) in (.+)', re.DOTALL)

_LIBRARIES = (sysconfig.get_paths()["stdlib"], "<frozen", "/site-packages/", "/dist-packages/")
_OURS = str(Path(__file__).parents[1])
_NODE = str(Path(__file__).parents[1] / "elastic" / "node.py")  # collectives of its own


@dataclass(frozen=True, slots=True)
class Frame:
    """One call."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line} in {self.function}"


def enable() -> None:
    """Write the stacks to stderr when the process crashes, and on the signal."""
    faulthandler.enable()
    if SIGNAL is not None:
        faulthandler.register(SIGNAL, all_threads=True)


def answers(pid: int) -> bool:
    """Whether a process would write its stacks: without a handler the signal would end it."""
    return SIGNAL is not None and bool(int(_status(pid, "SigCgt") or "0", 16) >> SIGNAL - 1 & 1)


def state(pid: int) -> str:
    """Return a process's state by proc(5), such as R, S, D (in storage or a driver) or T (stopped).

    Return "" if the process is gone.
    """
    return _status(pid, "State")[:1]


def _status(pid: int, key: str) -> str:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == key:
                return value.strip()
    return ""


def main_thread(lines: Iterable[str]) -> list[Frame]:
    """Return the main thread's calls, innermost first: faulthandler writes this thread last."""
    return _threads(lines)[-1][1]


def crashed_thread(lines: Iterable[str]) -> list[Frame]:
    """Return the calls of the thread that crashed the process, innermost first."""
    return next((frames for kind, frames in _threads(lines) if kind == "Current thread"), [])


def _threads(lines: Iterable[str]) -> list[tuple[str, list[Frame]]]:
    """Return the kind and the calls of each thread, after those that precede the first one."""
    threads: list[tuple[str, list[Frame]]] = [("", [])]
    for line in lines:
        if thread := _THREAD.match(line):
            threads.append((thread[1], []))
        elif match := _FRAME.fullmatch(line):
            threads[-1][1].append(Frame(match[1], int(match[2]), match[3]))
    return threads


def own_frame(frames: Sequence[Frame]) -> Frame | None:
    """Return the script's own innermost call, else the innermost of all; None without calls."""
    own = (f for f in frames if not f.file.startswith(_OURS) and not _in_library(f.file))
    return next(own, frames[0] if frames else None)


def _in_library(file: str) -> bool:
    return any(file.startswith(part) or part in file for part in _LIBRARIES)


def waits_for_peers(frames: Sequence[Frame]) -> bool:
    """Whether the process is in a collective, or in a backward pass, which may wait in one."""
    if frames and frames[0].file == _NODE:
        return True
    return any(
        "/torch/distributed/" in frame.file or "/torch/autograd/" in frame.file for frame in frames
    )
