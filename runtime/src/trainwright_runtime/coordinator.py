"""The meeting point of elastic training: torchft's lighthouse, and the registry of who holds what.

It stores nothing: replicas tell it who they are with every heartbeat and every quorum, and what
they hold when they connect. It may die at any moment and come back at the same address; training
goes on with the next quorum.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trainwright_runtime.coordination.registry import Registry
from trainwright_runtime.timeouts import Timeouts

DEFAULT_PORT = 29511
RECOVERY = 1.5  # seconds in which a worker on this machine connects again
_TICK_MS = 50
_GRACE = 30.0
_ASK = 0.05  # seconds between two looks for the last worker


def serve(
    port: int,
    min_replicas: int,
    timeouts: Timeouts,
    *,
    grace: float,
    most: int = 0,
    recovery: float = RECOVERY,
) -> None:
    """Run both on all interfaces until SIGTERM or SIGINT.

    Then it stays while a worker runs the program's end, and after it for a grace period, until the
    workers that were lost before have come back and heard of it.
    """
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    registry = Registry(
        port, recovery=recovery, silence=timeouts.quorum, stall=timeouts.stall, most=most
    )
    lighthouse = _lighthouse(
        bind=f"[::]:{port}",
        min_replicas=min_replicas,
        join_timeout_ms=round(timeouts.join * 1000),
        quorum_tick_ms=_TICK_MS,
        heartbeat_timeout_ms=round(timeouts.heartbeat * 1000),
    )
    print(f"coordinator: {lighthouse.address()}, quorum of at least {min_replicas}", flush=True)
    ended.wait()
    while registry.leader():
        time.sleep(_ASK)
    if missing := registry.missing():
        print(f"coordinator: training is over, waiting for {', '.join(missing)}", flush=True)
    deadline = time.monotonic() + grace
    while registry.missing() and time.monotonic() < deadline:
        time.sleep(_ASK)
    lighthouse.shutdown()
    registry.close()


def _lighthouse(**options: Any) -> Any:
    """torchft's server, without the two seconds that importing torchft takes: it imports torch."""
    # A line for every request of every step otherwise; torchft reads it at import.
    os.environ.setdefault("RUST_LOG", "error")
    package = importlib.util.find_spec("torchft")
    for folder in (package and package.submodule_search_locations) or ():
        for path in Path(folder).glob("_torchft.*"):
            if path.suffix in (".so", ".pyd"):
                spec = importlib.util.spec_from_file_location("_torchft", path)
                assert spec is not None
                assert spec.loader is not None
                module = importlib.util.module_from_spec(spec)
                spec.loader.exec_module(module)
                return module.LighthouseServer(**options)
    from torchft.coordination import LighthouseServer

    return LighthouseServer(**options)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="trainwright_runtime coordinator",
        description="Let the workers of an elastic training meet (torchft's lighthouse).",
    )
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="listen here (%(default)s)")
    parser.add_argument(
        "--min-replicas", type=int, default=1, help="no step without so many (%(default)s)"
    )
    parser.add_argument(
        "--max-replicas", type=int, default=0, help="workers that there can be, 0 if unknown"
    )
    parser.add_argument(
        "--recovery",
        type=float,
        default=RECOVERY,
        help="seconds before a worker may begin training anew, unless all have said that they hold "
        "nothing (%(default)g)",
    )
    options = parser.parse_args(argv)
    serve(
        options.port,
        options.min_replicas,
        Timeouts.of(os.environ),
        grace=float(os.environ.get("TRAINWRIGHT_GRACE_PERIOD", _GRACE)),
        most=options.max_replicas,
        recovery=options.recovery,
    )
    return 0
