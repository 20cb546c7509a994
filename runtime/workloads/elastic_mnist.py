"""MNIST with any number of workers, which may come and go: each record once per epoch.

python -m trainwright_runtime --recovery=live --nproc-per-node=3 -- \
    -m workloads.elastic_mnist --data=digits
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import torch
from torch.nn.functional import cross_entropy

from trainwright_runtime import elastic
from workloads.datasets import DIGITS, DataError, Images, available, load
from workloads.mnist import network


def parser() -> argparse.ArgumentParser:
    flags = argparse.ArgumentParser(
        prog="workloads.elastic_mnist",
        description="Train a small CNN on MNIST with workers that come and go.",
    )
    flags.add_argument("--epochs", type=int, default=1)
    flags.add_argument("--batch-size", type=int, default=64, help="of all workers together")
    flags.add_argument("--micro-batch", type=int, help="records that a worker forwards at once")
    flags.add_argument("--lr", type=float, default=0.01, help="learning rate")
    flags.add_argument("--momentum", type=float, default=0.5)
    flags.add_argument("--data", default="/data/mnist", help=f"folder (%(default)s), or {DIGITS}")
    flags.add_argument("--seed", type=int, default=0)
    return flags


def main(argv: Sequence[str] | None = None) -> None:
    options = parser().parse_args(argv)
    data = available(options.data)
    try:
        train, test = (load("mnist", data, train=part) for part in (True, False))
    except DataError as error:
        sys.exit(f"error: {error}")
    torch.manual_seed(options.seed)
    fit(train, test, options)


def fit(train: Images, test: Images, options: argparse.Namespace) -> None:
    """Train to the last epoch, with the learning rate and the global batch of one process."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), options.lr, options.momentum)
    with elastic.training(
        model,
        optimizer,
        {"train": train, "test": test},
        batch_size=options.batch_size,
        micro_batch=options.micro_batch,
        epochs=options.epochs,
        seed=options.seed,
        totals=("loss", "right"),
    ) as run:
        for epoch in run.epochs():
            for images, labels in run.batches("train"):
                loss = cross_entropy(model(images.to(device)), labels.to(device))
                run.backward(loss)
                run.add(loss=loss.item() * len(labels))
            with torch.no_grad():
                for images, labels in run.batches("test"):
                    scores = model(images.to(device)).cpu()
                    run.add(right=int((scores.argmax(dim=1) == labels).sum()))
            if run.rank == 0:
                mean = run.totals("train")["loss"] / len(train)
                accuracy = run.totals("test")["right"] / len(test)
                line = f"epoch {epoch + 1}: loss {mean:.4f}, accuracy {accuracy:.4f}"
                print(f"{line}, {run.world_size} workers", flush=True)


if __name__ == "__main__":
    main()
