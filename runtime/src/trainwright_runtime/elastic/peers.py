"""Exchange with the same local rank of other replicas: sums, and the state for newcomers.

The process groups are torchft's. If a step has newcomers, all members meet before it begins, once
the newcomers hold the state. So nothing changes the state while it is read, and that may take any
time, as long as it makes progress.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.device_mesh import DeviceMesh
from torchft.process_group import ProcessGroup

from trainwright_runtime.coordination.channel import Channel
from trainwright_runtime.coordination.store_client import StoreClient
from trainwright_runtime.elastic.errors import NotLoaded
from trainwright_runtime.elastic.following import UPDATE, Followers, Following, is_update
from trainwright_runtime.elastic.groups import GROUPS, Group
from trainwright_runtime.elastic.members import Callbacks, State, Work
from trainwright_runtime.elastic.transport import Received, Transport, pack

log = logging.getLogger(__name__)

FAILURES = (TimeoutError, RuntimeError, OSError, dist.DistError)

# Of the store in which the members of a quorum meet.
_GIVEN_UP, _PROGRESS = "given up", "progress"
_PAUSE = 0.02  # seconds before the next look at whether the newcomers of a step hold the state


class Peers(Protocol):
    """Exchange with the other replicas, for one process or for all processes of a node together.

    A call that raises one of `FAILURES` may be tried again with another quorum.
    """

    def open(self, host: str) -> list[str]:
        """Return the addresses at which newcomers find the state, one per local rank."""

    def form(self, coordinator: Sequence[str], rank: int, world: int, token: int) -> None:
        """Connect with the members of a quorum, whose `coordinator` is an address and a process."""

    def send(self, step: int) -> None:
        """Let newcomers fetch the state, until the step is committed or given up."""

    def receive(self, addresses: Sequence[str], step: int) -> None:
        """Fetch the state, without changing anything yet."""

    def load(self) -> None:
        """Load the state that was received."""

    def meet(self, step: int, newcomers: Sequence[int]) -> None:
        """Wait until the newcomers of a quorum, by their ranks in it, hold the state of a step.

        Wait as long as they make progress. Newcomers and all other members call this.
        """

    def reduce(self, tensor: torch.Tensor) -> Work:
        """Start summing over the replicas, in place. A failure is reported by `arrived`."""

    def report(self, error: Exception) -> None:
        """Let the step under way not count."""

    def arrived(self) -> bool:
        """Whether all sums of this step arrived; if not, no other replica waits for this one."""

    def sever(self) -> None:
        """Disconnect, so that no other replica waits for this one in a step that it gave up."""

    def close(self) -> None:
        """Close what this process has opened, without the other processes of its node."""


class ProcessPeers:
    """The `Peers` of one process."""

    def __init__(
        self,
        backend: str,
        patience: timedelta,
        callbacks: Callbacks,
        *,
        waits: Callable[[], bool] = bool,
        local_rank: int = 0,
        mesh: DeviceMesh | None = None,
        declared: str = "",
    ) -> None:
        """`mesh` is what the model is sharded over, `local_rank` this process's place in it.

        `waits` is whether this worker waits for the next step.
        """
        self._backend, self._patience, self._callbacks = backend, patience, callbacks
        self._local_rank, self._mesh, self._declared = local_rank, mesh, declared
        self._followers = Followers(waits)
        self._following: Following | None = None
        self._has_followed = False
        self._group: Group | None = None
        self._transport: Transport | None = None
        self._received: Received | None = None
        self._rank = 0
        self._store: Any = None  # of the quorum
        self._noted = 0.0  # when the last progress was
        self._error: Exception | None = None

    @property
    def address(self) -> str:
        """Where newcomers find this process's part of the state, once it is open."""
        return "" if self._transport is None else self._transport.address

    def open(self, host: str) -> list[str]:
        if self._transport is None:
            self._transport = Transport(host, self._patience, self._mesh, self._serve_follower)
            self._group = GROUPS[self._backend](self._patience)
        return [self.address]

    def form(self, coordinator: Sequence[str], rank: int, world: int, token: int) -> None:
        assert self._group is not None
        _synchronize()
        self._group.abort(errored=False)
        self._part()
        address, life = coordinator
        self._store = StoreClient(address, f"{token}", self._patience, life=life)
        # As torchft's Manager does: the processes of a node meet those of the same local rank.
        store = PrefixStore(f"{self._local_rank}", self._store)
        self._group.connect(store, rank, world, token)
        self._rank = rank
        self._error = None

    def send(self, step: int) -> None:
        assert self._transport is not None
        with self._announced():
            _synchronize()
            self._transport.offer(step, self._callbacks.dump())

    def receive(self, addresses: Sequence[str], step: int) -> None:
        assert self._transport is not None
        with self._announced(), _in_memory():
            self._transport.withdraw()  # it is about to be replaced
            address = addresses[self._local_rank]
            own_state = pack(self._callbacks.dump()) if self._has_followed else {}
            self._received = self._transport.fetch(address, step, self._note_progress, own_state)
            # Processes of a node may be far apart here, and nowhere else.
            received = f"{step}/received/{self._rank}"
            self._store.add(received, 1)
            processes = 1 if self._mesh is None else self._mesh.size()
            self._wait_for(lambda: self._store.add(received, 0) >= processes)

    def load(self) -> None:
        received, self._received = self._received, None
        assert received is not None
        self._followers.end()
        with self._announced(), _in_memory():
            self._callbacks.load(received)
        self._has_followed = False
        self._stop_following()

    @property
    def has_followed(self) -> bool:
        """Whether this process's state comes from following others, with no step of its own."""
        return self._has_followed

    def follow(self, address: str) -> None:
        """Take over the state from a member while steps go on, as far as it has come by then."""
        if self._callbacks.learn is None:
            return
        try:
            self._following = Following(
                address, self._declared, self._patience.total_seconds(), self._take, self._go_on
            )
            while self._following.advance():
                pass
        except NotLoaded:
            raise
        except Exception as error:  # noqa: BLE001 - the program's `on_step` may not be ready for it
            log.info("joining without having followed %s: %s", address, error)
            self._stop_following()

    def learn(self, within: float = 0.0) -> bool:
        """Take the next update if one comes within so many seconds; return whether one did."""
        try:
            if self._following is not None and self._following.readable(within):
                self._following.advance()
                return True
        except NotLoaded:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            log.info("the others wait until this worker holds their state: %s", error)
            self._stop_following()
        return False

    def pass_on(self, update: Callable[[], State]) -> None:
        """Send a step's update to the followers; this process is about to make the same one."""
        self._followers.pass_on(update)

    def updated(self) -> None:
        """Let newcomers that wait for it begin to follow, from the end of this step on."""
        self._followers.begin(self._callbacks.dump)

    def _take(self, state: Received) -> None:
        learn, load = self._callbacks.learn, self._callbacks.load
        assert learn is not None
        self._has_followed = True
        with _in_memory():
            learn(state.pop(UPDATE)) if is_update(state) else load(state)

    def _go_on(self) -> None:
        if self._callbacks.stopping():
            raise ConnectionError("this worker is to stop")

    def _serve_follower(self, channel: Channel, declared: str) -> None:
        if declared == self._declared:
            self._followers.serve(channel)

    def _stop_following(self) -> None:
        if self._following is not None:
            self._following.close()
            self._following = None

    def meet(self, step: int, newcomers: Sequence[int]) -> None:
        held = [f"{step}/held/{rank}" for rank in newcomers]
        with self._announced():
            if self._rank in newcomers:
                self._store.set(f"{step}/held/{self._rank}", "")
            self._wait_for(lambda: bool(self._store.check(held)))

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
            self._transport.withdraw()  # the step is about to change it
        except FAILURES as raised:
            error = raised
        if error is None:
            return True
        if not isinstance(error, (TimeoutError, RuntimeError)):
            raise error
        self.sever()
        return False

    def sever(self) -> None:
        if self._group is not None:
            self._group.sever()
        if self._transport is not None:
            with suppress(TimeoutError):  # as long as it is read the step is not committed
                self._transport.withdraw()

    def close(self) -> None:
        self.sever()
        self._part()
        self._followers.end()
        self._stop_following()
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def _part(self) -> None:
        """Close the store by which the members of the quorum met."""
        if self._store is not None:
            self._store.close()
            self._store = None

    @property
    def _interrupted(self) -> bool:
        return self._transport is not None and self._transport.interrupted

    @contextmanager
    def _announced(self) -> Iterator[None]:
        """Let the others know if this process fails to do its part for newcomers."""
        try:
            yield
        except Exception:
            with suppress(*FAILURES):
                self._store.set(_GIVEN_UP, "")
            raise

    def _wait_for(self, done: Callable[[], bool]) -> None:
        """Wait for newcomers, as long as any of them gets more of the state."""
        assert self._group is not None
        progress, since = 0, time.monotonic()
        while not done():
            if self._store.check([_GIVEN_UP]) or self._interrupted:
                raise ConnectionError("a newcomer of this step did not get the state")
            if self._group.lost:
                raise ConnectionError("a member of this step was lost")
            self._go_on()  # it may have to save within its grace period
            before, progress = progress, self._store.add(_PROGRESS, 0)
            if progress != before:
                since = time.monotonic()
            if time.monotonic() - since > self._patience.total_seconds():
                raise TimeoutError("a newcomer of this step gets nothing of the state")
            time.sleep(_PAUSE)

    def _note_progress(self) -> None:
        """Report progress to the others, so that they go on waiting."""
        now = time.monotonic()
        if now - self._noted > self._patience.total_seconds() / 10:
            self._noted = now
            with suppress(*FAILURES):
                self._store.add(_PROGRESS, 1)


@contextmanager
def _in_memory() -> Iterator[None]:
    """Raise NotLoaded if memory runs out, as it would in another attempt."""
    try:
        yield
    except (MemoryError, torch.OutOfMemoryError) as error:
        what = str(error).partition("\n")[0]
        raise NotLoaded(f"the state of the others needs more memory: {what}") from error


def _synchronize() -> None:
    if torch.accelerator.is_available():
        torch.accelerator.synchronize()


class _Reduction:
    """A sum under way; a failure is reported, so that the step is not committed."""

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
