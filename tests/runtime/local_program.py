"""Numbers trained in local steps, where tests arrange who is late.

With `torn` the first synchronisation of w2 fails at its end, after w0 has committed it; w2 takes
it again with w1, and all three then take their first local steps. With `shard` one worker
alone reads, and takes seconds from one synchronisation of all to the next.
"""

import logging
import os
import sys
import time
from itertools import count
from pathlib import Path

import torch

from trainwright_runtime import elastic
from trainwright_runtime.elastic.replica import Replica

RECORDS, SHARD, EVERY = 24, 36, 3
WORKERS = 3
NAME = os.environ["TRAINWRIGHT_REPLICA"]


class Numbers:
    def __len__(self) -> int:
        return RECORDS

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index)])


def wait_for(name: str) -> None:
    while not Path(name).exists():
        time.sleep(0.01)


def tear() -> None:
    """Let this worker lose its connection at the end of the first step."""
    commit, commits = Replica.commit, count()

    def failing(replica: Replica) -> bool:
        first = next(commits) == 0
        if first:
            replica._peers.report(RuntimeError("connection lost"))
        committed = commit(replica)
        Path("failed" if first else "committed").touch()
        return committed

    Replica.commit = failing  # type: ignore[method-assign]


def main(how: str) -> None:
    logging.basicConfig(level=logging.WARNING)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    Path(f"up-{NAME}").touch()
    while len(list(Path().glob("up-*"))) < WORKERS:
        time.sleep(0.01)
    if how == "torn" and NAME == "w1":
        wait_for("failed")
    if how == "torn" and NAME == "w2":
        tear()
    shards = elastic.Shards(
        names=["a"],
        open=lambda name, skip: (torch.tensor([float(n)]) for n in range(skip, SHARD)),
    )
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    with elastic.training(
        model, optimizer, shards if how == "shard" else Numbers(), batch_size=6, shuffle=False,
        totals=("n",), synchronize=elastic.LocalSGD(every=EVERY),
    ) as run:  # fmt: skip
        for _ in run.epochs():
            for number, batch in enumerate(run.batches(), start=1):
                if how == "torn" and NAME == "w0":
                    wait_for("committed")
                    Path(f"step-{number}").touch()
                elif how == "torn":
                    wait_for(f"step-{EVERY}")
                if how == "shard":
                    Path(f"reads-{NAME}").touch()
                    time.sleep(2.2 if run.world_size == WORKERS else 0.1)
                run.backward(model(batch).square().mean())
                run.add(n=len(batch))
            print(run.totals()["n"], flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
