"""Trainings of real processes that are disturbed by a schedule, and what must hold of each.

Workers are forked from one process that has imported torch: a life costs milliseconds, and not
the seconds of an import. As a program (`python nemesis.py`) this is that process. Where the machine
lets it, each node has a network of its own, whose cable can be pulled, and the checkpoints a disk
of their own, which can be full: namespaces of Linux, which end with the process.
"""

from __future__ import annotations

import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from stranger import attacking, ports

WORKERS = 3
RECORDS, BATCH, EPOCHS = 60, 4, 3
KINDS = (
    "kill",
    "pause",
    "exit",
    "retry",
    "error",
    "slow",
    "clock",
    "coordinator",
    "evict",
    "partition",
    "full",
    "stranger",
    "unreachable",
    "newcomer",
    "differs",
    "stale",
)
OBEYED = ("exit", "retry", "error", "slow", "clock")
"""What a worker does itself."""
ISOLATED = ("partition", "full", "unreachable")
"""What needs namespaces."""
APART = 1.5  # seconds without a network
FULL = 0.2  # seconds without room on the disk
TIMEOUT = 90.0
STALE = "stale"


@dataclass(frozen=True)
class Deed:
    """What happens so many seconds after what came before it."""

    after: float
    kind: str
    worker: int


def schedule(seed: int, kinds: Sequence[str] = KINDS) -> list[Deed]:
    chance = random.Random(seed)
    return [
        Deed(round(chance.uniform(0.05, 0.6), 2), chance.choice(kinds), chance.randrange(WORKERS))
        for _ in range(chance.randint(1, 6))
    ]


class Violation(AssertionError):
    """What did not hold, and the logs."""


@dataclass(frozen=True)
class Setup:
    """What is disturbed."""

    candidates: int = 1
    every: int = 0
    """Local steps from one synchronisation to the next; 0 where each step is one."""
    compares: bool = False
    """Workers compare themselves, and slow ones leave."""

    @classmethod
    def of(cls, seed: int) -> Setup:
        """All of them in turns."""
        every = 3 * (seed // 2 % 2)
        compares = not every and bool(seed // 4 % 2)
        return cls(candidates=1 + 2 * (seed % 2), every=every, compares=compares)

    @property
    def environ(self) -> dict[str, str]:
        compares = {"TRAINWRIGHT_COMPARE_EVERY": "2", "TRAINWRIGHT_REPLACE_SLOW": "2"}
        return {"EVERY": str(self.every), **(compares if self.compares else {})}


def run(folder: Path, deeds: Sequence[Deed], forks: Forks, setup: Setup) -> None:
    """Train while the deeds are done; raises Violation."""
    folder.mkdir(parents=True)
    training = _Training(folder, forks, setup)
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


def shrunk(folder: Path, deeds: Sequence[Deed], forks: Forks, setup: Setup) -> list[Deed]:
    """A schedule with fewer deeds that fails as well, leaving out one after the other."""
    found = list(deeds)
    for index in range(len(deeds) - 1, -1, -1):
        fewer = found[:index] + found[index + 1 :]
        try:
            run(folder / f"without-{index}", fewer, forks, setup)
        except Violation:
            found = fewer
    return found


class _Training:
    def __init__(self, folder: Path, forks: Forks, setup: Setup) -> None:
        self._folder, self._forks, self._setup = folder, forks, setup
        self._addresses = forks.addresses(setup.candidates)
        self._lives = 0
        self._pids: dict[int, int] = {}  # worker -> pid
        self._coordinators: dict[int, int] = {}  # candidate -> pid
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._codes: dict[int, int] = {}  # of workers that are not started again
        self._ending = False
        self._next: dict[int, dict[str, str]] = {}  # what the next life of a worker has otherwise
        (folder / "checkpoints").mkdir()
        forks.ask("mount", str(folder / "checkpoints"))
        for index in range(setup.candidates):
            self._start_coordinator(index)
        for worker in range(WORKERS):
            self._start(worker)

    @property
    def done(self) -> bool:
        return len(self._codes) == WORKERS

    def watch(self, seconds: float) -> None:
        """What an entrypoint does meanwhile: start again what was lost."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.done:
            self._look(0.02)

    def do(self, deed: Deed) -> None:
        if deed.kind not in OBEYED:
            getattr(self, f"_{deed.kind}")(deed.worker)
        elif pid := self._pids.get(deed.worker):
            (self._folder / f"{deed.kind}-{pid}").touch()

    def _kill(self, worker: int) -> None:
        if pid := self._pids.get(worker):
            self._signal(pid, signal.SIGKILL)

    def _pause(self, worker: int) -> None:
        if pid := self._pids.get(worker):
            self._signal(pid, signal.SIGSTOP)
            self._in(1.0, partial(self._signal, pid, signal.SIGCONT))

    def _coordinator(self, _: int) -> None:
        for index, pid in list(self._coordinators.items()):
            if len(self._addresses) == 1 or self._forks.ask("serves", self._addresses[index]):
                self._signal(pid, signal.SIGKILL)

    def _evict(self, _: int) -> None:
        for pid in self._pids.values():
            self._signal(pid, signal.SIGKILL)

    def _partition(self, node: int) -> None:
        self._forks.ask("link", node, "down")
        self._in(APART, lambda: self._forks.ask("link", node, "up"))

    def _unreachable(self, node: int) -> None:
        """From the next node, which it cannot reach either; with three, the third reaches both."""
        other = (node + 1) % WORKERS
        self._forks.ask("cut", node, [other])
        self._in(APART, lambda: self._forks.ask("join", node, [other]))

    def _full(self, _: int) -> None:
        ballast = str(self._folder / "checkpoints" / ".ballast")
        self._forks.ask("fill", ballast)
        self._in(FULL, lambda: self._forks.ask("empty", ballast))

    def _newcomer(self, worker: int) -> None:
        """It is lost, and once more while it connects, takes the state over or follows."""
        self._kill(worker)
        self._in(0.5, lambda: self._kill(worker))

    def _differs(self, worker: int) -> None:
        """It comes back with another setting, and has the right one after it was refused."""
        self._next[worker] = {"NON_FINITE": "skip"}
        self._kill(worker)

    def _stale(self, node: int) -> None:
        """A worker of an attempt before finds the coordinator of this one at its address."""
        more = {"TRAINWRIGHT_ATTEMPT": "before", "TRAINWRIGHT_REPLICA": STALE}
        log = str(self._folder / f"{STALE}.log")
        pid = self._forks.start(node, log, {**self._environ, **more}, [str(self._folder)])
        self._in(1.0, lambda: self._signal(pid, signal.SIGKILL))

    def _stranger(self, _: int) -> None:
        pids = [*self._pids.values(), *self._coordinators.values()]
        self._forks.ask("stranger", pids, str(self._folder / "let-in"))

    def check(self) -> None:
        for _, due in self._later:
            due()
        self._later.clear()
        self._end_coordinators()
        self._forks.ask("unmount", str(self._folder / "checkpoints"))
        if problems := [*self._own_problems(), *self._problems_of_the_end()]:
            raise Violation("\n".join([*problems, self.logs()]))

    def _own_problems(self) -> Iterator[str]:
        """Of each process: whether its code is true, and whether it is gone."""
        for worker, code in self._codes.items():
            log = max(self._folder.glob(f"w{worker}-*.log"), key=lambda p: p.stat().st_mtime)
            text = log.read_text()
            # A later save makes up for one that the full disk was to blame for.
            unsaved = text.rfind(" could not be saved ") > text.rfind(" saved the checkpoint of ")
            if code != int(FAILURE in text or unsaved):
                yield f"worker {worker} ended with {code}"
        stale = (self._folder / "audit").glob(f"{STALE}-*")
        if any('"kind":"share"' in path.read_text() for path in stale):
            yield "a worker of another attempt took steps"
        if (self._folder / "let-in").exists():
            yield f"a stranger was let in: {(self._folder / 'let-in').read_text()}"
        if self._pids or self._coordinators:
            yield f"processes are left: workers {self._pids}, coordinators {self._coordinators}"

    def _problems_of_the_end(self) -> Iterator[str]:
        from trainwright_runtime.coordination import ending
        from trainwright_runtime.elastic import audit

        recorded = ending.recorded_epochs(self._folder / "checkpoints")
        if 0 not in self._codes.values():
            if recorded:
                yield "the end is recorded, though all workers have failed"
            return
        verdict = audit.verify(self._folder / "audit")
        yield from verdict.problems
        if verdict.epochs != {"train": EPOCHS}:
            yield f"epochs: {verdict.epochs}"
        if verdict.records != RECORDS * EPOCHS:
            yield f"{verdict.records} records of {RECORDS * EPOCHS}"
        ends = (self._folder / "ends").read_text().split()
        # How many synchronisations it takes depends on who was lost between two of them.
        if len(ends) != 1 or (not self._setup.every and ends != [str(RECORDS // BATCH * EPOCHS)]):
            yield f"rank 0 ran the program's end after steps {ends}"
        if recorded != EPOCHS:
            yield "the end is not recorded"
        if not self._setup.every:  # else each worker's are those of its own local steps
            yield from self._wrong_losses()

    def _wrong_losses(self) -> Iterator[str]:
        undisturbed = losses(self._forks.undisturbed())
        for epoch, loss in losses(self._folder):
            if abs(loss - dict(undisturbed)[epoch]) > 1e-5 * abs(loss):
                yield f"loss {loss} in epoch {epoch}, {dict(undisturbed)[epoch]} undisturbed"

    def end(self) -> None:
        for pid in [*self._pids.values(), *self._coordinators.values()]:
            self._signal(pid, signal.SIGKILL)
        for _, due in self._later:
            due()
        self._forks.ask("unmount", str(self._folder / "checkpoints"))

    def logs(self) -> str:
        paths = sorted(self._folder.glob("*.log"))
        return "\n".join(f"== {path.name}\n{path.read_text()[-1500:]}" for path in paths)

    def _look(self, seconds: float) -> None:
        for when, due in list(self._later):
            if time.monotonic() >= when:
                self._later.remove((when, due))
                due()
        for pid, status in self._forks.ended(seconds):
            code = os.waitstatus_to_exitcode(status)
            for worker in [worker for worker, known in self._pids.items() if known == pid]:
                self._ended(worker, code)
            for index in [index for index, known in self._coordinators.items() if known == pid]:
                del self._coordinators[index]
                if not self._ending:
                    self._in(0.2, partial(self._start_coordinator, index))

    def _in(self, seconds: float, due: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, due))

    def _end_coordinators(self) -> None:
        self._ending = True
        for pid in self._coordinators.values():
            self._signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + TIMEOUT / 3
        while self._coordinators and time.monotonic() < deadline:
            self._look(0.02)

    def _start_coordinator(self, index: int) -> None:
        if self._ending:
            return
        address = self._addresses[index]
        argv = [f"--port={address.rpartition(':')[2]}"]
        if len(self._addresses) > 1:
            argv += [f"--candidates={','.join(self._addresses)}", f"--index={index}"]
        log = str(self._folder / f"coordinator-{index}.log")
        environ = {**_TIMEOUTS, "TRAINWRIGHT_GRACE_PERIOD": "2"}
        self._coordinators[index] = self._forks.start(index, log, environ, argv)

    @property
    def _environ(self) -> dict[str, str]:
        """Of all workers."""
        return {
            **_TIMEOUTS,
            "TRAINWRIGHT_COORDINATOR": ",".join(self._addresses),
            "TRAINWRIGHT_AUDIT_DIR": str(self._folder / "audit"),
            "TRAINWRIGHT_CHECKPOINT_DIR": str(self._folder / "checkpoints"),
            "TRAINWRIGHT_CHECKPOINT_EVERY": "10",
            "TRAINWRIGHT_BACKEND": "gloo",
            **self._setup.environ,
        }

    def _start(self, worker: int) -> None:
        self._lives += 1
        life = self._folder / f"life-{worker}"
        life.unlink(missing_ok=True)
        environ = {
            **self._environ,
            "TRAINWRIGHT_REPLICA": f"w{worker}",
            "TRAINWRIGHT_LIFE_FILE": str(life),
            **self._next.pop(worker, {}),
        }
        log = str(self._folder / f"w{worker}-{self._lives}.log")
        self._pids[worker] = self._forks.start(worker, log, environ, [str(self._folder)])

    def _ended(self, worker: int, code: int) -> None:
        from trainwright_runtime.coordination import ending
        from trainwright_runtime.coordination.ending import Stage

        stage = ending.read(self._folder / f"life-{worker}").stage
        self._pids.pop(worker)
        if (code == 0 and stage in (Stage.COMPLETE, Stage.OVER)) or code == 1:
            self._codes[worker] = code  # 1 is its own error, which an entrypoint passes on
        else:
            self._start(worker)

    @staticmethod
    def _signal(pid: int, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def losses(folder: Path) -> list[tuple[int, float]]:
    """What workers found an epoch's loss to be, at its end."""
    path = folder / "losses"
    lines = [line.split() for line in path.read_text().splitlines()] if path.exists() else []
    return [(int(epoch), float(loss)) for epoch, loss in lines]


_TIMEOUTS = {
    "TRAINWRIGHT_COLLECTIVE_TIMEOUT": "3",
    "TRAINWRIGHT_QUORUM_TIMEOUT": "3",
}
_IDENTITY = {"TRAINWRIGHT_RUN": "nemesis", "TRAINWRIGHT_RUN_KEY": "what no stranger knows"}


NAMESPACES = ("unshare", "--net", "--mount", "--propagation=private")


def can_isolate() -> bool:
    """Whether this machine gives a process networks and mounts of its own."""
    if not all(map(shutil.which, ("ip", "nsenter", "unshare", "mount"))):
        return False
    probe = [*_namespaces(), "sh", "-c", "mount -t tmpfs none /mnt && ip link add br0 type bridge"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0


def _namespaces() -> list[str]:
    return [*NAMESPACES, *(["--map-root-user"] if os.geteuid() else [])]


class Forks:
    """The process that workers and coordinators are forked from."""

    def __init__(self) -> None:
        self.isolated = can_isolate()
        argv = [*(_namespaces() if self.isolated else []), sys.executable, __file__]
        self._process = subprocess.Popen(
            [*argv, str(int(self.isolated))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ends: list[tuple[int, int]] = []
        self._undisturbed: Path | None = None

    def addresses(self, candidates: int) -> list[str]:
        from trainwright_runtime.launch.machine import free_port

        if self.isolated:
            port = free_port()
            return [f"{_address(node)}:{port}" for node in range(candidates)]
        return [f"127.0.0.1:{free_port()}" for _ in range(candidates)]

    def start(self, node: int, log: str, environ: dict[str, str], argv: list[str]) -> int:
        """A worker, or a coordinator where `argv` are options."""
        return int(self.ask("start", node, log, environ, argv))

    def ask(self, *what: Any) -> Any:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        while True:
            kind, first, second = self._read()
            if kind == "answer":
                return first
            self._ends.append((first, second))

    def ended(self, seconds: float) -> list[tuple[int, int]]:
        """Processes that have ended since, with their status."""
        assert self._process.stdout
        while select.select([self._process.stdout], [], [], seconds)[0]:
            _, pid, status = self._read()
            self._ends.append((pid, status))
            seconds = 0
        ends, self._ends = self._ends, []
        return ends

    def undisturbed(self) -> Path:
        """The folder of a training by one process, alone."""
        if self._undisturbed is None:
            self._undisturbed = Path(tempfile.mkdtemp(prefix="undisturbed-"))
            log = str(self._undisturbed / "log")
            self.start(0, log, {}, [str(self._undisturbed)])
            deadline = time.monotonic() + TIMEOUT
            while len(losses(self._undisturbed)) < EPOCHS and time.monotonic() < deadline:
                time.sleep(0.05)
        return self._undisturbed

    def close(self) -> None:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        if self._undisturbed is not None:
            shutil.rmtree(self._undisturbed)

    def _read(self) -> tuple[str, Any, int]:
        assert self._process.stdout
        line = bytearray()
        while not line.endswith(b"\n"):  # unbuffered, for `select`
            byte = os.read(self._process.stdout.fileno(), 1)
            if not byte:
                raise RuntimeError("the process that forks workers has ended")
            line += byte
        kind, first, second = json.loads(line)
        return kind, first, second


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
    data = torch.arange(float(os.environ.get("RECORDS", RECORDS)))[:, None]
    every = int(os.environ.get("EVERY", "0"))
    with elastic.training(
        model, optimizer, data, batch_size=BATCH, epochs=EPOCHS, totals=("loss",),
        synchronize=elastic.LocalSGD(every=every) if every else None,
        non_finite=os.environ.get("NON_FINITE", "warn"),
    ) as run_:  # fmt: skip
        for epoch in run_.epochs():
            for batch in run_.batches():
                loss = model(batch).mean()
                run_.backward(loss)
                run_.add(loss=loss.item() * len(batch))
                time.sleep(0.03)  # so that training lasts about as long as what disturbs it
                _obey(folder)
            with (folder / "losses").open("a") as file:
                file.write(f"{epoch} {run_.totals()['loss']:.9g}\n")
    if run_.rank == 0:
        with (folder / "ends").open("a") as file:
            file.write(f"{run_.step}\n")


FAILURE = "this program was asked to fail"


def _obey(folder: Path) -> None:
    if (folder / f"exit-{os.getpid()}").exists():
        os._exit(0)
    if (folder / f"retry-{os.getpid()}").exists():
        os._exit(171)
    if (folder / f"error-{os.getpid()}").exists():
        raise RuntimeError(FAILURE)
    if (folder / f"slow-{os.getpid()}").exists():
        time.sleep(0.3)
    if (jump := folder / f"clock-{os.getpid()}").exists():
        jump.unlink()
        clock, hours = time.time, (-1) ** os.getpid()
        time.time = lambda: clock() + 3600 * hours


def _start(
    isolation: _Isolation | None, node: int, log: str, environ: dict[str, str], argv: list[str]
) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if isolation is not None:
            isolation.enter(node)
        os.environ.update(environ)
        output = os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(output, 1)
        os.dup2(output, 2)
        code = _coordinate(argv) if argv[0].startswith("--") else _work(Path(argv[0]))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _coordinate(argv: list[str]) -> int:
    from trainwright_runtime.coordination import coordinator

    return coordinator.main(argv)


def _work(folder: Path) -> int:
    from trainwright_runtime.coordination import ending

    code = 1
    try:
        train(folder)
        code = 0
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException as error:  # noqa: BLE001 - as the interpreter does
        import traceback

        traceback.print_exception(error)
        code = getattr(error, "exit_code", 1)
    ending.program_ended(code)
    return code


def _address(node: int) -> str:
    return f"10.77.0.{node + 1}"


class _Isolation:
    """A network for each node, all on one bridge; held by a process each."""

    def __init__(self) -> None:
        _do("ip link set lo up")
        _do("ip link add br0 type bridge")
        _do("ip link set br0 up")
        _do("ip addr add 10.77.0.100/24 dev br0")
        self._holders = [self._hold(node) for node in range(WORKERS + 1)]

    def enter(self, node: int) -> None:
        for kind, flag in (("net", CLONE_NEWNET), ("uts", CLONE_NEWUTS)):
            with Path(f"/proc/{self._holders[node]}/ns/{kind}").open() as file:
                _libc("setns", file.fileno(), flag)

    def cut(self, node: int, others: Sequence[int], do: str = "replace") -> None:
        """What it sends to other nodes is lost, so that no connection with them is made."""
        for other in others:
            command = f"nsenter -t {self._holders[node]} -n ip route {do} blackhole"
            _do(f"{command} {_address(other)}/32")

    def join(self, node: int, others: Sequence[int]) -> None:
        with suppress(subprocess.CalledProcessError):  # it is not cut
            self.cut(node, others, "del")

    def _hold(self, node: int) -> int:
        ready, tell = os.pipe()
        pid = os.fork()
        if not pid:
            _libc("prctl", 1, signal.SIGKILL)  # PR_SET_PDEATHSIG
            _libc("unshare", CLONE_NEWNET | CLONE_NEWUTS)
            socket.sethostname(_address(node))  # what gloo listens at
            os.write(tell, b"1")
            signal.pause()
        os.read(ready, 1)
        _do(f"ip link add v{node} type veth peer name eth0 netns {pid}")
        _do(f"ip link set v{node} master br0 up")
        for what in (
            f"addr add {_address(node)}/24 dev eth0",
            "link set eth0 up",
            "link set lo up",
        ):
            _do(f"nsenter -t {pid} -n ip {what}")
        return pid


CLONE_NEWNET, CLONE_NEWUTS = 0x40000000, 0x04000000  # linux/sched.h


def _libc(name: str, *arguments: int) -> None:
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        raise OSError(ctypes.get_errno(), name)


def _do(command: str) -> None:
    subprocess.run(command.split(), check=True)


def _answer(isolation: _Isolation | None, what: str, *arguments: Any) -> Any:
    if what == "start":
        return _start(isolation, *arguments)
    if what == "serves":
        return _greets(arguments[0])
    if what == "stranger":
        return _visit(*arguments)
    if what in ("cut", "join") and isolation is not None:
        return getattr(isolation, what)(*arguments)
    if isolation is not None:
        {"mount": _mount, "unmount": _unmount, "fill": _fill, "empty": _empty, "link": _link}[what](
            *arguments
        )
    return None


def _visit(pids: list[int], let_in: str) -> None:
    """Somebody who is not of the training, from outside of its nodes, at every port of it."""
    if os.fork():
        return
    try:
        for name in _IDENTITY:
            os.environ.pop(name)
        with attacking(place for pid in pids for place in ports(pid)):
            time.sleep(1)
    except BaseException as error:  # noqa: BLE001 - for the parent
        Path(let_in).write_text(str(error))
    finally:
        os._exit(0)


def _link(node: int, state: str) -> None:
    _do(f"ip link set v{node} {state}")


def _mount(folder: str) -> None:
    _do(f"mount -t tmpfs -o size=2m none {folder}")


def _unmount(folder: str) -> None:
    """Keep what others are to read."""
    if Path(folder).is_mount():
        kept = {path.name: path.read_bytes() for path in Path(folder).glob("*.json")}
        _do(f"umount -l {folder}")
        for name, content in kept.items():
            Path(folder, name).write_bytes(content)


def _fill(ballast: str) -> None:
    with suppress(OSError), Path(ballast).open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def _empty(ballast: str) -> None:
    Path(ballast).unlink(missing_ok=True)


def _greets(address: str) -> bool:
    from trainwright_runtime.coordination.channel import connected

    try:
        lines, greeting = connected(address, 0.2)
    except OSError:
        return False
    lines.close()
    return bool(greeting["serves"])


def main() -> None:
    os.environ.update(_IDENTITY)
    import torch
    import torch._dynamo  # which optimizers import

    from trainwright_runtime import elastic  # noqa: F401 - imported once, for all
    from trainwright_runtime.coordination import coordinator  # noqa: F401 - imported once, for all
    from trainwright_runtime.elastic import node  # noqa: F401

    torch.set_num_threads(1)
    isolation = _Isolation() if sys.argv[1] == "1" else None
    while True:
        ready = select.select([0], [], [], 0.01)[0]
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                _tell("ended", *ended)
        if ready:
            line = _line()
            if not line:
                return
            _tell("answer", _answer(isolation, *json.loads(line)), 0)


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
