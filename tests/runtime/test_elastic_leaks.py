"""Waiting for other workers keeps nothing open, also where garbage is never collected."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from workers import workers

from trainwright_runtime.coordination.channel import connected
from trainwright_runtime.elastic.replica import Address, Replica
from trainwright_runtime.timeouts import Timeouts

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

    def __init__(self, port: int, **options: Any) -> None:
        timeouts = Timeouts(quorum=0.5, collective=0.5)
        address = Address(
            coordinator=f"127.0.0.1:{port}", name="a", min_replicas=1, backend="gloo",
            timeouts=timeouts,
        )  # fmt: skip
        super().__init__(address, dump=dict, load=lambda _: None, stopping=lambda: False, **options)
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
def test_a_partner_that_no_one_can_connect_with_leaks_nothing(tmp_path: Path) -> None:
    ended = threading.Event()
    with workers(tmp_path, "") as group:
        alone = _Counted(group.port)
        alone.join()
        assert alone.commit()
        partner = threading.Thread(target=_request_steps, args=(group.port, ended))
        partner.start()
        alone.attempt()
        ended.set()
        alone.leave()
        alone.close()
    partner.join()
    assert _flat(alone.seen), alone.seen


def _request_steps(port: int, ended: threading.Event) -> None:
    """Be alive, request each step, and connect with nobody."""
    beats = None
    data = {"lineage": "", "group": 0, "position": "", "state": ""}
    formed = 0
    while not ended.is_set():
        formed += 1
        member = {
            "replica_id": "z-1", "step": 0, "holds": False, "unreached": [],
            "data": {**data, "formed": formed},
        }  # fmt: skip
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
