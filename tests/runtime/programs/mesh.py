"""As torchtitan: a mesh of data and tensor parallel ranks, FSDP2 over the one, TP over the other."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)

mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
parallelize_module(model, mesh["tp"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
fully_shard(model, mesh=mesh["dp"])
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05, foreach=False)
for step in range(4):
    seed = 10 * step + mesh["dp"].get_local_rank()
    batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(seed))
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
total = sum(p.full_tensor().double().sum() for p in model.parameters())
print("trained", f"{float(total):.6f}", flush=True)
dist.destroy_process_group()
