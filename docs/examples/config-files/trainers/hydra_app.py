"""A linear regression on several nodes; every number in it comes from Hydra's configuration."""

import os

import hydra
import torch
import torch.distributed as dist
from omegaconf import DictConfig
from torch.nn.parallel import DistributedDataParallel


@hydra.main(version_base="1.3", config_path=None)
def main(config: DictConfig) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), **config.optimizer)
    truth, loss = torch.arange(8.0), torch.zeros(())
    for _ in range(config.steps):
        inputs = torch.randn(64, 8)
        loss = torch.nn.functional.mse_loss(model(inputs).squeeze(1), inputs @ truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if dist.get_rank() == 0:
        print(f"{config.run}: lr {config.optimizer.lr}, loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    os._exit(0)  # else Python may abort beside gloo's threads: pytorch/pytorch#190489
