"""A step with newcomers: all wait until these hold the state, and for none that does not get it."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from preloaded import PROCESSES
from workers import workers

torch = pytest.importorskip("torch")
pytest.importorskip("torchft")


from trainwright_runtime.coordination.channel import connected  # noqa: E402
from trainwright_runtime.coordination.registry import Registry  # noqa: E402
from trainwright_runtime.coordination.timeouts import Timeouts  # noqa: E402
from trainwright_runtime.elastic.errors import NotLoaded  # noqa: E402
from trainwright_runtime.elastic.members import Callbacks  # noqa: E402
from trainwright_runtime.elastic.peers import FAILURES, ProcessPeers  # noqa: E402
from trainwright_runtime.elastic.replica import Address, Replica  # noqa: E402

LONG = timedelta(seconds=900)  # what no test waits for
STEP = 3

Load = Callable[[MutableMapping[str, Any]], None]


def _peers(
    patience: timedelta = LONG, state: dict[str, Any] | None = None, load: Load = dict.clear
) -> ProcessPeers:
    return ProcessPeers("gloo", patience, Callbacks(dump=lambda: state or {"part": 1}, load=load))


@contextmanager
def _two(sender: ProcessPeers, newcomer: ProcessPeers) -> Iterator[list[str]]:
    """Two members of a quorum, the second of which is behind; where the state is."""
    both = (sender, newcomer)
    addresses = [each.open("127.0.0.1") for each in both]
    with _place() as place:
        with ThreadPoolExecutor() as threads:
            forming = [
                threads.submit(each.form, place, rank, 2, 17) for rank, each in enumerate(both)
            ]
            for each in forming:
                each.result()
        try:
            yield addresses[0]
        finally:
            for peer in both:
                peer.close()


@contextmanager
def _place() -> Iterator[tuple[str, str]]:
    """A coordinator's address and process."""
    with closing(Registry(0, recovery=0, silence=60)) as registry:
        address = f"127.0.0.1:{registry.port}"
        channel, greeting = connected(address, 60)
        channel.close()
        yield address, greeting["life"]


@pytest.mark.slow
def test_a_newcomer_with_a_large_state_catches_up(tmp_path: Path) -> None:
    """Loading it takes longer than any wait for a peer: those who hold it wait, and commit."""
    parts = {f"part {number}": torch.ones(2) for number in range(5)}

    def load(state: MutableMapping[str, Any]) -> None:
        for name, part in parts.items():
            time.sleep(1)
            assert torch.equal(state.pop(name), part)

    def replica(name: str, port: int) -> Replica:
        timeouts = Timeouts(collective=4, coordinator=60)
        address = Address(
            coordinator=f"127.0.0.1:{port}", name=name, min_replicas=3, backend="gloo",
            timeouts=timeouts,
        )  # fmt: skip
        return Replica(address, Callbacks(dump=parts.copy, load=load))

    def step(replica: Replica) -> tuple[int, list[float]]:
        while True:  # as training does; what is never committed ends with Unreachable
            members, total = replica.join(), torch.ones(2)
            replica.sum(total)
            if replica.commit():
                return members.world, total.tolist()

    environ = {"TRAINWRIGHT_MIN_REPLICAS": "3"}
    with ThreadPoolExecutor() as threads, workers(tmp_path, "", environ=environ) as group:
        three = [replica(name, group.port) for name in "abc"]
        assert list(threads.map(step, three)) == [(3, [3, 3])] * 3
        for each in three:
            each.leave()
            each.close()


def test_a_newcomer_that_gets_nothing_is_given_up() -> None:
    sender, newcomer = _peers(timedelta(seconds=1)), _peers()
    with _two(sender, newcomer):
        sender.send(STEP)
        with pytest.raises(TimeoutError, match="gets nothing of the state"):
            sender.meet(STEP, [1])


def test_who_is_to_stop_waits_for_no_newcomer() -> None:
    """It saves, which must not take longer than its grace period."""
    stopping = threading.Event()
    sender = ProcessPeers(
        "gloo", LONG, Callbacks(dump=dict, load=dict.clear, stopping=stopping.is_set)
    )
    with _two(sender, _peers()), ThreadPoolExecutor() as threads:
        sender.send(STEP)
        waiting = threads.submit(sender.meet, STEP, [1])
        stopping.set()
        with pytest.raises(ConnectionError, match="is to stop"):
            waiting.result(60)


def test_what_one_of_them_cannot_do_the_others_do_not_wait_for() -> None:
    sender, newcomer = _peers(), _peers()
    with _two(sender, newcomer):
        with socket.create_server(("127.0.0.1", 0)) as unused:
            closed = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(FAILURES):
            newcomer.receive([closed], STEP)
        with pytest.raises(ConnectionError, match="did not get the state"):
            sender.meet(STEP, [1])


def test_a_state_that_needs_too_much_memory_is_not_a_failure_of_peers() -> None:
    """They would try again together, for ever."""
    huge = {"part": torch.zeros(1).expand(2**50)}
    sender, newcomer = _peers(state=huge), _peers()
    with _two(sender, newcomer) as state:
        sender.send(STEP)
        with pytest.raises(NotLoaded, match=r"needs more memory: .*DefaultCPUAllocator"):
            newcomer.receive(state, STEP)
        with pytest.raises(ConnectionError):
            sender.meet(STEP, [1])


def test_neither_is_one_that_the_device_has_no_room_for() -> None:
    def load(_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    sender, newcomer = _peers(), _peers(load=load)
    with _two(sender, newcomer) as state:
        sender.send(STEP)
        newcomer.receive(state, STEP)
        with pytest.raises(NotLoaded, match="needs more memory: CUDA out of memory"):
            newcomer.load()


def test_while_the_state_is_read_no_step_is_committed() -> None:
    """A reader that cannot be got rid of: the step fails, and the program goes on."""
    peers, other = _peers(), _peers()
    with _two(peers, other):
        peers.send(STEP)
        assert peers._transport is not None
        offer = peers._transport._offer
        offer._patience = 0.05
        with socket.socket() as unconnected, offer.reading(STEP, unconnected) as parts:
            assert parts is not None
            assert not peers.arrived()
            assert not peers.arrived()
        peers._error = None  # as in the next step
        assert peers.arrived()


def _killed(address: list[str], place: tuple[str, str], when: str) -> None:
    def die(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    peers = _peers(load=die)
    peers.open("127.0.0.1")
    peers.form(place, 1, 2, 17)
    if when == "receiving":
        threading.Thread(target=peers.receive, args=(address, STEP)).start()
        while not peers._noted:
            pass
        die()
    peers.receive(address, STEP)
    peers.load()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["receiving", "loading"])
def test_a_newcomer_that_is_killed_is_not_waited_for(when: str) -> None:
    """By the kernel's word, not by a time-out."""
    large = {"part": torch.zeros(256 * 1024 * 1024, dtype=torch.uint8)}
    sender = _peers(state=large if when == "receiving" else None)
    with _place() as place:
        arguments = (sender.open("127.0.0.1"), place, when)
        newcomer = PROCESSES.Process(target=_killed, args=arguments)
        newcomer.start()
        try:
            sender.form(place, 0, 2, 17)
            sender.send(STEP)
            with pytest.raises(ConnectionError):
                sender.meet(STEP, [1])
            newcomer.join()
            assert newcomer.exitcode == -signal.SIGKILL
        finally:
            newcomer.kill()
            sender.close()
