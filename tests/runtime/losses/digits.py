"""A CNN on scikit-learn's digits in plain DDP: what a user's script looks like, and its losses.

    RANK=… WORLD_SIZE=… MASTER_ADDR=… MASTER_PORT=… python digits.py STEPS [DROPOUT] [HELD]

Before the step HELD it waits for a file `go-on` in the working folder. Rank 0 prints "step N loss": the mean over the global batch.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from trainwright_runtime.checkpoint import STOPPED, Checkpoints, RngState, StopSignal

GLOBAL_BATCH = 64


def main(steps: int, dropout: float = 0.0, held: int = 0) -> None:
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    rank, world = (dist.get_rank(), dist.get_world_size()) if "RANK" in os.environ else (0, 1)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(dropout), nn.Linear(288, 10)
    )
    if world > 1:
        model = DistributedDataParallel(model)
    torch.manual_seed(1 + rank)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler, "rng": RngState()}

    with Checkpoints.from_environment() as checkpoints, StopSignal() as stop:
        first = checkpoints.load(state) or 0
        for step in range(first + 1, steps + 1):
            while step == held and not Path("go-on").exists():
                time.sleep(0.01)
            order = torch.randperm(len(images), generator=torch.Generator().manual_seed(step))
            mine = order[rank * GLOBAL_BATCH // world : (rank + 1) * GLOBAL_BATCH // world]
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(images[mine]), labels[mine])
            loss.backward()
            optimizer.step()
            scheduler.step()
            report(step, loss.detach())
            if stop.agreed():
                checkpoints.save(step, state, wait=True)
                sys.exit(STOPPED)
            if checkpoints.due(step):
                checkpoints.save(step, state)
    if world > 1:
        dist.destroy_process_group()


def report(step: int, loss: torch.Tensor) -> None:
    if dist.is_initialized():
        dist.all_reduce(loss)
        loss /= dist.get_world_size()
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(f"step {step} {loss.item()!r}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(float, sys.argv[2:3]), *map(int, sys.argv[3:]))
