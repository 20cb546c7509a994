"""HSDP: FSDP2 shards inside of replicas, over a mesh of two by two."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
torch.manual_seed(0)
model = fully_shard(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
for step in range(4):
    seed = 10 * step + dist.get_rank()
    batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(seed))
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
total = sum(p.full_tensor().double().sum() for p in model.parameters())
print("trained", f"{float(total):.6f}", flush=True)
