"""Heartbeats of a worker, sent by a separate process, which does not need the worker's GIL.

    python -m trainwright_runtime.coordination.heartbeat HOST:PORT WORKER SECONDS PID

The coordinator requests them only while it forms a quorum. A thread of the worker would be silent
whenever the worker's code holds the GIL. This process ends with the worker, and is silent while the
worker is stopped, since a paused worker takes no step.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from trainwright_runtime.coordination.channel import Channel, connected

_CONNECT = 1.0  # seconds to reach the coordinator
_STOPPED = ("T", "t")  # stopped by a signal, or by a debugger: proc_pid_stat(5)


class Heart:
    """The process that sends heartbeats for this one until it is closed."""

    def __init__(self, coordinator: str, worker: str, interval: float) -> None:
        argv = [sys.executable, "-m", __name__, coordinator, worker, f"{interval:g}"]
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [*argv, str(os.getpid())], stdin=subprocess.PIPE
        )

    def close(self) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()


def main(coordinator: str, worker: str, interval: str, pid: str) -> None:
    """Send heartbeats of a worker, when they are requested, for as long as it is the parent."""
    channel: Channel | None = None
    awaited = True  # whether the coordinator has had no answer to its last request
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the worker may still take steps after it
    while os.getppid() == int(pid):
        try:
            if channel is None:
                channel, awaited = connected(coordinator, _CONNECT)[0], True
            if awaited and not _is_stopped(pid):
                channel.write({"beat": worker})
                awaited = False
            sources = [0, channel.connection.fileno()]
            ready, _, _ = select.select(sources, [], [], float(interval))
            if 0 in ready:
                return
            if ready:
                channel.read()
                awaited = True
        except (OSError, ValueError):
            if channel is not None:
                channel.close()
            channel = None
            if select.select([0], [], [], float(interval))[0]:
                return


def _is_stopped(pid: str) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] in _STOPPED


if __name__ == "__main__":
    main(*sys.argv[1:])
