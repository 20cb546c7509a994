"""The meeting point of elastic training: torchft's lighthouse, and nothing that could be lost.

It keeps no state: replicas tell it who they are with every heartbeat and every quorum. It may die
at any moment and come back at the same address; training goes on with the next quorum.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
from collections.abc import Sequence

from trainwright_runtime.timeouts import Timeouts

DEFAULT_PORT = 29511
_TICK_MS = 50


def serve(port: int, min_replicas: int, timeouts: Timeouts) -> None:
    """Run the lighthouse on all interfaces until SIGTERM or SIGINT."""
    # A line for every request of every step otherwise; torchft reads it at import.
    os.environ.setdefault("RUST_LOG", "error")
    from torchft.coordination import LighthouseServer

    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    lighthouse = LighthouseServer(
        bind=f"[::]:{port}",
        min_replicas=min_replicas,
        join_timeout_ms=round(timeouts.join * 1000),
        quorum_tick_ms=_TICK_MS,
        heartbeat_timeout_ms=round(timeouts.heartbeat * 1000),
    )
    print(f"coordinator: {lighthouse.address()}, quorum of at least {min_replicas}", flush=True)
    ended.wait()
    lighthouse.shutdown()


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="trainwright_runtime coordinator",
        description="Let the workers of an elastic training meet (torchft's lighthouse).",
    )
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="listen here (%(default)s)")
    parser.add_argument(
        "--min-replicas", type=int, default=1, help="no step without so many (%(default)s)"
    )
    options = parser.parse_args(argv)
    serve(options.port, options.min_replicas, Timeouts.of(os.environ))
    return 0
