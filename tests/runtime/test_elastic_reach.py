"""A worker that others cannot reach, though the coordinator can, does not stop them."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from nemesis import WORKERS, Forks

pytest.importorskip("torchft")

APART = WORKERS
"""A node that runs no worker, for the coordinator."""


@pytest.fixture(scope="module")
def forks() -> Iterator[Forks]:
    made = Forks()
    yield made
    made.close()


class Training:
    """Three workers on nodes of their own, which the coordinator on a fourth one always reaches."""

    def __init__(self, forks: Forks, folder: Path, environ: dict[str, str]) -> None:
        self._forks, self.folder = forks, folder
        port = forks.addresses(1)[0].rpartition(":")[2]
        self._environ = {
            **environ,
            "TRAINWRIGHT_COORDINATOR": f"10.77.0.{APART + 1}:{port}",
            "TRAINWRIGHT_AUDIT_DIR": str(folder / "audit"),
            "TRAINWRIGHT_BACKEND": "gloo",
        }
        least = environ.get("TRAINWRIGHT_MIN_REPLICAS", "1")
        argv = [f"--port={port}", f"--min-replicas={least}", "--recovery=0"]
        self._pids = [forks.start(APART, str(folder / "coordinator.log"), environ, argv)]

    def start(self, worker: int) -> int:
        environ = {**self._environ, "TRAINWRIGHT_REPLICA": f"w{worker}"}
        log = str(self.folder / f"w{worker}.log")
        self._pids.append(self._forks.start(worker, log, environ, [str(self.folder)]))
        return self._pids[-1]

    def problems(self) -> tuple[str, ...]:
        """What the audit finds of the steps so far."""
        from trainwright_runtime.elastic import audit

        return tuple(audit.verify(self.folder / "audit").problems)

    def step(self, worker: int) -> int:
        """The last step that it has committed."""
        texts = [path.read_text() for path in (self.folder / "audit").glob(f"w{worker}-*.jsonl")]
        lines = [line for text in texts for line in text.split("\n")[:-1]]
        return max((json.loads(line)["step"] for line in lines if '"commit"' in line), default=-1)

    def log(self, worker: int) -> str:
        path = self.folder / f"w{worker}.log"
        return path.read_text() if path.exists() else ""

    def goes_on(self, *workers: int, steps: int = 5) -> None:
        before = {worker: self.step(worker) for worker in workers}
        self.until(lambda: all(self.step(w) >= before[w] + steps for w in workers))

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not done():
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(self.log(worker) for worker in range(WORKERS)))
            time.sleep(0.05)

    def end(self) -> None:
        for pid in self._pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def start(forks: Forks, tmp_path: Path) -> Iterator[Callable[..., Training]]:
    if not forks.isolated:
        pytest.skip("no namespaces for networks here")
    made: list[Training] = []

    def start(**environ: str) -> Training:
        made.append(Training(forks, tmp_path, {**_PATIENT, **environ}))
        return made[0]

    yield start
    forks.ask("join", 2, [0, 1])
    made[0].end()


_PATIENT = {"TRAINWRIGHT_COLLECTIVE_TIMEOUT": "600", "RECORDS": "100000"}
"""No wait for a peer ends before the test does."""
BY_NAME = "w2 (10.77.0.3) cannot"
_HOLDER = "only w2 holds what was trained"
_TOO_FEW = "too few workers are left"


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 2])
def test_the_others_begin_without_it(
    first: int, forks: Forks, start: Callable[..., Training]
) -> None:
    """Also where it is the first one, whose state all others are to take."""
    forks.ask("cut", 2, [0, 1])
    training = start(TRAINWRIGHT_MIN_REPLICAS="2")
    for worker in (first, *({0, 1, 2} - {first})):
        training.start(worker)
    training.goes_on(0, 1)
    training.until(lambda: all(BY_NAME in training.log(worker) for worker in range(WORKERS)))
    assert training.step(2) == -1
    forks.ask("join", 2, [0, 1])
    training.goes_on(0, 1, 2)
    assert "w2 can be reached again" in training.log(0)


@pytest.mark.slow
def test_they_go_on_without_it_until_it_can_be_reached(
    forks: Forks, start: Callable[..., Training]
) -> None:
    training = start(TRAINWRIGHT_COLLECTIVE_TIMEOUT="2")
    for worker in range(WORKERS):
        training.start(worker)
    training.goes_on(0, 1, 2)
    forks.ask("cut", 2, [0, 1])
    training.goes_on(0, 1, steps=20)
    training.until(lambda: all(BY_NAME in training.log(worker) for worker in range(WORKERS)))
    alone = training.step(2)
    training.goes_on(0, 1, steps=20)
    assert training.step(2) == alone
    forks.ask("join", 2, [0, 1])
    training.goes_on(0, 1, 2)
    assert not training.problems()


@pytest.mark.slow
def test_one_that_cannot_be_reached_for_long_leaves(
    forks: Forks, start: Callable[..., Training]
) -> None:
    training = start(TRAINWRIGHT_COLLECTIVE_TIMEOUT="2", TRAINWRIGHT_COORDINATOR_TIMEOUT="4")
    for worker in range(WORKERS):
        training.start(worker)
    training.goes_on(0, 1, 2)
    forks.ask("cut", 2, [0, 1])
    training.until(lambda: "cannot connect: it leaves" in training.log(2))
    training.goes_on(0, 1)
    forks.ask("join", 2, [0, 1])
    training.start(2)
    training.goes_on(0, 1, 2)
    assert "it leaves" not in training.log(0) + training.log(1)
    assert not training.problems()


@pytest.mark.slow
def test_the_only_one_that_holds_what_was_trained_goes_on(
    forks: Forks, start: Callable[..., Training]
) -> None:
    """Without the others that cannot reach it, until it is ended."""
    training = start()
    forks.ask("cut", 2, [0, 1])
    alone = training.start(2)
    training.goes_on(2)
    for worker in (0, 1):
        training.start(worker)
    training.until(lambda: all(_HOLDER in training.log(worker) for worker in (0, 1)))
    training.goes_on(2)
    os.kill(alone, signal.SIGKILL)
    training.goes_on(0, 1)


@pytest.mark.slow
def test_where_too_few_are_left_all_wait_and_log_it(
    forks: Forks, start: Callable[..., Training]
) -> None:
    forks.ask("cut", 2, [0, 1])
    training = start(TRAINWRIGHT_MIN_REPLICAS="3")
    for worker in range(WORKERS):
        training.start(worker)
    training.until(lambda: all(_TOO_FEW in training.log(worker) for worker in range(WORKERS)))
    assert all(BY_NAME in training.log(worker) for worker in range(WORKERS))
    forks.ask("join", 2, [0, 1])
    training.goes_on(0, 1, 2)


def test_a_name_that_resolves_no_more_is_not_reached() -> None:
    from trainwright_runtime.elastic.reach import unreached

    assert unreached({"w1": "no-such-host.invalid:29500"}) == {"w1": "no-such-host.invalid:29500"}
