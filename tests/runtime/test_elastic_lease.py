"""At most one candidate is the coordinator: searched through every order of events, and by killing.

The search runs `lease`'s own functions for three candidates, with requests and answers that arrive
late, in another order or never, candidates that die and forget, and time that goes on between any
two events. Each rule is then broken, and the search has to find that.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from queue import Queue
from signal import SIGCONT, SIGINT, SIGSTOP
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from trainwright_runtime.coordination import coordinator, lease
from trainwright_runtime.coordination.channel import COORDINATOR, Channel, connected
from trainwright_runtime.coordination.election import Election, _Peer
from trainwright_runtime.coordination.lease import Vote
from trainwright_runtime.coordination.registry import Registry
from trainwright_runtime.coordination.rules import Answer, Phase
from trainwright_runtime.coordination.server import Server
from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.elastic.errors import TrainingOver
from trainwright_runtime.elastic.members import Callbacks
from trainwright_runtime.elastic.replica import Address, Replica
from trainwright_runtime.elastic.session import Session
from trainwright_runtime.launch.machine import free_port

COUNT, BIDDERS = 3, 2
ASKS, RESTARTS, TICKS = 4, 1, 3


_TIME = "time goes on"


class Candidate(NamedTuple):
    vote: Vote = Vote()
    number: int = 0
    """Of its last request."""
    asked: tuple[tuple[int, float], ...] = ()
    """Voters that gave it their votes, and when it had asked."""
    gave_up: int = 0


class World(NamedTuple):
    now: float
    candidates: tuple[Candidate, ...]
    messages: frozenset[tuple[str, int, int, int, float]] = frozenset()
    """Kind, candidate, voter, number, and when it was asked; each may still arrive."""
    asks: int = ASKS
    restarts: int = RESTARTS


def holds(candidate: Candidate, now: float) -> bool:
    return now < lease.held_until([at for _, at in candidate.asked], COUNT)


def _with(world: World, index: int, candidate: Candidate, **more: object) -> World:
    candidates = world.candidates
    candidates = (*candidates[:index], candidate, *candidates[index + 1 :])
    return world._replace(candidates=candidates, **more)


def events(world: World) -> Iterator[tuple[str, World]]:
    if world.now < TICKS * lease.LENGTH:
        yield _TIME, world._replace(now=world.now + lease.LENGTH / 2)
    for index in range(BIDDERS):
        yield from _asks(world, index)
    for index, candidate in enumerate(world.candidates):
        if world.restarts:
            fresh = Candidate(vote=lease.started(world.now), number=candidate.number)
            fresh = fresh._replace(gave_up=candidate.number)  # another connection, another life
            yield f"{index} restarts", _with(world, index, fresh, restarts=world.restarts - 1)
    for message in sorted(world.messages):  # and not in an order that each process has anew
        yield from _arrives(world, message)


def _asks(world: World, index: int) -> Iterator[tuple[str, World]]:
    candidate = world.candidates[index]
    if world.asks:
        number = candidate.number + 1
        asking = {("vote", index, voter, number, world.now) for voter in range(COUNT)}
        asked = _with(world, index, candidate._replace(number=number), asks=world.asks - 1)
        yield f"{index} asks ({number})", asked._replace(messages=world.messages | asking)
    if candidate.number > candidate.gave_up:
        number = candidate.number
        back = {("withdraw", index, voter, number, 0.0) for voter in range(COUNT)}
        given_up = _with(world, index, candidate._replace(asked=(), gave_up=number))
        yield f"{index} gives up ({number})", given_up._replace(messages=world.messages | back)


def _arrives(
    world: World, message: tuple[str, int, int, int, float]
) -> Iterator[tuple[str, World]]:
    kind, index, voter, number, asked = message
    world = world._replace(messages=world.messages - {message})
    if kind == "given":
        candidate = world.candidates[index]
        if number > candidate.gave_up:
            votes = dict(candidate.asked)
            votes[voter] = max(asked, votes.get(voter, asked))
            candidate = candidate._replace(asked=tuple(sorted(votes.items())))
            yield f"{voter}'s vote reaches {index} ({number})", _with(world, index, candidate)
        return
    other = world.candidates[voter]
    if kind == "withdraw":
        vote = lease.take_back(other.vote, str(index), number, world.now)
        yield f"{voter} has it back ({number})", _with(world, voter, other._replace(vote=vote))
        return
    vote, given = lease.give(other.vote, str(index), number, world.now)
    if given:
        after = _with(world, voter, other._replace(vote=vote))
        answer = ("given", index, voter, number, asked)
        yield f"{voter} votes for {index}", after._replace(messages=after.messages | {answer})


def search(walks: int, seed: int = 0) -> int:
    """Take random ways through the events; raises AssertionError with one to two coordinators."""
    chance = random.Random(seed)
    steps = 0
    for _ in range(walks):
        world = World(0.0, (Candidate(),) * COUNT, asks=chance.randint(2, ASKS))
        trace: list[str] = []
        while found := list(events(world)):
            # Most of what can happen happens at about the same time.
            while (chosen := chance.choice(found))[0] == _TIME and chance.random() < 0.8:
                if len(found) == 1:
                    break
            what, world = chosen
            trace.append(what)
            steps += 1
            held = [i for i, each in enumerate(world.candidates) if holds(each, world.now)]
            assert len(held) < 2, "\n".join(trace)
    return steps


MANY = 100 * settings.default.max_examples  # 100,000 by night


@pytest.mark.parametrize("walks", [200, pytest.param(MANY, marks=pytest.mark.slow)])
def test_no_order_of_events_makes_two_coordinators(walks: int) -> None:
    assert search(walks) > 20 * walks


_give, _take_back, _held_until = lease.give, lease.take_back, lease.held_until


def _gives_to_all(vote: Vote, candidate: str, number: int, now: float) -> tuple[Vote, bool]:
    return _give(Vote(), candidate, number, now)


def _takes_back_what_is_newer(vote: Vote, candidate: str, number: int, now: float) -> Vote:
    return _take_back(vote, candidate, vote.number, now)


def _counts_from_the_answer(asked: list[float], candidates: int) -> float:
    return _held_until(asked, candidates) + lease.LENGTH


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "broken"),
    [
        ("give", _gives_to_all),
        ("take_back", _takes_back_what_is_newer),
        ("held_until", _counts_from_the_answer),
        ("needed", lambda candidates: 1),
        ("started", lambda now: Vote()),
    ],
)
def test_the_search_finds_a_rule_that_is_missing(
    rule: str, broken: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, rule, broken)
    with pytest.raises(AssertionError, match="votes for"):
        search(100_000)


# --- real candidates -----------------------------------------------------------------------------


@dataclass
class Candidates:
    """Three coordinators of which one is to serve."""

    addresses: list[str] = field(default_factory=list)
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)

    def start(self, address: str) -> None:
        argv = [sys.executable, "-m", "trainwright_runtime", "coordinator"]
        argv += [f"--candidates={','.join(self.addresses)}", "--recovery=0"]
        argv += [f"--port={address.rpartition(':')[2]}", f"--index={self.addresses.index(address)}"]
        self.processes[address] = subprocess.Popen(
            argv, stdout=subprocess.DEVNULL, env={**os.environ, **self.environ}
        )

    def serving(self) -> list[str]:
        return [address for address in self.addresses if _serves(address)]

    def elected(self, but: str = "") -> str:
        """Wait until one serves."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            serving = self.serving()
            if others := [address for address in serving if address != but]:
                return others[0]
            time.sleep(0.02)
        raise TimeoutError(f"nobody but {but or 'nobody'} was elected")


def _serves(address: str) -> bool:
    try:
        lines, greeting = connected(address, 0.1)
    except OSError:
        return False
    lines.close()
    return bool(greeting["serves"])


@contextmanager
def candidates() -> Iterator[Candidates]:
    group = Candidates([f"127.0.0.1:{port}" for port in free_ports()])
    try:
        for address in group.addresses:
            group.start(address)
        yield group
    finally:
        for process in group.processes.values():
            process.kill()
            process.wait()


def free_ports() -> list[int]:
    """Apart from each other: a registry takes one of the ports above the coordinator's."""
    ports: list[int] = []
    while len(ports) < COUNT:
        port = free_port()
        if all(abs(port - other) > 10 for other in ports):
            ports.append(port)
    return ports


@pytest.mark.slow
def test_another_candidate_follows_one_that_is_lost_paused_or_stopped() -> None:
    with candidates() as group:
        first = group.elected()
        group.processes[first].kill()
        group.processes[first].wait()
        second = group.elected()
        assert second != first
        group.start(first)
        group.processes[second].send_signal(SIGSTOP)
        third = group.elected(but=second)
        group.processes[second].send_signal(SIGCONT)
        assert group.processes[second].wait(60) == coordinator.STEPPED_DOWN
        assert group.serving() == [third]
        group.start(second)
        group.processes[third].terminate()
        assert group.processes[third].wait(60) == 0
        assert group.elected() != third


@pytest.mark.slow
def test_one_candidate_of_three_is_never_elected() -> None:
    with candidates() as group:
        first = group.elected()
        others = [address for address in group.addresses if address != first]
        for address in others:
            group.processes[address].kill()
            group.processes[address].wait()
        assert group.processes[first].wait(60) == coordinator.STEPPED_DOWN
        assert group.serving() == []
        group.start(first)
        group.start(others[0])
        assert group.elected()


def test_that_training_is_over_is_known_to_the_next_coordinator() -> None:
    with candidates() as group:
        first = group.elected()
        worker = Session(group.addresses, "a-1", silence=60)
        assert worker.request_step(0) is Answer.FOUND
        assert worker.complete("a-1") is Answer.LEAD
        worker.lead()
        worker.finish()
        worker.close()
        group.processes[first].kill()
        group.elected(but=first)
        late = Session(group.addresses, "b-1", silence=60)
        assert late.request_step(0) is Answer.OVER
        late.close()


def test_that_training_is_over_stays_known_where_the_other_candidates_leave() -> None:
    """The elected one has no votes any more, and no other one can be elected."""
    with candidates() as group:
        first = group.elected()
        worker = Session(group.addresses, "a-1", silence=60)
        assert worker.request_step(0) is Answer.FOUND
        assert worker.complete("a-1") is Answer.LEAD
        worker.lead()
        worker.finish()
        worker.close()
        for other in set(group.addresses) - {first}:
            group.processes[other].kill()
        time.sleep(2 * lease.LENGTH)  # for which its votes count
        late = Session(group.addresses, "b-1", silence=60)
        assert late.request_step(0) is Answer.OVER
        late.close()


@pytest.fixture
def elected() -> Iterator[str]:
    """The address of a coordinator that was elected, the only candidate there is."""
    address = f"127.0.0.1:{free_port()}"
    election = Election([address], 0)
    port = int(address.rpartition(":")[2])
    registry = Registry(port, recovery=0, silence=60, election=election)
    assert election.win()
    registry.serve()
    yield address
    election.resign()
    registry.close()


@pytest.mark.parametrize("phase", [Phase.LEADS, Phase.ENDING])
def test_a_worker_that_does_not_lead_ends_no_training(elected: str, phase: Phase) -> None:
    trains = Session([elected], "b-1", silence=60)
    assert trains.request_step(1) is Answer.FOUND  # lineage 2/b-1
    fenced = Session([elected], "a-1", silence=60)
    fenced.lineage, fenced.phase = "1/a-1", phase
    fenced.finish()
    assert fenced.phase is Phase.STALE
    assert trains.request_step(1) is Answer.TRAIN
    fenced.close()
    trains.close()


_NOT_A_MESSAGE = [5, [], None, "candidate", {}, {"do": "vote", "candidate": None}, {"worker": []}]


class Listener:
    """What a coordinator listens with, answered by a test."""

    def __init__(self) -> None:
        self._accepted: Queue[Channel] = Queue()
        self._ended = threading.Event()
        self._server = Server(["127.0.0.1"], 0, COORDINATOR, self._serve)
        self.address = f"127.0.0.1:{self._server.port}"

    def accept(self) -> Channel:
        return self._accepted.get(timeout=60)

    def close(self) -> None:
        self._ended.set()
        self._server.close()

    def _serve(self, channel: Channel) -> None:
        self._accepted.put(channel)
        self._ended.wait()


@pytest.fixture
def listener() -> Iterator[Listener]:
    with closing(Listener()) as found:
        yield found


def _greet(listener: Listener, greeting: dict[str, Any]) -> Channel:
    channel = listener.accept()
    channel.write(greeting)
    return channel


@pytest.mark.parametrize("message", _NOT_A_MESSAGE, ids=repr)
@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_registry_closes_a_connection_that_sends_something_else(
    message: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    port = free_port()
    election = Election([f"127.0.0.1:{port}"], 0)
    registry = Registry(port, recovery=0, silence=60, election=election)
    lines, _ = connected(f"127.0.0.1:{port}", 60)
    lines.connection.settimeout(60)
    lines.write(message)
    with pytest.raises(ConnectionError):
        lines.read()
    lines.close()
    registry.close()
    assert not capfd.readouterr().err


@pytest.mark.parametrize("answer", [5, [], {}, {"given": True, "number": None, "finished": False}])
def test_a_candidate_asks_again_after_any_answer(listener: Listener, answer: Any) -> None:
    candidates = [f"127.0.0.1:{free_port()}", listener.address]
    election = Election(candidates, 0)
    for _ in range(2):
        finishing = threading.Thread(target=election.finish)
        finishing.start()
        lines = _greet(listener, {})
        lines.read()
        lines.write(answer)
        with pytest.raises(ConnectionError):
            lines.read()
        lines.close()
        finishing.join()


_REPLY = {
    "phase": "new", "answer": "wait", "lineage": "", "joining": "", "waiting": "", "late": "",
}  # fmt: skip
_NOT_REPLIES = [
    {},
    {"phase": "new"},
    _REPLY | {"phase": "no phase"},
    _REPLY | {"phase": None},
    _REPLY | {"answer": "no answer"},
    _REPLY | {"lineage": 7},
    _REPLY | {"lineage": "x/y"},
    _REPLY | {"late": None},
]


@pytest.mark.parametrize("reply", _NOT_REPLIES, ids=repr)
def test_a_worker_takes_no_broken_reply_and_asks_again(
    listener: Listener, reply: dict[str, Any]
) -> None:
    worker = Session([listener.address], "a-1", silence=60)
    answers: list[object] = []

    def ask() -> None:
        for _ in range(2):
            try:
                answers.append(worker.request_step(0))
            except OSError as error:
                answers.append(type(error))
        worker.close()

    asking = threading.Thread(target=ask)
    asking.start()
    for text in (reply, _REPLY):
        lines = _greet(listener, {"serves": True, "life": "1"})
        lines.read()
        lines.write(text)
        with pytest.raises(ConnectionError):  # until the worker is done with it
            lines.read()
        lines.close()
    asking.join()
    assert answers == [ConnectionError, Answer.WAIT]
    assert (worker.lineage, worker.phase) == ("", Phase.NEW)


@pytest.mark.parametrize("reply", _NOT_REPLIES, ids=repr)
def test_a_worker_that_waits_for_a_step_outlives_a_broken_reply(
    listener: Listener, reply: dict[str, Any]
) -> None:
    address = Address(
        coordinator=listener.address, name="a", min_replicas=1, backend="gloo",
        timeouts=Timeouts(),
    )  # fmt: skip
    worker = Replica(address, Callbacks(dump=dict, load=lambda _: None))
    with ThreadPoolExecutor() as threads:
        joined = threads.submit(worker.join)
        for answer in (reply, _REPLY | {"answer": "over"}):
            lines = _greet(listener, {"serves": True, "life": "1"})
            lines.read()
            lines.write(answer)
            lines.close()
        with pytest.raises(TrainingOver):
            joined.result()
    worker.close()


def test_a_worker_that_began_alone_and_took_no_step_is_new_again(listener: Listener) -> None:
    """Others began meanwhile, and are gone: what it has is what it was started with."""
    address = Address(
        coordinator=listener.address, name="a", min_replicas=2, backend="gloo",
        timeouts=Timeouts(),
    )  # fmt: skip
    worker = Replica(address, Callbacks(dump=dict, load=lambda _: None))
    answers = iter([
        {"answer": "found", "phase": "holds", "lineage": "1/a"},
        {"answer": "restart", "phase": "stale", "lineage": "2/b"},
        {"answer": "over"},
    ])  # fmt: skip
    asked: list[str] = []
    with closing(worker), ThreadPoolExecutor() as threads:
        joined = threads.submit(worker.join)
        lines = _greet(listener, {"serves": True, "life": "1"})
        threads.submit(lambda: listener.accept().close())  # for the quorum, which there is none of
        reply = _REPLY
        while len(asked) < 3 and not joined.done():
            message = lines.read()
            if message["do"] == "step":
                asked.append(message["phase"])
                reply = _REPLY | next(answers)
            lines.write(reply | ({} if message["do"] == "step" else {"answer": ""}))
        with pytest.raises(TrainingOver):
            joined.result()
    assert asked == ["new", "holds", "new"]


def test_a_candidate_that_does_not_know_whether_it_serves_is_not_the_coordinator(
    listener: Listener,
) -> None:
    worker = Session([f"127.0.0.1:{free_port()}", listener.address], "a-1", silence=60)
    refused: list[Exception] = []

    def ask() -> None:
        try:
            worker.request_step(0)
        except OSError as error:
            refused.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    _greet(listener, {}).close()
    asking.join(60)
    assert refused


@pytest.mark.parametrize("finished", [False, True])
def test_a_candidate_whose_node_is_done_ends_without_the_others(finished: bool) -> None:
    """Each of them with its own two others, that are gone; it has voted for itself meanwhile."""
    processes = []
    for index in range(COUNT):
        group = Candidates([f"127.0.0.1:{port}" for port in free_ports()])
        group.environ = {"TRAINWRIGHT_GRACE_PERIOD": "600" if finished else "1.5"}
        own = group.addresses[index]
        group.start(own)
        processes.append(group.processes[own])
        lines = _candidate(own)
        lost = {"candidate": (index + 1) % COUNT, "number": 1, "finished": finished}
        lines.write({"do": "withdraw", **lost, "process": "of one that is lost"})
        lines.read()
        lines.close()
    time.sleep(1.2 * lease.LENGTH)  # after which it may vote
    for process in processes:
        process.send_signal(SIGINT)
    try:
        assert [process.wait(60) for process in processes] == [0] * COUNT
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _candidate(address: str) -> Channel:
    """A connection to a candidate, once it is there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            return connected(address, 1)[0]
        except OSError:
            time.sleep(0.02)
    raise TimeoutError(address)


@pytest.fixture
def alone() -> Election:
    """The only candidate there is, elected."""
    election = Election([f"127.0.0.1:{free_port()}"], 0)
    assert election.win()
    return election


def _asked_by(election: Election, process: str, number: int) -> bool:
    """Whether it votes for this process, which is another candidate."""
    request = {"do": "vote", "candidate": 1, "number": number, "finished": False}
    return bool(election.answer({**request, "process": process})["given"])


def test_a_candidate_that_resigned_does_not_ask_again(alone: Election) -> None:
    alone.resign()
    alone.finish()
    assert _asked_by(alone, "another one", 1)


def test_two_processes_of_one_candidate_are_not_voted_for_at_a_time(alone: Election) -> None:
    assert not _asked_by(alone, "first", 1000)
    alone.resign()
    assert _asked_by(alone, "first", 1)
    assert not _asked_by(alone, "second", 2)
    assert _asked_by(alone, "first", 2)


def test_a_voter_reports_two_processes_of_one_candidate() -> None:
    voter = Election([f"127.0.0.1:{port}" for port in free_ports()], 1)

    def duplicate(candidate: int, process: str) -> bool:
        request = {"do": "vote", "candidate": candidate, "number": 1, "finished": False}
        return bool(voter.answer({**request, "process": process})["duplicate"])

    assert not duplicate(0, "first")
    assert not duplicate(2, "third")
    assert duplicate(0, "second")
    assert not duplicate(0, "first")
    assert duplicate(1, "another one with the voter's own index")


def test_a_candidate_that_another_process_is_too_is_not_the_coordinator(
    listener: Listener,
) -> None:
    """Each of the two could have one other vote, and its own."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports()[:2]]
    election = Election([addresses[0], listener.address, addresses[1]], 0)
    elected = threading.Thread(target=election.win, daemon=True)
    elected.start()
    voter = _greet(listener, {})
    while not election.holds:
        voter.write({**_granted(voter), "duplicate": False})
    voter.write({**_granted(voter), "given": False, "duplicate": True})
    deadline = time.monotonic() + 60
    while election.holds:
        voter.write({**_granted(voter), "duplicate": False})
        assert time.monotonic() < deadline
    election.resign()
    voter.close()


def test_a_vote_that_arrives_after_its_election_was_given_up_does_not_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The voter has heard since that it is free, and may have voted for another one."""
    sent = Queue[tuple[Any, dict[str, Any], float]]()
    monkeypatch.setattr(_Peer, "send", lambda peer, *request: sent.put((peer, *request)))
    candidate = Election([f"127.0.0.1:{port}" for port in free_ports()], 0)
    threading.Thread(target=candidate.win, daemon=True).start()
    voter, request, requested = sent.get(timeout=60)
    while sent.get(timeout=60)[1]["do"] != "withdraw":
        pass
    granted = {"given": True, "number": request["number"], "finished": False, "duplicate": False}
    voter._reply_handler(requested, granted)
    while (again := sent.get(timeout=60)[1])["do"] != "vote":
        pass
    while sent.get(timeout=60)[1]["do"] != "withdraw":  # of the next one too: with its own vote
        assert not candidate.holds
    assert again["number"] > request["number"]
    assert not candidate.holds
    candidate.resign()


def _granted(voter: Channel) -> dict[str, Any]:
    """The answer to the next request."""
    return {"given": True, "number": voter.read()["number"], "finished": False}
