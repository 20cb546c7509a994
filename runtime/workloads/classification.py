"""Train an image classifier by DDP; mnist and cifar10 differ in no more than the network."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler, Subset

from trainwright_runtime.checkpoint import STOPPED, Checkpoints, RngState, StopSignal
from trainwright_runtime.metrics import Metrics
from workloads.datasets import DIGITS, DataError, Images, available, load
from workloads.distributed import BACKENDS, Place, process_group


def parser(
    *, name: str, description: str, epochs: int, batch_size: int, lr: float, momentum: float
) -> argparse.ArgumentParser:
    """The flags of a classifier; the arguments are their defaults."""
    flags = argparse.ArgumentParser(prog=f"workloads.{name}", description=description)
    flags.add_argument("--epochs", type=int, default=epochs)
    flags.add_argument("--batch-size", type=int, default=batch_size, help="of each process")
    flags.add_argument("--lr", type=float, default=lr, help="learning rate")
    flags.add_argument("--momentum", type=float, default=momentum)
    flags.add_argument("--backend", choices=BACKENDS, help="by default the launcher's")
    flags.add_argument("--data", default=f"/data/{name}", help=f"folder (%(default)s), or {DIGITS}")
    flags.add_argument("--seed", type=int, default=0)
    flags.add_argument("--log-every", type=int, default=100, help="steps")
    return flags


def run(options: argparse.Namespace, name: str, network: Callable[[], nn.Module]) -> None:
    """Read the data and train; the dataset has the workload's name. Wrong data is one line."""
    data = available(options.data)
    try:
        train, test = (load(name, data, train=part) for part in (True, False))
    except DataError as error:
        sys.exit(f"error: {error}")
    torch.manual_seed(options.seed)
    fit(network(), train, test, options)


def fit(model: nn.Module, train: Images, test: Images, options: argparse.Namespace) -> None:
    """Train to the last epoch, from the newest checkpoint if there is one."""
    with (
        process_group(options.backend) as place,
        Metrics.from_environment(rank=place.rank) as metrics,
        Checkpoints.from_environment() as checkpoints,
        StopSignal() as stop,
    ):
        place.say(f"{len(train)} samples, {place.world_size} processes on {place.device.type}")
        ddp = place.parallel(model)
        optimizer = torch.optim.SGD(ddp.parameters(), options.lr, options.momentum)
        sampler = RemainingSampler(train, seed=options.seed)
        batches = DataLoader(train, options.batch_size, sampler=sampler)

        state = {"model": ddp, "optimizer": optimizer, "sampler": sampler, "rng": RngState()}
        if resumed := checkpoints.load(state):
            place.say(f"goes on after step {resumed}")

        per_epoch = math.ceil(sampler.num_samples / options.batch_size)
        later = options.epochs - sampler.epoch - 1
        metrics.expect(sampler.step + len(batches) + per_epoch * later)
        while sampler.epoch < options.epochs:
            for step, (images, labels) in metrics.steps(
                batches, after=sampler.step, world_size=place.world_size
            ):
                optimizer.zero_grad()
                loss = cross_entropy(ddp(images.to(place.device)), labels.to(place.device))
                loss.backward()
                optimizer.step()
                sampler.advance(options.batch_size)

                if step % options.log_every == 0:
                    metrics.values(loss=loss.item())
                    place.say(f"step {step}: loss {loss.item():.6f}")
                if checkpoints.due(step):
                    with metrics.stall():
                        checkpoints.save(step, state)
                if stop.agreed():
                    checkpoints.save(step, state, wait=True)
                    sys.exit(STOPPED)

            mean, accuracy = evaluate(ddp.module, test, place)
            sampler.end_epoch()
            place.say(f"epoch {sampler.epoch}: loss {mean:.4f}, accuracy {accuracy:.4f}")
        checkpoints.save(sampler.step, state, wait=True)


class RemainingSampler(DistributedSampler[int]):
    """DistributedSampler that knows how far training has come, and goes on from there.

    Ranks take turns in the order of an epoch, so that what they have trained is its beginning:
    after a restart any number of ranks can share the rest.
    """

    step = 0
    trained = 0  # samples of this epoch, by all ranks

    def advance(self, batch_size: int) -> None:
        """Every rank has trained one more batch."""
        self.step += 1
        self.trained += batch_size * self.num_replicas

    def end_epoch(self) -> None:
        self.set_epoch(self.epoch + 1)
        self.trained = 0

    def state_dict(self) -> dict[str, int]:
        return {"step": self.step, "epoch": self.epoch, "trained": self.trained}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.step, self.epoch, self.trained = state["step"], state["epoch"], state["trained"]

    def __iter__(self) -> Iterator[int]:
        return islice(super().__iter__(), self.trained // self.num_replicas, None)

    def __len__(self) -> int:
        return max(super().__len__() - self.trained // self.num_replicas, 0)


@torch.inference_mode()
def evaluate(model: nn.Module, test: Images, place: Place) -> tuple[float, float]:
    """Mean loss and accuracy over the whole test set, of which each process sees its part.

    `model` is the bare module: DDP would wait for processes whose part is shorter.
    """
    model.eval()
    mine = Subset(test, range(place.rank, len(test), place.world_size))
    sums = torch.zeros(3, dtype=torch.float64)
    for images, labels in DataLoader(mine, batch_size=256):
        scores = model(images.to(place.device)).cpu()
        loss = cross_entropy(scores, labels, reduction="sum")
        right = (scores.argmax(dim=1) == labels).sum()
        sums += torch.stack((loss, right, torch.tensor(len(labels)))).double()
    model.train()
    sums = sums.to(place.device)
    dist.all_reduce(sums)
    loss, right, count = sums.tolist()
    return loss / count, right / count
