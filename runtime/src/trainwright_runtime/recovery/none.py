"""Recovery `none`: all processes of this node together; the first failure ends all of them."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass

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


def run(layout: Layout, options: Options, environ: Mapping[str, str]) -> int:
    """Train to the end; return the exit code of the first process that failed, or 0."""
    events = Events()
    placement = layout.placement
    port = placement.master_port or free_port()
    once = node_processes.attempt_variables(
        0, 0, address=placement.master_addr, port=port, store_is_open=False
    )
    with signals_to(events):
        processes = [
            Process(
                node_processes.argv(options),
                {
                    **environ,
                    **node_processes.common_variables(layout, options, environ, local_rank),
                    **node_processes.rank_variables(
                        rank,
                        layout.world_size,
                        node=placement.node_rank,
                        nodes=layout.nodes.high,
                    ),
                    **once,
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


@dataclass(frozen=True, slots=True)
class _Context:
    node: Node
    grace: float
    environ: Mapping[str, str]


def _supervise(processes: list[Process], context: _Context, events: Events) -> int:
    """Wait for all processes; after a signal or the first failure, stop them. Return the exit
    code.
    """
    running = len(processes)
    while running:
        match events.get():
            case Signalled(number):
                return node_processes.stopped(processes, number, context.grace)
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
