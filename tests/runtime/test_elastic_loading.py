"""Loader processes: the same records as without them, through resizes, and gone with their worker."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch
from containers import ending
from torch.utils.data import get_worker_info

from trainwright_runtime import elastic
from trainwright_runtime.elastic.cursor import Cursor, cursors, permutation
from trainwright_runtime.elastic.members import Members
from trainwright_runtime.elastic.source import Batching

Record = tuple[str, int, int]
LENGTHS = {"train": 90, "validation": 31}


class Named:
    """Each sample says which it is and which process has read it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __len__(self) -> int:
        return LENGTHS[self.name]

    def __getitem__(self, index: int) -> Record:
        assert get_worker_info() is not None
        return self.name, index, os.getpid()


def _together(samples: list[Record]) -> list[Record]:
    return samples


@pytest.mark.parametrize("world", [1, 3])
def test_the_processes_stay_while_the_world_changes(world: int) -> None:
    """Committed steps and failed ones, in worlds of random sizes, over the ends of epochs."""
    chance = random.Random(world)
    batching = Batching(collate=_together, micro_batch=5)
    sources = cursors(
        {name: Named(name) for name in LENGTHS}, batching, seed=3, shuffle=True, num_workers=2,
        epochs=3,
    )  # fmt: skip
    processes, seen = set[int](), dict[tuple[int, str], list[int]]()
    for epoch in range(3):
        for name, source in sources.items():
            source.begin(epoch)
            read: list[int] = []
            while not source.finished:
                if chance.random() < 0.2:
                    world = chance.randint(1, 3)
                members = _members(0, world)
                records = _take(source, members, 8)
                processes |= {record[2] for record in records}
                if chance.random() < 0.2:
                    continue  # not committed
                assert {record[0] for record in records} <= {name}
                position = source.position
                source.commit(members, 8, [])
                total = source.position - position
                expected = permutation(LENGTHS[name], 3, epoch)[position : source.position]
                mine = expected[: total // world].tolist()  # the first rank's part
                assert [record[1] for record in records] == mine
                read += mine
            seen[epoch, name] = read
    assert len(processes) == 2
    assert os.getpid() not in processes
    for source in sources.values():
        source.close()
    for pid in processes:
        assert not psutil.pid_exists(pid)


def _members(rank: int, world: int) -> Members:
    return Members(quorum=world, rank=rank, names=tuple(f"w{n}" for n in range(world)))


def _take(source: Cursor, members: Members, batch: int) -> list[Record]:
    _, pieces = source.take(members, batch)
    assert all(count == len(records) <= 5 for count, records in pieces)
    return [record for _, records in pieces for record in records]


class Noted(torch.utils.data.Dataset[torch.Tensor]):
    """Notes in a folder who reads what, before it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        (self.folder / f"{os.getpid()}-{index}-{time.time_ns()}").touch()
        return torch.tensor([float(index)])


def test_a_training_with_processes_reads_each_record_once(tmp_path: Path) -> None:
    losses = []
    for num_workers in (0, 2):
        folder = tmp_path / str(num_workers)
        folder.mkdir()
        torch.manual_seed(0)
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
        with elastic.training(
            model, optimizer, Noted(folder), batch_size=8, micro_batch=3, epochs=2,
            totals=("loss",), num_workers=num_workers, loader={"prefetch_factor": 3},
        ) as run:  # fmt: skip
            for _ in run.epochs():
                for batch in run.batches():
                    loss = model(batch).square().mean()
                    run.backward(loss)
                    run.add(loss=loss.item() * len(batch))
                losses.append(run.totals()["loss"])
        files = [path.name.split("-")[1] for path in folder.iterdir()]
        assert sorted(map(int, files)) == sorted([*range(64), *range(64)])
    assert losses[:2] == losses[2:]


ORPHANS = """
import os, signal, sys, time
import torch
from trainwright_runtime import elastic

class Data:
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        os.write(1, f"reader {os.getpid()}\\n".encode())  # whole: another one writes too
        time.sleep(0.01)
        return torch.tensor([float(index)])

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
with elastic.training(model, optimizer, Data(), batch_size=8, num_workers=2, epochs=50) as run:
    for _ in run.epochs():
        for batch in run.batches():
            run.backward(model(batch).mean())
"""


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_processes_end_with_their_worker(number: signal.Signals, tmp_path: Path) -> None:
    """What they inherited would keep connections open that the peers of the worker wait on."""
    (tmp_path / "train.py").write_text(ORPHANS)
    with subprocess.Popen(
        [sys.executable, "train.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        readers = set[int]()
        while len(readers) < 2:
            readers.add(int(process.stdout.readline().split()[1]))
        with ending(readers):
            process.send_signal(number)
            process.stdout.read()  # until no process holds it open
    assert process.returncode in (-signal.SIGKILL, 128 + signal.SIGTERM)
