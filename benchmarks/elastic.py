"""What elastic training costs and what it saves, against plain DDP and torchrun in the same run.

    .venv/bin/python benchmarks/elastic.py [PART ...] [--runs 3]
    .venv/bin/python benchmarks/elastic.py joining --link 500 --compute 1.33  (as root)

Parts are steps, reading, joining, recovery, goodput, position and waiting.

Every figure is a median. Workers are processes of this machine over gloo; where a step must not
compete for the cores with workers that start, it sleeps as it would wait for a GPU. Steps of DDP
and of the elastic API are timed in turns, a block of each, and compared round by round: on a
machine that others use too, two runs one after the other differ by more than what is looked for.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import secrets
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, TensorDataset

from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.elastic.audit import AuditLog
from trainwright_runtime.elastic.cursor import cursors
from trainwright_runtime.elastic.errors import StoppedWaiting
from trainwright_runtime.elastic.leases import Leases, Shards
from trainwright_runtime.elastic.members import Callbacks, Members
from trainwright_runtime.elastic.progress import Progress
from trainwright_runtime.elastic.replica import Address, Replica
from trainwright_runtime.elastic.source import Batching, Source
from trainwright_runtime.launch.machine import free_port

WORKER = Path(__file__).with_name("elastic_worker.py")
BATCH = 64


@dataclass(frozen=True, slots=True)
class Step:
    """A line of a worker: when it ended (wall clock), which step, how many workers, how long."""

    at: float
    number: int
    world: int
    seconds: float


@dataclass
class Worker:
    """A process whose lines about steps go to a file."""

    process: subprocess.Popen[bytes]
    path: Path
    read: int = 0
    """Bytes of the file that `news` has handed out."""

    def steps(self, since: int = 0) -> list[Step]:
        lines = [line.split() for line in self.path.read_text()[since:].splitlines()]
        return [
            Step(float(a), int(b), int(c), float(d))
            for a, b, c, d in (line for line in lines if len(line) == 4)
        ]

    @property
    def has_news(self) -> bool:
        return self.path.stat().st_size > self.read

    def news(self) -> list[Step]:
        found = self.steps(self.read)
        self.read = self.path.stat().st_size
        return found

    def go_on(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()


@dataclass(frozen=True, slots=True)
class Hardware:
    """What workers compute on, and the backend by which they sum gradients."""

    device: str = "cpu"
    backend: str = "gloo"
    cards: tuple[str, ...] = ()
    """As CUDA_VISIBLE_DEVICES names them."""

    def environ(self, worker: int) -> dict[str, str]:
        """One card for each worker, in turn."""
        return {"CUDA_VISIBLE_DEVICES": self.cards[worker % len(self.cards)]} if self.cards else {}

    def argv(self, mode: str, *options: str) -> list[str]:
        """The command line of a worker."""
        device = [f"--device={self.device}", f"--backend={self.backend}"]
        return [sys.executable, str(WORKER), mode, *device, *options]


CPU = Hardware()


HUB = "10.77.0.100"
"""The address of the coordinator where workers have links of their own."""


@dataclass
class Links:
    """A network for each worker on one bridge, both directions of its link at a rate of Mbit/s.

    They are in the namespaces of this process, and end with it.
    """

    rate: float
    nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def enter(self) -> list[str]:
        """The command line by which a command runs in another one."""
        number = len(self.nodes)
        if not number:
            _do("ip link set lo up")
            _do("ip link add br0 type bridge")
            _do("ip link set br0 up")
            _do(f"ip addr add {HUB}/24 dev br0")
        address = f"10.77.0.{number + 1}"
        hold = f"hostname {address}; echo; exec sleep infinity"  # gloo listens at the name
        node = subprocess.Popen(
            ["unshare", "--net", "--uts", "sh", "-c", hold], stdout=subprocess.PIPE
        )
        self.nodes.append(node)
        assert node.stdout is not None
        node.stdout.readline()
        inside = f"nsenter --target={node.pid} --net --uts"
        rate = f"root tbf rate {self.rate:g}mbit burst 512kb latency 60ms"
        _do(f"ip link add v{number} type veth peer name eth0 netns {node.pid}")
        _do(f"ip link set v{number} master br0 up")
        _do(f"tc qdisc add dev v{number} {rate}")
        for what in (
            f"ip addr add {address}/24 dev eth0",
            "ip link set eth0 up",
            "ip link set lo up",
            f"tc qdisc add dev eth0 {rate}",
        ):
            _do(f"{inside} {what}")
        return inside.split()


def _do(command: str) -> None:
    subprocess.run(command.split(), check=True)


def isolate() -> None:
    """Go on in a network of this process's own, as root."""
    if os.environ.get("TRAINWRIGHT_RUN") == "joining":
        socket.sethostname(HUB)  # where the coordinator listens
        return
    secret = {"TRAINWRIGHT_RUN": "joining", "TRAINWRIGHT_RUN_KEY": secrets.token_hex()}
    command = ["unshare", "--net", "--uts", sys.executable, *sys.argv]
    os.execvpe(command[0], command, {**os.environ, **secret})


@dataclass
class Lab:
    """A folder, its processes, and an end to all of them."""

    folder: Path
    hardware: Hardware = CPU
    links: Links | None = None
    workers: list[Worker] = field(default_factory=list)
    others: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, argv: list[str], **environ: str) -> Worker:
        path = self.folder / f"worker-{len(self.workers)}"
        with path.open("wb") as out, (self.folder / f"{path.name}.log").open("wb") as log:
            process = subprocess.Popen(
                argv,
                env={
                    **os.environ,
                    "OMP_NUM_THREADS": "1",
                    **self.hardware.environ(len(self.workers)),
                    **environ,
                },
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=log,
                start_new_session=True,
            )
        worker = Worker(process, path)
        self.workers.append(worker)
        return worker

    def coordinator(self, port: int, together: int = 1) -> None:
        argv = [sys.executable, "-m", "trainwright_runtime", "coordinator", f"--port={port}"]
        argv += [f"--min-replicas={together}"]
        self.others.append(subprocess.Popen(argv, stdout=subprocess.DEVNULL))

    def elastic(self, port: int, *options: str, together: int = 1) -> Worker:
        inside, host = (self.links.enter(), HUB) if self.links else ([], "127.0.0.1")
        return self.start(
            [*inside, *self.hardware.argv("elastic", *options)],
            TRAINWRIGHT_COORDINATOR=f"{host}:{port}",
            TRAINWRIGHT_REPLICA=f"w{len(self.workers)}",
            TRAINWRIGHT_BACKEND=self.hardware.backend,
            TRAINWRIGHT_MIN_REPLICAS=str(together),
            TRAINWRIGHT_AUDIT_DIR=str(self.folder / "audit"),
        )

    def ddp(self, world: int, *options: str) -> list[Worker]:
        port = str(free_port())
        return [
            self.start(
                self.hardware.argv("ddp", *options),
                MASTER_ADDR="127.0.0.1",
                MASTER_PORT=port,
                WORLD_SIZE=str(world),
                RANK=str(rank),
            )
            for rank in range(world)
        ]

    def last_step(self) -> int:
        return max((step.number for w in self.workers for step in w.steps()), default=0)

    def wait(self, reached: Callable[[], bool], seconds: float = 180) -> None:
        deadline = time.monotonic() + seconds
        while not reached():
            if time.monotonic() > deadline:
                logs = [path.read_text()[-1500:] for path in self.folder.glob("*.log")]
                sys.exit("a benchmark's training does not go on:\n" + "\n".join(logs))
            time.sleep(0.005)


@contextmanager
def lab(hardware: Hardware = CPU, links: Links | None = None) -> Iterator[Lab]:
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as folder:
        here = Lab(Path(folder), hardware, links)
        try:
            yield here
        finally:
            nodes = links.nodes if links else []
            for process in [*(w.process for w in here.workers), *here.others, *nodes]:
                if process.poll() is None:
                    kill_group(process)
                    process.wait()


def kill_group(process: subprocess.Popen[bytes]) -> None:
    try:
        if os.getpgid(process.pid) == process.pid:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except ProcessLookupError:
        pass


def say(name: str, figure: str, wanted: str = "") -> None:
    print(f"{name:<58} {figure:>24}   {wanted}", flush=True)


# Steps


@dataclass(frozen=True, slots=True)
class Case:
    """A training whose steps are timed, in blocks of some steps."""

    size: str
    batch: int
    compute: float
    block: int
    wanted: str = ""
    read: float = 0.0
    """Seconds to read a record."""
    loaders: int = 0
    """Loader processes of each worker."""
    warm: int = 3
    """Steps at the begin of a block that do not count."""


CASES = (
    Case("small", 64, 0.0016, 20, "at most 1.05"),
    Case("medium", 512, 0.0, 20, "at most 1.05"),
    Case("large", 256, 0.0, 10, "at most 1.05"),
    Case("small", 64, 0.0, 100),
)
READING = tuple(
    # What was read ahead while a worker waited for its turn does not count: two batches for each
    # process.
    Case("small", 64, 0.0, 40, "at most 1.1", read=read, loaders=4, warm=12)
    for read in (0.004, 0.001)
)


def group(here: Lab, mode: str, case: Case, world: int = 2) -> list[Worker]:
    """Workers that have trained a block, and wait to be told to train the next one."""
    options = [f"--size={case.size}", f"--batch={case.batch}", f"--compute={case.compute}"]
    options += [f"--block={case.block}", "--steps=1000000"]
    options += [f"--read={case.read}", f"--loaders={case.loaders}"]
    if mode == "elastic":
        port = free_port()
        # Else the first may have trained its block, and wait, before the others are there.
        here.coordinator(port, together=world)
        workers = [here.elastic(port, *options, together=world) for _ in range(world)]
    else:
        workers = here.ddp(world, *options)
    here.wait(lambda: all(worker.has_news for worker in workers))
    for worker in workers:
        worker.news()
    return workers


def train_block(here: Lab, workers: list[Worker], warm: int) -> list[float]:
    """What the steps of one more block take, those at its beginning left out."""
    for worker in workers:
        worker.go_on()
    here.wait(lambda: all(worker.has_news for worker in workers))
    return [step.seconds for worker in workers for step in worker.news()[warm:]]


def compare(
    case: Case,
    rounds: int,
    middle: Callable[[list[float]], float] = statistics.median,
    hardware: Hardware = CPU,
    world: int = 2,
) -> list[tuple[float, float]]:
    """Median steps of DDP and of the elastic API for each round: a block of each, in turns.

    One waits while the other trains, so that both see the same machine: what else runs on it
    changes from second to second. What waits costs next to nothing (a heartbeat each 0.1 s).
    """
    with lab(hardware) as here:
        workers = {mode: group(here, mode, case, world) for mode in ("ddp", "elastic")}
        found = []
        for number in range(rounds):
            order = list(workers) if number % 2 else list(workers)[::-1]
            times = {mode: middle(train_block(here, workers[mode], case.warm)) for mode in order}
            found.append((times["ddp"], times["elastic"]))
    return found


def steps(runs: int) -> None:
    for case in CASES:
        found = compare(case, 8 * runs)
        plain, ours = (statistics.median(times) for times in zip(*found, strict=True))
        low, ratio, high = statistics.quantiles([b / a for a, b in found], n=4)
        kind = "asleep as for a GPU" if case.compute else "of CPU"
        say(
            f"step of {1000 * plain:.1f} ms {kind}: elastic over raw DDP",
            f"{ratio:.3f}",
            case.wanted,
        )
        say("  quartiles of the rounds", f"{low:.3f} to {high:.3f}")
        say("  ratio of the medians", f"{ours / plain:.3f}")
        say("  milliseconds more", f"{1000 * (ours - plain):.2f}")


def reading(runs: int) -> None:
    """Steps that wait for records, read by as many processes of torch's DataLoader in both."""
    for case in READING:
        # Means: all processes are done at about the same time, and then several steps do not wait.
        found = compare(case, 4 * runs, statistics.fmean)
        plain, ours = (statistics.median(times) for times in zip(*found, strict=True))
        low, ratio, high = statistics.quantiles([b / a for a, b in found], n=4)
        name = f"{1000 * case.read:g} ms per record, {case.loaders} loader processes"
        say(f"{name}: elastic over DDP", f"{ratio:.3f}", case.wanted)
        say("  quartiles of the rounds", f"{low:.3f} to {high:.3f}")
        say("  milliseconds of a step, DDP and elastic", f"{1000 * plain:.1f}, {1000 * ours:.1f}")


# Joining


def joining(runs: int, link: float = 0.0, compute: float = 0.04) -> None:
    """What two others lose to a newcomer; 288 MB are a model of 24M with Adam.

    With a `link` each worker has one of its own, of so many Mbit/s in each direction.
    """
    options = ("--size=adam", "--batch=12", f"--compute={compute}")
    with lab(links=Links(link) if link else None) as here:
        port = free_port()
        here.coordinator(port)
        first, _ = (here.elastic(port, *options) for _ in range(2))
        found = [_join_one(here, first, port, options) for _ in range(runs)]
    lost, longest, calm, after = zip(*found, strict=True)
    say("two others lose to a newcomer with 288 MB, in steps", _figure(lost))
    say("  the longest step over others, less 1", _figure(longest), "less than 1")
    say("  seconds of a step of two", _figure(calm))
    say("  seconds from the newcomer's start to its first step", _figure(after))


def _join_one(
    here: Lab, first: Worker, port: int, options: tuple[str, ...]
) -> tuple[float, float, float, float]:
    """What one of two others loses from a newcomer's start to eight steps after it has joined, in
    steps of two; by what the longest is longer; seconds of a step of two, and until it joined.

    In the step at whose end it joins each of two computes its half; those after are of three.
    """
    here.wait(lambda: [step.world for step in first.steps()[-5:]] == [2] * 5, 600)
    before, began = first.steps(), time.time()
    two = statistics.median(step.seconds for step in before[-4:])
    newcomer = here.elastic(port, *options)

    def since() -> list[Step]:
        return first.steps()[len(before) :]

    here.wait(lambda: len([step for step in since() if step.world == 3]) > 8, 600)
    newcomer.process.kill()
    steps = since()
    joined = next(index for index, step in enumerate(steps) if step.world == 3)
    until, after = steps[: joined + 1], steps[joined + 1 : joined + 9]
    three = statistics.median(step.seconds for step in after)
    lost = sum(step.seconds - two for step in until) + sum(step.seconds - three for step in after)
    longest = max(step.seconds for step in until) / two - 1
    return lost / two, longest, two, steps[joined].at - began


def _figure(seen: Sequence[float]) -> str:
    return f"{statistics.median(seen):.2f}, {min(seen):.2f} to {max(seen):.2f}"


# Recovery


def elastic_recovery(
    kills: int,
    options: tuple[str, ...] = ("--compute=0.002",),
    hardware: Hardware = CPU,
    world: int = 3,
) -> list[float]:
    """Seconds from a worker's SIGKILL to the next step that the others commit."""
    with lab(hardware) as here:
        port = free_port()
        here.coordinator(port)
        for _ in range(world):
            here.elastic(port, *options)
        gaps = []
        for _ in range(kills):
            gaps.append(_kill_one(here, world))
            here.elastic(port, *options)
    return gaps


def _kill_one(here: Lab, world: int) -> float:
    alive = [w for w in here.workers if w.process.poll() is None]
    here.wait(lambda: all(w.steps() and w.steps()[-1].world == world for w in alive))
    victim, *others = alive
    at = time.time()
    victim.process.kill()
    victim.process.wait()

    def committed() -> list[Step]:
        return [s for w in others for s in w.steps() if s.at > at and s.world == world - 1]

    here.wait(lambda: bool(committed()))
    return min(s.at for s in committed()) - at


def torchrun_recovery(kind: str) -> tuple[float, int]:
    """The same for torchrun with a snapshot each 20 steps: seconds, and steps done again."""
    with lab() as here:
        port = free_port()
        snapshot = here.folder / "snapshot.pt"
        nodes = 2 if kind == "node" else 1
        per_node = 1 if kind == "node" else 3
        for number in range(nodes):
            argv = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={per_node}"]
            argv += ["--max-restarts=10", "--rdzv-backend=c10d", "--rdzv-id=bench"]
            argv += [f"--rdzv-endpoint=127.0.0.1:{port}", f"--nnodes=1:{nodes}"]
            argv += [str(WORKER), "torchrun", "--compute=0.002", "--steps=1000000"]
            argv += [f"--snapshot={snapshot}"]
            # The store lives with the first agent: what dies is never that one.
            here.start(argv, TORCH_DISABLE_SHARE_RDZV_TCP_STORE="1")
            if number == 0 and nodes > 1:
                time.sleep(3)
        here.wait(lambda: here.last_step() > 45)
        before, at = here.last_step(), time.time()
        if kind == "node":
            lost = here.workers[-1].process
            for pid in (*children(lost.pid), lost.pid):
                os.kill(pid, signal.SIGKILL)
        else:
            os.kill(random.choice(children(here.workers[0].process.pid)), signal.SIGKILL)

        def restarted() -> list[Step]:
            survivors = here.workers[:1]
            found = [s for w in survivors for s in w.steps() if s.at > at + 0.3]
            return [s for s in found if s.seconds < 60 and s.number <= before + 60]

        here.wait(lambda: bool(restarted()), 240)
        first = min(restarted(), key=lambda s: s.at)
        return first.at - at, max(0, before - first.number + 1)


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def recovery(runs: int) -> None:
    ours = elastic_recovery(3 * runs)
    say("kill to next committed step, elastic", f"{statistics.median(ours):.2f} s", "at most 0.5")
    say("  longest of them", f"{max(ours):.2f} s")
    worker = [torchrun_recovery("worker") for _ in range(runs)]
    seconds, lost = (statistics.median(figures) for figures in zip(*worker, strict=True))
    say("the same, torchrun, worker killed", f"{seconds:.1f} s, {lost:.0f} steps lost")
    node = torchrun_recovery("node")
    say("the same, torchrun, node killed", f"{node[0]:.1f} s, {node[1]} steps lost")
    say(
        "elastic over torchrun, worker killed",
        f"{statistics.median(ours) / seconds:.3f}",
    )


# Goodput


def records_per_second(workers: int, seconds: float, every: float | None) -> tuple[float, float]:
    """Committed records a second, and the mean world; a worker killed and replaced `every` s."""
    with lab() as here:
        port = free_port()
        here.coordinator(port)
        options = ("--compute=0.004", "--steps=1000000")
        for _ in range(workers):
            here.elastic(port, *options)
        here.wait(lambda: any(w.steps() and w.steps()[-1].world == workers for w in here.workers))
        began, first = time.time(), here.last_step()
        due = began + (every or 0) / 2
        while time.time() < began + seconds:
            time.sleep(0.05)
            if every is not None and time.time() >= due:
                due += every
                alive = [w for w in here.workers if w.process.poll() is None and w.steps()]
                random.choice(alive).process.kill()
                here.elastic(port, *options)
        ended, last = time.time(), here.last_step()
        inside = {s.number: s for w in here.workers for s in w.steps() if first < s.number <= last}
        mean = sum(s.world for s in inside.values()) / len(inside)
        return BATCH * (last - first) / (ended - began), mean


def goodput(runs: int) -> None:
    ratios = []
    for _ in range(runs):
        calm = {n: records_per_second(n, 15, None)[0] for n in (2, 3)}
        disturbed, world = records_per_second(3, 60, 10)
        # The undisturbed rate at the same mean world, between two workers and three.
        expected = calm[2] + (calm[3] - calm[2]) * (world - 2)
        ratios.append(disturbed / expected)
        say(
            "  records a second: 2 calm, 3 calm, disturbed",
            f"{calm[2]:.0f}, {calm[3]:.0f}, {disturbed:.0f}",
            f"mean world {world:.2f}",
        )
    say(
        "goodput with a kill every 10 s",
        f"{statistics.median(ratios):.3f}",
        "at least 0.9 of undisturbed, same mean world",
    )


# Position


def position(runs: int) -> None:
    """The cost of knowing where one is, of one process, in shares of a small step.

    Between two measurements a model is trained, so that caches are as cold as in a training.
    """
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10))
    images = torch.randn(BATCH // 2, 64)
    data = TensorDataset(torch.randn(200_000, 64), torch.randint(10, (200_000,)))
    alone = Members(quorum=0, rank=0, names=("w0",))
    count = 2000
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-") as folder:
        log = AuditLog(Path(folder), "w0")

        def loader() -> float:
            start = time.perf_counter()
            for number, _ in enumerate(DataLoader(data, batch_size=BATCH, shuffle=True)):
                if number == count:
                    break
            return (time.perf_counter() - start) / count

        def bookkeeping(source: Source) -> tuple[float, float]:
            """What a step adds to reading the samples: its median and its mean."""
            progress = Progress({"train": source}, ())
            progress.begin(0)
            spent = []
            for step in range(count):
                start = time.perf_counter()
                share, _ = source.take(alone, BATCH)
                log.share(step, alone, share)
                reports = source.report(alone, share)
                log.commit(progress.commit(alone, BATCH, "train", reports, ()))
                spent.append(time.perf_counter() - start)
                torch.autograd.backward(model(images).sum())
            source.close()
            return statistics.median(spent), statistics.fmean(spent)

        class Nothing:
            def __len__(self) -> int:
                return len(data)

            def __getitems__(self, indices: list[int]) -> list[None]:
                return [None] * len(indices)

            def __getitem__(self, index: int) -> None: ...

        names = [f"part-{number}" for number in range(100)]
        shards = Shards(names=names, open=lambda _name, skip: iter([None] * (2000 - skip)))
        plain = Batching(collate=list, micro_batch=BATCH)
        cursor = [
            bookkeeping(cursors({"train": Nothing()}, plain, seed=0, shuffle=True)["train"])
            for _ in range(runs)
        ]
        leases = [bookkeeping(Leases(shards, plain, seed=0, shuffle=True)) for _ in range(runs)]
        reading = [loader() for _ in range(runs)]
    with lab() as here:
        case = Case("small", BATCH, 0.0, 100)
        workers = group(here, "elastic", case)
        step = statistics.median(
            t for _ in range(2 * runs) for t in train_block(here, workers, case.warm)
        )
    for name, times in (("global cursor", cursor), ("leased shards", leases)):
        cost, mean = (statistics.median(column) for column in zip(*times, strict=True))
        say(f"{name} and audit log, share of a step of {1000 * step:.1f} ms",
            f"{cost / step:.1%}", "at most 2 %" if name.startswith("global") else "")  # fmt: skip
        say("  microseconds a step, and their mean", f"{1e6 * cost:.0f}, {1e6 * mean:.0f}")
    say("  beside a DataLoader's own time for the batch", f"{1e6 * statistics.median(reading):.0f}")


# Waiting


class Waiting(Replica):
    """A worker that waits for others in vain, as often as it is asked to."""

    def __init__(self, port: int) -> None:
        super().__init__(
            Address(
                coordinator=f"127.0.0.1:{port}", name="w0", min_replicas=2, backend="gloo",
                timeouts=Timeouts(quorum=0.2, collective=0.2),
            ),
            Callbacks(dump=dict, load=lambda _: None, stopping=lambda: len(self.seen) >= 960),
        )  # fmt: skip
        self.seen: list[tuple[int, int, int]] = []
        """Before each attempt: descriptors, threads and pages of memory."""

    def _connect(self) -> Any:
        own = Path("/proc/self")
        descriptors, threads = (len(list((own / name).iterdir())) for name in ("fd", "task"))
        pages = int((own / "statm").read_text().split()[1])
        self.seen.append((descriptors, threads, pages))
        return super()._connect()


def waiting(_: int) -> None:
    """What a worker keeps that waits for partners as often as in four hours, uncollected."""
    gc.disable()
    with lab() as here:
        port = free_port()
        here.coordinator(port, together=2)
        worker = Waiting(port)
        with suppress(StoppedWaiting):
            worker.join()
        worker.leave()
        worker.close()
    gc.enable()
    first, last = worker.seen[2], worker.seen[-1]
    say("descriptors after 2 attempts, and after 960", f"{first[0]}, {last[0]}")
    say("  threads", f"{first[1]}, {last[1]}")
    say("  memory, kB more", f"{4 * (last[2] - first[2])}")


PARTS: dict[str, Callable[[int], None]] = {
    "steps": steps,
    "reading": reading,
    "joining": joining,
    "recovery": recovery,
    "goodput": goodput,
    "position": position,
    "waiting": waiting,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--link", type=float, default=0.0, help="Mbit/s of each, for joining")
    parser.add_argument("--compute", type=float, default=0.04, help="seconds per record, for it")
    options = parser.parse_args()
    if options.link:
        isolate()
        PARTS["joining"] = partial(joining, link=options.link, compute=options.compute)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}")
    for part in options.parts or PARTS:
        PARTS[part](options.runs)


if __name__ == "__main__":
    main()
