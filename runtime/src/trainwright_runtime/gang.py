"""Recovery `none`: all processes of this node together; the first failure ends all of them."""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trainwright_runtime import errors, failure
from trainwright_runtime.diagnosis import diagnose
from trainwright_runtime.failure import Node
from trainwright_runtime.launchers import Placement
from trainwright_runtime.layout import Layout
from trainwright_runtime.machine import free_port
from trainwright_runtime.options import DEFAULT_RESTARTS, Options
from trainwright_runtime.processes import (
    Ended,
    Events,
    Failed,
    Process,
    Signalled,
    signals_to,
    stop,
)
from trainwright_runtime.rendezvous import wait_for_one

_log = logging.getLogger(__name__)

_LAUNCHED = time.time()  # the entrypoint's start, all but its imports

RUN_ID = "trainwright"  # one job has one endpoint of its own, so the name need not be unique
ROLE = "trainer"


def run(layout: Layout, options: Options, environ: Mapping[str, str]) -> int:
    """Train to the end; the exit code is that of the first process that failed, or 0."""
    events = Events()
    where = layout.placement
    port = where.master_port or free_port()
    with signals_to(events):
        processes = [
            Process(
                argv(options),
                {
                    **environ,
                    **common(layout, options, environ, local_rank),
                    "RANK": str(rank),
                    "WORLD_SIZE": str(layout.world_size),
                    **group(layout, rank),
                    "MASTER_ADDR": where.master_addr,
                    "MASTER_PORT": str(port),
                },
                label={"rank": rank},
                log_format=options.log_format,
                events=events,
            )
            for local_rank, rank in enumerate(layout.ranks())
        ]
        if not where.hosts:
            watch([(where.master_addr, port)], options.rendezvous_timeout, events)
        return _supervise(
            processes, _Context(node_of(where), options.grace_period, environ), events
        )


def argv(options: Options) -> list[str]:
    """The command of one training process."""
    return [sys.executable, "-u", "-m", "trainwright_runtime.process", *options.program.argv]


def common(
    layout: Layout, options: Options, environ: Mapping[str, str], local_rank: int
) -> dict[str, str]:
    """Variables that every training process of ours has, whatever the recovery."""
    return {
        "OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS") or str(layout.threads),
        "LOCAL_RANK": str(local_rank),
        "LOCAL_WORLD_SIZE": str(layout.nproc),
        **settings(layout, options),
        "TRAINWRIGHT_SUPERVISED": "1",
    }


def group(layout: Layout, rank: int) -> dict[str, str]:
    """Variables that torchrun sets besides the ranks, where a world of nodes has one attempt.

    Scripts and libraries read them: `torch.distributed.is_torchelastic_launched()`, Lightning.
    https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
    """
    return {
        "GROUP_RANK": str(layout.placement.node_rank),
        "GROUP_WORLD_SIZE": str(layout.nodes.high),
        "ROLE_NAME": ROLE,
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(layout.world_size),
        "TORCHELASTIC_RUN_ID": RUN_ID,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


def settings(layout: Layout, options: Options) -> dict[str, str]:
    """Variables by which the script follows the manifest, under foreign launchers too."""
    return {
        "TRAINWRIGHT_BACKEND": layout.backend,
        "TRAINWRIGHT_GRACE_PERIOD": f"{options.grace_period:g}",
        "TRAINWRIGHT_LOG_FORMAT": options.log_format,
        "TRAINWRIGHT_LAUNCHED_AT": f"{_LAUNCHED:.3f}",
    }


def max_restarts(layout: Layout, options: Options) -> int:
    """That of the command line, else of the launcher, else some where recovery was requested."""
    if options.max_restarts is not None:
        return options.max_restarts
    if layout.placement.max_restarts is not None:
        return layout.placement.max_restarts
    return 0 if options.recovery == "none" else DEFAULT_RESTARTS


def watch(places: Sequence[tuple[str, int]], timeout: float, events: Events) -> None:
    """Wait for the master, at one of these, while the processes import torch."""

    def wait() -> None:
        try:
            wait_for_one(places, timeout)
        except errors.Unreachable as error:
            events.put(Failed(error))

    threading.Thread(target=wait, daemon=True).start()


@dataclass(frozen=True, slots=True)
class _Context:
    node: Node
    grace: float
    environ: Mapping[str, str]


def _supervise(processes: list[Process], context: _Context, events: Events) -> int:
    running = len(processes)
    while running:
        match events.get():
            case Signalled(number):
                return _stopped(processes, number, context.grace)
            case Failed(error):
                stop(processes, signal.SIGTERM, context.grace)
                raise error
            case Ended(process) if process.exit_code == errors.DONE:
                running -= 1
            case Ended():
                found = diagnose(processes, context.node)
                stop(processes, signal.SIGTERM, context.grace)
                assert found is not None
                return failure.report(found, context.environ)
    return errors.DONE


def node_of(placement: Placement) -> Node:
    """This node, as failures name it."""
    return Node(rank=placement.node_rank, name=placement.node)


def _stopped(processes: list[Process], number: int, grace: float) -> int:
    _log.info("%s: passing it on, then waiting %g s", signal.Signals(number).name, grace)
    stop(processes, number, grace)
    return exit_code_after(processes, number, grace)


def exit_code_after(processes: list[Process], number: int, grace: float) -> int:
    """What to exit with once processes were stopped by a signal that came from outside."""
    codes = {process.exit_code for process in processes}
    if codes == {errors.DONE}:
        return errors.DONE
    if errors.by_signal(signal.SIGKILL) in codes:
        name = signal.Signals(number).name
        _log.error("not done %g s after %s (--grace-period): killed", grace, name)
        return errors.by_signal(signal.SIGKILL)
    return errors.by_signal(number)
