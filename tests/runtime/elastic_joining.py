"""A training with all sorts of state: writes what it holds at each step, and what it was sent.

Lines of JSON in the file `state-…` of each life: step and digest, or the tensors that were fetched.
"""

import hashlib
import json
import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as functional
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from trainwright_runtime import elastic
from trainwright_runtime.elastic import transport
from trainwright_runtime.elastic.transport import Part, Stream

OUTPUT = Path(f"state-{os.environ['TRAINWRIGHT_REPLICA']}-{os.getpid()}")


def write(line: object) -> None:
    with OUTPUT.open("a") as file:
        file.write(json.dumps(line) + "\n")


def main(epochs: int, forgetful: bool) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    read = transport.read

    def noted(stream: Stream, header: Mapping[str, object]) -> Mapping[str, Part]:
        parts = read(stream, header)
        write({name: sorted(part.tensors) for name, part in parts.items()})
        return parts

    transport.read = noted  # what is followed is read by another name
    model = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
    )
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 7, 0.9)
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    counters = {"seen": 0}

    def after_step() -> None:
        if forgetful and not began:
            raise RuntimeError("this program is not ready for it yet")
        ema.update_parameters(model)
        counters["seen"] += run.step * run.world_size
        if run.rank == 0:
            counters["seen"] += 0  # a program may look whether it is the one to report

    images, labels = torch.load("digits.pt")
    # A batch norm needs two records of each batch.
    dataset = torch.utils.data.TensorDataset(images[:1792], labels[:1792])
    began = []
    with elastic.training(
        model, optimizer, dataset, batch_size=64, epochs=epochs, scheduler=scheduler,
        max_grad_norm=1.0, states={"ema": ema, "counters": counters}, on_step=after_step,
    ) as run:  # fmt: skip
        for _ in run.epochs():
            for features, targets in run.batches():
                began.append(run.step)
                state = hashlib.sha256()
                for part in (model, ema, optimizer, scheduler):
                    for item in sorted(_numbers(part.state_dict())):
                        state.update(item)
                write([run.step, state.hexdigest(), counters["seen"]])
                run.backward(functional.cross_entropy(model(features), targets))
                if not Path("hurry").exists():
                    time.sleep(0.05)


def _numbers(state: object, name: str = "") -> list[bytes]:
    """All of it but how often a batch norm was called, which is each worker's own."""
    if isinstance(state, Mapping):
        items = ((f"{name}/{key}", item) for key, item in state.items())
        return [found for key, item in items for found in _numbers(item, key)]
    if isinstance(state, torch.Tensor):
        return [] if "tracked" in name else [name.encode() + state.numpy().tobytes()]
    return [f"{name} {state!r}".encode()]


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(int(sys.argv[1]), bool(sys.argv[2:]))
