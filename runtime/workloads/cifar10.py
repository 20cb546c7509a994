"""A network like LeNet on CIFAR-10.

python -m trainwright_runtime --nproc-per-node=2 -- -m workloads.cifar10 --data=digits
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from torch import nn

from workloads import classification


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 6, kernel_size=5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 16, kernel_size=5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 5 * 5, 120), nn.ReLU(),
        nn.Linear(120, 84), nn.ReLU(),
        nn.Linear(84, 10),
    )  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The flags; 8 samples a process and step, so that 0.6 is reached after 10 epochs on 3 GPUs."""
    return classification.parser(
        name="cifar10",
        description="Train a network like LeNet on CIFAR-10.",
        epochs=2,
        batch_size=8,
        lr=0.001,
        momentum=0.9,
    )


def main(argv: Sequence[str] | None = None) -> None:
    classification.run(parser().parse_args(argv), "cifar10", network)


if __name__ == "__main__":
    main()
