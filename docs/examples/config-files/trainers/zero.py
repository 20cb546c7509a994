"""A linear regression by DeepSpeed. Stage, batch and clipping are those of its configuration."""

import argparse

import deepspeed
import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    deepspeed.add_config_arguments(parser)
    arguments = parser.parse_args()
    deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo")
    torch.manual_seed(0)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    engine, *_ = deepspeed.initialize(args=arguments, model=model, optimizer=optimizer)
    truth, loss = torch.arange(8.0), torch.zeros(())
    for _ in range(arguments.steps):
        inputs = torch.randn(engine.train_micro_batch_size_per_gpu(), 8).to(engine.device)
        loss = torch.nn.functional.mse_loss(engine(inputs).squeeze(1), inputs @ truth.to(inputs))
        engine.backward(loss)
        engine.step()
    if dist.get_rank() == 0:
        print(f"stage {engine.zero_optimization_stage()}, loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
