"""A linear regression by DeepSpeed. Stage, batch and clipping are those of its configuration."""

import argparse
import os

import deepspeed
import torch
import torch.distributed as dist


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    deepspeed.add_config_arguments(parser)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        # or DeepSpeed compiles collectives of its own, which takes minutes: Gloo has all of them
        deepspeed.ops.__compatible_ops__ = {}
    deepspeed.init_distributed("nccl" if torch.cuda.is_available() else "gloo")
    torch.manual_seed(dist.get_rank())
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    engine, *_ = deepspeed.initialize(args=arguments, model=model, optimizer=optimizer)
    truth, losses = torch.arange(8.0), []
    for _ in range(arguments.steps):
        inputs = torch.randn(engine.train_micro_batch_size_per_gpu(), 8).to(engine.device)
        loss = torch.nn.functional.mse_loss(engine(inputs).squeeze(1), inputs @ truth.to(inputs))
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    if dist.get_rank() == 0:
        stage, batch = engine.zero_optimization_stage(), engine.train_batch_size()
        print(f"stage {stage}, batch {batch}, loss {losses[0]:.4f} to {losses[-1]:.4f}", flush=True)
    dist.destroy_process_group()
    os._exit(0)  # else Python may abort beside gloo's threads: pytorch/pytorch#190489


if __name__ == "__main__":
    main()
