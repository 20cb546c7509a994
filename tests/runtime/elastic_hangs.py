"""A small training of a sharded model, of which local rank 1 stops at a place: see the tests."""

import os
import signal
import sys
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from trainwright_runtime import elastic
from trainwright_runtime.elastic import node
from trainwright_runtime.elastic.peers import ProcessPeers


def stop(here: str) -> None:
    if here == PLACE and os.environ["TRAINWRIGHT_REPLICA"] == "node-0-1":
        os.kill(os.getpid(), signal.SIGSTOP)


def form(self: ProcessPeers, *arguments: Any) -> None:
    stop("while it connects")
    form_really(self, *arguments)


PLACE, within = sys.argv[1], timedelta(seconds=float(sys.argv[2]))
torch.set_num_threads(1)
dist.init_process_group("gloo")
dist.group.WORLD._get_backend(torch.device("cpu")).options._timeout = within
form_really, ProcessPeers.form = ProcessPeers.form, form  # type: ignore[method-assign]
node._REPORT = 0.1
model = fully_shard(torch.nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
stop("before the training")
with elastic.training(
    model, optimizer, torch.ones(8, 3), batch_size=4, epochs=2,
    on_step=lambda: stop("in on_step"),
) as run:  # fmt: skip
    if PLACE == "where one process asks" and os.environ["LOCAL_RANK"] == "0":
        print("world", run.world_size, "rank", run.rank, flush=True)
    for _ in run.epochs():
        for batch in run.batches():
            run.backward(model(batch).mean())
        stop("at the end of an epoch")
stop("at the end of the program")
