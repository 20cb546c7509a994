"""A small training with local steps, by any number of processes, for tests to disturb.

It takes its time until a file named `hurry` lies in the working folder; in the last epoch it takes a
second for each step, for a test that is late. Each process notes a digest of what all must hold
after each synchronisation. With `ddp` it is an
ordinary DistributedDataParallel over the same batches.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as functional
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from trainwright_runtime import elastic
from trainwright_runtime.elastic.cursor import permutation

TRAINED, BATCH = 1408, 64  # of 1797; 22 batches


def digest(*states: object) -> str:
    def numbers(state: object) -> object:
        match state:
            case torch.Tensor():
                return state.tolist()
            case dict():
                return {str(key): numbers(value) for key, value in state.items()}
            case list() | tuple():
                return [numbers(value) for value in state]
        return state

    return hashlib.sha256(json.dumps(numbers(list(states))).encode()).hexdigest()


def ddp(epochs: int, model: torch.nn.Module, images: torch.Tensor, labels: torch.Tensor) -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    wrapped = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for batch in permutation(TRAINED, 0, epoch).split(BATCH):
            mine = batch[len(batch) * rank // world : len(batch) * (rank + 1) // world]
            optimizer.zero_grad()
            functional.cross_entropy(wrapped(images[mine]), labels[mine]).backward()
            optimizer.step()
    dist.destroy_process_group()


def held_after(synchronisations: int) -> None:
    """After the first synchronisation of an epoch of four, while the test asks for it."""
    while synchronisations % 4 == 1 and Path("hold").exists() and not Path("hurry").exists():
        Path(f"held-{os.getpid()}").touch()
        time.sleep(0.01)


class Digits:
    def __init__(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        self.images, self.labels = images, labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[index], self.labels[index]


def main(how: str, every: int, epochs: int, pause: float) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    images, labels = torch.load("digits.pt")
    if how == "ddp":
        ddp(epochs, model, images, labels)
        print(json.dumps({"weights": [p.tolist() for p in model.parameters()]}), flush=True)
        return
    outer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9, nesterov=True)
    synchronize = {
        "local-sgd": elastic.LocalSGD(every=every),
        "diloco": elastic.DiLoCo(every=every, outer=outer),
        "each-step": None,
    }[how]
    inner = (
        torch.optim.AdamW(model.parameters(), lr=0.003)
        if how == "diloco"
        else torch.optim.SGD(model.parameters(), lr=0.1)
    )
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.5))
    counters = {"synchronisations": 0}
    notes = Path(f"digests-{os.environ.get('TRAINWRIGHT_REPLICA', '0')}-{os.getpid()}")

    def after_step() -> None:
        ema.update_parameters(model)
        counters["synchronisations"] += 1
        now = digest(model.state_dict(), ema.state_dict(), outer.state_dict())
        with notes.open("a") as file:
            file.write(f"{counters['synchronisations']} {now}\n")

    data = {
        "train": Digits(images[:TRAINED], labels[:TRAINED]),
        "validation": Digits(images[TRAINED:], labels[TRAINED:]),
    }
    with elastic.training(
        model, inner, data, batch_size=BATCH, epochs=epochs, totals=("right", "local"),
        synchronize=synchronize, states={"ema": ema, "counters": counters}, on_step=after_step,
    ) as run:  # fmt: skip
        for epoch in run.epochs():
            if pause and epoch == epochs - 1:
                pause = max(pause, 1)
            for inputs, targets in run.batches():
                run.backward(functional.cross_entropy(model(inputs), targets))
                run.add(local=len(targets))
                end = time.monotonic() + pause
                while not Path("hurry").exists() and time.monotonic() < end:
                    time.sleep(min(pause, 0.05))
                held_after(counters["synchronisations"])
            with torch.no_grad():
                for inputs, targets in run.batches("validation"):
                    run.add(right=int((model(inputs).argmax(1) == targets).sum()))
            assert run.totals()["local"] == TRAINED  # each record once, also where some were redone
        accuracy = run.totals("validation")["right"] / (1797 - TRAINED)
    report = {"step": run.step, "accuracy": accuracy, "digest": digest(model.state_dict())}
    print(json.dumps({**report, "weights": [p.tolist() for p in model.parameters()]}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
