"""The coordinator of elastic training: who takes the next step, and who holds which state.

It stores nothing: workers report the state they hold when they connect, and who they are with each
request for a step. It may die at any moment and come back at the same address, or be replaced by
another of its candidates; training goes on with the next quorum.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence

from trainwright_runtime.coordination.addresses import own_addresses
from trainwright_runtime.coordination.descriptors import raise_limit
from trainwright_runtime.coordination.election import Election, now
from trainwright_runtime.coordination.lease import LENGTH
from trainwright_runtime.coordination.quorum import Patience
from trainwright_runtime.coordination.registry import Registry
from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.failures import exit_codes

DEFAULT_PORT = 29511
RECOVERY = 1.5  # seconds in which a worker on this machine connects again
MANY = 10_000
"""Workers: a limit of open files that is too low for so many is reported."""
_OF_A_WORKER, _OWN = 4, 64
"""Connections per worker (reports, requests, heartbeats, store), and open files besides them."""
_GRACE = 30.0
_POLL = 0.05  # seconds between two looks for the last worker


STEPPED_DOWN = 3
"""The exit code of a coordinator that was silent for so long that another one may have begun."""


def serve(
    registry: Registry, election: Election | None, stop: _Stop, *, least: int, grace: float
) -> int:
    """Serve workers until SIGTERM or SIGINT, once this candidate is elected; return the exit code.

    After a signal it stays while a worker runs the program's end, and then for a `grace` period,
    until workers that were lost before are back and know of it. On SIGINT a candidate that is not
    elected also stays, until it hears that training is over: the elected one needs its vote.
    """
    if election is not None:
        if not _elected(election, stop, grace):
            election.resign()
            return exit_codes.DONE
        registry.serve()
    print(f"coordinator: port {registry.port}, quorum of at least {least}", flush=True)
    for _ in _while_serving(registry, stop, grace, alone=election is None):
        # That training is over stays true with any candidate elected: latecomers have to learn it.
        if election is not None and not (election.holds or election.finished):
            print("coordinator: silent for too long, another one may have begun", flush=True)
            os._exit(STEPPED_DOWN)  # nothing of it may answer any more
    if election is not None:
        election.resign()
    registry.close()
    return exit_codes.DONE


class _Stop:
    """The signals received: `requested` after SIGTERM or SIGINT, `now` after SIGTERM."""

    def __init__(self) -> None:
        self.requested = self.now = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, number: int, _: object) -> None:
        self.requested = True
        self.now = self.now or number == signal.SIGTERM


def _elected(election: Election, stop: _Stop, grace: float) -> bool:
    """Wait until this candidate is elected; return False if it has to end before that."""
    elected = threading.Event()

    def win() -> None:
        if election.win():
            elected.set()

    threading.Thread(target=win, daemon=True, name="election").start()
    while not elected.wait(_POLL):
        silent = now() - election.heard
        if stop.now or (stop.requested and silent > (2 * LENGTH if election.finished else grace)):
            return False
    return True


def _while_serving(registry: Registry, stop: _Stop, grace: float, *, alone: bool) -> Iterator[None]:
    """Yield every `_POLL` seconds until this coordinator is no longer needed."""
    while not stop.requested or registry.leader() or _others_train(registry, stop, alone=alone):
        time.sleep(_POLL)
        yield
    if missing := registry.missing():
        print(f"coordinator: training is over, waiting for {', '.join(missing)}", flush=True)
    deadline = time.monotonic() + grace
    while registry.missing() and time.monotonic() < deadline:
        time.sleep(_POLL)
        yield


def _others_train(registry: Registry, stop: _Stop, *, alone: bool) -> bool:
    """Whether workers of other nodes still need a candidate whose own node is done."""
    return not (alone or stop.now or registry.finished) and registry.in_use()


def _warn_of_low_limit(descriptors: int, most: int) -> None:
    """Print a warning if the limit of open files is too low for the workers that may come."""
    fits = (descriptors - _OWN) // _OF_A_WORKER
    if fits < (most or MANY):
        print(
            f"coordinator: the limit of {descriptors} open files is enough for {max(fits, 0)} "
            f"workers{f', and there may be {most}' if most else ''}: raise it (ulimit -n, "
            "LimitNOFILE of the container runtime)", flush=True,
        )  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """Run the coordinator with these arguments; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="trainwright_runtime coordinator",
        description="Let the workers of an elastic training meet.",
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
        help="seconds before a worker may begin training anew, unless all have reported that they "
        "hold nothing (%(default)g)",
    )
    parser.add_argument(
        "--candidates",
        default="",
        metavar="HOST:PORT,...",
        help="processes of which one is to be the coordinator, the same list for all",
    )
    parser.add_argument(
        "--index", type=int, default=0, help="which of them this is, from 0 (%(default)s)"
    )
    parser.add_argument(
        "--bind",
        default="",
        metavar="NAME,...",
        help="listen at the addresses of these names, of the host's own and at 127.0.0.1; of this "
        "alone, where the names add none",
    )
    options = parser.parse_args(argv)
    timeouts = Timeouts.of(os.environ)
    addresses = own_addresses(*options.bind.split(",")) if options.bind else ()
    grace = float(os.environ.get("TRAINWRIGHT_GRACE_PERIOD", _GRACE))
    _warn_of_low_limit(raise_limit(), options.max_replicas)
    candidates = options.candidates.split(",") if options.candidates else []
    election = Election(candidates, options.index) if len(candidates) > 1 else None
    stop = _Stop()
    registry = Registry(
        options.port,
        recovery=options.recovery,
        silence=timeouts.quorum,
        stall=timeouts.stall,
        most=options.max_replicas,
        election=election,
        patience=Patience(
            least=options.min_replicas, heartbeat=timeouts.heartbeat, join=timeouts.join
        ),
        addresses=addresses,
    )
    return serve(registry, election, stop, least=options.min_replicas, grace=grace)
