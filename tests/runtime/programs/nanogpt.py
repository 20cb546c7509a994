"""As nanoGPT's train.py: DDP where RANK is set, accumulation without sync, a checkpoint by rank 0."""

import os
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        return x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True))


class GPT(nn.Module):
    def __init__(self, vocabulary: int = 31, width: int = 16) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight  # tied, as there

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.blocks(self.embed(tokens)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


ddp = int(os.environ.get("RANK", "-1")) != -1
if ddp:
    dist.init_process_group(backend=os.environ["TRAINWRIGHT_BACKEND"])
rank = int(os.environ.get("RANK", "0"))
torch.manual_seed(1337)
model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
if ddp:
    model = DDP(model)
data = torch.randint(0, 31, (4096,), generator=torch.Generator().manual_seed(rank))
for step in range(5):
    for micro in range(2):
        sync = nullcontext() if micro or not ddp else model.no_sync()
        with sync:
            at = 64 * (2 * step + micro)
            tokens = data[at : at + 65]
            loss = model(tokens[:-1].view(4, 16), tokens[1:].view(4, 16)) / 2
            loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
if rank == 0:
    raw = model.module if ddp else model
    torch.save({"model": raw.state_dict(), "optimizer": optimizer.state_dict()}, "ckpt.pt")
total = sum(p.double().sum() for p in model.parameters())
print("trained", f"{float(total):.6f}", flush=True)
if ddp:
    dist.destroy_process_group()
sys.exit(0 if rank or Path("ckpt.pt").exists() else 1)
