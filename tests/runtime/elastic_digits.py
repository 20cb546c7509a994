"""A small elastic training on the digits that `workers` lays beside it, for tests to disturb.

It takes its time until a file named `hurry` lies in the working folder, so that a test can do what
it wants to do while training goes on; in the last epoch it takes a second for each step, for a test
that is late. At the end it prints one JSON line.
"""

import json
import logging
import os
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as functional

from trainwright_runtime import elastic

TRAINED = 1437  # of 1797, as scikit-learn's examples split them
BATCH = 64


class Digits:
    def __init__(self, first: int, last: int) -> None:
        images, labels = torch.load("digits.pt")
        self.images, self.labels = images[first:last], labels[first:last]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[index], self.labels[index]


def main(epochs: int, pause: float, options: dict[str, object]) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(int(options.pop("weights", 0)))
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    datasets = {"train": Digits(0, TRAINED), "validation": Digits(TRAINED, 1797)}
    hurry = Path("hurry")
    accuracies, losses, began = [], [], time.monotonic()
    with elastic.training(
        model,
        optimizer,
        datasets,
        batch_size=BATCH,
        epochs=epochs,
        totals=("loss", "correct"),
        **options,
    ) as run:
        for epoch in run.epochs():
            if pause and epoch == epochs - 1:
                pause = max(pause, 1)
            for images, labels in run.batches():
                loss = functional.cross_entropy(model(images), labels)
                run.backward(loss)
                run.add(loss=loss.item() * len(labels))
                end = time.monotonic() + pause
                while not hurry.exists() and time.monotonic() < end:
                    time.sleep(min(pause, 0.05))
            losses.append(run.totals()["loss"] / TRAINED)
            with torch.no_grad():
                for images, labels in run.batches("validation"):
                    run.add(correct=(model(images).argmax(1) == labels).sum().item())
            accuracies.append(run.totals("validation")["correct"] / (1797 - TRAINED))
        report = {
            "step": run.step,
            "accuracy": accuracies[-1],
            "losses": losses,
            "world": run.world_size,
            "weights": sum(p.double().sum().item() for p in model.parameters()),
            "seconds": time.monotonic() - began,
        }
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    logging.basicConfig(
        level=logging.INFO, format=f"{os.environ.get('TRAINWRIGHT_REPLICA', '-')} %(message)s"
    )
    main(int(sys.argv[1]), float(sys.argv[2]), json.loads(sys.argv[3]) if sys.argv[3:] else {})
