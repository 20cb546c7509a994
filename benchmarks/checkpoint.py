"""How long training stands still for a checkpoint of 100M parameters and Adam's two moments.

    .venv/bin/python benchmarks/checkpoint.py [--parameters 100000000] [--runs 5] [--directory DIR]

1.2 GB of float32 for 100M parameters, written to `--directory` (a temporary folder unless given)
and synced. Every figure is the median of `--runs` runs made in this one process, in turn, so that
they can be compared. The first asynchronous save also makes its buffers and is shown apart.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch.distributed.checkpoint.state_dict_saver import save

from trainwright_runtime.checkpoint import Checkpoints

LAYERS = 24  # a checkpoint of many tensors, as models have, not one large one


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--parameters", type=int, default=100_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model, optimizer = training(options.parameters, device)
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-", dir=options.directory) as folder:
        first, times = measured(Path(folder), model, optimizer, options.runs)
    size = sum(tensor.nbytes for tensor in [*model.state_dict().values(), *moments(optimizer)])
    print(f"{size / 1e9:.2f} GB on {device}, {torch.get_num_threads()} threads")
    show(first, times)


def training(parameters: int, device: str) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A model of about so many parameters that has made one step, so that Adam has its moments."""
    width = int((parameters / LAYERS) ** 0.5)
    layers = [torch.nn.Linear(width, width, bias=False) for _ in range(LAYERS)]
    model = torch.nn.Sequential(*layers).to(device)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    model(torch.randn(8, width, device=device)).square().mean().backward()
    optimizer.step()
    return model, optimizer


def measured(
    folder: Path, model: torch.nn.Module, optimizer: torch.optim.Optimizer, runs: int
) -> tuple[float, dict[str, float]]:
    """The seconds of the first asynchronous save, and the medians of what is done in turn."""
    state = {"model": model, "optimizer": optimizer}
    plain = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    tensors = [*model.state_dict().values(), *moments(optimizer)]
    steps = itertools.count(1)
    times: dict[str, list[float]] = defaultdict(list)
    with Checkpoints(folder / "ours", keep=1) as checkpoints:

        def asynchronous() -> None:
            checkpoints.save(next(steps), state)

        first = timed(asynchronous)
        checkpoints.wait()
        for run in range(runs):
            times["quiet step"].append(busy(model, optimizer, lambda: True))
            warnings.simplefilter("ignore", UserWarning)
            times["torch"].append(
                timed(partial(save, plain, checkpoint_id=folder / f"torch-{run % 2}"))
            )
            times["ours"].append(timed(lambda: checkpoints.save(next(steps), state, wait=True)))
            times["stall"].append(timed(asynchronous))
            saving = checkpoints._saving
            assert saving is not None, "just begun"
            _save, written = saving
            start = time.perf_counter()
            times["step while writing"].append(busy(model, optimizer, written.done))
            checkpoints.wait()
            times["behind"].append(time.perf_counter() - start)
            times["copy"].append(timed(copies(tensors)))
    return first, {name: statistics.median(values) for name, values in times.items()}


def moments(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [moment for entry in optimizer.state.values() for moment in entry.values()]


def timed(work: Callable[[], object]) -> float:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def busy(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, done: Callable[[], bool]
) -> float:
    """The median time of a training step, over the steps made until `done`; at least three."""
    weight = next(model.parameters())
    batch = torch.randn(8, weight.shape[1], device=weight.device)

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    seconds = [timed(step) for _ in range(3)]
    while not done():
        seconds.append(timed(step))
    return statistics.median(seconds)


def copies(tensors: list[torch.Tensor]) -> Callable[[], object]:
    """The floor: every byte copied once, into memory that is there already."""
    buffers = [torch.zeros_like(tensor, device="cpu") for tensor in tensors]
    return lambda: [buffer.copy_(tensor) for buffer, tensor in zip(buffers, tensors, strict=True)]


def show(first: float, times: dict[str, float]) -> None:
    torch_, ours, stall = times["torch"], times["ours"], times["stall"]
    print(f"synchronous, torch's dcp.save               {torch_:7.3f} s")
    print(
        f"synchronous, ours (digests, atomic)         {ours:7.3f} s  {ours / torch_:6.2f} (<= 1.20)"
    )
    print(f"asynchronous, first save, makes its buffers {first:7.3f} s  {first / torch_:6.2f}")
    print(f"asynchronous, then written behind in        {times['behind']:7.3f} s")
    print(f"floor: copying the bytes                    {times['copy']:7.3f} s")
    print(f"stall of an asynchronous save               {stall:7.3f} s")
    print(f"stall / synchronous save of torch           {stall / torch_:7.3f}    (<= 0.10)")
    slower = times["step while writing"] / times["quiet step"]
    print(f"step while one is written / a quiet one     {slower:7.2f}     (<= 1.05)")


if __name__ == "__main__":
    main()
