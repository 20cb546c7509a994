"""`--ray`: node 0 is the head of a Ray cluster and runs the program, the others join it.

All nodes end together, with the program's exit code: Ray itself would go on without a lost node,
and its nodes don't learn how the program ended. Ray comes with the image.
https://docs.ray.io/en/latest/cluster/vms/user-guides/launching-clusters/on-premises.html
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from trainwright_runtime.coordination.channel import Channel
from trainwright_runtime.failures import errors, exit_codes, failure
from trainwright_runtime.launch.diagnosis import diagnose
from trainwright_runtime.launch.layout import Layout
from trainwright_runtime.launch.machine import free_port
from trainwright_runtime.launch.options import Options
from trainwright_runtime.launch.processes import (
    Ended,
    Events,
    Failed,
    Finished,
    Process,
    Signalled,
    next_event,
    signals_to,
    stop,
)
from trainwright_runtime.launch.rendezvous import wait_for
from trainwright_runtime.observe import logs
from trainwright_runtime.ray import node
from trainwright_runtime.ray.gang import Gang, join, listen, send_signal
from trainwright_runtime.recovery import node_processes

_log = logging.getLogger(f"{logs.ROOT}.entrypoint")

_PROGRAM: logs.Label = {"rank": 0}
_FOLLOWS = 3.0  # seconds in which a lost node shows itself, once the program failed for want of it


@dataclass(frozen=True, slots=True)
class _Run:
    """What node 0 and the other nodes both need of this run."""

    layout: Layout
    options: Options
    environ: Mapping[str, str]  # of Ray and of the program
    events: Events

    @property
    def this_node(self) -> failure.Node:
        return node_processes.node_of(self.layout.placement)

    def process(
        self, argv: list[str], environ: Mapping[str, str], label: logs.Label, *, quiet: bool
    ) -> Process:
        """Start a process of Ray or the program."""
        return Process(
            argv,
            environ,
            label=label,
            log_format=self.options.log_format,
            events=self.events,
            quiet=quiet,
        )


def run(layout: Layout, options: Options, environ: Mapping[str, str]) -> int:
    """Train to the end; return the program's exit code, on every node."""
    node.check(options)
    current_run = _Run(layout, options, node.environment(environ), Events())
    return _lead(current_run) if layout.placement.hosts else _follow(current_run)


# --- node 0 --------------------------------------------------------------------------------------


def _lead(run: _Run) -> int:
    """Run node 0: wait for the other nodes, start Ray, run the program, end all nodes."""
    placement, port = run.layout.placement, free_port()
    with closing(Gang(placement, run.layout.nodes.high, run.events)) as gang:
        with gang.failing_together():
            gang.wait(run.options.rendezvous_timeout)
        start = node.Start(node=0, name=placement.node, address=gang.address, port=port, head=True)
        with signals_to(run.events), _started(run, start) as ray, gang.failing_together():
            code = _led(run, ray, gang, port)
            gang.end(code)
    return code


def _led(run: _Run, ray: node.Running, gang: Gang, port: int) -> int:
    """Start the program once all nodes are in the cluster, and return its exit code.

    The other nodes start after the head: `ray start` gives up on a head that is slow.
    """
    address = f"{gang.address}:{port}"
    running = [_joined(run, gang.names[:1], address)]
    joined = 1
    while True:
        match run.events.get():
            case Signalled(number):
                return node_processes.stopped(running, number, run.options.grace_period)
            case Failed(error):
                stop(running, signal.SIGTERM, run.options.grace_period)
                raise error
            case Ended(process) if process is ray.process and ray.begins_again():
                _log.info("Ray did not start on %s, and is started again", run.this_node)
            case Ended(process) if process is ray.process:
                stop(running, signal.SIGTERM, run.options.grace_period)
                raise _ended(ray, run.this_node)
            case Ended(process) if process.label == _PROGRAM:
                return _done(run, process)
            case Ended(process) if process.exit_code != exit_codes.DONE:
                raise errors.Unreachable(f"Ray: {process.error}")
            case Ended() if joined < run.layout.nodes.high:
                joined = run.layout.nodes.high
                gang.send({"port": port})
                running = [_joined(run, gang.names, address)]
            case Ended():
                _log.info("Ray: all %s nodes have joined at %s", run.layout.nodes, address)
                running = [_program(run, address)]


def _joined(run: _Run, names: list[str], address: str) -> Process:
    argv = node.wait_argv(names, address, run.options)
    return run.process(argv, run.environ, {"ray": 0}, quiet=True)


def _program(run: _Run, address: str) -> Process:
    settings = node_processes.manifest_variables(run.layout, run.options)
    own = {**settings, "RAY_ADDRESS": address, "TRAINWRIGHT_SUPERVISED": "1"}
    argv = node_processes.argv(run.options)
    return run.process(argv, {**run.environ, **own}, _PROGRAM, quiet=False)


def _done(run: _Run, program: Process) -> int:
    """Return the exit code of the program that has ended. Raise an error if a lost node is why."""
    if program.exit_code == exit_codes.DONE:
        return exit_codes.DONE
    if lost := _lost(run.events):
        raise lost
    diagnosed = diagnose([program], run.this_node)
    assert diagnosed is not None
    return failure.report(diagnosed, run.environ)


def _lost(events: Events) -> errors.RuntimeFailure | None:
    """Return the error of the lost node that made the program fail, or None if there is none.
    It may be known only a moment later."""
    deadline = time.monotonic() + _FOLLOWS
    while (event := next_event(events, deadline)) is not None:
        if isinstance(event, Failed):
            return event.error
    return None


# --- the other nodes -----------------------------------------------------------------------------


def _follow(run: _Run) -> int:
    """Run another node: join node 0, start Ray, and end when node 0 does."""
    placement, timeout = run.layout.placement, run.options.rendezvous_timeout
    channel, port = join(placement, timeout)
    with closing(channel):
        wait_for([(placement.master_addr, port)], timeout)
        start = node.Start(
            node=placement.node_rank or 0,
            name=placement.node,
            address=channel.connection.getsockname()[0],
            port=port,
            head=False,
            master=placement.master_addr,
        )
        with signals_to(run.events), _started(run, start) as ray:
            threading.Thread(target=listen, args=(channel, run.events), daemon=True).start()
            return _followed(run, ray, channel)


def _followed(run: _Run, ray: node.Running, channel: Channel) -> int:
    """Return node 0's exit code. After SIGTERM, stay for the program's last checkpoint."""
    deadline, number = None, 0
    while True:
        match next_event(run.events, deadline):
            case Signalled(number):
                _log.info("%s: node 0 ends the program", signal.Signals(number).name)
                send_signal(channel, number)
                deadline = time.monotonic() + run.options.grace_period
            case Finished(code):
                if code:
                    _log.error("node 0 ended with %d, and this node follows", code)
                return code
            case Failed(error) if not number:
                raise error
            case Ended() if not number and ray.begins_again():
                _log.info("Ray did not start on %s, and is started again", run.this_node)
            case Ended() if not number:
                raise _ended(ray, run.this_node)
            case _:
                return exit_codes.by_signal(number)


# --- both ----------------------------------------------------------------------------------------


def _started(run: _Run, start: node.Start) -> node.Running:
    def begin(folder: str) -> Process:
        argv = start.argv(run.options, folder)
        return run.process(argv, run.environ, {"ray": start.node}, quiet=True)

    return node.Running(begin, run.options.rendezvous_timeout)


def _ended(ray: node.Running, this_node: failure.Node) -> errors.PeerLost:
    return errors.PeerLost(f"Ray ended on {this_node}: {ray.process.how_it_ended()}")
