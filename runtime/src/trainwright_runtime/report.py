"""Metrics files of one job, as a few lines of text and as a picture.

Each file is what one worker noted (`journal.py`). Several are one job: their throughputs add up.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright_runtime.goodput import PARTS, Split, split
from trainwright_runtime.journal import Event, Past, Record, Steps, read

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

# Points of the throughput curve, for a picture 1200 pixels wide.
_POINTS = 300

# Events by name: marker and colour, in the order of their rows. Other names follow below.
_MARKS = {
    "killed": ("X", "tab:red"),
    "restart": ("^", "tab:orange"),
    "resize": ("D", "tab:blue"),
    "checkpoint": ("o", "tab:green"),
    "stop": ("s", "tab:purple"),
    "start": (">", "dimgray"),
    "end": ("<", "dimgray"),
}
_OTHER_MARK = ("P", "tab:brown")

# What a process notes first, and what it notes last unless it is killed.
_FIRST_WORDS = ("start", "restart")
_LAST_WORDS = ("stop", "end")

# Units of the time axis: seconds of each, its name, and up to how many seconds it reads best.
_UNITS = ((1.0, "s", 300.0), (60.0, "min", 10_800.0), (3600.0, "h", math.inf))


class ReportError(Exception):
    """The report cannot be made; the message is the one line the user sees."""


@dataclass(frozen=True, kw_only=True)
class Worker:
    """The content of one file, in its order; a life is what one process wrote. Never empty."""

    name: str
    lives: tuple[tuple[Record, ...], ...]
    broken: int = 0

    @cached_property
    def past(self) -> Past:
        past = Past()
        for record in self.records:
            past.add(record)
        return past

    @property
    def records(self) -> Iterator[Record]:
        return chain.from_iterable(self.lives)

    @property
    def steps(self) -> Iterator[Steps]:
        return (record for record in self.records if isinstance(record, Steps))

    @property
    def events(self) -> Iterator[Event]:
        """The events, and `killed` where a life ended without a `stop` or `end` before the next.

        No process can record its own SIGKILL; it came soon after the last line that was written.
        """
        yield from (record for record in self.records if isinstance(record, Event))
        for life in self.lives[:-1]:
            # The entrypoint notes a failure after the process has ended, by itself or not.
            last = next(
                (r for r in reversed(life) if not isinstance(r, Event) or r.name != "failure"),
                life[-1],
            )
            if not (isinstance(last, Event) and last.name in _LAST_WORDS):
                yield Event(time=last.time, name="killed")

    @property
    def stalls(self) -> Iterator[float]:
        """How long each checkpoint held training up, in seconds."""
        for event in self.events:
            if event.name == "checkpoint":
                yield float(event.fields.get("stall") or 0)

    @property
    def begin(self) -> float:
        return self.lives[0][0].time

    @property
    def end(self) -> float:
        return self.lives[-1][-1].time


def load(path: Path) -> Worker:
    """The worker that wrote a file. ReportError when it cannot be read or holds nothing."""
    try:
        lines = list(read(path))
    except OSError as error:
        raise ReportError(f"{path}: cannot be read: {error.strerror}") from error
    lives: list[list[Record]] = []
    for record in lines:
        if record is None:
            continue
        if not lives or (isinstance(record, Event) and record.name in _FIRST_WORDS):
            lives.append([])
        lives[-1].append(record)
    if not lives:
        what = f"none of its {len(lines)} lines can be read" if lines else "it is empty"
        raise ReportError(f"{path}: {what}; expected a file of TRAINWRIGHT_METRICS_DIR")
    return Worker(name=path.stem, lives=tuple(map(tuple, lives)), broken=lines.count(None))


@dataclass(frozen=True, kw_only=True)
class Job:
    """The workers of a job on one axis of time: seconds since the first of them started."""

    workers: tuple[Worker, ...]
    submitted: float | None = None  # Unix seconds
    ideal_step: float | None = None  # seconds of a step at the hardware's best

    @property
    def program_goodput(self) -> float | None:
        """The ideal time of a step over the mean one, where the ideal one is known."""
        steps = sum(line.steps for line in self.steps)
        seconds = sum(line.seconds for line in self.steps)
        if self.ideal_step is None or not seconds:
            return None
        return min(1.0, self.ideal_step * steps / seconds)

    @property
    def mpg(self) -> float | None:
        """Scheduling times runtime times program goodput."""
        program = self.program_goodput
        parts = self.split
        if program is None:
            return None
        return parts.scheduling_goodput * parts.runtime_goodput * program

    @cached_property
    def failures(self) -> tuple[tuple[str, Event], ...]:
        """Which worker failed first, each time, in order."""
        found = [
            (worker.name, event)
            for worker in self.workers
            for event in worker.events
            if event.name == "failure"
        ]
        return tuple(sorted(found, key=lambda item: item[1].time))

    @cached_property
    def begin(self) -> float:
        return min(worker.begin for worker in self.workers)

    @cached_property
    def duration(self) -> float:
        return max(worker.end for worker in self.workers) - self.begin

    @cached_property
    def steps(self) -> tuple[Steps, ...]:
        return tuple(chain.from_iterable(worker.steps for worker in self.workers))

    @cached_property
    def events(self) -> Mapping[str, Sequence[float]]:
        """When events of each name happened."""
        times: dict[str, list[float]] = {name: [] for name in _MARKS}
        for event in chain.from_iterable(worker.events for worker in self.workers):
            times.setdefault(event.name, []).append(event.time - self.begin)
        return {name: sorted(found) for name, found in times.items() if found}

    @cached_property
    def split(self) -> Split:
        """Where the time of all workers went."""
        parts = (split(worker.lives, self.submitted) for worker in self.workers)
        return sum(parts, Split())

    @cached_property
    def goodput(self) -> float:
        """Useful time over wall time, from each worker's first start to its last word."""
        wall = sum(worker.end - worker.begin for worker in self.workers)
        return sum(worker.past.useful.seconds for worker in self.workers) / wall if wall else 0.0

    @cached_property
    def world_sizes(self) -> tuple[tuple[float, int], ...]:
        """From when on which world size held; 0 while no worker was training."""
        changes = [(0.0, 0)]
        until = 0.0
        for start, end, size in sorted(chain.from_iterable(map(_training, self.workers))):
            if start > until and changes[-1][1]:
                changes.append((until - self.begin, 0))
            if size != changes[-1][1]:
                changes.append((start - self.begin, size))
            until = max(until, end)
        return tuple(changes)

    @property
    def mean_world_size(self) -> float:
        """Over the time in which any worker was training."""
        ends = [*(start for start, _ in self.world_sizes[1:]), self.duration]
        spans = [(end - start, n) for (start, n), end in zip(self.world_sizes, ends, strict=True)]
        trained = sum(span for span, size in spans if size)
        return sum(span * size for span, size in spans) / trained if trained else 0.0


def _training(worker: Worker) -> Iterator[tuple[float, float, int]]:
    """Start, end and world size of the times a worker was training, in Unix seconds."""
    for life in worker.lives:
        lines = (record for record in life if isinstance(record, Steps))
        same = [list(group) for _, group in groupby(lines, key=lambda steps: steps.world_size)]
        starts = [steps[0].time - steps[0].seconds - steps[0].data_wait for steps in same]
        for steps, start, end in zip(same, starts, [*starts[1:], life[-1].time], strict=False):
            yield start, end, steps[0].world_size


def text(job: Job) -> str:
    """What matters, a line each."""
    rows = "".join(f"{name:<15}{value}\n" for name, value in _summary(job))
    broken = sum(worker.broken for worker in job.workers)
    return rows + f"{'skipped':<15}{_plural(broken, 'unreadable line')}\n" * bool(broken)


def _summary(job: Job) -> Iterator[tuple[str, str]]:
    samples = sum(steps.samples for steps in job.steps)
    count = sum(steps.steps for steps in job.steps)
    seconds = sum(steps.seconds for steps in job.steps)
    waited = sum(steps.data_wait for steps in job.steps)
    useful = sum(worker.past.useful.seconds for worker in job.workers)
    stalls = [stall for worker in job.workers for stall in worker.stalls]
    sizes = [size for _, size in job.world_sizes if size]

    yield "workers", ", ".join(worker.name for worker in job.workers)
    yield "duration", _duration(job.duration)
    yield "samples", f"{samples:,} ({_rate(samples, job.duration)})"
    if count:
        yield (
            "step time",
            (
                f"{_duration(seconds / count)} in the mean, "
                f"{_duration(max(steps.slowest for steps in job.steps))} at worst"
            ),
        )
        share = waited / max(waited + seconds, 1e-9)
        yield (
            "data wait",
            f"{_duration(waited / count)} a step in the mean, {share:.1%} of its time",
        )
    if sizes:
        size = f"{min(sizes)} to {max(sizes)}, {job.mean_world_size:.2f} in the mean"
        yield "world size", size if len(set(sizes)) > 1 else str(sizes[0])
    if restarts := len(job.events.get("restart", ())):
        kills = _plural(len(job.events.get("killed", ())), "kill")
        yield "restarts", f"{restarts}, after {kills}"
        yield "trained again", f"{_duration(seconds - useful)} of steps that restarts took back"
    yield "goodput", f"{job.goodput:.3f}"
    yield from _goodput(job)
    for worker, event in job.failures:
        at = _duration(max(0.0, event.time - job.begin))
        yield (
            "failure",
            f"{worker} after {at}: {event.fields.get('cause')}: " + str(event.fields.get("error")),
        )
    if stalls:
        yield (
            "checkpoints",
            (f"{len(stalls)}, stalled {_duration(sum(stalls))}, {_duration(max(stalls))} at worst"),
        )


def _goodput(job: Job) -> Iterator[tuple[str, str]]:
    """The parts of the time of all workers that took any, and the ratios of the field."""
    parts = job.split
    for name in PARTS:
        seconds = getattr(parts, name)
        if seconds >= 0.0005:
            yield f"  {name}", f"{_duration(seconds)} ({seconds / parts.wall:.1%})"
    yield "ETTR", f"{parts.ettr:.3f}"
    if job.mpg is not None:
        yield (
            "MPG",
            f"{job.mpg:.3f} = {parts.scheduling_goodput:.3f} scheduling * "
            f"{parts.runtime_goodput:.3f} runtime * {job.program_goodput:.3f} program",
        )


def data(job: Job) -> dict[str, object]:
    """The same as data, for programs."""
    parts = job.split
    return {
        "workers": [worker.name for worker in job.workers],
        "seconds": job.duration,
        "samples": sum(steps.samples for steps in job.steps),
        "steps": sum(steps.steps for steps in job.steps),
        "restarts": len(job.events.get("restart", ())),
        "goodput": job.goodput,
        "split": {name: getattr(parts, name) for name in PARTS},
        "ettr": parts.ettr,
        "scheduling_goodput": parts.scheduling_goodput,
        "runtime_goodput": parts.runtime_goodput,
        "program_goodput": job.program_goodput,
        "mpg": job.mpg,
        "failures": [
            {"worker": worker, "time": event.time, **event.fields} for worker, event in job.failures
        ],
    }


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _rate(samples: int, seconds: float) -> str:
    return f"{samples / seconds:,.0f}/s" if seconds else "at once"


def _duration(seconds: float) -> str:
    """Two units at most, three digits at most."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def draw(job: Job, path: Path) -> None:
    """Throughput, world size and events above each other, a PNG of 1200 by 750 pixels."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ReportError(
            "no picture: matplotlib is not installed; pip install 'trainwright-runtime[report]'"
        ) from error

    unit, unit_name = next((size, name) for size, name, best in _UNITS if job.duration <= best)
    figure = Figure(figsize=(12, 7.5), dpi=100, layout="constrained")
    figure.suptitle(_title(job), x=0.01, ha="left")
    rows = figure.add_gridspec(4, height_ratios=(5, 2, 2.5, 0.6))
    first = figure.add_subplot(rows[0])
    panels = [first, *(figure.add_subplot(rows[n], sharex=first) for n in (1, 2))]
    for axes in panels[:-1]:
        axes.tick_params(labelbottom=False)
    _plot_split(figure.add_subplot(rows[3]), job)
    for axes, plot in zip(panels, (_plot_throughput, _plot_world_size, _plot_events), strict=True):
        plot(axes, job, unit)
        axes.grid(visible=True, color="0.92")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        for time in job.events.get("killed", ()):
            axes.axvline(time / unit, color="tab:red", linewidth=0.8, alpha=0.4)
    panels[-1].set_xlabel(f"time since the first start ({unit_name})")
    panels[-1].set_xlim(0, max(job.duration / unit, 1e-3))
    figure.align_ylabels(panels)
    marks = panels[-1].get_legend_handles_labels()
    figure.legend(*marks, loc="outside lower center", ncols=8, frameon=False, markerscale=1.2)
    try:
        figure.savefig(path, format="png")
    except OSError as error:
        raise ReportError(f"{path}: cannot be written: {error.strerror}") from error


def _title(job: Job) -> str:
    workers = job.workers[0].name if len(job.workers) == 1 else f"{len(job.workers)} workers"
    samples = _rate(sum(steps.samples for steps in job.steps), job.duration)
    restarts = _plural(len(job.events.get("restart", ())), "restart")
    return f"{workers}: {samples} samples, goodput {job.goodput:.3f}, {restarts}"


def throughput(job: Job) -> tuple[Array, Array]:
    """Samples a second of all workers together, and the times between which each value holds."""
    import numpy as np

    # Lines come once a second: narrower bins would show noise.
    count = min(max(int(job.duration), 1), _POINTS)
    edges, width = np.linspace(0, max(job.duration, 1e-3), count + 1, retstep=True)
    trained = np.zeros(len(edges))
    for worker in job.workers:
        times, counts = [0.0], [0]
        for steps in worker.steps:
            end = steps.time - job.begin
            times += [end - steps.seconds - steps.data_wait, end]
            counts += [counts[-1], counts[-1] + steps.samples]
        trained += np.interp(edges, np.maximum.accumulate(times), counts)
    return np.diff(trained) / width, edges


def _plot_throughput(axes: Axes, job: Job, unit: float) -> None:
    rates, edges = throughput(job)
    axes.stairs(rates, edges / unit, fill=True, color="tab:blue", alpha=0.25)
    axes.stairs(rates, edges / unit, color="tab:blue", baseline=None)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("throughput (samples/s)")
    axes.yaxis.set_major_formatter("{x:,.0f}")


def _plot_world_size(axes: Axes, job: Job, unit: float) -> None:
    from matplotlib.ticker import MaxNLocator

    starts, sizes = zip(*job.world_sizes, (job.duration, 0), strict=True)
    edges = [start / unit for start in starts]
    axes.stairs(sizes[:-1], edges, fill=True, color="tab:cyan", alpha=0.25)
    axes.stairs(sizes[:-1], edges, color="tab:cyan", linewidth=1.5, baseline=None)
    axes.set_ylim(0, max(sizes) + 0.5)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    axes.set_ylabel("world size")


def _plot_events(axes: Axes, job: Job, unit: float) -> None:
    for row, (name, times) in enumerate(job.events.items()):
        marker, color = _MARKS.get(name, _OTHER_MARK)
        axes.scatter(
            [time / unit for time in times],
            [row] * len(times),
            marker=marker,
            color=color,
            label=f"{name} ({len(times)})",
            clip_on=False,
            zorder=3,
        )
    axes.set_ylim(max(len(job.events), 1) - 0.5, -0.5)
    axes.set_yticks(range(len(job.events)), labels=[])
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel("events")


# Of the parts of a worker's time, in their order.
_COLORS = ("0.8", "tab:olive", "tab:orange", "tab:green", "tab:purple", "tab:blue", "0.6")


def _plot_split(axes: Axes, job: Job) -> None:
    left = 0.0
    for name, color in zip(PARTS, _COLORS, strict=True):
        share = getattr(job.split, name) / (job.split.wall or 1.0)
        axes.barh(0, share, left=left, color=color, label=f"{name} {share:.1%}")
        left += share
    axes.set_xlim(0, 1)
    axes.set_axis_off()
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(PARTS), frameon=False)


def main(argv: Sequence[str]) -> int:
    """The command `report`. Returns its exit code: 2 when something cannot be read or written."""
    parser = argparse.ArgumentParser(
        prog="trainwright_runtime report",
        description="Sum up the metrics files of one job, and draw them over time.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="run.jsonl", help="one a worker")
    parser.add_argument(
        "-o",
        dest="output",
        type=Path,
        metavar="run.png",
        help="the picture (the first file's name with .png)",
    )
    parser.add_argument("--json", action="store_true", help="print data, and draw only with -o")
    parser.add_argument(
        "--submitted",
        type=_moment,
        metavar="TIME",
        help="when the job was submitted (its creationTimestamp): what came before is scheduling",
    )
    parser.add_argument(
        "--ideal-step",
        type=float,
        metavar="SECONDS",
        help="of a step at the hardware's best, for MPG",
    )
    options = parser.parse_args(argv)
    output = options.output or options.files[0].with_suffix(".png")
    try:
        job = Job(
            workers=tuple(map(load, options.files)),
            submitted=options.submitted,
            ideal_step=options.ideal_step,
        )
        if options.json:
            print(json.dumps(data(job), indent=2))
            if options.output is None:
                return 0
        else:
            print(text(job), end="")
        draw(job, output)
    except ReportError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if not options.json:
        print(f"{'written':<15}{output}")
    return 0


def _moment(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        message = f"{text!r} is not a time such as 2026-03-01T09:00:00Z"
        raise argparse.ArgumentTypeError(message) from None
