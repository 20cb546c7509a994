"""Recovery `restart`: torch's elastic agent decides who trains when; the processes are ours.

After a failure all ranks of all nodes are restarted, with a new rendezvous, as scripts written for
torchrun expect. A node that is at fault leaves instead: its agent ends, and the others wait in
that rendezvous for what replaces it.

The agent is torch's own `SimpleElasticAgent`, made to be extended
(https://docs.pytorch.org/docs/stable/elastic/agent.html); starting, watching and stopping processes
is ours. torchrun's `LocalElasticAgent` sends a failed worker's peers SIGKILL 30 s after SIGTERM,
whatever was configured (torch 2.13: `_stop_workers` and `PContext.close` pass no time-out on;
https://github.com/pytorch/pytorch/issues/119856).
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from types import FrameType

from torch._C._distributed_c10d import HashStore, PrefixStore, TCPStore
from torch.distributed import DistError
from torch.distributed.elastic.agent.server.api import (
    RunResult,
    SimpleElasticAgent,
    WorkerGroup,
    WorkerSpec,
    WorkerState,
)
from torch.distributed.elastic.multiprocessing import SignalException
from torch.distributed.elastic.rendezvous import (
    RendezvousError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
)
from torch.distributed.elastic.rendezvous.c10d_rendezvous_backend import C10dRendezvousBackend
from torch.distributed.elastic.rendezvous.dynamic_rendezvous import create_handler
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous

from trainwright_runtime.coordination.addresses import is_loopback, joined, own_addresses
from trainwright_runtime.coordination.channel import RENDEZVOUS
from trainwright_runtime.coordination.identity import Identity
from trainwright_runtime.coordination.server import Server
from trainwright_runtime.coordination.store_client import StoreClient, bound_store
from trainwright_runtime.coordination.store_server import StoreServer
from trainwright_runtime.failures import causes, errors, exit_codes, failure
from trainwright_runtime.failures.failure import Failure
from trainwright_runtime.launch.diagnosis import diagnose
from trainwright_runtime.launch.launchers import Placement
from trainwright_runtime.launch.layout import Layout
from trainwright_runtime.launch.machine import free_port
from trainwright_runtime.launch.options import Options
from trainwright_runtime.launch.processes import (
    STOP_SIGNALS,
    Events,
    Process,
    handling,
    stop,
)
from trainwright_runtime.launch.rendezvous import wait_for
from trainwright_runtime.recovery import node_processes

_log = logging.getLogger(__name__)

# Its warnings report signals, in a format of their own; the entrypoint reports them already.
logging.getLogger("torch.distributed.elastic.agent.server.api").setLevel(logging.ERROR)

# torch waits 30 s for more nodes once the minimum is there; each round of an elastic job costs
# that. A node that comes later starts a round of its own.
_LAST_CALL = "5"  # seconds
_READ = timedelta(seconds=60)  # for an answer of where the nodes meet, as torch's
_PAUSE = 0.5  # seconds before the next look for it
_FAREWELL = 5.0  # seconds for the other nodes to read that training is over


def run(layout: Layout, options: Options, environ: Mapping[str, str]) -> int:
    """Train to the end, restarting up to --max-restarts times; return the exit code.

    Raise Unreachable if the nodes cannot meet.
    """
    # By default workers meet in one store of the rendezvous, and a restarted worker finds the
    # addresses of the attempt before: it hangs in init_process_group or in DDP's constructor.
    # https://github.com/pytorch/pytorch/issues/135712
    os.environ["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"
    try:
        rendezvous = _rendezvous(layout, options)
        return _train(layout, options, environ, rendezvous)
    # Raised by the stores through which nodes exchange values once all have met: torch's, ours.
    except (RendezvousError, DistError, ConnectionError, TimeoutError) as error:
        placement = layout.placement
        raise errors.Unreachable(
            f"the nodes could not meet at {placement.master_addr}:{placement.master_port}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _train(
    layout: Layout, options: Options, environ: Mapping[str, str], rendezvous: RendezvousHandler
) -> int:
    """Run torch's agent until training is over; return the exit code."""
    spec = WorkerSpec(
        role=node_processes.ROLE,
        local_world_size=layout.nproc,
        entrypoint="trainwright_runtime.launch.process",
        rdzv_handler=rendezvous,
        max_restarts=node_processes.max_restarts(layout, options),
    )
    agent = Agent(spec, layout, options, environ)
    closes = True  # unless the others go on, and this node, or what replaces it, comes back
    try:
        with _signals_raise(agent):
            # None when the rendezvous has let this node go: there were more than enough.
            result: RunResult | None = agent.run()
        closes = not agent.leaves
        return exit_codes.DONE if result is None or not result.is_failed() else agent.exit_code
    except SignalException as stopped:
        closes = False
        return agent.stopped_by(stopped.sigval)
    finally:
        if closes:
            rendezvous.shutdown()


class Agent(SimpleElasticAgent):
    """torch's agent on our `Process`: labelled output, the set grace period, one failure report."""

    def __init__(
        self, spec: WorkerSpec, layout: Layout, options: Options, environ: Mapping[str, str]
    ) -> None:
        super().__init__(spec)
        self.exit_code = exit_codes.DONE
        self.stopping = False  # a signal came from outside
        self.leaves = False  # this node is at fault, and another one can help
        self._layout = layout
        self._options = options
        self._environ = environ
        self._processes: list[Process] = []

    def stopped_by(self, number: int) -> int:
        """Return the exit code after a signal, once all processes have ended."""
        return node_processes.exit_code_after(self._processes, number, self._options.grace_period)

    def _start_workers(self, worker_group: WorkerGroup) -> dict[int, int]:
        """Start the processes of an attempt; return their process ids by local rank."""
        spec = worker_group.spec
        attempt = spec.max_restarts - self._remaining_restarts
        if attempt:
            _log.info("restart %d of %d", attempt, spec.max_restarts)
        shared = node_processes.attempt_variables(
            attempt,
            spec.max_restarts,
            address=str(worker_group.master_addr),
            port=worker_group.master_port,
            store_is_open=True,
        )
        self._processes = []
        for worker in worker_group.workers:
            ranks = node_processes.rank_variables(
                worker.global_rank,
                worker.world_size,
                node=worker_group.group_rank,
                nodes=worker_group.group_world_size,
            )
            common = node_processes.common_variables(
                self._layout, self._options, self._environ, worker.local_rank
            )
            process = Process(
                node_processes.argv(self._options),
                {**self._environ, **common, **shared, **ranks},
                label={"rank": worker.global_rank},
                log_format=self._options.log_format,
                events=Events(),
            )
            self._processes.append(process)
        return {local_rank: process.pid for local_rank, process in enumerate(self._processes)}

    def _stop_workers(self, worker_group: WorkerGroup) -> None:
        self._shutdown()

    def _shutdown(
        self, death_sig: signal.Signals = signal.SIGTERM, timeout: float | None = None
    ) -> None:
        """Stop all processes; `timeout` is torch's idea of a grace period, ours is configured."""
        grace = self._options.grace_period
        if self.stopping:
            _log.info("%s: passing it on, then waiting %g s", death_sig.name, grace)
        stop(self._processes, death_sig, grace)

    def _monitor_workers(self, worker_group: WorkerGroup) -> RunResult:
        """Return the state of the processes; report the first failure among them."""
        diagnosed = diagnose(self._processes, node_processes.node_of(self._layout.placement))
        if diagnosed is not None:
            self.exit_code = failure.report(diagnosed, self._environ)
            self.leaves = _is_node_fault(diagnosed)
            if self.leaves:
                self._remaining_restarts = 0
            return RunResult(state=WorkerState.FAILED)
        if all(process.done.is_set() for process in self._processes):
            ranks = [worker.global_rank for worker in worker_group.workers]
            return RunResult(state=WorkerState.SUCCEEDED, return_values=dict.fromkeys(ranks))
        return RunResult(state=WorkerState.HEALTHY)


def _is_node_fault(diagnosed: Failure) -> bool:
    """Whether to restart elsewhere. NCCL also fails where a rank of another node was lost."""
    ambiguous = diagnosed.cause is causes.BY_NAME["nccl-failed"]
    return diagnosed.exit_code == exit_codes.NODE_FAULT and not ambiguous


# --- rendezvous ----------------------------------------------------------------------------------


class StorePerAttempt(RendezvousHandler):
    """torch's rendezvous, with a store of each attempt's own, and the launcher's ranks if it has.

    The store is open before the processes start: where rank 0 opens it, a rank that was sooner
    waits for up to a second (torch's TCPStore tries again after that), and its port may be taken.

    c10d sorts nodes by host name. torchrun's static rendezvous keeps the launcher's order, but has
    no barrier between attempts, and its workers always share the agent's store: a node that is
    back early meets the store of the attempt before.
    """

    use_agent_store = True

    def __init__(
        self,
        rounds: RendezvousHandler,
        address: str,
        fixed_rank: int | None = None,
        *,
        stores: Sequence[StoreClient] = (),
        server: Server | None = None,
    ) -> None:
        """`server` is where the nodes meet, on the node that opens it; `stores` connect to it."""
        self._rounds, self._stores, self._meeting_point = rounds, stores, server
        self._address = address  # where the others find this node, if its rank is 0
        self._fixed_rank = fixed_rank
        self._server: TCPStore | None = None

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for all nodes, then for the store where rank 0 of this attempt keeps it."""
        info = self._rounds.next_rendezvous()
        rank = info.rank if self._fixed_rank is None else self._fixed_rank
        self._server = None  # of the attempt before
        port = None
        if rank == 0:
            self._server = bound_store(self._address)
            port = self._server.port
        store = PrefixStore("trainwright", info.store)
        bootstrap = RendezvousStoreInfo.build(rank, store, self._address, port)
        return RendezvousInfo(store, rank, info.world_size, bootstrap)

    def get_backend(self) -> str:
        return self._rounds.get_backend()

    def is_closed(self) -> bool:
        return self._rounds.is_closed()

    def set_closed(self) -> None:
        self._rounds.set_closed()  # type: ignore[no-untyped-call]

    def num_nodes_waiting(self) -> int:
        return self._rounds.num_nodes_waiting()

    def get_run_id(self) -> str:
        return self._rounds.get_run_id()

    def shutdown(self) -> bool:
        """Close. The node where all meet does so last: the others would take that for a failure."""
        closed = self._rounds.shutdown()
        for store in self._stores:
            store.close()
        if self._meeting_point is not None:
            self._meeting_point.wait_until_disconnected(_FAREWELL)
        return closed


class OneNode(StaticTCPRendezvous):
    """The rendezvous of a single node, which needs no store of its own.

    torch's c10d one would sleep for up to 0.3 s first.
    """

    def __init__(self) -> None:
        run_id = Identity.of(os.environ).name
        super().__init__("", 0, rank=0, world_size=1, run_id=run_id, timeout=0)

    def next_rendezvous(self) -> RendezvousInfo:
        return RendezvousInfo(HashStore(), 0, 1, RendezvousStoreInfo("", 0))


def _rendezvous(layout: Layout, options: Options) -> RendezvousHandler:
    """Return the rendezvous of the nodes, once this one is connected to it."""
    placement = layout.placement
    if layout.nodes.high == 1:
        return StorePerAttempt(OneNode(), placement.master_addr)
    port = placement.master_port or free_port()
    settings = {
        "join_timeout": f"{max(1, options.rendezvous_timeout):.0f}",
        "last_call_timeout": _LAST_CALL,
        **(placement.rendezvous or {}),
    }
    # Rank 0 is found by its pod's name, which its Service has too. torch would take the fully
    # qualified name: https://github.com/pytorch/pytorch/issues/150532
    address = placement.master_addr if is_loopback(placement.master_addr) else placement.node
    parameters = RendezvousParameters(
        backend="c10d",
        endpoint=joined(placement.master_addr, port),
        run_id=Identity.of(os.environ).name,
        min_nodes=layout.nodes.low,
        max_nodes=layout.nodes.high,
        local_addr=address,
        **settings,
    )
    server = _opened(placement, port)
    if server is None:
        wait_for([(placement.master_addr, port)], options.rendezvous_timeout)
    connect = partial(_connected, parameters.endpoint, options.rendezvous_timeout)
    # Two connections: waiting for a value must not delay signs of life.
    stores = (connect("rounds"), connect("values"))
    backend = C10dRendezvousBackend(stores[0], parameters.run_id)
    rounds = create_handler(stores[1], backend, parameters)
    if placement.node_rank is not None:
        address = placement.master_addr
    return StorePerAttempt(rounds, address, placement.node_rank, stores=stores, server=server)


def _opened(placement: Placement, port: int) -> Server | None:
    """Open the port where the nodes meet, if that is on this one; else return None.

    On a single machine the address is every node's own: the first one opens the port.
    """
    anywhere = placement.elastic and is_loopback(placement.master_addr)
    if not (placement.hosts or anywhere):
        return None
    try:
        return Server(own_addresses(placement.master_addr), port, RENDEZVOUS, StoreServer().serve)
    except OSError as error:
        if anywhere:
            return None
        raise errors.Unreachable(f"port {port} of this node: {error.strerror}") from error


def _connected(endpoint: str, timeout: float, group: str) -> StoreClient:
    """Connect to the store by which the nodes meet, again and again for `timeout` seconds: an
    earlier run's node may still be at the address."""
    deadline = time.monotonic() + timeout
    refusal: OSError | None = None  # in our words: it shows more than an address that is gone
    while True:
        try:
            return StoreClient(endpoint, group, _READ, label=RENDEZVOUS)
        except OSError as error:
            refusal = error if error.errno is None else refusal
            if time.monotonic() > deadline:
                why = refusal or error
                raise errors.Unreachable(f"the nodes could not meet: {why}") from why
            time.sleep(_PAUSE)


@contextmanager
def _signals_raise(agent: Agent) -> Iterator[None]:
    """Let the first signal end the agent's run as torch's agents expect; ignore further ones."""

    def handle(number: int, frame: FrameType | None) -> None:
        for each in STOP_SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        agent.stopping = True
        raise SignalException(f"got signal {number}", signal.Signals(number))

    with handling(handle):
        yield
