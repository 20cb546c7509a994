"""Lightning's Trainer, which finds torchrun's variables."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Model(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(0)
model = Model()
data = DataLoader(TensorDataset(torch.randn(32, 4)), batch_size=4)
trainer = lightning.Trainer(
    accelerator="cpu", devices=2, num_nodes=1, strategy="ddp", max_epochs=1, logger=False,
    enable_progress_bar=False, enable_model_summary=False,
)  # fmt: skip
trainer.fit(model, data)
assert trainer.world_size == 2
print("trained", f"{sum(float(p.double().sum()) for p in model.parameters()):.6f}", flush=True)
