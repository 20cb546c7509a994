"""Steps in which nothing changes are taken without a request to the coordinator, and end when it
does: a newcomer is let in, and who may not go on makes no other wait for it."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import pytest
import torch

from trainwright_runtime.coordination.activity import QUIET, display_name
from trainwright_runtime.coordination.channel import Channel
from trainwright_runtime.coordination.quorum import Patience, Quorums, Request
from trainwright_runtime.coordination.registry import Registry
from trainwright_runtime.coordination.rules import Phase
from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.elastic import replica as replicas
from trainwright_runtime.elastic.members import Callbacks
from trainwright_runtime.elastic.replica import Address, Replica
from trainwright_runtime.elastic.session import Session

LONG = 600.0
MINUTE = 60.0


class _World:
    """A coordinator that counts requests, and workers that take steps with it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.requests = 0
        self._request = registry.quorums.request
        registry.quorums.request = self._counted  # type: ignore[method-assign, assignment]
        self.reports: Counter[str] = Counter()
        self._answer = registry.answer
        registry.answer = self._answered  # type: ignore[method-assign]
        self.threads = ThreadPoolExecutor()
        self.replicas: list[Replica] = []

    def _counted(self, *arguments: object) -> Request:
        self.requests += 1
        return self._request(*arguments)  # type: ignore[arg-type]

    def _answered(self, message: Mapping[str, Any], connection: object) -> dict[str, str]:
        self.reports[display_name(message["worker"])] += 1
        return self._answer(message, connection)

    def add(self, name: str) -> Replica:
        timeouts = Timeouts(heartbeat=LONG, collective=LONG, quorum=LONG, coordinator=MINUTE)
        address = Address(
            coordinator=f"127.0.0.1:{self._registry.port}", name=name, min_replicas=1,
            backend="gloo", timeouts=timeouts,
        )  # fmt: skip
        state = {"part": torch.ones(2)}
        self.replicas.append(Replica(address, Callbacks(dump=state.copy, load=_take)))
        return self.replicas[-1]

    def step(self, *replicas: Replica) -> list[int]:
        """How many workers took a step, in each of these."""
        return list(self.threads.map(_step, replicas))

    def settle(self, *replicas: Replica) -> None:
        """Let them take steps until none of them is requested."""
        end = time.monotonic() + MINUTE
        while True:
            before = self.requests
            self.step(*replicas)
            if self.requests == before:
                return
            assert time.monotonic() < end

    def close(self) -> None:
        for each in self.replicas:
            each.leave()
            each.close()
        self.threads.shutdown()


def _take(state: MutableMapping[str, Any]) -> None:
    state.pop("part")


def _step(replica: Replica) -> int:
    """As training does it."""
    while True:
        members, sums = replica.join(), torch.tensor([1.0, float(not replica.settled)])
        replica.sum(sums)
        if replica.commit():
            took, unsettled = sums.tolist()
            assert took == members.world
            if not unsettled:
                replica.settle()
            replica.updated()
            return members.world


@pytest.fixture
def world() -> Iterator[_World]:
    patience = Patience(least=2, heartbeat=LONG, join=LONG)
    with (
        closing(Registry(0, recovery=0, silence=LONG, patience=patience)) as registry,
        closing(_World(registry)) as made,
    ):
        yield made


def test_a_step_in_which_nothing_changes_is_not_requested(world: _World) -> None:
    a, b = world.add("a"), world.add("b")
    world.settle(a, b)
    before = world.requests
    for _ in range(20):
        assert world.step(a, b) == [2, 2]
        if world.requests != before:  # a report was late on a busy machine
            world.settle(a, b)
            before = world.requests
    assert a._session.steps > 20  # none of them is one long step


def test_a_newcomer_is_let_in(world: _World) -> None:
    a, b = world.add("a"), world.add("b")
    world.settle(a, b)
    newcomer = world.threads.submit(_step, world.add("c"))
    _until(lambda: world.step(a, b) == [3, 3])
    assert newcomer.result(MINUTE) == 3


def test_who_may_not_go_on_makes_no_other_wait(world: _World) -> None:
    """The other one learns it from connections that are closed: its time-out is ten minutes."""
    a, b = world.add("a"), world.add("b")
    world.settle(a, b)
    with b._session._lock:
        b._session.phase = Phase.STALE
    before = world.requests
    assert world.step(a, b) == [2, 2]
    assert world.requests > before


def test_who_does_not_hear_of_the_coordinator_requests_the_step(world: _World) -> None:
    a, b = world.add("a"), world.add("b")
    world.settle(a, b)
    with b._session._lock:  # its reports wait for it
        b._session._heard -= MINUTE
        assert not b.settled
        before = world.requests
        world.step(a, b)
        assert world.requests == before
        world.step(a, b)
        assert world.requests == before + 2


# --- a few report for all ------------------------------------------------------------------------


def _until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + MINUTE
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_few_report_for_all(world: _World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicas, "SPEAKERS", 1)
    a, b = world.add("a"), world.add("b")

    def reports_of_b(steps: int) -> int:
        """While the first one reports again and again."""
        before = world.reports.copy()
        while world.reports["a"] < before["a"] + 4 or steps > 0:
            world.step(a, b)
            steps -= 1
        return world.reports["b"] - before["b"]

    _until(lambda: reports_of_b(10) == 0)
    assert not b._session.uncertain
    newcomer = world.threads.submit(_step, world.add("c"))
    _until(lambda: world.step(a, b) == [3, 3])  # b alone would not have heard of it
    assert newcomer.result(MINUTE) == 3


@pytest.fixture
def coordinator() -> Iterator[Registry]:
    with closing(Registry(0, recovery=0, silence=1.5)) as registry:
        yield registry


@contextmanager
def _quiet(registry: Registry) -> Iterator[Session]:
    with closing(Session([f"127.0.0.1:{registry.port}"], "q-1", silence=LONG)) as session:
        session.request_step(0)
        session.settle(speaks=False)
        _until(lambda: registry._activities.does("q-1", QUIET))
        yield session


def test_who_is_quiet_is_not_lost(coordinator: Registry) -> None:
    with _quiet(coordinator) as session, closing(_silent(coordinator)):
        _until(lambda: "s-1" not in coordinator._run.holders)
        assert "q-1" in coordinator._run.holders
        assert session.holds


def _silent(registry: Registry) -> Session:
    """Another worker, of which nothing more is heard."""
    session = Session([f"127.0.0.1:{registry.port}"], "s-1", silence=LONG)
    session._closed.set()
    session.request_step(0)
    session.hold()
    return session


def test_who_is_quiet_reports_when_others_wait(coordinator: Registry) -> None:
    with _quiet(coordinator), closing(_silent(coordinator)) as other:
        other.complete("q-1")
        _until(lambda: not coordinator._activities.does("q-1", QUIET))
        assert "q-1" in coordinator._run.holders


def test_who_is_quiet_and_does_not_answer_is_lost(coordinator: Registry) -> None:
    with (
        _quiet(coordinator) as session,
        session._lock,  # its reports wait for it
        closing(_silent(coordinator)) as other,
    ):
        other.complete("q-1")
        _until(lambda: "q-1" not in coordinator._run.holders)


def test_who_is_quiet_reports_to_a_coordinator_that_comes_back() -> None:
    first = Registry(0, recovery=0, silence=LONG)
    with _quiet(first) as session:
        port, channel = first.port, first._connections["q-1"]
        assert isinstance(channel, Channel)
        first.close()
        channel.connection.shutdown(socket.SHUT_RDWR)
        with closing(Registry(port, recovery=0, silence=LONG)) as second:
            _until(lambda: "q-1" in second._run.holders)
            assert session.holds


# --- signs of life -------------------------------------------------------------------------------


def test_signs_of_life_are_requested_while_a_step_is_put_together() -> None:
    now, probed = 0.0, list[str]()
    quorums = Quorums(Patience(heartbeat=3, join=100), probe=probed.append, clock=lambda: now)
    member = {"unreached": [], "step": 0, "holds": False, "state": "", "view": 0, "lineage": "",
              "group": 0, "position": "", "declared": ""}  # fmt: skip
    for name in "abc":
        quorums.beat(name)
    now = 50
    quorums.tick()
    assert not probed  # nothing is requested
    for name in "ab":
        quorums.request(name, member)
    quorums.tick()
    assert probed == ["c"]
    now = 51
    quorums.beat("c")
    quorums.tick()
    assert sorted(probed) == ["a", "b", "c"]
    quorums.beat("a")
    quorums.beat("b")
    now = 54
    quorums.tick()
    assert sorted(probed) == ["a", "a", "b", "b", "c", "c"]
    waits = quorums._requests["a"]
    now = 57
    quorums.beat("a")
    quorums.beat("b")
    quorums.tick()  # without the one that does not answer
    assert waits.answer
