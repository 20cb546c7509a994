"""A training process's membership in a group, for each of the three ways to start it.

`FixedWorld` lets an elastic script run without a coordinator: as one process on a laptop, or in a
world of fixed size under any launcher, which ends at a failure and resumes from a checkpoint.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.elastic.declared import Declared, differences
from trainwright_runtime.elastic.errors import DeclaredOtherwise
from trainwright_runtime.elastic.members import Callbacks, Members, State, Work

T = TypeVar("T")

PROCESSES = "TRAINWRIGHT_REPLICA_PROCESSES"


class Membership:
    """A process's membership. What only a changing group needs does nothing unless overridden."""

    fixed_world = True
    """Whether the same workers train from the first step to the last."""
    processes = 1
    """How many processes a replica has, which hold its state together."""
    local_rank = 0
    """The rank of this process in its replica; rank 0 speaks for the replica."""

    @property
    def lineage(self) -> str:
        """The line of committed steps that this worker's state comes from."""
        return ""

    def resume(self, lineage: str) -> None:
        """Note that the state comes from a checkpoint of this lineage."""

    def join(self) -> Members:
        """Wait for an agreement on who takes the next step.

        If the others are ahead, their state is loaded before this returns. Raise StoppedWaiting
        if the worker is to stop meanwhile, TrainingOver if there is nothing left to do.
        """
        raise NotImplementedError

    def reduce(self, tensor: torch.Tensor) -> Work:
        """Start summing over the replicas, in place. A failure is reported by `commit`."""
        raise NotImplementedError

    def sum(self, tensor: torch.Tensor) -> None:
        """Sum over all members, in place, including the other processes of this replica."""
        self.reduce(tensor).wait()

    def once(self, work: Callable[[], T]) -> T:
        """Call `work` in one process of this replica, and return its result in all of them."""
        return work()

    def local_step(self) -> None:
        """Note that this worker begins a local step, before it joins again."""

    def commit(self) -> bool:
        """Whether everything reduced in this step arrived here, so that it counts."""
        return True

    @property
    def settled(self) -> bool:
        """Whether the members of this step take the next one too, as far as this worker knows."""
        return True

    def settle(self) -> None:
        """Note that all of a committed step's members are `settled`: `join` requests nothing."""

    def pass_on(self, update: Callable[[], State]) -> None:
        """Let newcomers learn from a step that was committed, before its update is made."""

    def updated(self) -> None:
        """Note that the committed step's update is done; the program's own code follows."""

    def awaits(self, workers: Collection[str]) -> bool:
        """Whether one of these workers is alive and still in its local steps, as far as known."""
        return False

    def postpone(self) -> None:
        """Let the step that was joined commit nothing; it is to be joined again.

        Raise StoppedWaiting if the worker is to stop and has waited for long.
        """

    def abandon(self) -> None:
        """Let the step that was joined not count."""

    def complete(self) -> bool | None:
        """Report that every epoch is committed; return whether this worker runs the end as rank 0.

        Return None if it turns out that the steps of this worker do not count.
        """
        raise NotImplementedError

    @property
    def leads(self) -> bool:
        """Whether this worker runs the program's end as rank 0."""
        raise NotImplementedError

    def lead(self) -> None:
        """Report that all the program's end needs is saved: no other worker has to stay for it."""

    def confirm(self, *, last: bool) -> bool:
        """Whether the steps of this worker count, as far as can be known.

        If no coordinator answers, they may not count, and another worker is to save. For the `last`
        checkpoint they count after some patience: there may be no other worker left.
        """
        return True

    def finish(self) -> bool | None:
        """Report that the leader's program has succeeded; return whether training is over.

        False if another worker leads by now, None if training went on without this one.
        """
        return True

    def leave(self) -> None:
        """End the membership."""
        raise NotImplementedError


class FixedWorld(Membership):
    """The membership in a group in which no worker comes or goes; it may be of one process."""

    def __init__(self, members: Members) -> None:
        self._members = members

    def join(self) -> Members:
        return self._members

    def reduce(self, tensor: torch.Tensor) -> Work:
        if self._members.world == 1:
            return _Done()
        work: Work = dist.all_reduce(tensor, async_op=True)
        return work

    def complete(self) -> bool | None:
        return self.leads

    @property
    def leads(self) -> bool:
        return self._members.rank == 0

    def leave(self) -> None:
        if self._members.world > 1:
            dist.destroy_process_group()


def _process_group(backend: str, declared: Declared) -> Members:
    """Initialise the default process group, and return its members."""
    if not dist.is_initialized():
        dist.init_process_group(backend)
    _require_same(declared)
    names = tuple(f"rank-{rank}" for rank in range(dist.get_world_size()))
    return Members(quorum=0, rank=dist.get_rank(), names=names)


def _require_same(declared: Declared) -> None:
    """Raise DeclaredOtherwise in ranks whose declaration differs from that of rank 0."""
    on_cpu = dist.new_group(backend="gloo")
    first: list[Any] = [dict(declared)]
    dist.broadcast_object_list(first, src=0, group=on_cpu)
    dist.destroy_process_group(on_cpu)
    if differing := [*differences(first[0], declared)]:
        raise DeclaredOtherwise("rank 0", f"rank {dist.get_rank()}", differing)


class _Done:
    def wait(self) -> None: ...


def membership(
    environ: Mapping[str, str],
    callbacks: Callbacks,
    *,
    declared: Declared,
    mesh: DeviceMesh | None = None,
) -> Membership:
    """Return the membership that the environment configures: by coordinator, fixed, or alone.

    What is `declared` has to be the same in all workers. `mesh` is what the model is sharded over,
    of the processes of this node.
    """
    backend = environ.get("TRAINWRIGHT_BACKEND") or (
        "nccl" if torch.cuda.is_available() else "gloo"
    )
    if "TRAINWRIGHT_COORDINATOR" in environ:
        os.environ.setdefault("RUST_LOG", "error")  # torchft reads it at import
        from trainwright_runtime.elastic.node import Node, NodeMember, NodePeers, time_out_of
        from trainwright_runtime.elastic.peers import ProcessPeers
        from trainwright_runtime.elastic.replica import Address, Replica

        address = Address(
            coordinator=environ["TRAINWRIGHT_COORDINATOR"],
            name=worker_name(environ),
            min_replicas=int(environ.get("TRAINWRIGHT_MIN_REPLICAS", "1")),
            backend=backend,
            timeouts=Timeouts.of(environ),
            declared={**declared, "processes of a replica": str(mesh.size() if mesh else 1)},
        )
        if mesh is None:
            return Replica(address, callbacks)
        node = Node(environ, time_out_of(mesh))
        node.require_same(declared)
        own = ProcessPeers(backend, address.patience, callbacks, local_rank=node.rank, mesh=mesh)
        peers = NodePeers(node, own, timedelta(seconds=address.timeouts.operation))
        replica = Replica(address, callbacks, peers) if node.leads else None
        return NodeMember(node, peers, replica)
    if int(environ.get("WORLD_SIZE", "1")) > 1:
        return FixedWorld(_process_group(backend, declared))
    return FixedWorld(Members(quorum=0, rank=0, names=(worker_name(environ),)))


def processes_of_replica(environ: Mapping[str, str]) -> int | None:
    """Return how many processes a replica has if it is a node, or None if it is a process."""
    return int(environ[PROCESSES]) if PROCESSES in environ else None


def worker_name(environ: Mapping[str, str]) -> str:
    """Return this worker's name in logs: the one that the entrypoint set, or the host's."""
    return environ.get("TRAINWRIGHT_REPLICA") or socket.gethostname()
