"""What a training process reports about itself: Prometheus metrics and a file of JSON lines.

Both are enabled by variables, `TRAINWRIGHT_METRICS_PORT` and `TRAINWRIGHT_METRICS_DIR`;
without them every call here costs next to nothing. Metrics never stop a training: a busy port or a
full disk is a warning. docs/metrics.md explains the series, the lines and goodput.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, Self, TypeVar

from trainwright_runtime import __version__
from trainwright_runtime.observe.journal import Event, Lines, Past, Scalar
from trainwright_runtime.observe.trainjob import TrainJobStatus

# Seconds: from a small model on a GPU to a large one that accumulates gradients.
_STEP_BUCKETS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
)  # fmt: skip

_log = logging.getLogger(__name__)

Batch = TypeVar("Batch")


class Sink(Protocol):
    """What `Metrics` writes to. The arguments of `step` are those of `Metrics.step`."""

    def step(
        self, step: int, samples: int, seconds: float, data_wait: float, world_size: int
    ) -> None: ...
    def event(self, event: Event) -> None: ...
    def close(self) -> None: ...


class Exporter:
    """Prometheus text over HTTP, from a registry of its own."""

    def __init__(self, port: int, worker: str, past: Past) -> None:
        """Listen on all interfaces. Raise OSError or OverflowError if the port is not available."""
        import prometheus_client as prometheus

        self._past = past
        self._started = past.started or time.time()
        self._useful = past.useful.seconds
        registry = prometheus.CollectorRegistry()
        prometheus.Info(
            "trainwright_worker", "Which worker of the job this is.", registry=registry
        ).info({"worker": worker, "version": __version__})
        self._seconds = prometheus.Histogram(
            "trainwright_step_seconds",
            "Time of a step, without its wait for data.",
            buckets=_STEP_BUCKETS,
            registry=registry,
        )
        self._samples = prometheus.Counter(
            "trainwright_samples", "Samples this process trained on.", registry=registry
        )
        self._data_wait = prometheus.Counter(
            "trainwright_data_wait_seconds", "Time steps waited for data.", registry=registry
        )
        self._stall = prometheus.Summary(
            "trainwright_checkpoint_stall_seconds",
            "Time training stood still for a checkpoint.",
            registry=registry,
        )
        self._saving = prometheus.Summary(
            "trainwright_checkpoint_seconds",
            "Time from the request of a checkpoint until it was on the disk.",
            registry=registry,
        )
        self._size = prometheus.Gauge(
            "trainwright_checkpoint_bytes", "Size of the last checkpoint.", registry=registry
        )
        self._restarts = prometheus.Counter(
            "trainwright_restarts", "Starts of this worker after its first.", registry=registry
        )
        self._restarts.inc(past.restarts)
        failures = prometheus.Counter(
            "trainwright_failures",
            "Ends of this worker before its time, by cause.",
            ["cause"],
            registry=registry,
        )
        for cause, count in past.failures.items():
            failures.labels(cause).inc(count)
        self._last_step = prometheus.Gauge(
            "trainwright_last_step", "Number of the last finished step.", registry=registry
        )
        self._world_size = prometheus.Gauge(
            "trainwright_world_size", "Processes that train together.", registry=registry
        )
        prometheus.Gauge(
            "trainwright_goodput_ratio",
            "Time of the steps that were kept over time since the first start.",
            registry=registry,
        ).set_function(self._goodput)
        self._server, self._thread = prometheus.start_http_server(port, registry=registry)

    def _goodput(self) -> float:
        return self._useful / max(time.time() - self._started, 1e-9)

    def step(
        self, step: int, samples: int, seconds: float, data_wait: float, world_size: int
    ) -> None:
        if self._past.useful:
            # Only now is it known which steps of the life before are trained again.
            self._past.useful.add(step, step, 0.0)
            self._useful = self._past.useful.seconds
            self._past.useful.clear()
        self._useful += seconds
        self._seconds.observe(seconds)
        self._samples.inc(samples)
        self._data_wait.inc(data_wait)
        self._last_step.set(step)
        self._world_size.set(world_size)

    def event(self, event: Event) -> None:
        if event.name == "restart":
            self._restarts.inc()
        elif event.name == "checkpoint":
            self._stall.observe(event.number("stall"))
        elif event.name == "saved":
            self._saving.observe(event.number("seconds"))
            self._size.set(event.number("bytes"))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Metrics:
    """Reports to the sinks what a training process does; without sinks it does nothing.

    A context manager: leaving it by an exception records a `stop`, else an `end`. Not thread-safe.
    """

    def __init__(
        self,
        sinks: Sequence[Sink] = (),
        *,
        past: Past | None = None,
        launched: float | None = None,
        status: TrainJobStatus | None = None,
    ) -> None:
        """`launched` is when the container started, in Unix seconds; `status` is a further sink."""
        past = past or Past()
        self._sinks = tuple(sinks) if status is None else (*sinks, status)
        self._status = status
        self._world_size = past.world_size
        self._stalled = 0.0
        began = "start" if past.started is None else "restart"
        self.event(began, **({"launched": launched} if launched else {}))

    @classmethod
    def from_environment(
        cls,
        *,
        rank: int | None = None,
        environ: Mapping[str, str] = os.environ,
        reports_status: bool = True,
    ) -> Self:
        """Return the recorder that the variables `TRAINWRIGHT_METRICS_*` configure.

        `rank` names this process where `TRAINWRIGHT_REPLICA` does not; by default it is `RANK`.
        Rank 0 of a TrainJob whose Trainer takes a status posts it, unless `reports_status` is
        False: Transformers does so by itself.

        A sink that cannot be opened (a port in use, a folder that cannot be written) is left out
        with a warning.
        """
        worker = worker_name(rank, environ)
        sinks: list[Sink] = []
        past = Past()
        if folder := environ.get("TRAINWRIGHT_METRICS_DIR"):
            path = Path(folder) / f"{worker}.jsonl"
            try:
                lines = Lines(path)
                past = lines.past()
                sinks.append(lines)
            except OSError as error:
                _log.warning("no metrics file: cannot write %s: %s", path, error.strerror)
        if port := environ.get("TRAINWRIGHT_METRICS_PORT"):
            local_rank = environ.get("LOCAL_RANK") or "0"
            try:
                sinks.append(Exporter(int(port) + int(local_rank), worker, past))
            except (OSError, OverflowError, ValueError) as error:
                _log.warning(
                    "no metrics port: cannot listen on TRAINWRIGHT_METRICS_PORT=%s + LOCAL_RANK=%s:"
                    " %s", port, local_rank, error,
                )  # fmt: skip
        status = TrainJobStatus.from_environment(environ, rank) if reports_status else None
        return cls(sinks, past=past, launched=_launched(environ), status=status)

    def step(
        self,
        *,
        step: int,
        samples: int,
        seconds: float,
        data_wait: float = 0.0,
        world_size: int = 1,
    ) -> None:
        """Record that a step has ended. Its number counts from 1, and goes on over restarts.

        `samples` are those of this process. `seconds` is the time from having the batch to the
        end of the step, `data_wait` the time before it that was spent on waiting for the batch.
        Another `world_size` than that of the step before is recorded as a `resize` too.
        """
        if world_size != self._world_size:
            if self._world_size is not None:
                self.event("resize", before=self._world_size, after=world_size)
            self._world_size = world_size
        for sink in self._sinks:
            sink.step(step, samples, seconds, data_wait, world_size)

    def expect(self, steps: int) -> None:
        """Set the number of steps of the whole training, over restarts, to measure progress by."""
        if self._status is not None:
            self._status.total = steps

    def values(self, **values: float) -> None:
        """Update values of the model, such as `loss=0.2`, for the status of its TrainJob."""
        if self._status is not None:
            self._status.values = {**self._status.values, **values}

    def checkpoint(self, *, stall: float) -> None:
        """Record that a checkpoint was taken, which stopped training for `stall` seconds."""
        self._stalled += stall
        self.event("checkpoint", stall=stall)

    def saved(self, *, step: int, seconds: float, size: int) -> None:
        """Record that a checkpoint is on the disk, `seconds` after its request; `size` in bytes."""
        self.event("saved", step=step, seconds=round(seconds, 3), bytes=size)

    def event(self, name: str, /, **fields: Scalar) -> None:
        """Record an event that happens now; it is written at once."""
        event = Event(time=time.time(), name=name, fields=fields)
        for sink in self._sinks:
            sink.event(event)

    def steps(
        self, batches: Iterable[Batch], *, after: int = 0, world_size: int = 1
    ) -> Iterator[tuple[int, Batch]]:
        """Yield each batch with its step number; what the loop does with it is recorded as a step.

        Samples are counted by the length of a batch's first tensor. What is spent in `stall` does
        not count as time of the step. A step that is left by `break` or an exception does not
        count at all.
        """
        clock = time.perf_counter
        requested = clock()
        for step, batch in enumerate(batches, after + 1):
            began, stalled = clock(), self._stalled
            yield step, batch
            ended = clock()
            self.step(
                step=step,
                samples=_samples(batch),
                seconds=max(ended - began - (self._stalled - stalled), 0.0),
                data_wait=began - requested,
                world_size=world_size,
            )
            requested = clock()

    @contextmanager
    def stall(self) -> Iterator[None]:
        """Record the time that the block takes as the stall of a checkpoint."""
        began = time.perf_counter()
        yield
        self.checkpoint(stall=time.perf_counter() - began)

    def close(self) -> None:
        """Write what is not yet written and free the port."""
        for sink in self._sinks:
            sink.close()
        self._sinks = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        if kind is None:
            self.event("end")
        else:
            self.event("stop", reason=kind.__name__)
        self.close()


def _launched(environ: Mapping[str, str]) -> float | None:
    try:
        return float(environ["TRAINWRIGHT_LAUNCHED_AT"])
    except (KeyError, ValueError):
        return None


def worker_name(rank: int | None, environ: Mapping[str, str]) -> str:
    """Return the name of a training process, after which its metrics file is named."""
    if replica := environ.get("TRAINWRIGHT_REPLICA"):
        return re.sub(r"[^A-Za-z0-9._-]", "_", replica)
    return f"rank-{environ.get('RANK') or 0 if rank is None else rank}"


def _samples(batch: object) -> int:
    """Return the length of a batch: of a tensor, or of the first one in tuples and mappings.

    A sequence that is as long as what lies beside it holds the samples one by one, as a tuple of
    images beside one of targets.
    """
    parts = tuple(batch.values()) if isinstance(batch, Mapping) else batch
    if not isinstance(parts, tuple | list):
        return _length(parts)
    if not parts:
        return 0
    first, length = parts[0], _length(parts[0])
    if isinstance(first, Mapping) or (
        isinstance(first, tuple | list) and any(_length(part) != length for part in parts[1:])
    ):
        return _samples(first) or length
    return length


def _length(value: object) -> int:
    """Return the length of a value; 0 if it has none, as a tensor without dimensions."""
    try:
        return len(value) if isinstance(value, Sized) else 0
    except TypeError:
        return 0
