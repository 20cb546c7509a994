"""A small all-reduce of each node with its neighbours before training: who is slow, by name.

In a ring, all nodes are as slow as the slowest, so one all-reduce over all of them doesn't show
which is to blame. In pairs it does: a slow node is slow with both of its neighbours, and each of
these is fast with its other one. Two nodes make only one pair; there, the time to compute
shows more.

    python -m trainwright_runtime slow-nodes --factor=3 --timeout=600  (started by the entrypoint)
"""

from __future__ import annotations

import argparse
import datetime
import json
import logging
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from trainwright_runtime.failures.errors import NodeUnfit
from trainwright_runtime.launch.layout import Layout
from trainwright_runtime.launch.options import Options
from trainwright_runtime.observe import logs

_log = logging.getLogger(f"{logs.ROOT}.entrypoint")

DEFAULT_FACTOR = 3.0
_FLOOR = 0.02  # seconds: less is the noise of any machine
_NUMBERS = 1 << 20  # of four bytes each, in one all-reduce
_SIDE = 768  # of the matrices that are multiplied
_ROUNDS = 6


def check(
    layout: Layout, options: Options, environ: Mapping[str, str], factor: float | None
) -> None:
    """Test all nodes together, at the address where training will meet.
    Raise NodeUnfit on all nodes if one is slow."""
    placement = layout.placement
    if placement.elastic or placement.node_rank is None or options.recovery == "live":
        _log.info("preflight: no collective, since nodes may come and go")
        return
    if layout.nodes.high == 1:
        return
    argv = [sys.executable, "-m", "trainwright_runtime", "slow-nodes"]
    argv += [f"--factor={factor or DEFAULT_FACTOR:g}", f"--timeout={options.rendezvous_timeout:g}"]
    done = subprocess.run(  # noqa: S603 - our own module
        argv,
        env={
            **environ,
            "RANK": str(placement.node_rank),
            "WORLD_SIZE": str(layout.nodes.high),
            "MASTER_ADDR": placement.master_addr,
            "MASTER_PORT": str(placement.master_port),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    problem = _verdict(done, placement.node)
    if problem:
        raise NodeUnfit(f"preflight: collective: {problem}")


def _verdict(done: subprocess.CompletedProcess[str], node: str) -> str:
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    if done.returncode:
        return lines[-1] if lines else f"exit code {done.returncode}"
    slow = json.loads(done.stdout.splitlines()[-1])
    return "; ".join(f"{name} {how}" for name, how in slow.items())


def slow_nodes(times: Sequence[float], factor: float) -> list[int]:
    """Return nodes that take more than `factor` times the median node's time, beyond noise."""
    if len(times) < 2:
        return []
    ordered = sorted(times)
    usual = statistics.median_low(ordered)
    return [
        node for node, took in enumerate(times) if took > factor * usual and took - usual > _FLOOR
    ]


def main(argv: Sequence[str]) -> int:
    """Run one process of the test, one per node; print the names of slow nodes as JSON."""
    parser = argparse.ArgumentParser(prog="trainwright_runtime slow-nodes")
    parser.add_argument("--factor", type=float, default=DEFAULT_FACTOR)
    parser.add_argument("--timeout", type=float, default=600.0)
    options = parser.parse_args(argv)

    import torch.distributed as dist

    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=max(1, options.timeout)))
    own = (_compute(), _pairs())
    rank, size = dist.get_rank(), dist.get_world_size()
    measured: list[tuple[str, tuple[float, float]]] = [("", (0.0, 0.0))] * size
    dist.all_gather_object(measured, (os.environ.get("HOSTNAME") or f"node {rank}", own))
    slow = _slow(measured, options.factor)
    print(json.dumps(slow))
    dist.barrier()  # no rank closes the meeting place before all know
    dist.destroy_process_group()
    return 0


def _slow(measured: Sequence[tuple[str, tuple[float, float]]], factor: float) -> dict[str, str]:
    """Return the slow nodes by name, each with what it is slow at."""
    slow: dict[str, str] = {}
    for index, what in enumerate(("computes", "exchanges 4 MiB with its neighbours")):
        times = [took[index] for _, took in measured]
        if index and len(measured) == 2:
            continue  # both are in the one pair
        usual = statistics.median_low(times)
        for node in slow_nodes(times, factor):
            name, took = f"node {node} ({measured[node][0]})", times[node]
            slow.setdefault(name, f"{what} in {took:.3g} s, its peers in {usual:.3g} s")
    return slow


def _compute() -> float:
    import torch

    side = torch.rand(_SIDE, _SIDE)
    return _seconds(lambda: side @ side)


def _pairs() -> float:
    """Return the seconds of an all-reduce with the faster of both neighbours."""
    import torch
    import torch.distributed as dist

    rank, size = dist.get_rank(), dist.get_world_size()
    numbers = torch.ones(_NUMBERS)
    times = []
    for first in range(size if size > 2 else 1):
        pair = sorted({first, (first + 1) % size})
        group = dist.new_group(pair)  # all nodes take part in making it
        if rank in pair:
            times.append(_seconds(partial(dist.all_reduce, numbers, group=group)))
        dist.barrier()
    return min(times)


def _seconds(work: Callable[[], object]) -> float:
    """Return the mean seconds of several rounds, but for the slowest: it may be noise."""
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return statistics.mean(sorted(times)[:-1])
