"""One worker's membership in an elastic training: who takes part in this step.

torchft has the coordinator that makes quorums, the heartbeats, the process groups and the server
that newcomers get their state from. What is done with a quorum is decided here: only workers of the
lineage that counts, or on their way into it, take a step together (docs/elastic-protocol.md); a
coordinator that dies and comes back is survived; addresses are IPs, since a pod's host name need
not resolve for its peers.
"""

from __future__ import annotations

import ipaddress
import json
import logging
import socket
import time
import uuid
import warnings
import zlib
from collections.abc import Callable, Collection, MutableMapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import torch
from torch._C._distributed_c10d import TCPStore
from torchft.coordination import LighthouseClient, ManagerServer

from trainwright_runtime.coordination.registry import IN_PROGRAM, IN_STEP, WAITING
from trainwright_runtime.coordination.rules import Answer, generation
from trainwright_runtime.elastic.errors import Fenced, OtherReplica, StoppedWaiting, TrainingOver
from trainwright_runtime.elastic.members import Members, State, Work
from trainwright_runtime.elastic.peers import FAILURES, Peers, ProcessPeers
from trainwright_runtime.elastic.session import Session
from trainwright_runtime.errors import Unreachable
from trainwright_runtime.timeouts import Timeouts

log = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE = 0.1  # seconds before the next request to the registry or the coordinator


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the coordinator is, who this worker is, and how patient it is."""

    coordinator: str
    """host:port, or those of all candidates, separated by commas"""
    name: str
    min_replicas: int
    backend: str
    timeouts: Timeouts
    processes: int = 1
    """Of each replica."""

    @property
    def patience(self) -> timedelta:
        return timedelta(seconds=self.timeouts.collective)


class Replica:
    """Joins quorums and reduces over them; see `membership` for the functions."""

    fixed_world = False
    processes = 1
    local_rank = 0

    def __init__(
        self,
        address: Address,
        *,
        dump: Callable[[], State],
        load: Callable[[MutableMapping[str, Any]], None],
        stopping: Callable[[], bool],
        position: Callable[[], str] = str,
        outdated: Callable[[], bool] = bool,
        peers: Peers | None = None,
    ) -> None:
        self._address = address
        self._peers = peers or ProcessPeers(
            address.backend, address.patience, dump=dump, load=load, stopping=stopping
        )
        self._states: list[str] = []  # where newcomers find them
        # A worker that was replaced while it was paused must not be taken for its successor.
        self._name = f"{address.name}-{uuid.uuid4().hex[:8]}"
        self._stopping, self._position, self._outdated = stopping, position, outdated
        candidates = address.coordinator.split(",")
        self._session = Session(candidates, self._name, address.timeouts.quorum)
        self._after = 0
        # Steps in the company of others: 0 for a worker that has to take the state of another one,
        # also when it comes from a checkpoint, which may hold a step that no other committed.
        self._step = 0
        self._links: _Links | None = None
        self._token = 0  # of the group that is formed; 0 when it is not to be used any more
        self._formed = 0
        self._members: Members | None = None
        self._postponed = 0.0  # since when; 0 after a commit
        _quieten()

    @property
    def lineage(self) -> str:
        return "" if self._session.behind else self._session.lineage

    def resume(self, lineage: str) -> None:
        """What this worker holds comes from a checkpoint of this lineage."""
        self._after = generation(lineage)

    def join(self) -> Members:
        """Raises Unreachable when there is no coordinator for longer than the address allows."""
        timeouts = self._address.timeouts
        began = answered = time.monotonic()
        reported = False
        self._session.doing = WAITING
        while True:
            try:
                members = self._try()
                if members is not None:
                    self._session.doing = IN_STEP
                    return members
                answered = time.monotonic()
                # Others may be about to come; a step with them leaves nothing to be saved alone.
                patient = answered - began < timeouts.quorum
            except FAILURES as error:
                patient = False
                if time.monotonic() - answered > timeouts.coordinator:
                    raise Unreachable(
                        f"no quorum at coordinator {self._address.coordinator} within "
                        f"{timeouts.coordinator:g} s: {_first_line(error)}"
                    ) from None
                if not reported:
                    late = f", waiting for {self._session.late}" if self._session.late else ""
                    log.warning("no quorum yet%s, trying again: %s", late, _first_line(error))
                    reported = True
                self._disconnect()
            self._pause(patient=patient)

    def reduce(self, tensor: torch.Tensor) -> Work:
        return self._peers.reduce(tensor)

    def sum(self, tensor: torch.Tensor) -> None:
        self.reduce(tensor).wait()

    def local_step(self) -> None:
        self._session.doing = IN_STEP
        self._session.local_steps += 1

    def abandon(self) -> None:
        self._peers.report(RuntimeError("the training loop left this step"))
        self.commit()

    def abandoned(self) -> None:
        """The step was given up, and its connections are not to be used any more."""
        self._session.doing = IN_PROGRAM
        self._token = 0

    def once(self, work: Callable[[], T]) -> T:
        return work()

    def awaits(self, workers: Collection[str]) -> bool:
        late = set(self._session.late.split(", "))
        return any(_short(worker) in late for worker in workers)

    def postpone(self) -> None:
        self._arrived()
        self._session.doing = IN_PROGRAM
        self._postponed = self._postponed or time.monotonic()
        waited = time.monotonic() - self._postponed
        self._pause(patient=waited < self._address.timeouts.quorum)

    def commit(self) -> bool:
        if not self._arrived():
            self._session.doing = IN_PROGRAM
            return False
        self._step += 1
        self._postponed = 0.0
        return True

    def updated(self) -> None:
        self._session.doing = IN_PROGRAM

    def _arrived(self) -> bool:
        """Whether everything reduced in this step did."""
        arrived = self._peers.arrived()
        if not arrived:
            self._token = 0
        return arrived

    def complete(self) -> bool | None:
        """Every epoch is committed: whether this worker leads the program's end.

        None when the coordinator does not know this lineage as the one that counts: training goes
        on with the next `join`.
        """
        patience = self._address.timeouts.coordinator
        first = self._members.names[0] if self._members else self._name
        while self._session.behind:  # its state is a checkpoint's
            admitted = self._persist(self._admitted, patience)
            if admitted and not self._session.holds:
                return None
            if not admitted:
                self._pause()
        self._disconnect()
        while True:
            answer = self._persist(partial(self._session.complete, first), patience)
            if answer is not Answer.WAIT:
                return bool(answer is Answer.LEAD)
            if self._session.behind:
                self._step = 0
                return None
            self._pause()

    @property
    def leads(self) -> bool:
        return self._session.leads

    def lead(self) -> None:
        self._persist(self._session.lead, self._address.timeouts.coordinator)

    def confirm(self, *, last: bool) -> bool:
        patience = self._address.timeouts.quorum if last else 0
        try:
            return bool(self._persist(self._session.confirm, patience))
        except Unreachable as error:
            if last:
                log.warning("the coordinator was not reached before a last checkpoint: %s", error)
            return last

    def finish(self) -> bool | None:
        try:
            answer = self._persist(self._session.finish, self._address.timeouts.quorum)
        except Unreachable as error:
            log.warning("the coordinator was not reached to record the end of training: %s", error)
            return self.leads
        return None if self._session.behind else bool(answer is Answer.OVER)

    def leave(self) -> None:
        self._unlink()
        self._token, self._states = 0, []
        self._peers.close()

    def close(self) -> None:
        self._session.close()

    def _pause(self, *, patient: bool = False) -> None:
        if self._stopping() and not patient:
            raise StoppedWaiting
        time.sleep(_PAUSE)

    def _try(self) -> Members | None:
        """The members of the next step; None when it is to be requested again in a moment."""
        # Where the last request got no quorum, training may be over: too few are left for one.
        if (not self._session.holds or self._links is None) and not self._admitted():
            return None
        links = self._links or self._connect()
        quorum = links.quorum(self._question(), newcomer=not self._session.holds)
        members = sorted(quorum.participants, key=lambda member: str(member.replica_id))
        lineages = {member.data["lineage"] for member in members if member.data} - {""}
        if lineages != {self._session.lineage}:
            self._admitted()  # the lineage may be a new one
            return None
        if not self._fits(members):
            return None
        same = self._same_group(members)
        counts = same and not self._session.uncertain
        if self._session.holds and not counts and not self._admitted():
            return None
        if not same:
            self._form(members, quorum.quorum_id)
        self._heal(members)
        return self._members

    def _admitted(self) -> bool:
        """Whether this worker may take part, by what the registry answers."""
        held = self._session.holds
        answer = self._session.request_step(self._after)
        if answer is Answer.OVER:
            raise TrainingOver
        if answer is Answer.RESTART:
            raise Fenced
        if answer is Answer.FOUND:
            # Others may have trained on, and be gone with all that the coordinator knew, since.
            if self._outdated():
                raise Fenced
            self._step = 1
            log.info("beginning training as its first worker, generation %s", self.lineage)
        elif not self._session.holds:
            if held:
                log.warning("others went on without this worker: its steps since do not count")
            self._step = 0
        return answer is not Answer.WAIT

    def _question(self) -> dict[str, Any]:
        """What the members of the next step have to know of this worker."""
        return {
            "replica_id": self._name,
            "step": self._step,
            "store_address": self._links.store_address if self._links else "",
            "data": {
                "lineage": self.lineage,
                "group": self._token,
                "formed": self._formed,
                "position": self._position(),
                "state": " ".join(self._states),
            },
        }

    def _fits(self, members: Sequence[Any]) -> bool:
        """Whether all of them are as many processes as this one, so that shards are the same.

        Raises OtherReplica in the one that came last.
        """
        counts = {len(member.data["state"].split()) for member in members if member.data}
        others = counts - {self._address.processes}
        if others and not self._session.holds:
            raise OtherReplica(others.pop(), self._address.processes)
        return not others

    def _same_group(self, members: Sequence[Any]) -> bool:
        """Whether all of them are still in the group that this worker is in."""
        names = tuple(member.replica_id for member in members)
        tokens = {member.data["group"] if member.data else 0 for member in members}
        return (
            self._members is not None and self._members.names == names and tokens == {self._token}
        ) and self._token != 0

    def _form(self, members: Sequence[Any], quorum: int) -> None:
        """Connect with the members of a quorum."""
        names = tuple(str(member.replica_id) for member in members)
        # No two groups may meet under the same name: not in one life of a coordinator, nor in two.
        formed = [(m.replica_id, m.data["formed"] if m.data else 0) for m in members]
        token = zlib.crc32(json.dumps([quorum, formed]).encode()) or 1
        first = max(members, key=lambda member: int(member.step))
        before, self._members, self._token = self._members, None, 0
        self._formed += 1
        rank = names.index(self._name)
        self._peers.form(first.store_address, self._name, rank, len(names), token)
        self._token = token
        self._members = Members(quorum=token, rank=rank, names=names)
        if rank == 0:
            _log_change(before.names if before else (), names)

    def _heal(self, members: Sequence[Any]) -> None:
        """Give the state to members that are behind; take it from one that is ahead."""
        step = max(int(member.step) for member in members)
        ahead = [m for m in members if m.step == step]
        # Two groups of a lineage may each have taken the step of this number: one of them counts.
        ahead = [m for m in ahead if _position(m) == _position(ahead[0])]
        names = {m.replica_id for m in ahead}
        behind = [m for m in members if m.replica_id not in names]
        try:
            sources = [ahead[index % len(ahead)] for index in range(len(behind))]
            if self._name in {source.replica_id for source in sources}:
                self._peers.send(step)
            for member, source in zip(behind, sources, strict=True):
                if member.replica_id == self._name:
                    self._peers.receive(source.data["state"].split(), step)
                    self._peers.load()
                    self._step = step
                    self._session.hold()
            if behind:
                self._peers.meet(step, [members.index(member) for member in behind])
        except FAILURES:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Let no other wait for this worker in a step that does not count here."""
        self._token = 0
        self._peers.sever()

    def _connect(self) -> _Links:
        address = self._address
        coordinator, life = self._session.reach()
        host = _own_address(coordinator)
        if not self._states:
            self._states = self._peers.open(host)
        _wait_for(coordinator)
        self._links = _Links(
            coordinator,
            address.timeouts,
            name=self._name,
            host=host,
            replaced=lambda: self._session.life != life,
        )
        return self._links

    def _disconnect(self) -> None:
        """Be no member any more; what is held stays."""
        self._unlink()
        if self._token:
            self._give_up()

    def _unlink(self) -> None:
        if self._links is not None:
            self._links.close()
            self._links = None

    def _persist(self, report: Callable[[], Any], patience: float) -> Any:
        """Report to the registry what must not be lost."""
        deadline = time.monotonic() + patience
        while True:
            try:
                return report()
            except OSError as error:
                if time.monotonic() > deadline:
                    raise Unreachable(
                        f"no coordinator at {self._address.coordinator}: {_first_line(error)}"
                    ) from None
                time.sleep(_PAUSE)


class _Links:
    """What connects a worker with the coordinator: its heartbeats and its requests."""

    def __init__(
        self,
        coordinator: str,
        timeouts: Timeouts,
        *,
        name: str,
        host: str,
        replaced: Callable[[], bool],
    ) -> None:
        self._replaced = replaced
        self._quorum = timedelta(seconds=timeouts.quorum)
        self._newcomer = timedelta(seconds=timeouts.newcomer)
        shown = f"[{host}]" if ":" in host else host
        # The store ends with its last reference.
        self._store = TCPStore(host, 0, is_master=True, wait_for_workers=False)
        self.store_address = f"{shown}:{self._store.port}"
        lighthouse = f"http://{coordinator}"
        # Its heartbeats come from a thread that needs no Python lock; it has no other purpose.
        self._heart = ManagerServer(
            replica_id=name,
            lighthouse_addr=lighthouse,
            hostname=shown,
            bind="[::]:0",
            store_addr=self.store_address,
            world_size=1,
            heartbeat_interval=timedelta(seconds=timeouts.heartbeat / 3),
            connect_timeout=self._quorum,
            quorum_retries=0,
        )
        self._client = LighthouseClient(lighthouse, self._quorum)
        self._calls: SimpleQueue[Callable[[], None]] = SimpleQueue()
        Thread(target=self._call, daemon=True, name="quorum").start()

    def quorum(self, question: dict[str, Any], *, newcomer: bool) -> Any:
        """Who takes the next step; as a newcomer again and again: see `Timeouts.join`."""
        timeout = self._newcomer if newcomer else self._quorum
        answer: Future[Any] = Future()

        def call() -> None:
            try:
                quorum = self._client.quorum(timeout=timeout, world_size=1, **question)
            except Exception as error:  # noqa: BLE001 - for the thread that waits
                answer.set_exception(error)
            else:
                answer.set_result(quorum)

        # A call cannot be interrupted, and a coordinator of a lost node never answers.
        self._calls.put(call)
        while not wait([answer], _PAUSE).done:
            if self._replaced():
                raise ConnectionResetError("the coordinator is another one now")
        try:
            return answer.result()
        except TimeoutError:
            if not newcomer:
                raise
            return _NOBODY

    def close(self) -> None:
        self._calls.put(_end)
        self._heart.shutdown()

    def _call(self) -> None:
        with suppress(_Ended):
            while True:
                self._calls.get()()


class _Ended(Exception):
    """There is nothing more to call."""


def _end() -> None:
    raise _Ended


class _Nobody:
    """The answer to a newcomer for whom no step has begun yet."""

    participants: Sequence[Any] = ()
    quorum_id = 0


_NOBODY = _Nobody()


def _position(member: Any) -> str:
    return str(member.data.get("position", "")) if member.data else ""


def _own_address(peer: str) -> str:
    """The IP address of this machine that others who see `peer` ("host:port") can reach.

    Next to the coordinator that is not loopback but what the host's name stands for, which is the
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


def _wait_for(address: str) -> None:
    """Fail at once where nothing listens: torchft would look for it less and less often."""
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), 2.0).close()


def _log_change(before: Sequence[str], after: Sequence[str]) -> None:
    """One line per worker that joins or leaves."""
    joined = [_short(name) for name in after if name not in before]
    left = [_short(name) for name in before if name not in after]
    changes = [f"{' and '.join(joined)} joined"] if joined else []
    changes += [f"{' and '.join(left)} left"] if left else []
    number = f"{len(after)} worker{'' if len(after) == 1 else 's'}"
    log.info("%s: %s", number, ", ".join(changes) or "connected anew")


def _short(name: str) -> str:
    return name.rpartition("-")[0]


def _quieten() -> None:
    """torchft logs several lines a step; what matters of them is logged here."""
    # The state of others is copied out of the received bytes right after this warning.
    warnings.filterwarnings("ignore", message="The given buffer is not writable")
    for name in ("torchft", "torchft_quorums", "torchft_commits", "torchft_errors"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
