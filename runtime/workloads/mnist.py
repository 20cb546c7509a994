"""A small convolutional network on MNIST.

python -m trainwright_runtime --nproc-per-node=2 -- -m workloads.mnist --data=digits
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from torch import nn

from workloads import classification


def network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 20, kernel_size=5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(20, 50, kernel_size=5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(50 * 4 * 4, 500), nn.ReLU(),
        nn.Linear(500, 10),
    )  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The flags, with defaults that reach 0.98 in one epoch of MNIST."""
    return classification.parser(
        name="mnist",
        description="Train a small CNN on MNIST.",
        epochs=1,
        batch_size=64,
        lr=0.01,
        momentum=0.5,
    )


def main(argv: Sequence[str] | None = None) -> None:
    classification.run(parser().parse_args(argv), "mnist", network)


if __name__ == "__main__":
    main()
