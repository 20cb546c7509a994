"""What benchmarks/elastic.py runs in each worker: one training loop, by DDP or elastic.

Prints a line for each step: when it ended on the wall clock, its number, the world's size.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, TensorDataset

from trainwright_runtime import elastic

SIZES = {"small": (64, 64, 10), "medium": (1024, 1024, 10), "large": (2048, 2048, 10)}


class Slow(Dataset[tuple[torch.Tensor, ...]]):
    """Takes its time to read a record, as a disk or a decoder does."""

    def __init__(self, data: TensorDataset, seconds: float) -> None:
        self.data, self.seconds = data, seconds

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, ...]:
        time.sleep(self.seconds)
        sample: tuple[torch.Tensor, ...] = self.data[index]
        return sample


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("ddp", "elastic", "torchrun"))
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--batch", type=int, default=64, help="global")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--compute", type=float, default=0.0, help="seconds a record, asleep")
    parser.add_argument("--read", type=float, default=0.0, help="seconds to read a record, asleep")
    parser.add_argument("--loaders", type=int, default=0, help="loader processes of each worker")
    parser.add_argument("--block", type=int, default=1, help="steps for a line of stdin")
    parser.add_argument("--snapshot", type=Path, help="torchrun: where the last step is kept")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    width, hidden, classes = SIZES[options.size]
    plain = TensorDataset(torch.randn(4096, width), torch.randint(classes, (4096,)))
    data = Slow(plain, options.read) if options.read else plain
    model = torch.nn.Sequential(
        torch.nn.Linear(width, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, classes),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loops = {"ddp": _ddp, "torchrun": _ddp, "elastic": _elastic}
    lines = []
    began = time.perf_counter()
    for step, world in loops[options.mode](model, optimizer, data, options):
        lines.append(f"{time.time():.6f} {step} {world} {time.perf_counter() - began:.6f}\n")
        if step % options.block == 0:
            sys.stdout.write("".join(lines))
            sys.stdout.flush()
            lines.clear()
            if options.block > 1:
                sys.stdin.readline()
        began = time.perf_counter()
    sys.stdout.flush()
    os._exit(0)  # the C++ threads of gloo may end a process that is done in SIGABRT


def _elastic(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    data: TensorDataset | Slow,
    options: argparse.Namespace,
) -> Iterator[tuple[int, int]]:
    loss_function = torch.nn.CrossEntropyLoss()
    with elastic.training(
        model,
        optimizer,
        data,
        batch_size=options.batch,
        epochs=sys.maxsize,
        num_workers=options.loaders,
    ) as run:
        before = run.step
        for _ in run.epochs():
            for images, labels in run.batches():
                if run.step != before:
                    before = run.step
                    yield run.step, run.world_size
                    if run.step >= options.steps:
                        return
                run.backward(loss_function(model(images), labels))
                time.sleep(options.compute * len(labels))


def _ddp(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    data: TensorDataset | Slow,
    options: argparse.Namespace,
) -> Iterator[tuple[int, int]]:
    dist.init_process_group("gloo")
    world = dist.get_world_size()
    step = 0
    if options.snapshot and options.snapshot.exists():
        kept = torch.load(options.snapshot)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        step = kept["step"]
    wrapped = DistributedDataParallel(model)
    loss_function = torch.nn.CrossEntropyLoss()
    sampler: DistributedSampler[tuple[torch.Tensor, ...]] = DistributedSampler(data)
    loader = DataLoader(
        data,
        batch_size=options.batch // world,
        sampler=sampler,
        drop_last=True,
        num_workers=options.loaders,
        persistent_workers=options.loaders > 0,
    )
    for epoch in range(sys.maxsize):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            optimizer.zero_grad()
            torch.autograd.backward(loss_function(wrapped(images), labels))
            time.sleep(options.compute * len(labels))
            optimizer.step()
            step += 1
            if options.snapshot and step % 20 == 0 and dist.get_rank() == 0:
                state = {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "step": step,
                }
                torch.save(state, options.snapshot.with_suffix(".new"))
                options.snapshot.with_suffix(".new").replace(options.snapshot)
            yield step, world
            if step >= options.steps:
                return


if __name__ == "__main__":
    main()
