"""A node as one replica: its processes shard the model, and decide as one.

Local rank 0 is the member of the world. All processes of the node do what it decides, so that none
of them is at another step or holds another state. Shards are summed with those of the same local
rank: HSDP with replicas that come and go. torchft's Manager is divided likewise: one server for
each replica group, and a process group for each of its ranks
(https://github.com/meta-pytorch/torchft/blob/main/torchft/manager.py).

If a process is lost, or hangs while the others wait, its whole node is lost: the entrypoint
restarts all of its processes.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import torch
from torch._C._distributed_c10d import PrefixStore, ProcessGroupGloo, TCPStore
from torch.distributed.constants import default_pg_timeout
from torch.distributed.device_mesh import DeviceMesh

from trainwright_runtime.elastic.declared import Declared, differences
from trainwright_runtime.elastic.errors import (
    DeclaredOtherwise,
    NotLoaded,
    ProcessHangs,
    ProcessLost,
    StoppedWaiting,
    TrainingOver,
)
from trainwright_runtime.elastic.members import Members, Work
from trainwright_runtime.elastic.membership import Membership
from trainwright_runtime.elastic.peers import FAILURES, ProcessPeers
from trainwright_runtime.elastic.replica import Replica

log = logging.getLogger(__name__)

T = TypeVar("T")

_ENDINGS = {kind.__name__: kind for kind in (StoppedWaiting, TrainingOver)}
_NO_TIMEOUT = timedelta(days=3650)  # the entrypoint ends who waits for a process that is lost
_PAUSE = 0.05  # seconds before the store is read again
_REPORT = 30.0  # seconds between two lines about processes that are waited for


class Node:
    """The exchange by which the processes of this node agree on decisions.

    It has its own connections: the program may destroy its process groups before it ends.
    """

    def __init__(self, environ: Mapping[str, str], apart: timedelta) -> None:
        """`apart` is how much longer one process's program may take than another's."""
        self._apart = apart
        self.rank, self.processes = int(environ["LOCAL_RANK"]), int(environ["WORLD_SIZE"])
        host, port = environ["MASTER_ADDR"], int(environ["MASTER_PORT"])
        store = TCPStore(host, port, is_master=False, wait_for_workers=False)
        self._store = PrefixStore("trainwright", store)
        gloo: Any = ProcessGroupGloo  # torch's stubs leave out most of it
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname="127.0.0.1")]
        options._timeout = _NO_TIMEOUT
        self._note("entered")
        if missing := self._missing("entered", apart.total_seconds()):
            raise ProcessHangs(apart, _named(missing))
        with _lost():
            self._group = gloo(self._store, self.rank, self.processes, options)

    @property
    def leads(self) -> bool:
        """Whether this process is the member of the world."""
        return self.rank == 0

    def broadcast(self, value: Any = None) -> Any:
        """Return, in every process, the value that local rank 0 passes."""
        text = json.dumps(value).encode() if self.leads else b""
        size = torch.tensor([len(text)])
        # What local rank 0 decides may depend on other nodes.
        within = self._apart if self.leads else _NO_TIMEOUT
        _wait(self._group.broadcast(size, 0), within)
        received = torch.empty(int(size), dtype=torch.uint8)
        if self.leads:
            received = torch.frombuffer(bytearray(text), dtype=torch.uint8)
        _wait(self._group.broadcast(received, 0), within)
        return json.loads(received.numpy().tobytes())

    def sum(self, tensor: torch.Tensor, within: timedelta | None = None) -> None:
        """Sum over the processes of the node, in place. Raise ProcessHangs at the time limit."""
        on_cpu = tensor.cpu()
        _wait(self._group.allreduce(on_cpu), within or self._apart)
        tensor.copy_(on_cpu)

    def all(self, fine: bool, within: timedelta | None = None) -> bool:
        """Return whether all processes are `fine`, once each has called this.

        Raise ProcessHangs at the time limit.
        """
        refusals = torch.tensor([not fine], dtype=torch.int64)
        self.sum(refusals, within)
        return not int(refusals)

    def gather(self, own: str) -> list[str]:
        """Return the texts of all processes, in the order of their local ranks."""
        size = torch.tensor([0] * self.processes)
        encoded = own.encode()
        size[self.rank] = len(encoded)
        self.sum(size)
        texts = torch.zeros(self.processes, int(size.max()), dtype=torch.int64)
        texts[self.rank, : len(encoded)] = torch.tensor(list(encoded), dtype=torch.int64)
        self.sum(texts)
        rows = zip(texts.tolist(), size.tolist(), strict=True)
        return [bytes(row[:length]).decode() for row, length in rows]

    def require_same(self, declared: Declared) -> None:
        """Raise DeclaredOtherwise in processes whose declaration differs from local rank 0's."""
        if differing := [*differences(self.broadcast(dict(declared)), declared)]:
            raise DeclaredOtherwise("local rank 0", f"local rank {self.rank}", differing)

    def note_end(self) -> None:
        """Note that the program of this process has ended well."""
        self._note("ended")

    def wait_for_ends(self) -> None:
        """Wait until the programs of all processes have ended well; log which have not."""
        while missing := self._missing("ended", _REPORT):
            log.warning("waiting for the program's end in %s of this node", _named(missing))

    def _note(self, stage: str) -> None:
        with _lost():
            self._store.set(f"{stage}/{self.rank}", "")

    def _missing(self, stage: str, within: float) -> list[int]:
        """Return the processes that have not reached a stage within so many seconds."""
        missing = list(range(self.processes))
        deadline = time.monotonic() + within
        while True:
            with _lost():
                missing = [r for r in missing if not self._store.check([f"{stage}/{r}"])]
            if not missing or time.monotonic() > deadline:
                return missing
            time.sleep(_PAUSE)


def time_out_of(mesh: DeviceMesh) -> timedelta:
    """Return how long collectives wait in the process group that a model is sharded over."""
    backend: Any = mesh.get_group()._get_backend(torch.device(mesh.device_type))
    timeout: timedelta = getattr(getattr(backend, "options", None), "_timeout", default_pg_timeout)
    return timeout


def _named(ranks: Sequence[int]) -> str:
    return f"local rank{'s' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))}"


def _wait(work: Any, within: timedelta) -> None:
    """Wait for an operation. Raise ProcessHangs if it takes too long, ProcessLost if it failed."""
    with _lost():
        try:
            work.wait(within)
        except RuntimeError as error:
            if work.is_completed():
                raise
            raise ProcessHangs(within) from error


@contextmanager
def _lost() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:  # torch.distributed's errors are
        raise ProcessLost(str(error).partition("\n")[0]) from error


class NodePeers:
    """The `Peers` of all processes of the node: a failure in one of them is a failure in all.

    Local rank 0 decides what is to be done, and the others `follow`.
    """

    def __init__(self, node: Node, own: ProcessPeers, within: timedelta) -> None:
        """`within` is how much longer one process may take for an operation than another."""
        self._node, self._own, self._within = node, own, within

    def open(self, host: str) -> list[str]:
        self._together("open", host)
        return self._node.gather(self._own.address)

    def form(self, coordinator: Sequence[str], rank: int, world: int, token: int) -> None:
        try:
            self._together("form", list(coordinator), rank, world, token)
        except FAILURES:
            self.sever()  # some of the processes may be connected
            raise

    def send(self, step: int) -> None:
        self._together("send", step)

    def receive(self, addresses: Sequence[str], step: int) -> None:
        self._together("receive", list(addresses), step)

    def load(self) -> None:
        self._together("load")

    def meet(self, step: int, newcomers: Sequence[int]) -> None:
        self._together("meet", step, list(newcomers))

    def reduce(self, tensor: torch.Tensor) -> Work:
        return self._own.reduce(tensor)

    def report(self, error: Exception) -> None:
        self._own.report(error)

    def arrived(self) -> bool:
        """Whether sums arrived in all processes of the node, each of which has to call this."""
        arrived = self._node.all(self._own.arrived())
        if not arrived:
            self._own.sever()
        return arrived

    def sever(self) -> None:
        self._together("sever")

    def close(self) -> None:
        self._own.close()

    def abandon(self) -> None:
        """Like `arrived` in a step that does not count, without waiting for other processes."""
        self._own.report(RuntimeError("the training loop left this step"))
        self._own.arrived()

    def follow(self) -> Any:
        """Do what local rank 0 does until it has decided; return or raise what it decided."""
        while True:
            do, *arguments = self._node.broadcast()
            if do == "return":
                return arguments[0]
            if do == "raise":
                raise _ENDINGS[arguments[0]]
            with suppress(*FAILURES):  # local rank 0 knows of it too, and decides
                self._run(do, arguments)
                if do == "open":
                    self._node.gather(self._own.address)

    def _together(self, do: str, *arguments: Any) -> None:
        self._node.broadcast([do, *arguments])
        self._run(do, arguments)

    def _run(self, do: str, arguments: Sequence[Any]) -> None:
        """Do this process's part; raise an error if any process of the node has failed to."""
        failure: Exception | None = None
        try:
            getattr(self._own, do)(*arguments)
        except FAILURES as error:
            # Other processes may have loaded it: this one must end, so as not to train with it.
            if do == "load":
                raise NotLoaded(f"the state of the others does not fit: {error}") from error
            failure = error
        if not self._node.all(failure is None, self._within):
            raise failure or RuntimeError(f"another process of this node could not {do}")


class NodeMember(Membership):
    """The membership of a node, in each of its processes. Only local rank 0 has a `replica`."""

    fixed_world = False

    def __init__(self, node: Node, peers: NodePeers, replica: Replica | None) -> None:
        self._node, self._peers, self._replica = node, peers, replica
        self.processes, self.local_rank = node.processes, node.rank
        self._lineage = ""

    @property
    def lineage(self) -> str:
        return self._lineage

    def resume(self, lineage: str) -> None:
        if self._replica is not None:
            self._replica.resume(lineage)

    def join(self) -> Members:
        # Wait for late processes here: the others would give up a quorum that some processes of
        # this node keep waiting.
        self._node.all(True)
        quorum, replica, names, self._lineage = self._decided(_join)
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

    @property
    def settled(self) -> bool:
        return self._replica is None or self._replica.settled

    def settle(self) -> None:
        if self._replica is not None:
            self._replica.settle()

    def updated(self) -> None:
        # Local rank 0 stays in the step until the others have left it: it is watched there.
        self._node.all(True)
        if self._replica is not None:
            self._replica.updated()

    def abandon(self) -> None:
        self._peers.abandon()
        if self._replica is not None:
            self._replica.abandoned()

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
        """Report success once the programs of all processes of the node have ended well."""
        self._node.note_end()
        if self._replica is None:
            return None
        self._node.wait_for_ends()
        return self._replica.finish()

    def leave(self) -> None:
        """Leave without the node's other processes: this one alone may have to end."""
        if self._replica is not None:
            self._replica.leave()
        else:
            self._peers.close()

    def once(self, work: Callable[[], T]) -> T:
        answer: T = self._decided(lambda _: work())
        return answer

    def _decided(self, decide: Callable[[Replica], Any]) -> Any:
        """Return what local rank 0 decides, in every process. Raise StoppedWaiting or TrainingOver
        if that ends its wait."""
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
