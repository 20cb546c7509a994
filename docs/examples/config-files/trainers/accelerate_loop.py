"""A linear regression by Accelerate, in the precision that its configuration says."""

import argparse

import torch
from accelerate import Accelerator


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    steps = parser.parse_args().steps
    torch.manual_seed(0)
    accelerator = Accelerator()
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    truth, loss = torch.arange(8.0), torch.zeros(())
    for _ in range(steps):
        inputs = torch.randn(64, 8)
        loss = torch.nn.functional.mse_loss(model(inputs).squeeze(1).float(), inputs @ truth)
        optimizer.zero_grad()
        accelerator.backward(loss)
        optimizer.step()
    accelerator.print(f"precision {accelerator.mixed_precision}, loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
