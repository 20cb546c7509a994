"""The report as data for programs; schemas/run-goodput.schema.json describes it."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright_runtime.observe.goodput import PARTS
from trainwright_runtime.observe.journal import Event
from trainwright_runtime.report.job import Job

SCHEMA = "https://trainwright.io/schemas/v1alpha1/run-goodput.schema.json"


def data(job: Job) -> dict[str, object]:
    """Return the report of a job as data, for programs."""
    parts = job.split
    stalls = [stall for worker in job.workers for stall in worker.stalls]
    return {
        "$schema": SCHEMA,
        "apiVersion": "trainwright.io/v1alpha1",
        "kind": "RunGoodput",
        "run": job.run,
        "workers": [worker.name for worker in job.workers],
        "begin": job.begin,
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
        "checkpoints": {
            "count": len(stalls),
            "stalled": sum(stalls),
            "worst": max(stalls, default=0.0),
        },
        "failures": [_failure(worker, event) for worker, event in job.failures],
        "attempts": list(_attempts(job)),
    }


def _failure(worker: str, event: Event) -> dict[str, object]:
    """Return a failure as data."""
    code = event.fields.get("exit_code")
    return {
        "worker": worker,
        "time": event.time,
        "cause": str(event.fields.get("cause", "unknown")),
        "error": str(event.fields.get("error", "")),
        "exit_code": code if isinstance(code, int) else None,
        "node": str(event.fields.get("node", "")),
    }


def _attempts(job: Job) -> Iterator[dict[str, object]]:
    """Yield the attempts of all workers as data."""
    for worker in job.workers:
        for number, attempt in enumerate(worker.attempts, start=1):
            first, last = attempt.steps or (None, None)
            yield {
                "worker": worker.name,
                "number": number,
                "begin": attempt.begin,
                "end": attempt.end,
                "first_step": first,
                "last_step": last,
                "outcome": attempt.outcome,
            }
