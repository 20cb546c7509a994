"""What a process shares with the same local rank of other replicas: sums, and state for newcomers.

torchft has the process groups and the server that newcomers get their state from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torchft import ProcessGroupGloo, ProcessGroupNCCL
from torchft.process_group import ProcessGroup, create_store_client

from trainwright_runtime.elastic import sockets
from trainwright_runtime.elastic.members import State, Work
from trainwright_runtime.elastic.sockets import Socket
from trainwright_runtime.elastic.transport import Transport

FAILURES = (TimeoutError, RuntimeError, OSError, dist.DistError)


class Peers(Protocol):
    """The other replicas, for one process or for all of a node together.

    Whatever raises one of `FAILURES` may be tried again with another quorum.
    """

    def open(self, host: str) -> list[str]:
        """Where newcomers find the state, for each local rank."""

    def form(self, store: str, name: str, rank: int, world: int, token: int) -> None:
        """Connect with the members of a quorum."""

    def send(self, step: int) -> None:
        """Let newcomers fetch the state, until the step is committed or given up."""

    def receive(self, addresses: Sequence[str], step: int) -> None:
        """Fetch the state; nothing is changed by it yet."""

    def load(self) -> None:
        """Take over what was received."""

    def reduce(self, tensor: torch.Tensor) -> Work:
        """Start summing over the replicas, in place. A failure shows in `arrived`."""

    def report(self, error: Exception) -> None:
        """Let the step under way not count."""

    def arrived(self) -> bool:
        """Whether everything reduced in this step did; where not, no other waits for this one."""

    def sever(self) -> None:
        """Let no other wait for this replica in a step that it gave up."""

    def close(self) -> None:
        """End what this process alone has opened."""


class ProcessPeers:
    """Those of one process."""

    def __init__(
        self,
        backend: str,
        patience: timedelta,
        *,
        dump: Callable[[], State],
        load: Callable[[State], None],
        local_rank: int = 0,
        mesh: DeviceMesh | None = None,
    ) -> None:
        """`mesh` is what the model is sharded over, `local_rank` the place in it."""
        self._backend, self._patience = backend, patience
        self._dump, self._load = dump, load
        self._local_rank, self._mesh = local_rank, mesh
        self._group: _Named | None = None
        self._transport: Transport | None = None
        self._received: State | None = None
        self._error: Exception | None = None

    @property
    def address(self) -> str:
        """Where newcomers find this process's part of the state, once it is open."""
        return "" if self._transport is None else self._transport.metadata()

    def open(self, host: str) -> list[str]:
        if self._transport is None:
            self._transport = Transport(host, self._patience, mesh=self._mesh)
            self._group = _GROUPS[self._backend](self._patience)
        return [self.address]

    def form(self, store: str, name: str, rank: int, world: int, token: int) -> None:
        assert self._group is not None
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        # As torchft's Manager does: the processes of a node meet those of the same local rank.
        address = f"{store}/trainwright/{token}/{self._local_rank}"
        self._group.configure(address, name, rank, world, token, 0, 1, list(range(world)))
        self._error = None

    def send(self, step: int) -> None:
        assert self._transport is not None
        self._transport.send_checkpoint([], step, self._dump(), self._patience)

    def receive(self, addresses: Sequence[str], step: int) -> None:
        assert self._transport is not None
        address = addresses[self._local_rank]
        self._received = self._transport.recv_checkpoint(0, address, step, self._patience)

    def load(self) -> None:
        received, self._received = self._received, None
        assert received is not None
        self._load(received)

    def reduce(self, tensor: torch.Tensor) -> Work:
        return _Reduction(self, tensor, None if self._error else self._group)

    def report(self, error: Exception) -> None:
        self._error = self._error or error
        self.sever()

    def arrived(self) -> bool:
        assert self._group is not None
        assert self._transport is not None
        try:
            error = self._error or self._group.errored()
        except FAILURES as raised:
            error = raised
        self._transport.disallow_checkpoint()
        if error is None:
            return True
        if not isinstance(error, (TimeoutError, RuntimeError)):
            raise error
        self.sever()
        return False

    def sever(self) -> None:
        if self._group is not None:
            self._group.sever()

    def close(self) -> None:
        self.sever()
        if self._transport is not None:
            self._transport.shutdown(wait=False)
            self._transport = None


class _Reduction:
    """A sum under way; what fails is reported, so that the step is not committed."""

    def __init__(self, peers: Peers, tensor: torch.Tensor, group: ProcessGroup | None) -> None:
        self._peers = peers
        self._work: Any = None
        if group is not None:
            options = dist.AllreduceOptions()
            options.reduceOp = dist.ReduceOp(dist.ReduceOp.SUM)
            try:
                self._work = group.allreduce([tensor], options)
            except (TimeoutError, RuntimeError) as error:
                peers.report(error)

    def wait(self) -> None:
        try:
            if self._work is not None:
                self._work.wait()
        except (TimeoutError, RuntimeError) as error:
            self._peers.report(error)


class _Named(ProcessGroup):
    """A group that knows its own connections, and can end them."""

    def __init__(self, timeout: timedelta) -> None:
        super().__init__(timeout)
        self._patience = timeout
        self._sockets: frozenset[Socket] = frozenset()

    def configure(
        self, store_addr: str, replica_id: str, rank: int, world_size: int, *rest: Any
    ) -> None:
        before = sockets.connected()
        super().configure(store_addr, replica_id, rank, world_size, *rest)
        opened = sockets.connected() - before
        store = create_store_client(store_addr, timeout=self._patience)
        store.set(f"sockets/{rank}", json.dumps([item.ends for item in opened]))
        others = [json.loads(store.get(f"sockets/{other}")) for other in range(world_size)]
        self._sockets = sockets.between(opened, [pair for pairs in others for pair in pairs])

    def sever(self) -> None:
        """Let no other wait for this worker in a step that it gave up.

        gloo fails only in the neighbours of a dead process. Who waits for a neighbour that has left
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
