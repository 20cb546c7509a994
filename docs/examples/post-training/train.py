"""A policy over letters that learns by REINFORCE what a judge likes, on every rank alike."""

from __future__ import annotations

import argparse
import json
import string
import urllib.request

import torch
import torch.distributed as dist

LENGTH, TEXTS = 12, 64


def judged(judge: str, texts: list[str]) -> torch.Tensor:
    """The judge's scores of texts."""
    body = json.dumps(texts).encode()
    with urllib.request.urlopen(f"{judge}/score", body, timeout=60) as answer:  # noqa: S310
        return torch.tensor(json.load(answer))


def step(judge: str, logits: torch.Tensor, optimizer: torch.optim.Optimizer) -> float:
    """One update of all ranks, and the mean score of what they wrote."""
    policy = torch.distributions.Categorical(logits=logits)
    letters = policy.sample((TEXTS, LENGTH))
    texts = ["".join(string.ascii_lowercase[letter] for letter in row) for row in letters]
    scores = judged(judge, texts)
    loss = -(policy.log_prob(letters).sum(1) * (scores - scores.mean())).mean()
    optimizer.zero_grad()
    loss.backward()
    dist.all_reduce(logits.grad)
    optimizer.step()
    return float(scores.mean())


def main() -> None:
    """Train, and print how the score rose."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--judge", required=True)
    parser.add_argument("--steps", type=int, required=True)
    args = parser.parse_args()
    dist.init_process_group()
    torch.manual_seed(dist.get_rank())
    logits = torch.zeros(len(string.ascii_lowercase), requires_grad=True)
    optimizer = torch.optim.Adam([logits], lr=0.1)
    scores = [step(args.judge, logits, optimizer) for _ in range(args.steps)]
    if dist.get_rank() == 0:
        print(f"score {scores[0]:.2f} to {scores[-1]:.2f}, {dist.get_world_size()} ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
