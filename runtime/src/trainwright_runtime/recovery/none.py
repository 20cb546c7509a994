"""Recovery `none`: all processes of this node together; the first failure ends all of them."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass

from trainwright_runtime.coordination.identity import Identity
from trainwright_runtime.failures import exit_codes, failure
from trainwright_runtime.failures.failure import Node
from trainwright_runtime.launch.diagnosis import diagnose
from trainwright_runtime.launch.layout import Layout
from trainwright_runtime.launch.machine import free_port
from trainwright_runtime.launch.options import Options
from trainwright_runtime.launch.processes import (
    Ended,
    Events,
    Failed,
    Process,
    Signalled,
    signals_to,
    stop,
)
from trainwright_runtime.recovery import node_processes

_log = logging.getLogger(__name__)


def run(layout: Layout, options: Options, environ: Mapping[str, str]) -> int:
    """Train to the end; return the exit code of the first process that failed, or 0."""
    events = Events()
    placement = layout.placement
    port = placement.master_port or free_port()
    with signals_to(events):
        processes = [
            Process(
                node_processes.argv(options),
                {
                    **environ,
                    **node_processes.common(layout, options, environ, local_rank),
                    "RANK": str(rank),
                    "WORLD_SIZE": str(layout.world_size),
                    **_group(layout, rank),
                    "MASTER_ADDR": placement.master_addr,
                    "MASTER_PORT": str(port),
                },
                label={"rank": rank},
                log_format=options.log_format,
                events=events,
            )
            for local_rank, rank in enumerate(layout.ranks())
        ]
        if not placement.hosts:
            node_processes.watch(
                [(placement.master_addr, port)], options.rendezvous_timeout, events
            )
        return _supervise(
            processes,
            _Context(node_processes.node_of(placement), options.grace_period, environ),
            events,
        )


def _group(layout: Layout, rank: int) -> dict[str, str]:
    """Return what torchrun sets besides the ranks, for nodes that have a single attempt.

    Scripts and libraries read them: `torch.distributed.is_torchelastic_launched()`, Lightning.
    https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
    """
    return {
        "GROUP_RANK": str(layout.placement.node_rank),
        "GROUP_WORLD_SIZE": str(layout.nodes.high),
        "ROLE_NAME": node_processes.ROLE,
        "ROLE_RANK": str(rank),
        "ROLE_WORLD_SIZE": str(layout.world_size),
        "TORCHELASTIC_RUN_ID": Identity.of(os.environ).name,
        "TORCHELASTIC_RESTART_COUNT": "0",
        "TORCHELASTIC_MAX_RESTARTS": "0",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
    }


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
            case Ended(process) if process.exit_code == exit_codes.DONE:
                running -= 1
            case Ended():
                diagnosed = diagnose(processes, context.node)
                stop(processes, signal.SIGTERM, context.grace)
                assert diagnosed is not None
                return failure.report(diagnosed, context.environ)
    return exit_codes.DONE


def _stopped(processes: list[Process], number: int, grace: float) -> int:
    _log.info("%s: passing it on, then waiting %g s", signal.Signals(number).name, grace)
    stop(processes, number, grace)
    return node_processes.exit_code_after(processes, number, grace)
