"""Runs the entrypoint as a container would: a real process in a folder, a clean environment."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

# Generous: a loaded machine needs ten seconds to import torch in three processes at once.
TIMEOUT = 600

# What a launcher around the tests may have set must not reach the entrypoint.
_FOREIGN = ("PET_", "TRAINWRIGHT_", "TORCHELASTIC_", "LATTICE_", "JOB_", "OMP_", "MASTER_")
_FOREIGN_NAMES = {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "HOSTNAME"}


@dataclass
class Entrypoint:
    """Runs `python -m trainwright_runtime` in a folder, under a clean environment."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(
        self, *argv: str, env: Mapping[str, str] | None = None, changed: str | None = None
    ) -> subprocess.Popen[str]:
        """changed: a script that changes the entrypoint and then runs it."""
        program = [changed] if changed else ["-m", "trainwright_runtime"]
        process = subprocess.Popen(
            [sys.executable, *program, *argv],
            cwd=self.folder,
            env=clean_environment() | dict(env or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def run(
        self, *argv: str, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return finish(self.start(*argv, env=env))

    def script(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return name


def clean_environment() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_FOREIGN) and name not in _FOREIGN_NAMES
    }


def finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=TIMEOUT)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


@contextmanager
def ending(pids: Iterable[int]) -> Iterator[None]:
    """Afterwards these processes have ended, also those that are not our children.

    A process closes its files before it has ended: the end of its output is too early a sign.
    """
    with ExitStack() as stack:
        descriptors = {pid: os.pidfd_open(pid) for pid in pids}
        for descriptor in descriptors.values():
            stack.callback(os.close, descriptor)
        yield
        for pid, descriptor in descriptors.items():
            ended, _, _ = select.select([descriptor], [], [], TIMEOUT)
            assert ended, f"process {pid} did not end"
