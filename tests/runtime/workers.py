"""Real worker processes and a real coordinator, for tests that kill them."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from preloaded import Script

from trainwright_runtime.failures import exit_codes
from trainwright_runtime.launch.machine import free_port

SCRIPT = Path(__file__).parent / "elastic_digits.py"


class Workers:
    """Workers named w0, w1, … of one training in `folder`; `start` also starts a dead one again."""

    def __init__(
        self, folder: Path, script: Path, arguments: tuple[str, ...], environ: dict[str, str]
    ) -> None:
        self.folder, self.script, self.arguments = folder, script, arguments
        self.port = free_port()
        self.environ = dict(environ)
        self.audit = folder / "audit"
        self.processes: dict[str, Script] = {}
        self.coordinator: subprocess.Popen[str] | None = None
        self._lives = 0

    def start_coordinator(self) -> None:
        self.coordinator = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "trainwright_runtime",
                "coordinator",
                f"--port={self.port}",
                f"--min-replicas={self.environ.get('TRAINWRIGHT_MIN_REPLICAS', 1)}",
            ],
            cwd=self.folder,
            env={**os.environ, **self.environ},
            stdout=subprocess.DEVNULL,
        )

    def start(self, name: str) -> None:
        self._lives += 1
        environ = {
            **os.environ,
            "TRAINWRIGHT_COORDINATOR": f"127.0.0.1:{self.port}",
            "TRAINWRIGHT_REPLICA": name,
            "TRAINWRIGHT_AUDIT_DIR": str(self.audit),
            "TRAINWRIGHT_BACKEND": "gloo",
            **self.environ,
        }
        log = self.folder / f"{name}-{self._lives}.log"
        self.processes[name] = Script(
            self.script, self.arguments, cwd=self.folder, env=environ, log=log
        )

    def commits(self) -> dict[str, int]:
        """The last committed step of each running worker that has committed one in this life."""
        steps = {}
        for name, process in self.processes.items():
            for path in self.audit.glob(f"{name}-{process.pid}-*.jsonl"):
                lines = path.read_bytes().split(b"\n")[:-1]
                committed = [line for line in lines if b'"kind":"commit"' in line]
                if committed and process.poll() is None:
                    steps[name] = json.loads(committed[-1])["step"]
        return steps

    def committed(self) -> list[dict[str, Any]]:
        """The lines of all commits so far, of all workers."""
        texts = [path.read_bytes() for path in self.audit.glob("*.jsonl")]
        lines = [json.loads(line) for text in texts for line in text.split(b"\n")[:-1]]
        return [line for line in lines if line["kind"] == "commit"]

    def wait_for_commit(self, beyond: int = -1, workers: int = 1, timeout: float = 120) -> int:
        """Until so many workers have committed a step beyond this one; answers the last step."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self.restart_overtaken()
            steps = [step for step in self.commits().values() if step > beyond]
            if len(steps) >= workers:
                return max(steps)
            time.sleep(0.02)
        raise TimeoutError(
            f"no {workers} workers beyond step {beyond}: {self.commits()}\n{self.logs()}"
        )

    def wait_for_world(self, workers: int, timeout: float = 120) -> None:
        """Until so many have taken a step together: on a busy machine one is left out at times."""
        deadline = time.monotonic() + timeout
        while not any(line["world"] == workers for line in self.committed()):
            assert time.monotonic() < deadline, self.logs()
            time.sleep(0.02)

    def wait(self, timeout: float = 180) -> dict[str, int]:
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            self.restart_overtaken()
            if all(process.poll() is not None for process in self.processes.values()):
                break
            time.sleep(0.02)
        return {name: process.wait(0.1) for name, process in self.processes.items()}

    def restart_overtaken(self) -> None:
        """As the entrypoint does."""
        for name, process in list(self.processes.items()):
            if process.poll() == exit_codes.OVERTAKEN:
                self.start(name)

    def reports(self) -> list[dict[str, object]]:
        """What the workers that came to the end printed last."""
        texts = [path.read_text().splitlines() for path in sorted(self.folder.glob("*.log"))]
        return [json.loads(t[-1]) for t in texts if t and t[-1].startswith("{")]

    def logs(self) -> str:
        paths = sorted(self.folder.glob("*.log"))
        return "\n".join(f"== {path.name}\n{path.read_text()[-2000:]}" for path in paths)

    def hurry(self) -> None:
        (self.folder / "hurry").touch()

    def end(self) -> None:
        running = [*self.processes.values(), *([self.coordinator] if self.coordinator else [])]
        for process in running:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()


def digits(folder: Path) -> None:
    """Lay the digits into a folder: importing scikit-learn costs each worker a second."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    torch.save(
        (torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)), folder / "digits.pt"
    )


@contextmanager
def workers(
    folder: Path,
    names: str,
    *arguments: str,
    script: Path = SCRIPT,
    environ: dict[str, str] | None = None,
) -> Iterator[Workers]:
    group = Workers(folder, script, arguments, environ or {})
    digits(folder)
    try:
        group.start_coordinator()
        for name in names.split():
            group.start(name)
        yield group
    finally:
        group.end()


def shuffled(seed: int, items: list[str]) -> list[str]:
    random.Random(seed).shuffle(items)
    return items
