"""torch.compile around DDP, by the compiler's front end: a C++ compiler need not be there."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.compile(
    DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 1))),
    backend="aot_eager",
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(4):
    batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(10 * step + dist.get_rank()))
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained", f"{sum(float(p.double().sum()) for p in model.parameters()):.6f}", flush=True)
