"""accelerate's loop: prepare, accumulate, gather."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
model = nn.Linear(4, 1)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)
model, optimizer, loader, schedule = accelerator.prepare(
    model, optimizer, DataLoader(data, batch_size=4), schedule
)
for inputs, targets in loader:
    with accelerator.accumulate(model):
        loss = (model(inputs) - targets).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
assert accelerator.gather(loss.detach().reshape(1)).shape == (2,)
accelerator.save_state("state")
print("trained", f"{sum(float(p.double().sum()) for p in model.parameters()):.6f}", flush=True)
accelerator.end_training()
