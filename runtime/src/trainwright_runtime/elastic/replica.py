"""One worker's membership in an elastic training run: who takes part in this step.

The coordinator forms quorums, and torchft the process groups. What to do with a quorum is decided
here: only workers that hold the lineage that counts, or are about to take it over, take a step
together (docs/elastic-protocol.md). Training survives a coordinator that dies and comes back.
Addresses are IPs, since a pod's host name need not resolve for its peers.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
import warnings
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any

import torch

from trainwright_runtime.coordination.activity import (
    APART,
    IN_PROGRAM,
    SPEAKERS,
    WAITING,
    display_name,
)
from trainwright_runtime.coordination.addresses import own_address_towards
from trainwright_runtime.coordination.channel import connected
from trainwright_runtime.coordination.rules import Answer, generation
from trainwright_runtime.coordination.store_client import StoreClient
from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.coordination.view import View
from trainwright_runtime.elastic.declared import Declared, differences
from trainwright_runtime.elastic.errors import (
    CutOff,
    DeclaredOtherwise,
    Fenced,
    StoppedWaiting,
    TrainingOver,
)
from trainwright_runtime.elastic.links import CONNECT, Links, Quorum
from trainwright_runtime.elastic.members import Callbacks, Members, State, Work
from trainwright_runtime.elastic.membership import Membership
from trainwright_runtime.elastic.peers import FAILURES, Peers, ProcessPeers
from trainwright_runtime.elastic.reach import Apart, Reach, agreed
from trainwright_runtime.elastic.session import Session
from trainwright_runtime.failures.errors import Unreachable

log = logging.getLogger(__name__)

_PAUSE = 0.1  # seconds before the next request to the registry or the coordinator
_LAST = 1.0  # seconds to wait for the update of the last step from a worker that is followed


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where the coordinator is, who this worker is, and how patient it is."""

    coordinator: str
    """host:port, or those of all candidates, separated by commas"""
    name: str
    min_replicas: int
    backend: str
    timeouts: Timeouts
    declared: Declared = field(default_factory=dict)
    """Of the training, by this worker's program."""

    @property
    def patience(self) -> timedelta:
        return timedelta(seconds=self.timeouts.collective)


class Replica(Membership):
    """Joins quorums and reduces over them."""

    fixed_world = False

    def __init__(self, address: Address, callbacks: Callbacks, peers: Peers | None = None) -> None:
        self._address, self._callbacks = address, callbacks
        self._declared = json.dumps(address.declared)
        own = ProcessPeers(
            address.backend,
            address.patience,
            callbacks,
            waits=lambda: self._session.doing == WAITING,
            declared=self._declared,
        )
        self._peers = peers or own
        # None if this is one of several processes of a replica: they would have to follow in step.
        self._own = own if peers is None else None
        self._followed = False  # whether it tried to follow since it last took over the state
        self._states: list[str] = []  # where newcomers find them
        # A worker that was replaced while it was paused must not be taken for its successor.
        self._name = f"{address.name}-{uuid.uuid4().hex[:8]}"
        candidates = address.coordinator.split(",")
        self._session = Session(candidates, self._name, address.timeouts.quorum)
        self._after = 0
        # Steps taken with others. 0 for a worker that has to take over another one's state, even if
        # it starts from a checkpoint: that may hold a step that no other worker committed.
        self._step = 0
        self._links: Links | None = None
        self._token = 0  # of the group that is formed; 0 when it is not to be used any more
        self._members: Members | None = None
        self._postponed = 0.0  # since when; 0 after a commit
        self._refused: set[str] = set()
        self._reach = Reach()
        self._apart = Apart()
        self._out_since = 0.0  # since when steps go on without this worker; 0 where they do not
        self._settled = False  # whether all members of the last step expect this one in the next
        self._unused = False  # whether the lineage began with this worker, and no step since
        _quieten()

    @property
    def lineage(self) -> str:
        return "" if self._session.behind else self._session.lineage

    def resume(self, lineage: str) -> None:
        """Note that this worker's state comes from a checkpoint of this lineage."""
        self._after = generation(lineage)

    def join(self) -> Members:
        """Return the members of the next step.

        Raise Unreachable if there is no coordinator for longer than the address allows.
        """
        timeouts = self._address.timeouts
        began = answered = time.monotonic()
        reported = False
        if not self._settled:
            self._session.wait_for_step()
        while True:
            try:
                members = self._next()
                if members is not None:
                    self._session.begin_step()
                    self._unused = False
                    return members
                answered = time.monotonic()
                # Even if this worker is to stop: others may be about to join, and after a step with
                # them there is nothing left that it alone would have to save.
                patient = answered - began < timeouts.quorum
            except FAILURES as error:
                patient = False
                self._leave_if_recorded()
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

    def local_step(self) -> None:
        self._session.begin_step()

    def abandon(self) -> None:
        self._peers.report(RuntimeError("the training loop left this step"))
        self.commit()

    def abandoned(self) -> None:
        """Note that the step was given up, and that its connections are not to be used any more."""
        self._session.doing = IN_PROGRAM
        self._token, self._settled = 0, False

    def awaits(self, workers: Collection[str]) -> bool:
        with suppress(OSError):
            return bool(workers) and self._session.awaits(
                [display_name(worker) for worker in workers]
            )
        return False

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

    @property
    def settled(self) -> bool:
        if self._links is None or self._reach.unreached:
            return False
        if self._links.coordinator != (self._session.coordinator, self._session.life):
            return False
        return self._session.settled(speaks=self._speaks)

    def settle(self) -> None:
        self._settled = True
        self._session.settle(speaks=self._speaks)

    @property
    def _speaks(self) -> bool:
        """Whether this worker reports to the coordinator for all that it takes steps with."""
        return self._members is None or self._members.rank < SPEAKERS

    def pass_on(self, update: Callable[[], State]) -> None:
        if self._own is not None:
            self._own.pass_on(update)

    def updated(self) -> None:
        self._session.doing = IN_PROGRAM
        if self._own is not None:
            self._own.updated()

    def _arrived(self) -> bool:
        """Whether everything reduced in this step did."""
        arrived = self._peers.arrived()
        if not arrived:
            self._token = 0
        return arrived

    def complete(self) -> bool | None:
        """Report that every epoch is committed; whether this worker leads the program's end.

        Return None if the coordinator does not know this lineage as the one that counts: training
        goes on with the next `join`.
        """
        patience = self._address.timeouts.coordinator
        first = self._members.names[0] if self._members else self._name
        while self._session.behind:  # its state is a checkpoint's
            admitted = self._persist(self._admitted, patience, ends=True)
            if admitted and not self._session.holds:
                return None
            if not admitted:
                self._pause()
        self._disconnect()
        while True:
            answer = self._persist(partial(self._session.complete, first), patience, ends=True)
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
        self._reach.close()
        self._peers.close()

    def close(self) -> None:
        self._session.close()

    def _pause(self, *, patient: bool = False) -> None:
        if self._callbacks.stopping() and not patient:
            raise StoppedWaiting
        time.sleep(_PAUSE)

    def _next(self) -> Members | None:
        """Return the members of the next step: those of the last one, if all of them expect it."""
        if self._settled:
            self._settled = False
            if self._goes_on():
                return self._members
            self._give_up()
            self._session.wait_for_step()
        return self._try()

    def _try(self) -> Members | None:
        """Return the members of the next step, or None if it is to be requested again soon."""
        # Where the last request got no quorum, training may be over: too few are left for one.
        if (not self._session.holds or self._links is None) and not self._admitted():
            return None
        if not self._session.holds:
            self._follow()
        links = self._links or self._connect()
        newcomer = not self._session.holds
        quorum = links.quorum(self._question(), newcomer=newcomer, meanwhile=self._learn)
        self._note_apart(quorum)
        members = quorum.members
        if not members.names or members.values("lineage") - {""} != {self._session.lineage}:
            self._admitted()  # the lineage may be a new one
            return None
        if not self._fits(members):
            return None
        same = self._same_group(members)
        counts = same and not self._session.uncertain
        if self._session.holds and not counts and not self._admitted():
            return None
        if not same and not self._form(members, quorum.number):
            return None
        if members.otherwise:
            self._heal(members)
        return self._members

    def _goes_on(self) -> bool:
        """Whether the next step is taken with the last one's members, without a request for it."""
        if not self._token or not self._session.holds:
            return False
        return not self._session.uncertain or (self._admitted() and self._session.holds)

    def _admitted(self) -> bool:
        """Read from the registry whether this worker may take part.

        Raise TrainingOver after the end, Fenced if this worker's state does not count any more.
        """
        held = self._session.holds
        answer = self._session.request_step(self._after)
        if answer is Answer.OVER:
            raise TrainingOver
        if answer is Answer.RESTART:
            if not self._unused:
                raise Fenced
            self._session.forget()  # no step was taken: this worker is as new as it was before
            self._unused = False
            return False
        if answer is Answer.FOUND:
            # Others may have trained on since, and be gone with all that the coordinator knew.
            if self._callbacks.outdated() or (self._own is not None and self._own.has_followed):
                raise Fenced
            self._step, self._unused = 1, True
            log.info("beginning training as its first worker, generation %s", self.lineage)
        elif not self._session.holds:
            if held:
                log.warning("others went on without this worker: its steps since do not count")
            self._step = 0
        return answer is not Answer.WAIT

    def _follow(self) -> None:
        """Take over the state while its holders take steps, so that they need not wait for it."""
        # Who is heard of, and requests no step, is waited for where one is lost.
        if self._followed or self._own is None or self._links is not None:
            return
        self._followed = True
        coordinator, _ = self._session.reach()
        channel, _ = connected(coordinator, CONNECT)
        with closing(channel):
            channel.write({"place": ""})
            address = str(channel.read().get("place", ""))
        if address:
            self._own.follow(address)

    def _learn(self) -> None:
        while self._own is not None and self._own.learn():
            pass

    def _question(self) -> dict[str, Any]:
        """Return what the members of the next step have to know of this worker."""
        return {
            "replica_id": self._name,
            "step": self._step,
            "holds": self._session.holds and not self._unused,
            "unreached": self._reach.unreached,
            "lineage": self.lineage,
            "group": self._token,
            "position": self._callbacks.position(),
            "state": " ".join(self._states),
            "declared": self._declared,
        }

    def _fits(self, members: View) -> bool:
        """Whether all members declare the same training as the first member that holds its state.

        Raise DeclaredOtherwise in a worker that differs, so that the others go on without it.
        """
        if len(members.values("declared")) == 1:
            return True
        first = next(name for name in members.names if members[name]["lineage"])
        others = {
            name: differing
            for name in members.names
            if (differing := [*differences(_declared(members[first]), _declared(members[name]))])
        }
        if self._name in others:
            raise DeclaredOtherwise(display_name(first), self._address.name, others[self._name])
        for name in others.keys() - self._refused:
            log.warning(
                "refusing %s, which declares another %s", display_name(name), others[name][0][0]
            )
        self._refused |= others.keys()
        return not others

    def _same_group(self, members: View) -> bool:
        """Whether all of them are still in the group that this worker is in."""
        if self._members is None or self._members.names != members.names:
            return False
        return self._token != 0 and members.values("group") == {self._token}

    def _note_apart(self, quorum: Quorum) -> None:
        """Note who is left out of steps. Raise CutOff if this worker is for too long."""
        names = quorum.members.names
        self._apart.note(quorum.apart, names, few=quorum.few)
        self._reach.note(chain(names, (each["worker"] for each in quorum.apart)))
        out = quorum.apart and not names
        self._session.doing = APART if out else WAITING
        if not out or quorum.few or any(each["needed"] for each in quorum.apart):
            self._out_since = 0.0
            return
        self._out_since = self._out_since or time.monotonic()
        if time.monotonic() - self._out_since > (patience := self._address.timeouts.coordinator):
            raise CutOff(patience)

    def _form(self, members: View, quorum: int) -> bool:
        """Connect with the members of a quorum; return False if not all of them can be reached."""
        names = members.names
        assert self._links is not None
        # No two groups may meet under the same name: not in one life of a coordinator, nor in two.
        token = zlib.crc32(f"{quorum} {self._links.coordinator[1]}".encode()) or 1
        self._token = 0
        rank = names.index(self._name)
        if not self._reach_all(members, f"{token}"):
            return False
        before, self._members = self._members, None
        self._peers.form(self._links.coordinator, rank, len(names), token)
        self._token = token
        self._members = Members(quorum=token, rank=rank, names=names)
        if rank == 0:
            _log_change(before.names if before else (), names)
        return True

    def _reach_all(self, members: View, group: str) -> bool:
        """Whether all members can connect with each other; none waits for one that cannot."""
        others = {
            name: address.partition(" ")[0]
            for name, address in members.addresses.items()
            if name != self._name
        }
        if not others:
            return True
        fine = self._reach.reaches(others)
        assert self._links is not None
        coordinator, life = self._links.coordinator
        with closing(StoreClient(coordinator, group, self._address.patience, life=life)) as store:
            return agreed(store, len(members.names), fine=fine)

    def _heal(self, members: View) -> None:
        """Serve the state to members that are behind, or fetch it from one that is ahead."""
        step = max(members.values("step"))
        ahead = [name for name in members.names if members[name]["step"] == step]
        # Two groups of a lineage may each have taken the step of this number: one of them counts.
        position = members[ahead[0]]["position"]
        ahead = [name for name in ahead if members[name]["position"] == position]
        behind = sorted({*members.names} - {*ahead})
        try:
            sources = [ahead[index % len(ahead)] for index in range(len(behind))]
            if self._name in sources:
                self._peers.send(step)
            for name, source in zip(behind, sources, strict=True):
                if name == self._name:
                    while self._own is not None and self._callbacks.position() != position:
                        if not self._own.learn(_LAST):
                            break
                    self._peers.receive(members.addresses[source].split(), step)
                    self._unused = False
                    self._peers.load()
                    self._step, self._followed = step, False
                    self._session.hold()
            if behind:
                self._peers.meet(step, [members.names.index(name) for name in behind])
        except FAILURES:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """Make sure that no other worker waits for this one in a step that it gave up."""
        self._token = 0
        self._peers.sever()

    def _connect(self) -> Links:
        """Connect to the coordinator, and let newcomers find this worker's state."""
        address = self._address
        coordinator, life = self._session.reach()
        host = own_address_towards(coordinator)
        if not self._states:
            self._states = self._peers.open(host)
        self._links = Links(
            (coordinator, life),
            address.timeouts,
            name=self._name,
            replaced=lambda: self._session.life != life,
        )
        return self._links

    def _disconnect(self) -> None:
        """Stop being a member of a group; this worker keeps the state that it holds."""
        self._settled = False
        self._unlink()
        if self._token:
            self._give_up()

    def _unlink(self) -> None:
        if self._links is not None:
            self._links.close()
            self._links = None

    def _leave_if_recorded(self) -> None:
        """Raise TrainingOver if there may be no coordinator left to hear it from."""
        if self._callbacks.recorded():
            raise TrainingOver

    def _persist(self, report: Callable[[], Any], patience: float, *, ends: bool = False) -> Any:
        """Report to the registry, trying again for `patience` seconds; then raise Unreachable.

        With `ends`, raise TrainingOver if training is recorded as over."""
        deadline = time.monotonic() + patience
        while True:
            try:
                return report()
            except OSError as error:
                if ends:
                    self._leave_if_recorded()
                if time.monotonic() > deadline:
                    raise Unreachable(
                        f"no coordinator at {self._address.coordinator}: {_first_line(error)}"
                    ) from None
                time.sleep(_PAUSE)


def _declared(member: Mapping[str, Any]) -> Declared:
    declared: Declared = json.loads(member["declared"] or "{}")
    return declared


def _log_change(before: Sequence[str], after: Sequence[str]) -> None:
    """Log, in one line, which workers joined and left."""
    joined = [display_name(name) for name in after if name not in before]
    left = [display_name(name) for name in before if name not in after]
    changes = [f"{' and '.join(joined)} joined"] if joined else []
    changes += [f"{' and '.join(left)} left"] if left else []
    number = f"{len(after)} worker{'' if len(after) == 1 else 's'}"
    log.info("%s: %s", number, ", ".join(changes) or "connected anew")


def _quieten() -> None:
    """Silence torchft, which logs several lines a step; what matters of them is logged here."""
    # Harmless: the state is copied out of the received bytes right after this warning.
    warnings.filterwarnings("ignore", message="The given buffer is not writable")
    for name in ("torchft", "torchft_quorums", "torchft_commits", "torchft_errors"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
