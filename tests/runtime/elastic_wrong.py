"""A training of few numbers in which one bit of one worker's memory flips, once per file `flip-…`.

With a file `slow-…` of its name a worker takes longer to compute.
"""

import logging
import os
import sys
import time
from pathlib import Path

import torch

from trainwright_runtime import elastic


def main(epochs: int) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    records = torch.randn(96, 8)
    name = os.environ["TRAINWRIGHT_REPLICA"]
    with elastic.training(model, optimizer, records, batch_size=12, epochs=epochs) as run:
        for _ in run.epochs():
            for values in run.batches():
                run.backward(model(values).pow(2).mean())
                time.sleep(0.2 if Path(f"slow-{name}").exists() else 0.02)
                if Path(f"flip-{name}").exists():
                    Path(f"flip-{name}").unlink()
                    model.weight.detach().view(torch.int32)[0, 3] ^= 1  # the last of its bits


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main(int(sys.argv[1]))
