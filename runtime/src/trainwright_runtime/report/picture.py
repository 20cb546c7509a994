"""The report as a picture: throughput, world size, events, and where the time went."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING

from trainwright_runtime.observe.goodput import PARTS
from trainwright_runtime.report.job import Job, ReportError
from trainwright_runtime.report.text import plural, rate

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

# Points of the throughput curve, for a picture 1200 pixels wide.
_POINTS = 300

# Events by name: marker and colour.
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

# Units of the time axis: seconds of each, its name, and up to how many seconds it reads best.
_UNITS = ((1.0, "s", 300.0), (60.0, "min", 10_800.0), (3600.0, "h", math.inf))


def png(job: Job, dpi: int = 100) -> bytes:
    """Return a picture of throughput, world size, events and the split of time, as PNG.

    It has 1200 by 750 pixels at 100 dpi. Raise ReportError without the extra `report`.
    """
    try:
        from matplotlib import rc_context
    except ImportError as error:
        raise ReportError(
            "no picture: matplotlib is not installed; pip install 'trainwright-runtime[report]'"
        ) from error

    buffer = io.BytesIO()
    with rc_context({"text.parse_math": False}):  # names of events may hold any $
        _figure(job).savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


def _figure(job: Job) -> Figure:
    """Return the figure: throughput, world size and events over time, and the split of time."""
    from matplotlib.figure import Figure

    unit, unit_name = next((size, name) for size, name, best in _UNITS if job.duration <= best)
    figure = Figure(figsize=(12, 7.5), layout="constrained")
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
    return figure


def _title(job: Job) -> str:
    workers = job.workers[0].name if len(job.workers) == 1 else f"{len(job.workers)} workers"
    samples = rate(sum(steps.samples for steps in job.steps), job.duration)
    restarts = plural(len(job.events.get("restart", ())), "restart")
    return f"{workers}: {samples} samples, goodput {job.goodput:.3f}, {restarts}"


def throughput(job: Job) -> tuple[Array, Array]:
    """Return all workers' samples per second, and the times between which each value holds."""
    import numpy as np

    # A worker writes a line a second: narrower bins would show noise.
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
    """Draw the world size over time."""
    from matplotlib.ticker import MaxNLocator

    starts, sizes = zip(*job.world_sizes, (job.duration, 0), strict=True)
    edges = [start / unit for start in starts]
    axes.stairs(sizes[:-1], edges, fill=True, color="tab:cyan", alpha=0.25)
    axes.stairs(sizes[:-1], edges, color="tab:cyan", linewidth=1.5, baseline=None)
    axes.set_ylim(0, max(sizes) + 0.5)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5))
    axes.set_ylabel("world size")


def _plot_events(axes: Axes, job: Job, unit: float) -> None:
    """Draw a row of marks for the events of each name."""
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
    """Draw the parts of the workers' time as one bar."""
    left = 0.0
    for name, color in zip(PARTS, _COLORS, strict=True):
        share = getattr(job.split, name) / (job.split.wall or 1.0)
        axes.barh(0, share, left=left, color=color, label=f"{name} {share:.1%}")
        left += share
    axes.set_xlim(0, 1)
    axes.set_axis_off()
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=len(PARTS), frameon=False)
