"""One worker's membership in an elastic training, by torchft: who takes part in this step.

torchft has the quorum, the recovery in place and the transfer of state to newcomers. What is added
here is what it leaves open: a coordinator that dies and comes back is survived, addresses are IPs
(a pod's host name need not resolve for its peers), and the members of a quorum know each other's
names.
"""

from __future__ import annotations

import ipaddress
import logging
import socket
import time
import uuid
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore
from torchft import Manager, ProcessGroupGloo, ProcessGroupNCCL
from torchft.checkpointing.http_transport import HTTPTransport
from torchft.process_group import ProcessGroup, create_store_client

from trainwright_runtime.elastic import sockets
from trainwright_runtime.elastic.membership import Members, State, StoppedWaiting, Work
from trainwright_runtime.elastic.sockets import Socket
from trainwright_runtime.errors import Unreachable
from trainwright_runtime.timeouts import Timeouts

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the coordinator is, who this worker is, and how patient it is."""

    coordinator: str
    """host:port"""
    name: str
    min_replicas: int
    backend: str
    timeouts: Timeouts


class Replica:
    """Joins quorums and reduces over them; see `membership` for the functions."""

    together = False

    def __init__(
        self,
        address: Address,
        *,
        dump: Callable[[], State],
        load: Callable[[State], None],
        stopping: Callable[[], bool],
    ) -> None:
        self._address = address
        # A worker that was replaced while it was paused must not be taken for its successor.
        self._name = f"{address.name}-{uuid.uuid4().hex[:8]}"
        self._dump, self._load, self._stopping = dump, load, stopping
        # Committed in the company of others. A process that is new, or that comes from a
        # checkpoint, begins at none: whoever is under way is ahead of it and gives it their state,
        # since a checkpoint may hold a step that nobody else committed.
        self._steps = 0
        self._manager: Manager | None = None
        self._group: Any = None
        _quieten()

    def join(self) -> Members:
        """Raises Unreachable when there is no coordinator for longer than the address says."""
        patience = self._address.timeouts.coordinator
        deadline = time.monotonic() + patience
        told = False
        while True:
            try:
                manager = self._manager or self._connect()
                manager.start_quorum()
            except (TimeoutError, RuntimeError, dist.DistError) as error:
                self.leave()
                if self._stopping():
                    raise StoppedWaiting from None
                if time.monotonic() > deadline:
                    raise Unreachable(
                        f"no quorum at coordinator {self._address.coordinator} within "
                        f"{patience:g} s: {_first_line(error)}"
                    ) from None
                if not told:
                    log.warning("no quorum yet, asking on: %s", _first_line(error))
                    told = True
                time.sleep(0.2)
                continue
            if manager.errored() is None and self._group.members is not None:
                members: Members = self._group.members
                return members
            # The group could not be formed or the state not fetched, for a peer died meanwhile.
            self.commit()

    def reduce(self, tensor: torch.Tensor) -> Work:
        assert self._manager is not None
        return _Reduction(self._manager, self._group, tensor)

    def abandon(self) -> None:
        assert self._manager is not None
        self._manager.report_error(RuntimeError("the training loop left this step"))
        self.commit()

    def commit(self) -> bool:
        assert self._manager is not None
        try:
            committed: bool = self._manager.should_commit()
        except (TimeoutError, RuntimeError) as error:
            log.warning("step not committed: %s", _first_line(error))
            committed = False
        if not committed:
            self._group.sever()
        return committed

    def leave(self) -> None:
        if self._manager is not None:
            self._steps = self._manager.current_step()
            self._manager.shutdown(wait=False)
        self._manager = None

    def _connect(self) -> Manager:
        address = self._address
        host = _own_address(address.coordinator)
        store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        collective = timedelta(seconds=address.timeouts.collective)
        quorum = timedelta(seconds=address.timeouts.quorum)
        self._group = _GROUPS[address.backend](self._name, collective)
        manager = Manager(
            pg=self._group,
            load_state_dict=self._load,
            state_dict=self._dump,
            min_replica_size=address.min_replicas,
            # The slice of a step depends on who takes part: the quorum comes first. It costs about
            # two milliseconds while nobody comes or goes.
            use_async_quorum=False,
            timeout=collective,
            quorum_timeout=quorum,
            connect_timeout=quorum,
            heartbeat_interval=timedelta(seconds=address.timeouts.heartbeat / 3),
            rank=0,
            world_size=1,
            store_addr=host,
            store_port=store.port,
            lighthouse_addr=f"http://{address.coordinator}",
            replica_id=self._name,
            hostname=f"[{host}]" if ":" in host else host,
            checkpoint_transport=_Transport(host, collective),
        )
        manager.load_state_dict({"step": self._steps, "batches_committed": 0})
        newcomer = timedelta(seconds=address.timeouts.newcomer)
        manager._client = _Client(manager._client, newcomer)
        self._store, self._manager = store, manager  # the store ends with its last reference
        return manager


class _Reduction:
    """A sum under way; what fails is told to the manager, so that the step is not committed.

    torchft's `Manager.allreduce` does the same and more: it sets a timer in another thread for each
    tensor, though the groups have time-outs of their own, and scales the result.
    """

    def __init__(self, manager: Manager, group: ProcessGroup, tensor: torch.Tensor) -> None:
        self._manager = manager
        self._work: Any = None
        if manager.errored() is None:
            options = dist.AllreduceOptions()
            options.reduceOp = dist.ReduceOp(dist.ReduceOp.SUM)
            try:
                self._work = group.allreduce([tensor], options)
            except (TimeoutError, RuntimeError) as error:
                manager.report_error(error)

    def wait(self) -> None:
        try:
            if self._work is not None:
                self._work.wait()
        except (TimeoutError, RuntimeError) as error:
            self._manager.report_error(error)


class _Client:
    """torchft's client of a replica's own server, where the replica is one process."""

    def __init__(self, client: Any, newcomer: timedelta) -> None:
        self._client = client
        self._newcomer = newcomer
        self._member = False

    def _quorum(self, *, timeout: timedelta, **question: Any) -> Any:
        """Ask who takes the next step, as a newcomer again and again: see `Timeouts.join`."""
        while not self._member and timeout > self._newcomer:
            try:
                return self._ask(self._newcomer, question)
            except TimeoutError:
                timeout -= self._newcomer
        return self._ask(timeout, question)

    def _ask(self, timeout: timedelta, question: dict[str, Any]) -> Any:
        answer = self._client._quorum(timeout=timeout, **question)
        self._member = True
        return answer

    def should_commit(self, rank: int, step: int, vote: bool, timeout: timedelta) -> bool:
        """A step counts when all processes of the replica say so.

        torchft asks its server for that: 0.6 ms a step to hear one's own answer.
        """
        return vote

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


class _Named(ProcessGroup):
    """Lets the members of a group tell each other their names when it is formed."""

    def __init__(self, name: str, timeout: timedelta) -> None:
        super().__init__(timeout)
        self._name, self._patience = name, timeout
        self._sockets: frozenset[Socket] = frozenset()
        self.members: Members | None = None

    def configure(
        self, store_addr: str, replica_id: str, rank: int, world_size: int, *rest: Any
    ) -> None:
        self.members = None
        before = sockets.connected()
        super().configure(store_addr, replica_id, rank, world_size, *rest)
        self._sockets = sockets.connected() - before
        store = create_store_client(store_addr, timeout=self._patience)
        store.set(f"name/{rank}", self._name)
        names = tuple(store.get(f"name/{other}").decode() for other in range(world_size))
        self.members = Members(quorum=rest[0], rank=rank, names=names)

    def sever(self) -> None:
        """Let nobody wait for this worker in a step that it gave up.

        gloo tells only the neighbours of a dead process. Who waits for a neighbour that has left
        the step would wait for the whole time-out, since neither `abort` nor dropping the group
        ends a pending operation: closed connections do.
        """
        sockets.shut(self._sockets)
        self._sockets = frozenset()


class _Gloo(_Named, ProcessGroupGloo):
    pass


class _Nccl(_Named, ProcessGroupNCCL):
    pass


_GROUPS = {"gloo": _Gloo, "nccl": _Nccl}


class _Transport(HTTPTransport[State]):
    """Serves state to newcomers under an address that they can reach: torchft gives a host name."""

    def __init__(self, host: str, timeout: timedelta) -> None:
        self._host = f"[{host}]" if ":" in host else host
        super().__init__(timeout, num_chunks=0)
        # http.server writes a line to stderr for each request.
        self._server.RequestHandlerClass.log_message = _unlogged

    def address(self) -> str:
        return f"http://{self._host}:{self._server.socket.getsockname()[1]}/checkpoint/"


def _unlogged(handler: Any, message: str, *values: Any) -> None: ...


def _own_address(peer: str) -> str:
    """The IP address of this machine that others who see `peer` ("host:port") can reach.

    Beside the coordinator that is not loopback but what the host's name stands for, which is the
    pod's IP in a pod. Nothing is sent.
    """
    host, _, port = peer.rpartition(":")
    family, kind, protocol, _, target = socket.getaddrinfo(
        host.strip("[]"), int(port), type=socket.SOCK_DGRAM
    )[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(target)
        address = str(probe.getsockname()[0])
    if not ipaddress.ip_address(address).is_loopback:
        return address
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return address


def _quieten() -> None:
    """torchft logs several lines a step; what matters of them is logged here."""
    # The state of others is copied out of the received bytes right after this warning.
    warnings.filterwarnings("ignore", message="The given buffer is not writable")
    for name in ("torchft", "torchft_quorums", "torchft_commits", "torchft_errors"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
