"""Recovery `live`: each worker runs on its own; a lost one is restarted while the others go on.

For scripts that use `trainwright_runtime.elastic`: ranks and world size come from the quorum that
the coordinator forms, so none are set here. Node 0 runs the coordinator, which may die too; with
three nodes or more the first three run candidates for it, and one of these nodes may be lost.

An exit code of 0 does not end the job: a worker ends well once every epoch is committed, which it
notes in a file of its own (`coordination.ending`). One that exits with 0 earlier counts as lost.

With --replica=node the processes of this node are one worker: they have ranks in a world of their
own, and if one of them is lost, all are restarted.
"""

from __future__ import annotations

import logging
import signal
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright_runtime.coordination import coordinator, ending
from trainwright_runtime.coordination.ending import Life, Stage
from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.failures import exit_codes, failure
from trainwright_runtime.failures.errors import EnvironmentMistake, Unreachable, UsageError
from trainwright_runtime.failures.failure import Failure, Node
from trainwright_runtime.launch.diagnosis import failure_among, failure_of
from trainwright_runtime.launch.layout import Layout
from trainwright_runtime.launch.options import Options
from trainwright_runtime.launch.processes import (
    Ended,
    Event,
    Events,
    Failed,
    Process,
    Signalled,
    first_failure,
    next_event,
    signals_to,
    stop,
)
from trainwright_runtime.observe import logs
from trainwright_runtime.recovery import node_processes
from trainwright_runtime.recovery.candidates import LIST, Candidates

if TYPE_CHECKING:
    from torch._C._distributed_c10d import TCPStore

_log = logging.getLogger(__name__)

_QUICK = 10.0  # seconds: a process that ends sooner after its start has not got to work
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds before a start, doubled with each quick end
_COORDINATOR_TRIES = 5  # quick ends of the coordinator before giving up
_FINISH = 2.0  # grace periods that the others get once training is over
_STAY = 2 * _FINISH  # grace periods in which other nodes follow, and lost workers hear of it
_OTHER_NODES = 15.0  # seconds for their workers to find a coordinator that is on a new node

_EARLY = "exit code 0 before training was over; run.finish() ends it early"

# Ranks of a fixed world would be wrong here, and so would an agent's store.
_RANKS = ("RANK", "WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")


def run(layout: Layout, options: Options, environ: Mapping[str, str]) -> int:
    """Train until every epoch is committed, its end was run and all workers have followed.

    Return the exit code.
    """
    Timeouts.of(environ)  # a mistake is reported once, not by each worker and each new coordinator
    _require_no_copies(environ)
    with tempfile.TemporaryDirectory(prefix="trainwright-") as notes:
        return _run(layout, options, environ, Path(notes))


def _require_no_copies(environ: Mapping[str, str]) -> None:
    """Refuse copies in the memory of neighbours: they require a fixed set of nodes."""
    every = environ.get("TRAINWRIGHT_PEER_COPIES_EVERY") or "0"
    if every != "0":
        expected = (
            "0 with --recovery=live, where a worker that is new takes the state of the others"
        )
        raise EnvironmentMistake("TRAINWRIGHT_PEER_COPIES_EVERY", every, expected)


def _run(layout: Layout, options: Options, environ: Mapping[str, str], notes: Path) -> int:
    """Train with the files of the workers' notes in the folder `notes`; return the exit code."""
    candidates = Candidates.of(layout, options, environ)
    team = _Team(
        options=options,
        max_restarts=node_processes.max_restarts(layout, options),
        node=node_processes.node_of(layout.placement),
        environ=environ,
        needed=candidates.own is not None and len(candidates.addresses) == 1,
    )
    if options.replica == "node":
        if layout.placement.per_process:
            raise UsageError(
                f"--replica=node, but {layout.placement.launcher} starts each process by itself: "
                "let the entrypoint start those of a node (--nproc-per-node)"
            )
        team.node_store = _NodeStore(team.max_restarts)
    with signals_to(team.events):
        if candidates.own is not None:
            team.coordinator = _coordinator(candidates, layout, options, environ)
            team.start(team.coordinator)
        else:
            node_processes.watch(
                candidates.hosts_and_ports, options.rendezvous_timeout, team.events
            )
        for child in _workers(layout, options, environ, candidates.seen_from_here, notes):
            team.workers.append(child)
        team.start_workers()
        try:
            return team.train()
        finally:
            team.end()


def _min_replicas(layout: Layout, options: Options, environ: Mapping[str, str]) -> int:
    """Return what the manifest sets, or the fewest replicas that need the minimum of nodes.

    So all nodes may be there while some of their processes are lost and on their way back.
    """
    if least := environ.get("TRAINWRIGHT_MIN_REPLICAS"):
        if not least.isdecimal() or int(least) < 1:
            raise EnvironmentMistake("TRAINWRIGHT_MIN_REPLICAS", least, "a number from 1 up")
        return int(least)
    if layout.placement.per_process:
        return layout.placement.world_size or 1
    return (layout.nodes.low - 1) * _replicas(layout, options) + 1


def _replicas(layout: Layout, options: Options) -> int:
    """Return how many replicas this node has."""
    return 1 if options.replica == "node" else layout.nproc


def _max_replicas(layout: Layout, options: Options) -> int:
    if layout.placement.per_process:
        return layout.placement.world_size or 1
    return layout.nodes.high * _replicas(layout, options)


def _workers(
    layout: Layout, options: Options, environ: Mapping[str, str], coordinator: str, notes: Path
) -> list[_Child]:
    """Return the workers of this node, not started yet."""
    inherited = {
        name: value
        for name, value in environ.items()
        if name not in _RANKS and not name.startswith("TORCHELASTIC_")
    }
    first = int(environ["LOCAL_RANK"]) if layout.placement.per_process else 0
    children = []
    for local_rank in range(first, first + layout.nproc):
        replica = f"{layout.placement.node}-{local_rank}"
        variables = {
            **inherited,
            **node_processes.common_variables(layout, options, environ, local_rank),
            "TRAINWRIGHT_COORDINATOR": coordinator,
            "TRAINWRIGHT_REPLICA": replica,
            "TRAINWRIGHT_MIN_REPLICAS": str(_min_replicas(layout, options, environ)),
            **(_ranks(layout, local_rank) if options.replica == "node" else {}),
            ending.VARIABLE: str(notes / str(local_rank)),
        }
        children.append(
            _Child(
                argv=node_processes.argv(options),
                environ=variables,
                label={"replica": replica},
                notes=notes / str(local_rank),
            )
        )
    return children


def _ranks(layout: Layout, local_rank: int) -> dict[str, str]:
    """Return the variables of a process's rank in its node's world; `_NodeStore` adds others."""
    return {
        **node_processes.rank_variables(local_rank, layout.nproc, node=0, nodes=1),
        "TRAINWRIGHT_REPLICA_PROCESSES": str(layout.nproc),
    }


class _NodeStore:
    """The store in which the processes of a node meet, as one replica: a new one for each start.

    So none of them can meet a process of an earlier start, and the port is free.
    """

    def __init__(self, max_restarts: int) -> None:
        self._max_restarts = max_restarts
        self._lives = 0
        self._store: TCPStore | None = None

    def reopen(self) -> dict[str, str]:
        """Open a new store, and return the variables by which `init_process_group` finds it."""
        from trainwright_runtime.coordination.store_client import bound_store

        self._store = bound_store("127.0.0.1")
        self._lives += 1
        return node_processes.attempt_variables(
            self._lives - 1,
            self._max_restarts,
            address="localhost",
            port=self._store.port,
            store_is_open=True,
        )


def _coordinator(
    candidates: Candidates, layout: Layout, options: Options, environ: Mapping[str, str]
) -> _Child:
    """Return the coordinator of this node, not started yet."""
    assert candidates.own is not None
    host, port = candidates.hosts_and_ports[candidates.own]
    if layout.nodes.high == 1 and len(candidates.addresses) == 1 and LIST not in environ:
        host = "127.0.0.1"  # its workers alone connect
    # As a training process, so that it does not outlive a killed entrypoint and keep the port.
    argv = [sys.executable, "-u", "-m", "trainwright_runtime.launch.process"]
    argv += ["-m", "trainwright_runtime", "coordinator", f"--port={port}"]
    argv += [f"--min-replicas={_min_replicas(layout, options, environ)}"]
    argv += [f"--max-replicas={_max_replicas(layout, options)}", f"--bind={host}"]
    if layout.nodes.high > 1:
        argv += [f"--recovery={_OTHER_NODES:g}"]
    if len(candidates.addresses) > 1:
        argv += [f"--candidates={','.join(candidates.addresses)}", f"--index={candidates.own}"]
    variables = {
        **environ,
        **node_processes.manifest_variables(layout, options),
        "TRAINWRIGHT_SUPERVISED": "1",
    }
    return _Child(argv=argv, environ=variables, label={"coordinator": port})


@dataclass(slots=True, kw_only=True, eq=False)
class _Child:
    """A process that is started again when it is lost."""

    argv: list[str]
    environ: Mapping[str, str]
    label: logs.Label
    notes: Path | None = None
    """Where a worker notes how far it has come."""
    process: Process | None = None
    started_at: float = 0.0
    due: float | None = None  # when to start it again, on the monotonic clock
    restarts: int = 0  # since it last came further than in the life before
    step: int = -1  # the first that it committed in the last life that committed any
    quick_ends: int = 0  # in a row
    done: bool = False

    @property
    def life(self) -> Life:
        return Life() if self.notes is None else ending.read(self.notes)

    def count(self) -> None:
        """Count a restart; anew when training has moved on since: a node that is taken away now
        and then is no reason to give up, a program that dies at the same step is.
        """
        if (step := self.life.step) > self.step >= 0:
            self.restarts = 0
        self.step = max(self.step, step)
        self.restarts += 1

    def schedule(self) -> None:
        """Schedule a restart, later each time that it ended right after its start."""
        now = time.monotonic()
        self.quick_ends = self.quick_ends + 1 if now - self.started_at < _QUICK else 0
        self.due = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self.quick_ends, 10))


@dataclass(slots=True, kw_only=True)
class _Team:
    """The workers of this node, and the coordinator where this node runs it."""

    options: Options
    max_restarts: int  # of each worker, while training does not move on
    node: Node
    environ: Mapping[str, str]
    workers: list[_Child] = field(default_factory=list)
    coordinator: _Child | None = None
    events: Events = field(default_factory=Events)
    finish_by: float | None = None  # set when training is over
    elastic: bool = False  # a worker has entered `elastic.training`
    node_store: _NodeStore | None = None  # where the workers are one replica
    needed: bool = False  # none trains without this node, which runs the only coordinator

    def start_workers(self) -> None:
        """Start all workers of this node."""
        variables = {} if self.node_store is None else self.node_store.reopen()
        for child in self.workers:
            child.environ = {**child.environ, **variables}
            child.done = False
            self.start(child)

    def start(self, child: _Child) -> None:
        """Start a process now."""
        child.due = None
        if child.notes is not None:
            child.notes.unlink(missing_ok=True)
        child.started_at = time.monotonic()
        child.process = Process(
            child.argv,
            child.environ,
            label=child.label,
            log_format=self.options.log_format,
            events=self.events,
        )

    def train(self) -> int:
        """React to events until training is over or cannot go on; return the exit code."""
        while True:
            match self._next():
                case Signalled(number):
                    return self._stopped(number)
                case Failed(error):
                    raise error
                case Ended(process) if self._is_coordinator(process):
                    self._replace_coordinator(process)
                case Ended(process):
                    code = self._worker_ended(process)
                    if code is not None:
                        return code
                case None:
                    self._start_what_is_due()
            if self._ended():
                return self._after_the_end()

    def end(self) -> None:
        """Stop what still runs: workers first, so that they can sign off from the coordinator."""
        stop(self._running(self.workers), signal.SIGTERM, self.options.grace_period)
        if self.coordinator is not None:
            stop(self._running([self.coordinator]), signal.SIGTERM, self.options.grace_period)

    def _next(self) -> Event | None:
        """Wait for the next event; return None when it is time to start or to end a process."""
        children = [*self.workers, *([self.coordinator] if self.coordinator else [])]
        moments = [child.due for child in children if child.due is not None]
        if self.finish_by is not None:
            moments.append(self.finish_by)
        return next_event(self.events, min(moments, default=None))

    def _start_what_is_due(self) -> None:
        """Start each process whose pause is over."""
        now = time.monotonic()
        for child in [*self.workers, *([self.coordinator] if self.coordinator else [])]:
            if child.due is None or child.due > now:
                continue
            if self.node_store is None or child is self.coordinator:
                self.start(child)
            else:
                self.start_workers()

    def _is_coordinator(self, process: Process) -> bool:
        return self.coordinator is not None and process is self.coordinator.process

    def _replace_coordinator(self, process: Process) -> None:
        """Schedule a restart of the coordinator. Raise Unreachable if it keeps ending at once."""
        assert self.coordinator is not None
        if process.exit_code == coordinator.STEPPED_DOWN:  # another one serves, or will
            self.coordinator.started_at = 0.0
        self.coordinator.schedule()
        if self.coordinator.quick_ends >= _COORDINATOR_TRIES:
            raise Unreachable(f"the coordinator does not stay up: {process.how_it_ended()}")
        _log.warning("%s lost (%s), starting it again", process.name, process.how_it_ended())

    def _worker_ended(self, process: Process) -> int | None:
        """Handle the end of a worker; return the exit code if training cannot go on, else None."""
        child = next((child for child in self.workers if child.process is process), None)
        if child is None:
            return None  # of a replica that was lost: all processes of the node were ended
        life, code = child.life, process.exit_code
        if code == exit_codes.DONE and self._ended_well(child, life):
            return None
        if self.finish_by is not None:
            how = process.how_it_ended()
            _log.warning("%s lost (%s) once training was over", process.name, how)
            return None
        if self.node_store is not None:
            return self._node_lost(process)
        child.count()
        diagnosed = failure_of(process, self.node)
        return self._start_again(child, child.restarts, diagnosed, process.how_it_ended())

    def _node_lost(self, process: Process) -> int | None:
        """Handle the end of a process of a node that is one replica: its others cannot go on.

        Return the exit code if training cannot go on, else None.
        """
        processes = [child.process for child in self.workers if child.process is not None]
        first = first_failure(processes) or process
        diagnosed = failure_among(processes, first, self.node)  # while the others still run
        self._end_node()
        how = f"{diagnosed.how}, {diagnosed.detail}" if diagnosed.detail else first.how_it_ended()
        restarts = max(child.restarts for child in self.workers)
        return self._start_again(self.workers[0], restarts, diagnosed, how)  # and all with it

    def _start_again(
        self, child: _Child, restarts: int, diagnosed: Failure, how: str
    ) -> int | None:
        """Schedule a restart; return the exit code if training cannot go on, else None."""
        if self._gives_up(diagnosed.own_exit_code, restarts):
            return failure.report(diagnosed, self.environ) or exit_codes.FAILED
        if diagnosed.own_exit_code == exit_codes.DONE:
            how, diagnosed = _EARLY, replace(diagnosed, how=_EARLY)
        failure.note(diagnosed, self.environ)
        child.schedule()
        all_of_it = ", and this node with it" if self.node_store is not None else ""
        limit = self.max_restarts
        _log.warning(
            "%s lost (%s)%s, restart %d of %d", diagnosed.who, how, all_of_it, restarts, limit
        )
        return None

    def _gives_up(self, code: int, restarts: int) -> bool:
        """Whether a worker is not started again here, as where another node helps."""
        if exit_codes.DONE < code < exit_codes.RETRY or restarts > self.max_restarts:
            return True
        return code == exit_codes.NODE_FAULT and not self.needed

    def _end_node(self) -> None:
        stop(self._running(self.workers), signal.SIGKILL, 0)
        for child in self.workers:
            child.count()
            child.process = None

    def _ended_well(self, child: _Child, life: Life) -> bool:
        """Whether a worker that ended with 0 has done its part; training is over when it led."""
        other_program = not self._is_elastic()  # whose 0 is all there is to know
        child.done = other_program or life.stage in (Stage.COMPLETE, Stage.OVER)
        if other_program or life.leads or life.stage is Stage.OVER:
            self._begin_end()
        return child.done

    def _begin_end(self) -> None:
        if self.finish_by is None:
            self.finish_by = time.monotonic() + _FINISH * self.options.grace_period
        for other in self.workers:
            other.due = None  # the lost ones are not needed any more

    def _is_elastic(self) -> bool:
        """Whether any of the workers has ever entered `elastic.training`."""
        stages = {child.life.stage for child in self.workers}
        self.elastic = self.elastic or stages != {Stage.NONE}
        return self.elastic

    def _ended(self) -> bool:
        """Whether all workers have done their part, or have had the time to follow."""
        running = self._running(self.workers)
        if self.finish_by is not None and not self.elastic and self._is_elastic():
            self._resume()
        if self.finish_by is None:
            return not running and all(child.done for child in self.workers)
        if not running:
            return True
        if time.monotonic() < self.finish_by:
            return False
        names = ", ".join(process.name for process in running)
        _log.warning("training is over, stopping what has not ended: %s", names)
        return True

    def _resume(self) -> None:
        """Go on: the program does use elastic training, and a worker only ended early."""
        self.finish_by = None
        if self.node_store is not None:
            self._end_node()
            self.workers[0].schedule()
            return
        for child in self.workers:
            if child.done or child.process not in self._running([child]):
                child.done = False
                child.count()
                child.schedule()

    def _after_the_end(self) -> int:
        """Keep the coordinator while workers of other nodes need it, which it decides itself.
        Return the exit code."""
        if self.coordinator is None or not self.elastic:
            return exit_codes.DONE
        by = (
            None if self.finish_by is None else time.monotonic() + _STAY * self.options.grace_period
        )
        for process in self._running([self.coordinator]):
            process.send(signal.SIGINT)  # it stays while other nodes need it
            while not process.done.is_set() and (by is None or time.monotonic() < by):
                match next_event(self.events, by):
                    case Signalled(number):
                        return self._stopped(number)
        return exit_codes.DONE

    def _stopped(self, number: int) -> int:
        running = self._running(self.workers)
        return node_processes.stopped(running, number, self.options.grace_period)

    @staticmethod
    def _running(children: list[_Child]) -> list[Process]:
        processes = [child.process for child in children if child.process is not None]
        return [process for process in processes if not process.done.is_set()]
