"""What elastic training and checkpoints cost on GPUs, as a table in Markdown.

    .venv/bin/python benchmarks/gpu.py [--device cpu] [--workers 2] [--runs 3] [--directory DIR]

Workers are processes of this machine, one for each card and at least two: where there are fewer
cards they share them. NCCL is tried first; where it refuses, as it does two processes on one card,
gloo is used, and the table has NCCL's words. The exit code is 1 where losses with kills are not
those without. With `--device cpu` the same is done without a GPU: its figures are of processors.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

import checkpoint
from elastic import Case, Hardware, Lab, Worker, compare, elastic_recovery, lab
from elastic_worker import RECORDS
from trainwright_runtime.launch.machine import free_port

PARITY = 1e-3
"""Sums of another order differ by rounding, and each step begins with what those before gave."""
PACE = 0.25
"""Seconds of a step while workers are killed: a newcomer takes some seconds to start."""
_LOGGED = re.compile(r"\[?[WIE]\d{4}|\[rank\d+\]:\[W")


@dataclass(frozen=True, slots=True)
class Scale:
    """How large what is trained is."""

    size: str
    batch: int
    block: int
    epochs: int
    parameters: int
    """Of the model that is saved."""


SCALES = {
    "cuda": Scale("wide", 1024, 20, 40, 100_000_000),
    "cpu": Scale("small", 256, 8, 6, 1_000_000),
}


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table."""

    name: str
    figure: str
    wanted: str = ""

    def __str__(self) -> str:
        return f"| {self.name} | {self.figure} | {self.wanted} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--device", choices=SCALES, default="cuda")
    parser.add_argument("--workers", type=int, help="default: one for each card, at least 2")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--directory", type=Path, help="where checkpoints are written")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        parser.error("torch finds no GPU here: --device cpu measures the same on processors")
    cards = visible_cards() if options.device == "cuda" else ()
    workers = options.workers or max(2, len(cards))
    print("| what | figure | wanted |\n|---|---|---|", flush=True)
    hardware, rows = chosen_hardware(options.device, cards, workers)
    emit(rows)
    scale = SCALES[options.device]
    emit(steps(scale, hardware, workers, options.runs))
    emit(recovery(scale, hardware, workers, options.runs))
    emit(saves(scale, options.device, options.runs, options.directory))
    same, row = parity(scale, hardware, workers, options.runs)
    emit([row])
    sys.exit(0 if same else 1)


def emit(rows: Sequence[Row]) -> None:
    for row in rows:
        print(row, flush=True)


def visible_cards() -> tuple[str, ...]:
    """The cards as CUDA_VISIBLE_DEVICES names them."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    return tuple(given.split(",") if given else map(str, range(torch.cuda.device_count())))


def chosen_hardware(
    device: str, cards: tuple[str, ...], workers: int
) -> tuple[Hardware, list[Row]]:
    """The first backend that so many processes can sum gradients by, and what the others said."""
    rows = [Row("machine", machine(cards)), Row("processes", processes(workers, cards))]
    for backend in ("nccl", "gloo"):
        hardware = Hardware(device, backend, cards)
        refusal = refused(hardware, workers)
        if refusal is None:
            return hardware, [*rows, Row("backend", backend)]
        rows.append(Row(f"{backend} refuses", refusal))
    emit(rows)
    sys.exit("no backend works here")


def machine(cards: tuple[str, ...]) -> str:
    if not cards:
        return f"{os.cpu_count()} CPUs ({platform.machine()}), torch {torch.__version__}"
    names = ", ".join(torch.cuda.get_device_name(card) for card in range(len(cards)))
    return f"{names}; CUDA {torch.version.cuda}, torch {torch.__version__}"


def processes(workers: int, cards: tuple[str, ...]) -> str:
    if not cards:
        return f"{workers}, no GPU"
    pipes = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    served = "with" if (pipes / "control").exists() else "without"
    return f"{workers} on {counted(len(cards), 'card')}, {served} MPS"


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def refused(hardware: Hardware, workers: int) -> str | None:
    """The words by which DDP over a backend refuses so many processes, or None if it trains."""
    with lab(hardware) as here:
        tried = here.ddp(workers, "--steps=2", "--batch=64")

        def codes() -> list[int | None]:
            return [worker.process.poll() for worker in tried]

        here.wait(lambda: None not in codes() or any(codes()))
        failed = [number for number, code in enumerate(codes()) if code]
        return last_words((here.folder / f"worker-{failed[0]}.log").read_text()) if failed else None


def last_words(log: str) -> str:
    """The last line of a traceback, without what torch and its backends log around it."""
    lines = [line for line in log.splitlines() if line.strip() and not _LOGGED.match(line)]
    return re.sub(r"^\[rank\d+\]: ?", "", lines[-1]).replace("|", "/") if lines else "no words"


def steps(scale: Scale, hardware: Hardware, workers: int, runs: int) -> list[Row]:
    case = Case(scale.size, scale.batch, 0.0, scale.block)
    found = compare(case, 2 * runs, hardware=hardware, world=workers)
    plain, ours = (statistics.median(times) for times in zip(*found, strict=True))
    ratios = sorted(b / a for a, b in found)
    return [
        Row("step of DDP, and elastic", f"{1000 * plain:.1f} ms, {1000 * ours:.1f} ms"),
        Row(
            f"elastic step over DDP's, median of {len(ratios)} rounds",
            f"{statistics.median(ratios):.3f} ({ratios[0]:.3f} to {ratios[-1]:.3f})",
            "≤ 1.05",
        ),
    ]


def recovery(scale: Scale, hardware: Hardware, workers: int, runs: int) -> list[Row]:
    options = f"--size={scale.size}", f"--batch={scale.batch}"
    gaps = elastic_recovery(runs, options, hardware, workers)
    figure = f"{statistics.median(gaps):.2f} s, {max(gaps):.2f} s at most"
    return [Row(f"kill to the next committed step, median of {runs}", figure, "≤ 0.5 s")]


def saves(scale: Scale, device: str, runs: int, directory: Path | None) -> list[Row]:
    model, optimizer = checkpoint.training(scale.parameters, device)
    with tempfile.TemporaryDirectory(prefix="trainwright-bench-", dir=directory) as folder:
        _, times = checkpoint.measured(Path(folder), model, optimizer, runs)
    plain = times["torch"]
    return [
        Row(f"dcp.save of {12 * scale.parameters / 1e6:.0f} MB", f"{plain:.3f} s"),
        *(
            Row(f"{name}, over dcp.save", f"{times[key]:.3f} s, {times[key] / plain:.2f}", wanted)
            for name, key, wanted in (
                ("synchronous save", "ours", "≤ 1.2"),
                ("stall of an asynchronous save", "stall", "≤ 0.15"),
            )
        ),
        Row(
            "step while one is written, over a quiet one",
            f"{times['step while writing'] / times['quiet step']:.2f}",
            "≤ 1.05",
        ),
    ]


def parity(scale: Scale, hardware: Hardware, workers: int, kills: int) -> tuple[bool, Row]:
    """Whether a training from which workers are killed has the losses of one that is left alone."""
    calm = losses(scale, hardware, workers, kills=0)
    killed = losses(scale, hardware, workers, kills)
    apart = max(
        abs(one - other) / one for one, other in zip(calm.losses, killed.losses, strict=True)
    )
    worlds = " and ".join(map(str, killed.worlds))
    name = (
        f"losses of {scale.epochs} epochs, {counted(killed.kills, 'kill')}: "
        "largest relative difference"
    )
    same = apart <= PARITY and killed.kills > 0
    return same, Row(name, f"{apart:.1e}, worlds of {worlds}", f"≤ {PARITY:.0e}")


@dataclass(frozen=True, slots=True)
class Trained:
    """A whole training: the mean loss of each epoch, and what happened to its workers."""

    losses: list[float]
    worlds: list[int]
    """The sizes of the world that steps were taken in."""
    kills: int


def losses(scale: Scale, hardware: Hardware, workers: int, kills: int) -> Trained:
    """Train while workers are killed and replaced, each at a later step, and never the last one."""
    pace = PACE * workers / scale.batch if kills else 0.0
    with lab(hardware) as here:
        port = free_port()
        options = [f"--size={scale.size}", f"--batch={scale.batch}", f"--epochs={scale.epochs}"]
        options += [f"--compute={pace}"]
        # Left alone, all begin at once; else there are steps of fewer workers from the beginning.
        here.coordinator(port, together=1 if kills else workers)
        for _ in range(workers):
            here.elastic(port, *options)
        steps, made = scale.epochs * RECORDS // scale.batch, 0

        def over() -> bool:
            return len(dict(epochs_of(here))) == scale.epochs

        def training() -> list[Worker]:
            return [w for w in here.workers if w.process.poll() is None and w.steps()]

        def reached(step: int) -> bool:
            return over() or (here.last_step() >= step and len(training()) > 1)

        while made < kills and not over():
            here.wait(partial(reached, steps * (made + 1) // (kills + 2)))
            if not over():
                random.choice(training()).process.kill()
                here.elastic(port, *options)
                made += 1
        here.wait(over, 600)
        worlds = {step.world for worker in here.workers for step in worker.steps()}
        return Trained(
            [loss for _, loss in sorted(dict(epochs_of(here)).items())], sorted(worlds), made
        )


def epochs_of(here: Lab) -> Iterator[tuple[int, float]]:
    for worker in here.workers:
        for line in worker.path.read_text().splitlines():
            match line.split():
                case ["loss", epoch, loss]:
                    yield int(epoch), float(loss)


if __name__ == "__main__":
    main()
