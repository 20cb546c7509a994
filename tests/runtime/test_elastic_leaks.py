"""Waiting for other workers keeps nothing open, also where garbage is never collected."""

from __future__ import annotations

import gc
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from workers import workers

from trainwright_runtime.coordination.channel import connected
from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.elastic.members import Callbacks
from trainwright_runtime.elastic.replica import Address, Replica

ATTEMPTS = 8


class _Enough(Exception):
    """So many attempts were made."""


@pytest.fixture
def _without_collection() -> Iterator[None]:
    """As large loops train: https://docs.python.org/3/library/gc.html#gc.disable"""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _open() -> tuple[int, int]:
    """How many descriptors and threads this process has."""
    return len(list(Path("/proc/self/fd").iterdir())), len(list(Path("/proc/self/task").iterdir()))


class _Counted(Replica):
    """A worker that counts what is open before each attempt to connect."""

    def __init__(self, port: int) -> None:
        timeouts = Timeouts(quorum=0.5, collective=0.5)
        address = Address(
            coordinator=f"127.0.0.1:{port}", name="a", min_replicas=1, backend="gloo",
            timeouts=timeouts,
        )  # fmt: skip
        super().__init__(address, Callbacks(dump=dict, load=lambda _: None))
        self.seen: list[tuple[int, int]] = []

    def _connect(self) -> Any:
        self.seen.append(_open())
        if len(self.seen) > ATTEMPTS:
            raise _Enough
        return super()._connect()

    def attempt(self) -> None:
        """Take steps until there were enough attempts."""
        with suppress(_Enough):
            while True:
                self.join()
                self.commit()


def _flat(seen: list[tuple[int, int]]) -> bool:
    """Whether the later attempts had no more open than the earlier ones, a beat or two aside."""
    early, late = seen[2 : ATTEMPTS // 2], seen[-2:]
    pairs = zip(zip(*late, strict=True), zip(*early, strict=True), strict=True)
    return all(max(now) <= max(then) + 2 for now, then in pairs)


@pytest.mark.usefixtures("_without_collection")
def test_waiting_for_other_workers_leaks_nothing(tmp_path: Path) -> None:
    with workers(tmp_path, "", environ={"TRAINWRIGHT_MIN_REPLICAS": "2"}) as group:
        waiting = _Counted(group.port)
        waiting.attempt()
        waiting.leave()
        waiting.close()
    assert _flat(waiting.seen), waiting.seen


@pytest.mark.usefixtures("_without_collection")
def test_a_partner_that_does_not_answer_leaks_nothing(tmp_path: Path) -> None:
    with workers(tmp_path, "") as group, socket.create_server(("127.0.0.1", 0)) as server:
        alone = _Counted(group.port)
        alone.join()
        assert alone.commit()
        with _partner(group.port, f"127.0.0.1:{server.getsockname()[1]}"):
            alone.attempt()
        alone.leave()
        alone.close()
    assert _flat(alone.seen), alone.seen


@pytest.mark.usefixtures("_without_collection")
def test_a_partner_that_cannot_be_reached_leaks_nothing(tmp_path: Path) -> None:
    with workers(tmp_path, "") as group:
        alone = _Counted(group.port)
        alone.join()
        assert alone.commit()
        with _partner(group.port, "127.0.0.1:1") as requests:
            while len(alone.seen) <= ATTEMPTS:  # steps are taken without it
                if len(requests) > len(alone.seen):
                    alone.seen.append(_open())
                alone.join()
                alone.commit()
        alone.leave()
        alone.close()
    assert _flat(alone.seen), alone.seen


@contextmanager
def _partner(port: int, address: str) -> Iterator[list[int]]:
    """A worker that requests steps and connects with no other; what is numbered are its requests.

    Others would connect with it at `address`.
    """
    ended, requests = threading.Event(), list[int]()
    thread = threading.Thread(target=_request_steps, args=(port, address, ended, requests))
    thread.start()
    try:
        yield requests
    finally:
        ended.set()
        thread.join()


def _request_steps(port: int, address: str, ended: threading.Event, requests: list[int]) -> None:
    beats = None
    member = {
        "replica_id": "z-1", "step": 0, "holds": False, "unreached": [], "view": 0,
        "lineage": "", "group": 0, "position": "", "declared": "", "state": address,
    }  # fmt: skip
    while not ended.is_set():
        requests.append(len(requests) + 1)
        with suppress(OSError):
            beats = beats or connected(f"127.0.0.1:{port}", 5)[0]
            beats.write({"beat": "z-1"})
            channel = connected(f"127.0.0.1:{port}", 5)[0]
            channel.connection.settimeout(0.2)
            channel.write({"quorum": member})
            with suppress(OSError):
                channel.read()
            channel.close()
        time.sleep(0.01)
    if beats is not None:
        beats.close()
