"""A node as one replica: its processes shard the model, and decide as one.

Local rank 0 is the member of the world; what it decides is what all processes of the node do, so
that none of them is at another step or holds another state. Shards meet those of the same local
rank: HSDP, whose replicas come and go. torchft's Manager divides it likewise: one server for each
replica group, and a process group for each of its ranks
(https://github.com/meta-pytorch/torchft/blob/main/torchft/manager.py).

A process that is lost takes its node along: the entrypoint starts all processes of it anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo, TCPStore

from trainwright_runtime.elastic.errors import (
    NotLoaded,
    ProcessLost,
    StoppedWaiting,
    TrainingOver,
)
from trainwright_runtime.elastic.members import Members, Work
from trainwright_runtime.elastic.peers import FAILURES, ProcessPeers
from trainwright_runtime.elastic.replica import Replica

T = TypeVar("T")

_ENDINGS = {kind.__name__: kind for kind in (StoppedWaiting, TrainingOver)}
_NO_TIMEOUT = timedelta(days=3650)  # the entrypoint ends who waits for a process that is lost


class Node:
    """How the processes of this node exchange what they decide by.

    Over connections of its own: the program may destroy its process groups before it ends.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.rank, self.processes = int(environ["LOCAL_RANK"]), int(environ["WORLD_SIZE"])
        host, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
        store = TCPStore(host, port, is_master=False, wait_for_workers=False)
        self._store = PrefixStore("trainwright", store)
        gloo: Any = ProcessGroupGloo  # torch's stubs leave out most of it
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname="127.0.0.1")]
        options._timeout = _NO_TIMEOUT
        with _lost():
            self._group = gloo(self._store, self.rank, self.processes, options)

    @property
    def leads(self) -> bool:
        """Whether this process is the member of the world."""
        return self.rank == 0

    def broadcast(self, value: Any = None) -> Any:
        """What local rank 0 calls it with, in every process."""
        text = json.dumps(value).encode() if self.leads else b""
        size = torch.tensor([len(text)])
        with _lost():
            self._group.broadcast(size, 0).wait()
            received = torch.empty(int(size), dtype=torch.uint8)
            if self.leads:
                received = torch.frombuffer(bytearray(text), dtype=torch.uint8)
            self._group.broadcast(received, 0).wait()
        return json.loads(received.numpy().tobytes())

    def sum(self, tensor: torch.Tensor) -> None:
        """Over the processes of the node, in place."""
        on_cpu = tensor.cpu()
        with _lost():
            self._group.allreduce(on_cpu).wait()
        tensor.copy_(on_cpu)

    def all(self, fine: bool) -> bool:
        """Whether it is so in every process, once all have called it."""
        refusals = torch.tensor([not fine], dtype=torch.int64)
        self.sum(refusals)
        return not int(refusals)

    def gather(self, own: str) -> list[str]:
        """That of each process, in the order of their local ranks."""
        size = torch.tensor([0] * self.processes)
        encoded = own.encode()
        size[self.rank] = len(encoded)
        self.sum(size)
        texts = torch.zeros(self.processes, int(size.max()), dtype=torch.int64)
        texts[self.rank, : len(encoded)] = torch.tensor(list(encoded), dtype=torch.int64)
        self.sum(texts)
        rows = zip(texts.tolist(), size.tolist(), strict=True)
        return [bytes(row[:length]).decode() for row, length in rows]

    def note_end(self) -> None:
        """The program of this process has ended well."""
        self._store.set(f"ended/{self.rank}", "")

    def wait_for_ends(self) -> None:
        """Until the programs of all other processes have ended well."""
        others = [f"ended/{rank}" for rank in range(self.processes) if rank != self.rank]
        with _lost():
            self._store.wait(others, _NO_TIMEOUT)


@contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # torch.distributed's errors are
        raise ProcessLost(str(error).partition("\n")[0]) from error


class NodePeers:
    """Those of all processes of the node: what fails in one of them has failed in all.

    Local rank 0 decides what is to be done, and the others `follow`.
    """

    def __init__(self, node: Node, own: ProcessPeers) -> None:
        self._node, self._own = node, own

    def open(self, host: str) -> list[str]:
        self._together("open", host)
        return self._node.gather(self._own.address)

    def form(self, store: str, name: str, rank: int, world: int, token: int) -> None:
        try:
            self._together("form", store, name, rank, world, token)
        except FAILURES:
            self.sever()  # some of the processes may be connected
            raise

    def send(self, step: int) -> None:
        self._together("send", step)

    def receive(self, addresses: Sequence[str], step: int) -> None:
        self._together("receive", list(addresses), step)

    def load(self) -> None:
        self._together("load")

    def reduce(self, tensor: torch.Tensor) -> Work:
        return self._own.reduce(tensor)

    def report(self, error: Exception) -> None:
        self._own.report(error)

    def arrived(self) -> bool:
        """Called by every process of the node: one decision for all of them."""
        arrived = self._node.all(self._own.arrived())
        if not arrived:
            self._own.sever()
        return arrived

    def sever(self) -> None:
        self._together("sever")

    def close(self) -> None:
        self._own.close()

    def abandon(self) -> None:
        """As `arrived` in a step that does not count, without waiting for the other processes."""
        self._own.report(RuntimeError("the training loop left this step"))
        self._own.arrived()

    def follow(self) -> Any:
        """Do as local rank 0 does, until it has decided. Raises what ends its wait."""
        while True:
            do, *arguments = self._node.broadcast()
            if do == "return":
                return arguments[0]
            if do == "raise":
                raise _ENDINGS[arguments[0]]
            with suppress(*FAILURES):  # local rank 0 knows, and decides what follows from it
                self._run(do, arguments)
                if do == "open":
                    self._node.gather(self._own.address)

    def _together(self, do: str, *arguments: Any) -> None:
        self._node.broadcast([do, *arguments])
        self._run(do, arguments)

    def _run(self, do: str, arguments: Sequence[Any]) -> None:
        failure: Exception | None = None
        try:
            getattr(self._own, do)(*arguments)
        except FAILURES as error:
            # In other processes it may be loaded: only what has ended cannot train with it.
            if do == "load":
                raise NotLoaded(f"the state of the others does not fit: {error}") from error
            failure = error
        if not self._node.all(failure is None):
            raise failure or RuntimeError(f"another process of this node could not {do}")


class NodeMember:
    """The membership of a node, in each of its processes. `replica` is there in local rank 0."""

    fixed_world = False

    def __init__(self, node: Node, peers: NodePeers, replica: Replica | None) -> None:
        self._node, self._peers, self._replica = node, peers, replica
        self.processes, self.local_rank = node.processes, node.rank
        self.lineage = ""

    def resume(self, lineage: str) -> None:
        if self._replica is not None:
            self._replica.resume(lineage)

    def join(self) -> Members:
        # Who is late for a step is waited for; a quorum that some of its processes keep waiting for
        # would be given up by the others.
        self._node.all(True)
        quorum, replica, names, self.lineage = self._decided(_join)
        return Members(
            quorum=quorum,
            rank=replica * self.processes + self._node.rank,
            names=tuple(f"{name}/{rank}" for name in names for rank in range(self.processes)),
            processes=self.processes,
        )

    def reduce(self, tensor: torch.Tensor) -> Work:
        return self._peers.reduce(tensor)

    def sum(self, tensor: torch.Tensor) -> None:
        self._node.sum(tensor)
        self._peers.reduce(tensor).wait()

    def commit(self) -> bool:
        return self._peers.arrived() if self._replica is None else self._replica.commit()

    def abandon(self) -> None:
        self._peers.abandon()
        if self._replica is not None:
            self._replica.abandoned()

    def local_step(self) -> None: ...

    def awaits(self, workers: Collection[str]) -> bool:
        return False

    def postpone(self) -> None: ...

    def complete(self) -> bool | None:
        answer: bool | None = self._decided(Replica.complete)
        return answer

    @property
    def leads(self) -> bool:
        return self._replica is not None and self._replica.leads

    def lead(self) -> None:
        if self._replica is not None:
            self._replica.lead()

    def confirm(self, *, last: bool) -> bool:
        return bool(self._decided(partial(Replica.confirm, last=last)))

    def finish(self) -> bool | None:
        """The end of a program is that of all processes of the node."""
        if self._replica is None:
            self._node.note_end()
            return None
        self._node.wait_for_ends()
        return self._replica.finish()

    def leave(self) -> None:
        """By itself: it may be that this process alone is to end."""
        if self._replica is not None:
            self._replica.leave()
        else:
            self._peers.close()

    def close(self) -> None:
        if self._replica is not None:
            self._replica.close()

    def once(self, work: Callable[[], T]) -> T:
        answer: T = self._decided(lambda _: work())
        return answer

    def _decided(self, decide: Callable[[Replica], Any]) -> Any:
        """What local rank 0 decides, in every process. Raises what ends its wait."""
        if self._replica is None:
            return self._peers.follow()
        try:
            answer = decide(self._replica)
        except (StoppedWaiting, TrainingOver) as ended:
            self._node.broadcast(["raise", type(ended).__name__])
            raise
        self._node.broadcast(["return", answer])
        return answer


def _join(replica: Replica) -> list[Any]:
    members = replica.join()
    return [members.quorum, members.rank, list(members.names), replica.lineage]
