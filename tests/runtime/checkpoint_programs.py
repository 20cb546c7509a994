"""What the processes of the checkpoint tests run; they can be killed."""

from __future__ import annotations

import json
import logging
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from fsspec.implementations.memory import MemoryFileSystem
from preloaded import PROCESSES
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from trainwright_runtime.checkpoint import (
    STOPPED,
    CheckpointError,
    Checkpoints,
    PeerCopies,
    RngState,
    StopSignal,
    checkpoints,
)
from trainwright_runtime.checkpoint.peer_copies import Copies
from trainwright_runtime.checkpoint.ranks import Ranks

TIMEOUT = 180.0  # seconds; only against hanging for ever


def start(program: Callable[..., None], *arguments: object) -> ForkServerProcess:
    process = PROCESSES.Process(target=program, args=arguments)
    process.start()
    return process


def wait(processes: Sequence[ForkServerProcess]) -> list[int]:
    """Exit codes; negative for a signal."""
    for process in processes:
        process.join(TIMEOUT)
    late = [process for process in processes if process.is_alive()]
    for process in late:
        process.kill()
    assert not late, f"{len(late)} of {len(processes)} processes did not end"
    return [process.exitcode or 0 for process in processes]


def together(world: int, folder: Path, program: Callable[..., None], *arguments: object) -> list:
    """Run a program as so many ranks; what each of them returned."""
    meeting = folder / f"meeting-{random.getrandbits(64):x}"
    answers = [folder / f"{meeting.name}-{rank}.json" for rank in range(world)]
    processes = [
        start(_rank, rank, world, meeting, answers[rank], program, *arguments)
        for rank in range(world)
    ]
    assert wait(processes) == [0] * world
    return [json.loads(answer.read_text()) for answer in answers]


def _rank(
    rank: int,
    world: int,
    meeting: Path,
    answer: Path,
    program: Callable[..., object],
    *rest: object,
) -> None:
    torch.set_num_threads(1)
    logging.basicConfig(level=logging.INFO)
    dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=world)
    answer.write_text(json.dumps(program(*rest)))
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def uniform(step: int) -> dict[str, object]:
    """A state in which everything says of which step it is, so that a mixture shows."""
    return {
        "weights": [torch.full((300, 50), float(step)) for _ in range(8)],
        "cursor": {"step": step},
    }


def step_of(state: dict) -> int:
    """The one step that everything in a `uniform` state is of."""
    found = {state["cursor"]["step"]}
    for weight in state["weights"]:
        found |= set(weight.unique().tolist())
    assert len(found) == 1, f"a mixture of steps {sorted(found)}"
    return int(found.pop())


def save(url: str, *numbers: int, **options: Any) -> None:
    """Save `uniform` states, of which two stay."""
    with Checkpoints(url, **{"keep": 2, **options}) as checkpoints:
        for step in numbers:
            checkpoints.save(step, uniform(step))


def load(place: str | Path) -> int | None:
    """The step of the checkpoint that is loaded, of which everything is."""
    state = uniform(0)
    with Checkpoints(place) as checkpoints:
        step = checkpoints.load(state)
    assert step is None or step == step_of(state)
    return step


def save_for_ever(directory: Path, seed: int) -> None:
    torch.set_num_threads(1)
    chance = random.Random(seed)
    with Checkpoints(directory, keep=2) as checkpoints:
        state = uniform(0)
        step = checkpoints.load(state) or 0
        while True:
            step += 1
            checkpoints.save(step, uniform(step), wait=chance.random() < 0.3)


def save_until_event(directory: Path, fatal: int) -> None:
    """Save a step twice over, killed at the `fatal`-th change of the directory; exit 0 if after."""
    torch.set_num_threads(1)
    changes = 0

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal changes
        if not arguments or not str(arguments[0]).startswith(str(directory)):
            return
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if writes or event in {"os.mkdir", "os.rename", "os.remove", "os.rmdir"}:
            changes += 1
            if changes == fatal:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    with Checkpoints(directory, keep=2) as checkpoints:
        for _ in range(2):
            checkpoints.save(3, uniform(3), wait=True)


def save_some(directory: Path, steps: Sequence[int]) -> None:
    torch.set_num_threads(1)
    with Checkpoints(directory, keep=2) as checkpoints:
        for step in steps:
            checkpoints.save(step, uniform(step))


def save_within_a_file_size(directory: Path, log: Path) -> None:
    """As `ulimit -f` sets it: first below the buffers and the files, then not any more."""
    torch.set_num_threads(1)
    logging.basicConfig(filename=log, level=logging.INFO)
    checkpoints.WORTH_IT = 0  # type: ignore[misc]
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
    with Checkpoints(directory) as saving:
        saving.save(1, uniform(1))
        saving.save(2, uniform(2), wait=True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        saving.save(3, uniform(3))


# --- object storage --------------------------------------------------------------------------


def save_to_objects(url: str, environ: dict[str, str]) -> None:
    """Save one step, once the test has marked that it watches."""
    while not (Path(tempfile.gettempdir()) / "go").exists():
        time.sleep(0.005)
    save_step_to_objects(url, environ, 2)


def save_step_to_objects(url: str, environ: dict[str, str], step: int) -> None:
    torch.set_num_threads(1)
    os.environ.update(environ)
    with Checkpoints(url, keep=1) as checkpoints:
        checkpoints.save(step, uniform(step), wait=True)


def killed_before_it_puts(temporary: str) -> None:
    def kill(*_arguments: object, **_options: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    MemoryFileSystem.put_file = kill
    tempfile.tempdir = temporary
    with Checkpoints("memory://bucket/run") as checkpoints:
        checkpoints.save(1, uniform(1), wait=True)


def with_environment(environ: dict[str, str], program: str, *arguments: object) -> object:
    os.environ.update(environ)
    return globals()[program](*arguments)


def train_until_stopped(directory: Path, ready: Path, every: int) -> None:
    with Checkpoints(directory) as checkpoints, StopSignal(every=every) as stop:
        for step in range(1, 100_000):
            time.sleep(0.002)
            if step == 20:
                ready.with_suffix(f".{_rank_number()}").touch()
            if stop.agreed():
                checkpoints.save(step, uniform(step), wait=True)
                break
    raise SystemExit(STOPPED)


def ranks_until_stopped(
    rank: int, world: int, meeting: Path, directory: Path, ready: Path, every: int
) -> None:
    dist.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=world)
    train_until_stopped(directory, ready, every)


def _rank_number() -> int:
    return dist.get_rank() if dist.is_initialized() else 0


# --- sharded and replicated training ---------------------------------------------------------


def training(kind: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 2))
    if kind == "ddp":
        model = DistributedDataParallel(model)
    elif kind == "fsdp":
        model = fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=0.05)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, first: int, last: int) -> list[float]:
    """The same batch on every rank, so that the losses do not depend on their number."""
    losses = []
    for step in range(first, last + 1):
        batch = torch.randn(12, 6, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        loss = model(batch).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def train_and_save(directory: Path, kind: str) -> list[float]:
    model, optimizer = training(kind)
    with Checkpoints(directory) as checkpoints:
        train(model, optimizer, 1, 3)
        rng = RngState()
        checkpoints.save(3, {"model": model, "optimizer": optimizer, "rng": rng, "cursor": 36})
        return train(model, optimizer, 4, 8)


def load_and_train(directory: Path, kind: str) -> list[float]:
    model, optimizer = training(kind)
    state = {"model": model, "optimizer": optimizer, "rng": RngState(), "cursor": 0}
    with Checkpoints(directory) as checkpoints:
        assert checkpoints.load(state) == 3
        assert state["cursor"] == 36
        return train(model, optimizer, 4, 8)


def draw_and_save(directory: Path) -> float:
    torch.manual_seed(100 + dist.get_rank())
    with Checkpoints(directory) as checkpoints:
        checkpoints.save(1, {"rng": RngState()})
    return torch.rand(()).item()


def load_and_draw(directory: Path) -> float:
    torch.manual_seed(500 + dist.get_rank())
    with Checkpoints(directory) as checkpoints:
        assert checkpoints.load({"rng": RngState()}) == 1
    return torch.rand(()).item()


def seeded_draw() -> float:
    torch.manual_seed(500 + dist.get_rank())
    return torch.rand(()).item()


def save_uniform(directory: Path, step: int) -> None:
    with Checkpoints(directory) as checkpoints:
        checkpoints.save(step, uniform(step))


def save_beside_a_slow_rank(directory: Path) -> list[str]:
    """Save a step twice; rank 1 is behind rank 0 wherever it comes back to what was written."""

    def wait_for(condition: Callable[[], object]) -> None:
        while not condition():
            time.sleep(0.001)

    def hidden() -> list[Path]:
        return list(directory.glob(".writer-*-step-*"))

    first = True

    def slow(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal first
        if not arguments or not str(arguments[0]).startswith(f"{directory}/.writer-"):
            return
        if event == "os.listdir":
            wait_for(lambda: not hidden())  # published
        elif event == "shutil.rmtree" and first:
            first = False
            wait_for(hidden)  # of the next save

    if dist.get_rank() == 1:
        sys.addaudithook(slow)
    with Checkpoints(directory) as checkpoints:
        for _ in range(2):
            checkpoints.save(1, uniform(1), wait=True)
    return sorted(path.name for path in directory.iterdir())


def load_uniform(directory: Path) -> int:
    state = uniform(0)
    with Checkpoints(directory) as checkpoints:
        step = checkpoints.load(state)
    assert step == step_of(state)
    return step


def save_where_one_rank_may_not_write(directory: Path) -> list[str]:
    """Rank 1 can write no file above 1 kB for its first two saves; what each save came to."""
    outcomes = []
    _soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    shards = {"weights": fully_shard(nn.Linear(400, 400)), "cursor": 0}
    with Checkpoints(directory, tolerate=3, tolerate_seconds=0) as checkpoints:
        for step in range(1, 4):
            limit = 1000 if dist.get_rank() == 1 and step < 3 else hard
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            checkpoints.save(step, shards, wait=True)
            outcomes.append(",".join(sorted(path.name for path in directory.glob("step-*"))))
            dist.barrier()
    return outcomes


# --- copies in the memory of the nodes ---------------------------------------------------------


def train_with_copies(root: Path, kind: str, steps: int, lost: int = -1) -> list:
    """Each rank is a node with a memory of its own; `lost` is killed after the last step.

    The step that training went on from, and the losses since.
    """
    model, optimizer = training(kind)
    state = {"model": model, "optimizer": optimizer, "rng": RngState(), "seen": 0}
    losses = []
    with _with_copies(root) as checkpoints:
        first = checkpoints.load(state) or 0
        assert state["seen"] == 12 * first
        for step in range(first + 1, steps + 1):
            losses += train(model, optimizer, step, step)
            state["seen"] = 12 * step
            if checkpoints.due(step):
                checkpoints.save(step, state)
        if lost >= 0:
            checkpoints.wait()
            dist.barrier()
            if dist.get_rank() == lost:
                os.kill(os.getpid(), signal.SIGKILL)
            train(model, optimizer, 1, 1_000_000)  # until its loss is noticed
    return [first, losses]


def train_until_copying(root: Path, kind: str, steps: int, killed: int) -> list:
    """One rank is killed at the first file of its neighbour that the last copy gives it."""
    last = f".step-{steps:010}."

    def kill(event: str, arguments: tuple[object, ...]) -> None:
        if (
            event == "open"
            and last in str(arguments[0])
            and f"/__{_before()}_" in str(arguments[0])
        ):
            os.kill(os.getpid(), signal.SIGKILL)

    def _before() -> int:
        return (killed - 1) % dist.get_world_size()

    if dist.get_rank() == killed:
        sys.addaudithook(kill)
    return train_with_copies(root, kind, steps, lost=killed)


def load_copies(root: Path, storage: str) -> int | None:
    model, optimizer = training("ddp")
    state = {"model": model, "optimizer": optimizer, "rng": RngState(), "seen": 0}
    with _with_copies(root, storage) as checkpoints:
        return checkpoints.load(state)


def _with_copies(root: Path, storage: str = "storage") -> Checkpoints:
    """Copies after every second step, checkpoints after every fifth."""
    memory = PeerCopies(root / f"memory-{dist.get_rank()}", every=2)
    return Checkpoints(root / storage, every=5, peer_copies=memory)


def killed(world: int, folder: Path, program: Callable[..., None], *arguments: object) -> list[int]:
    """Run a program as so many ranks that does not end well; their exit codes."""
    meeting = folder / f"meeting-{random.getrandbits(64):x}"
    processes = [
        start(_rank, rank, world, meeting, folder / "unused", program, *arguments)
        for rank in range(world)
    ]
    return wait(processes)


def copy_where_one_rank_may_not_write(root: Path) -> list[list[int]]:
    """Rank 1 can write no file above 1 kB at its second copy; what each node shows after each."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    state = {"weights": fully_shard(nn.Linear(400, 400)), "seen": 0}
    seen = []
    with _with_copies(root) as checkpoints:
        for step in (2, 4, 6):  # the first also makes the buffers, which are a file
            limit = 1000 if dist.get_rank() == 1 and step == 4 else hard
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
            assert checkpoints.due(step)
            checkpoints.save(step, state)
            checkpoints.wait()
            memory = root / f"memory-{dist.get_rank()}"
            names = [path.name for path in memory.iterdir()]
            assert not [name for name in names if name.startswith(".")], "left behind"
            seen.append(sorted(int(name[5:15]) for name in names))
    return seen


def close_without_group(root: Path, kind: str, copied: int) -> str:
    """A script that takes its process group down too early; what `close` raises."""
    model, optimizer = training(kind)
    memory = PeerCopies(root / f"memory-{dist.get_rank()}", every=copied)
    checkpoints = Checkpoints(root / "storage", every=3, peer_copies=memory)
    for step in (1, 2, 3)[: copied or 3]:
        train(model, optimizer, step, step)
        if checkpoints.due(step):
            checkpoints.save(step, {"model": model, "optimizer": optimizer})
    checkpoints.wait()
    dist.barrier()
    dist.destroy_process_group()
    refused = ""
    for _ in range(2):  # a second call must not remove what the first has kept
        try:
            checkpoints.close()
        except CheckpointError as error:
            refused = str(error)
    return refused


def save_where_rank_0_asks(root: Path) -> list[list[str]]:
    """`due` is called on rank 0 alone, which tells the others."""
    with _with_copies(root) as checkpoints:
        for step in range(1, 6):
            answer = [checkpoints.due(step) if dist.get_rank() == 0 else None]
            dist.broadcast_object_list(answer, src=0)
            if answer[0]:
                checkpoints.save(step, uniform(step))
        checkpoints.wait()
        return _shown(root)


def save_and_wait(root: Path) -> list[list[str]]:
    with _with_copies(root) as checkpoints:
        for step in range(1, 5):
            if checkpoints.due(step):
                checkpoints.save(step, uniform(step), wait=True)
        return _shown(root)


def stop_at_a_copy(root: Path, order: str, signalled: int) -> list[list[str]]:
    """SIGTERM reaches one rank before a step where only a copy is due."""
    with StopSignal() as stop, _with_copies(root) as checkpoints:
        if dist.get_rank() == signalled:
            os.kill(os.getpid(), signal.SIGTERM)
        dist.barrier()
        if order == "due first":
            to_save = checkpoints.due(2) or stop.agreed()
        else:
            to_save = stop.agreed() or checkpoints.due(2)
        assert to_save
        checkpoints.save(2, uniform(2), wait=True)
        return _shown(root)


def go_on_to(root: Path, last: int) -> list:
    """Train on from what there is, to a step before the next that is due, and end well."""
    with _with_copies(root) as checkpoints:
        state = uniform(0)
        first = checkpoints.load(state)
        assert first == step_of(state)
        for step in range(first + 1, last + 1):
            if checkpoints.due(step):
                checkpoints.save(step, uniform(step))
    dist.barrier()
    return [first, *_shown(root)]


def save_until(root: Path, last: int) -> None:
    checkpoints = _with_copies(root)
    for step in range(1, last + 1):
        if checkpoints.due(step):
            checkpoints.save(step, uniform(step))
    checkpoints.wait()
    dist.barrier()
    os._exit(7)


def _shown(root: Path) -> list[list[str]]:
    """The checkpoints in storage, and in this rank's memory."""
    folders = [root / "storage", root / f"memory-{dist.get_rank()}"]
    return [sorted(path.name[:15] for path in folder.glob("step-*")) for folder in folders]


def collect_where_one_rank_has_no_room(root: Path) -> str:
    """Rank 1 has no room for the file of rank 0; what its neighbour's collection raises."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    rank = dist.get_rank()
    copies = Copies(root / f"memory-{rank}", Ranks(dist.group.WORLD))
    folder = copies.begin(2)
    name = f"__{rank}_0.distcp"
    (folder / name).write_bytes(bytes(10 if rank else 100_000))
    if rank == 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        copies.collect(folder, [name])
    except OSError as error:
        return type(error).__name__
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    return ""
