"""Trainings of real processes that are disturbed by a schedule, and what must hold of each.

Workers are forked from one process that has imported torch: a life costs milliseconds, and not
the seconds of an import. As a program (`python nemesis.py`) this is that process.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

WORKERS = 3
RECORDS, BATCH, EPOCHS = 60, 4, 3
KINDS = ("kill", "pause", "exit", "retry", "slow", "coordinator", "evict")
TIMEOUT = 90.0


@dataclass(frozen=True)
class Deed:
    """What happens so many seconds after what came before it."""

    after: float
    kind: str
    worker: int


def schedule(seed: int) -> list[Deed]:
    chance = random.Random(seed)
    return [
        Deed(round(chance.uniform(0.05, 0.6), 2), chance.choice(KINDS), chance.randrange(WORKERS))
        for _ in range(chance.randint(1, 6))
    ]


class Violation(AssertionError):
    """What did not hold, and the logs."""


def run(folder: Path, deeds: Sequence[Deed], forks: Forks) -> None:
    """Train while the deeds are done; raises Violation."""
    folder.mkdir(parents=True)
    training = _Training(folder, forks)
    try:
        for deed in deeds:
            training.watch(deed.after)
            training.do(deed)
        deadline = time.monotonic() + TIMEOUT
        while not training.done:
            if time.monotonic() > deadline:
                raise Violation(f"not over after {TIMEOUT:g} s\n{training.logs()}")
            training.watch(0.05)
        training.check()
    finally:
        training.end()


def shrunk(folder: Path, deeds: Sequence[Deed], forks: Forks) -> list[Deed]:
    """A schedule with fewer deeds that fails as well, leaving out one after the other."""
    found = list(deeds)
    for index in range(len(deeds) - 1, -1, -1):
        fewer = found[:index] + found[index + 1 :]
        try:
            run(folder / f"without-{index}", fewer, forks)
        except Violation:
            found = fewer
    return found


class _Training:
    def __init__(self, folder: Path, forks: Forks) -> None:
        from trainwright_runtime.machine import free_port

        self._folder, self._forks = folder, forks
        self._port = free_port()
        self._lives = 0
        self._pids: dict[int, int] = {}  # worker -> pid
        self._paused: dict[int, float] = {}  # pid -> until when
        self._codes: dict[int, int] = {}  # of workers that have ended well
        self._coordinator = self._start_coordinator()
        for worker in range(WORKERS):
            self._start(worker)

    @property
    def done(self) -> bool:
        return len(self._codes) == WORKERS

    def watch(self, seconds: float) -> None:
        """What an entrypoint does meanwhile: start again what was lost."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.done:
            for pid, until in list(self._paused.items()):
                if time.monotonic() >= until:
                    self._signal(pid, signal.SIGCONT)
                    del self._paused[pid]
            for pid, status in self._forks.ended(0.02):
                workers = [worker for worker, known in self._pids.items() if known == pid]
                for worker in workers:
                    self._ended(worker, os.waitstatus_to_exitcode(status))

    def do(self, deed: Deed) -> None:
        pid = self._pids.get(deed.worker)
        match deed.kind:
            case "coordinator":
                self._coordinator.kill()
                self._coordinator.wait()
                self.watch(0.2)
                self._coordinator = self._start_coordinator()
            case "evict":
                for other in self._pids.values():
                    self._signal(other, signal.SIGKILL)
            case "kill" if pid:
                self._signal(pid, signal.SIGKILL)
            case "pause" if pid:
                self._signal(pid, signal.SIGSTOP)
                self._paused[pid] = time.monotonic() + 1.0
            case _ if pid:
                (self._folder / f"{deed.kind}-{pid}").touch()

    def check(self) -> None:
        from trainwright_runtime.coordination import ending
        from trainwright_runtime.elastic import audit

        verdict = audit.verify(self._folder / "audit")
        problems = list(verdict.problems)
        if verdict.epochs != {"train": EPOCHS}:
            problems.append(f"epochs: {verdict.epochs}")
        if verdict.records != RECORDS * EPOCHS:
            problems.append(f"{verdict.records} records of {RECORDS * EPOCHS}")
        if set(self._codes.values()) != {0}:
            problems.append(f"exit codes: {self._codes}")
        ends = (self._folder / "ends").read_text().split()
        if ends != [str(RECORDS // BATCH * EPOCHS)]:
            problems.append(f"rank 0 ran the program's end after steps {ends}")
        if ending.recorded_epochs(self._folder / "checkpoints") != EPOCHS:
            problems.append("the end is not recorded")
        if problems:
            raise Violation("\n".join([*problems, self.logs()]))

    def end(self) -> None:
        for pid in self._pids.values():
            self._signal(pid, signal.SIGKILL)
        self._coordinator.kill()
        self._coordinator.wait()

    def logs(self) -> str:
        paths = sorted(self._folder.glob("*.log"))
        return "\n".join(f"== {path.name}\n{path.read_text()[-1500:]}" for path in paths)

    def _start_coordinator(self) -> subprocess.Popen[bytes]:
        argv = [sys.executable, "-m", "trainwright_runtime", "coordinator", f"--port={self._port}"]
        return subprocess.Popen(argv, env={**os.environ, **_TIMEOUTS}, stdout=subprocess.DEVNULL)

    def _start(self, worker: int) -> None:
        self._lives += 1
        life = self._folder / f"life-{worker}"
        life.unlink(missing_ok=True)
        environ = {
            **_TIMEOUTS,
            "TRAINWRIGHT_COORDINATOR": f"127.0.0.1:{self._port}",
            "TRAINWRIGHT_REPLICA": f"w{worker}",
            "TRAINWRIGHT_AUDIT_DIR": str(self._folder / "audit"),
            "TRAINWRIGHT_CHECKPOINT_DIR": str(self._folder / "checkpoints"),
            "TRAINWRIGHT_CHECKPOINT_EVERY": "10",
            "TRAINWRIGHT_BACKEND": "gloo",
            "TRAINWRIGHT_LIFE_FILE": str(life),
        }
        log = self._folder / f"w{worker}-{self._lives}.log"
        self._pids[worker] = self._forks.start(self._folder, log, environ)

    def _ended(self, worker: int, code: int) -> None:
        from trainwright_runtime.coordination import ending
        from trainwright_runtime.coordination.ending import Stage

        stage = ending.read(self._folder / f"life-{worker}").stage
        self._pids.pop(worker)
        if code == 0 and stage in (Stage.COMPLETE, Stage.OVER):
            self._codes[worker] = code
        elif code == 1:
            self._codes[worker] = code  # its own error: an entrypoint ends the job
        else:
            self._start(worker)

    @staticmethod
    def _signal(pid: int, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


_TIMEOUTS = {
    "TRAINWRIGHT_COLLECTIVE_TIMEOUT": "3",
    "TRAINWRIGHT_QUORUM_TIMEOUT": "3",
    "RUST_LOG": "error",
}


class Forks:
    """The process that workers are forked from."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._ends: list[tuple[int, int]] = []

    def start(self, folder: Path, log: Path, environ: dict[str, str]) -> int:
        assert self._process.stdin
        self._process.stdin.write(json.dumps([str(folder), str(log), environ]) + "\n")
        self._process.stdin.flush()
        while True:
            kind, pid, status = self._read()
            if kind == "started":
                return pid
            self._ends.append((pid, status))

    def ended(self, seconds: float) -> list[tuple[int, int]]:
        """Processes that have ended since, with their status."""
        assert self._process.stdout
        while select.select([self._process.stdout], [], [], seconds)[0]:
            _, pid, status = self._read()
            self._ends.append((pid, status))
            seconds = 0
        ends, self._ends = self._ends, []
        return ends

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()

    def _read(self) -> tuple[str, int, int]:
        assert self._process.stdout
        line = bytearray()
        while not line.endswith(b"\n"):  # unbuffered, for `select`
            byte = os.read(self._process.stdout.fileno(), 1)
            if not byte:
                raise RuntimeError("the process that forks workers has ended")
            line += byte
        kind, pid, status = json.loads(line)
        return kind, pid, status


def train(folder: Path) -> None:
    """What a worker does."""
    import logging

    import torch

    from trainwright_runtime import elastic

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", force=True)
    logging.getLogger("trainwright_runtime").setLevel(logging.INFO)
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    data = torch.arange(float(RECORDS)).reshape(RECORDS, 1)
    with elastic.training(model, optimizer, data, batch_size=BATCH, epochs=EPOCHS) as run_:
        for _ in run_.epochs():
            for batch in run_.batches():
                run_.backward(model(batch).mean())
                time.sleep(0.01)
                _obey(folder)
    if run_.rank == 0:
        with (folder / "ends").open("a") as file:
            file.write(f"{run_.step}\n")


def _obey(folder: Path) -> None:
    if (folder / f"exit-{os.getpid()}").exists():
        os._exit(0)
    if (folder / f"retry-{os.getpid()}").exists():
        os._exit(171)
    if (folder / f"slow-{os.getpid()}").exists():
        time.sleep(0.3)


def _fork(folder: str, log: str, environ: dict[str, str]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ.update(environ)
        output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        from trainwright_runtime.coordination import ending

        try:
            train(Path(folder))
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        except BaseException as error:  # noqa: BLE001 - as the interpreter does
            import traceback

            traceback.print_exception(error)
            code = getattr(error, "exit_code", 1)
        ending.program_ended(code)
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def main() -> None:
    os.environ["RUST_LOG"] = "error"
    import torch

    from trainwright_runtime import elastic  # noqa: F401 - imported once, for all
    from trainwright_runtime.elastic import replica  # noqa: F401

    torch.set_num_threads(1)
    while True:
        ready = select.select([0], [], [], 0.01)[0]
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                _tell("ended", *ended)
        except ChildProcessError:
            pass
        if ready:
            line = _line()
            if not line:
                return
            _tell("started", _fork(*json.loads(line)), 0)


def _line() -> bytes:
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return b""
        line += byte
    return bytes(line)


def _tell(*what: Any) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    main()
