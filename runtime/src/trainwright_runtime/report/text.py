"""The report as a few lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright_runtime.observe.goodput import PARTS
from trainwright_runtime.report.job import Job


def text(job: Job) -> str:
    """Return the summary of a job, a line for each fact."""
    rows = "".join(f"{name:<15}{value}\n" for name, value in summary(job))
    broken = sum(worker.broken for worker in job.workers)
    return rows + f"{'skipped':<15}{plural(broken, 'unreadable line')}\n" * bool(broken)


def summary(job: Job) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each fact about a job."""
    samples = sum(steps.samples for steps in job.steps)
    count = sum(steps.steps for steps in job.steps)
    seconds = sum(steps.seconds for steps in job.steps)
    waited = sum(steps.data_wait for steps in job.steps)
    useful = sum(worker.past.useful.seconds for worker in job.workers)
    stalls = [stall for worker in job.workers for stall in worker.stalls]
    sizes = [size for _, size in job.world_sizes if size]

    yield "workers", ", ".join(worker.name for worker in job.workers)
    yield "duration", duration(job.duration)
    yield "samples", f"{samples:,} ({rate(samples, job.duration)})"
    if count:
        yield (
            "step time",
            (
                f"{duration(seconds / count)} in the mean, "
                f"{duration(max(steps.slowest for steps in job.steps))} at worst"
            ),
        )
        share = waited / max(waited + seconds, 1e-9)
        yield (
            "data wait",
            f"{duration(waited / count)} a step in the mean, {share:.1%} of its time",
        )
    if sizes:
        size = f"{min(sizes)} to {max(sizes)}, {job.mean_world_size:.2f} in the mean"
        yield "world size", size if len(set(sizes)) > 1 else str(sizes[0])
    if restarts := len(job.events.get("restart", ())):
        kills = plural(len(job.events.get("killed", ())), "kill")
        yield "restarts", f"{restarts}, after {kills}"
        yield "trained again", f"{duration(seconds - useful)} of steps that restarts took back"
    yield "goodput", f"{job.goodput:.3f}"
    yield from _goodput(job)
    for name, count in sorted(job.slow.items()):
        yield "slow", f"{name}, named {plural(count, 'time')}"
    for worker, event in job.failures:
        at = duration(max(0.0, event.time - job.begin))
        yield (
            "failure",
            f"{worker} after {at}: {event.fields.get('cause')}: " + str(event.fields.get("error")),
        )
    if stalls:
        yield (
            "checkpoints",
            (f"{len(stalls)}, stalled {duration(sum(stalls))}, {duration(max(stalls))} at worst"),
        )


def _goodput(job: Job) -> Iterator[tuple[str, str]]:
    """Yield the parts of all workers' time that took any, and the usual ratios."""
    parts = job.split
    for name in PARTS:
        seconds = getattr(parts, name)
        if seconds >= 0.0005:
            yield f"  {name}", f"{duration(seconds)} ({seconds / parts.wall:.1%})"
    yield "ETTR", f"{parts.ettr:.3f}"
    if job.mpg is not None:
        yield (
            "MPG",
            f"{job.mpg:.3f} = {parts.scheduling_goodput:.3f} scheduling * "
            f"{parts.runtime_goodput:.3f} runtime * {job.program_goodput:.3f} program",
        )


def plural(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def rate(samples: int, seconds: float) -> str:
    return f"{samples / seconds:,.0f}/s" if seconds else "at once"


def duration(seconds: float) -> str:
    """Return a duration as text, in two units or three digits at most."""
    if seconds < 0.9995:
        return f"{round(max(seconds, 0.0) * 1000, 3):.3g} ms"  # less is an error of rounding
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"
