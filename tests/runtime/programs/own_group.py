"""A script with an init_process_group of its own: address, ranks and time-out in its arguments."""

import os
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
store = dist.TCPStore(
    os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, is_master=rank == 0
)
dist.init_process_group(
    "gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=120)
)
pairs = dist.new_group(list(range(world)))
torch.manual_seed(0)
model = nn.Linear(4, 1)
for parameter in model.parameters():
    dist.broadcast(parameter.data, src=0, group=pairs)
for step in range(4):
    batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(10 * step + rank))
    model.zero_grad()
    model(batch).square().mean().backward()
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad, group=pairs)
        parameter.data.sub_(parameter.grad / world, alpha=0.1)
print("trained", f"{sum(float(p.double().sum()) for p in model.parameters()):.6f}", flush=True)
