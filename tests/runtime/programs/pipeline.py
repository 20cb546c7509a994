"""Two stages of a pipeline, one per process, as torch.distributed.pipelining has them."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

dist.init_process_group("gloo")
rank, stages = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(stages)]
stage = PipelineStage(layers[rank], rank, stages, torch.device("cpu"))
schedule = ScheduleGPipe(stage, n_microbatches=2, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.AdamW(layers[rank].parameters(), lr=0.05)
for step in range(4):
    batch = torch.randn(8, 4, generator=torch.Generator().manual_seed(step))
    if rank == 0:
        schedule.step(batch)
    else:
        schedule.step(target=-batch)
    optimizer.step()
    optimizer.zero_grad()
total = sum(p.detach().double().sum() for p in layers[rank].parameters())
dist.all_reduce(total)
print("trained", f"{float(total):.6f}", flush=True)
dist.destroy_process_group()
