"""A small elastic training of a model that FSDP2 shards over the processes of a node.

Without a process group it trains the whole model in one process: what the others are compared with.
It takes its time until a file named `hurry` lies in the working folder; in the last epoch it takes
seconds for each step, for a test that is late.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from trainwright_runtime import elastic

RECORDS, VALIDATION = 75, 11  # what batches, nodes and processes do not divide


class Numbers:
    def __init__(self, first: int, count: int) -> None:
        self._first, self._count = first, count

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(self._first + index)
        inputs = torch.randn(5, generator=generator)
        return inputs, inputs.sum().sin().reshape(1)


def main(epochs: int, pause: float, options: dict[str, object]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1))
    if "WORLD_SIZE" in os.environ:
        dist.init_process_group("gloo")
        for layer in (model[0], model[2]):
            fully_shard(layer)
        fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    datasets = {"train": Numbers(0, RECORDS), "validation": Numbers(1000, VALIDATION)}
    hurry = Path("hurry")
    losses, validation = [], []
    with elastic.training(
        model, optimizer, datasets, batch_size=13, micro_batch=2, epochs=epochs,
        totals=("loss", "records"), max_grad_norm=1.0, **options,
    ) as run:  # fmt: skip
        for epoch in run.epochs():
            if pause and epoch == epochs - 1:
                pause = max(pause, 3)
            for inputs, targets in run.batches():
                loss = (model(inputs) - targets).square().mean()
                run.backward(loss)
                run.add(loss=loss.item() * len(targets), records=len(targets))
                end = time.monotonic() + pause
                while not hurry.exists() and time.monotonic() < end:
                    time.sleep(min(pause, 0.05))
            losses.append((epoch, run.totals()["loss"] / RECORDS))
            assert run.totals()["records"] == RECORDS
            with torch.no_grad():
                for inputs, targets in run.batches("validation"):
                    loss = (model(inputs) - targets).square().mean()
                    run.add(loss=loss.item() * len(targets), records=len(targets))
            validation.append((epoch, run.totals("validation")["loss"] / VALIDATION))
            assert run.totals("validation")["records"] == VALIDATION
        whole = [p.full_tensor() if isinstance(p, DTensor) else p for p in model.parameters()]
        report = {
            "rank": run.rank,
            "step": run.step,
            "losses": losses,
            "validation": validation,
            "weights": sum(p.double().sum().item() for p in whole),
        }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), json.loads(sys.argv[3]) if sys.argv[3:] else {})
