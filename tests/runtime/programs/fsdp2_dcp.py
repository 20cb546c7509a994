"""FSDP2, saved and loaded by torch's own distributed checkpoints."""

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

dist.init_process_group("gloo")


def training() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    for layer in (model[0], model[2]):
        fully_shard(layer)
    fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=0.05)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> float:
    loss = torch.zeros(())
    for step in steps:
        seed = 10 * step + dist.get_rank()
        loss = model(torch.randn(8, 4, generator=torch.Generator().manual_seed(seed)))
        loss = loss.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return loss.item()


model, optimizer = training()
train(model, optimizer, range(3))
weights, moments = get_state_dict(model, optimizer)
dcp.save({"model": weights, "optimizer": moments}, checkpoint_id="dcp")
expected = train(model, optimizer, range(3, 6))
model, optimizer = training()
weights, moments = get_state_dict(model, optimizer)
state = {"model": weights, "optimizer": moments}
dcp.load(state, checkpoint_id="dcp")
set_state_dict(
    model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
)
assert train(model, optimizer, range(3, 6)) == expected
total = sum(p.full_tensor().double().sum() for p in model.parameters())
print("trained", f"{float(total):.6f}", flush=True)
