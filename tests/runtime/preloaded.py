"""Processes forked from one that has imported torch, where how Python starts is not the point.

Importing torch takes a processor longer than most of these processes live.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NoReturn

import torch.distributed as dist

from trainwright_runtime.launch.process import keep_groups

PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(
    [
        "torch.distributed.fsdp",
        "torch.distributed.checkpoint",
        "torch._dynamo",  # which optimizers import
        "trainwright_runtime.elastic.node",
    ]
)


class Script:
    """A Python script with its arguments; what tests use of `subprocess.Popen`."""

    def __init__(
        self,
        script: Path,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        log: Path,
    ) -> None:
        self._log = log
        given = (script, tuple(arguments), cwd, dict(env), log)
        self._process: ForkServerProcess = PROCESSES.Process(target=_run, args=given)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired([str(self.pid)], timeout or 0)
        return code

    def printed(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def wait_for(self, words: str, timeout: float) -> None:
        """Until it has printed them."""
        deadline = time.monotonic() + timeout
        while words not in self.printed():
            assert self.poll() is None, f"it ended too early:\n{self.printed()}"
            assert time.monotonic() < deadline, self.printed()
            time.sleep(0.01)

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(
    script: Path, arguments: tuple[str, ...], cwd: Path, env: dict[str, str], log: Path
) -> NoReturn:
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    keep_groups(dist.distributed_c10d)  # as in each process that the entrypoint starts
    dist.destroy_process_group = dist.distributed_c10d.destroy_process_group
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.parent))
    os._exit(_ended(script))


def _ended(script: Path) -> int:
    """Run the script and what Python runs at its end; the exit code."""
    code = 0
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as left:
        code = left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException as error:  # noqa: BLE001 - as the interpreter does
        sys.last_value = error  # where programs at exit look for it
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code
