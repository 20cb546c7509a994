"""What benchmarks/elastic.py and gpu.py run in each worker: one training loop, by DDP or elastic.

Prints a line for each step: when it ended on the wall clock, its number, the world's size, how long
it took. With `--epochs` rank 0 also prints "loss", the epoch and the mean loss of its records.
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

SIZES = {
    "small": (64, 64, 10),
    "medium": (1024, 1024, 10),
    "large": (2048, 2048, 10),
    "wide": (4096, 4096, 10),
    "adam": (3464, 3464, 10),
}

RECORDS = 4096


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
    parser.add_argument("--steps", type=int, default=sys.maxsize)
    parser.add_argument("--epochs", type=int, default=sys.maxsize)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backend", default="gloo", help="of DDP")
    parser.add_argument("--compute", type=float, default=0.0, help="seconds a record, asleep")
    parser.add_argument("--read", type=float, default=0.0, help="seconds to read a record, asleep")
    parser.add_argument("--loaders", type=int, default=0, help="loader processes of each worker")
    parser.add_argument("--block", type=int, default=1, help="steps for a line of stdin")
    parser.add_argument("--snapshot", type=Path, help="torchrun: where the last step is kept")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    width, hidden, classes = SIZES[options.size]
    plain = TensorDataset(torch.randn(RECORDS, width), torch.randint(classes, (RECORDS,)))
    data = Slow(plain, options.read) if options.read else plain
    model = torch.nn.Sequential(
        torch.nn.Linear(width, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, hidden),
        torch.nn.ReLU(),
        torch.nn.Linear(hidden, classes),
    )
    model.to(options.device)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if options.size == "adam":
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    loops = {"ddp": _ddp, "torchrun": _ddp, "elastic": _elastic}
    lines = []
    began = time.perf_counter()
    for step, world in loops[options.mode](model, optimizer, data, options):
        if options.device == "cuda":
            torch.cuda.synchronize()
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
        epochs=options.epochs,
        num_workers=options.loaders,
        totals=("loss",),
    ) as run:
        before = run.step
        for epoch in run.epochs():
            for records in run.batches():
                images, labels = (part.to(options.device) for part in records)
                if run.step != before:
                    before = run.step
                    yield run.step, run.world_size
                    if run.step >= options.steps:
                        return
                loss = loss_function(model(images), labels)
                run.backward(loss)
                if options.epochs != sys.maxsize:  # else steps are timed, and DDP's adds nothing
                    run.add(loss=loss.item() * len(labels))
                time.sleep(options.compute * len(labels))
            if options.epochs != sys.maxsize and run.rank == 0:
                print("loss", epoch, run.totals()["loss"] / len(data), flush=True)


def _ddp(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    data: TensorDataset | Slow,
    options: argparse.Namespace,
) -> Iterator[tuple[int, int]]:
    dist.init_process_group(options.backend)
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
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        for records in loader:
            images, labels = (part.to(options.device) for part in records)
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
