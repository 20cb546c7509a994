"""The elastic loop: the same training whatever the world, stopped, resumed, moved or resized."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from math import inf
from pathlib import Path
from typing import Any

import pytest
import torch
from workers import SCRIPT, digits, workers

from trainwright_runtime import elastic
from trainwright_runtime.coordination.channel import connected
from trainwright_runtime.coordination.quorum import Patience, Request
from trainwright_runtime.coordination.registry import Registry
from trainwright_runtime.coordination.rules import Answer
from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.elastic import audit
from trainwright_runtime.elastic.errors import StoppedWaiting
from trainwright_runtime.elastic.members import Callbacks
from trainwright_runtime.elastic.replica import Address, Replica
from trainwright_runtime.elastic.session import Session
from trainwright_runtime.launch.machine import free_port

EXACT = 1e-9
# Sums of float32 gradients in another order; seen: 2e-6 after 3 epochs.
REORDERED = 1e-3


def _alone(folder: Path, epochs: int, options: dict[str, Any] | None = None, **environ: str) -> Any:
    """Run the digits training in one process; its report."""
    folder.mkdir(exist_ok=True)
    digits(folder)
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), str(epochs), "0", json.dumps(options or {})],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Three epochs by one process: what every other way to train is compared with."""
    return _alone(tmp_path_factory.mktemp("calm"), 3)


@pytest.mark.slow
def test_three_workers_train_what_one_does(calm: Any, tmp_path: Path) -> None:
    environ = {"TRAINWRIGHT_MIN_REPLICAS": "3"}  # else the first one begins alone
    with workers(tmp_path, "w0 w1 w2", "3", "0", environ=environ) as group:
        assert group.wait() == {"w0": 0, "w1": 0, "w2": 0}, group.logs()
        for report in group.reports():
            assert report["step"] == calm["step"]
            assert report["losses"] == pytest.approx(calm["losses"], rel=REORDERED)
            assert report["weights"] == pytest.approx(calm["weights"], rel=REORDERED)
        assert audit.main([str(group.audit), "--epochs=3"]) == 0


@pytest.mark.slow
def test_a_newcomer_to_long_steps_shuts_no_other_out(tmp_path: Path) -> None:
    """A worker that is left out of steps loses no record: only the world of the steps shows it."""
    with workers(tmp_path, "w0 w1", "20", "0.4") as group:
        group.wait_for_commit(workers=2)
        group.start("w2")
        met = group.wait_for_commit(workers=3)
        group.wait_for_commit(met + 10)
        worlds = {line["step"]: line["world"] for line in group.committed()}
    taken = [worlds[step] for step in range(met + 1, met + 10)]
    assert taken.count(3) >= 7, taken  # whose heartbeats a busy machine delays misses a step


def test_a_step_waits_for_all_its_members_though_a_newcomer_has_waited_long() -> None:
    with ThreadPoolExecutor() as threads, closing(Coordinator(Patience(heartbeat=inf))) as group:
        first, second = group.ask(threads, "a"), group.ask(threads, "b")
        group.let_pass(0)
        assert first.result() == second.result() == ["a", "b"]
        newcomer = group.ask(threads, "c")
        group.let_pass(1)
        first = group.ask(threads, "a")
        group.let_pass(0.2)
        assert not group.answered("a")
        second = group.ask(threads, "b")
        assert first.result() == second.result() == newcomer.result() == ["a", "b", "c"]


def test_a_newcomer_waits_through_steps_longer_than_others_are_waited_for() -> None:
    patience, stopping = Patience(heartbeat=inf, join=2), threading.Event()
    with (
        ThreadPoolExecutor() as threads,
        closing(Coordinator(patience)) as group,
        closing(Session([group.address], "a-1", silence=600)) as trains,
    ):
        assert trains.request_step(0) is Answer.FOUND
        first, second = group.ask(threads, "a"), group.ask(threads, "b")
        group.let_pass(0)
        assert first.result() == second.result() == ["a", "b"]
        newcomer = Replica(
            Address(
                coordinator=group.address, name="c", min_replicas=1, backend="gloo",
                timeouts=Timeouts(quorum=1),
            ),
            Callbacks(dump=dict, load=print, stopping=stopping.is_set),
        )  # fmt: skip
        joined = threads.submit(newcomer.join)
        taken: list[str] = []
        while len(taken) < 3:  # it may be about to ask again, and comes with the next step then
            for _ in range(4):  # a step of 2.8 s, in which it asks again and again
                group.let_pass(0.7)
                name = group.asking(since=group.now)
            first = group.ask(threads, "a")
            group.let_pass(0.2)
            assert not group.answered("a")
            second = group.ask(threads, "b")
            taken = first.result()
            assert second.result() == taken
        assert taken == ["a", "b", name]
        stopping.set()  # the others are no workers: it asks on until it is to stop
        assert isinstance(joined.exception(90), StoppedWaiting)
        newcomer.leave()
        newcomer.close()


_NOTHING = {"view": 0, "lineage": "", "group": 0, "position": "", "declared": "", "state": ""}


def _until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.001)


class Coordinator:
    """One whose time the test lets pass, and workers that do nothing but request steps."""

    def __init__(self, patience: Patience) -> None:
        self.now = 0.0
        self._registry = Registry(
            0, recovery=0, silence=600, patience=patience, clock=lambda: self.now
        )
        self.address = f"127.0.0.1:{self._registry.port}"

    def close(self) -> None:
        self._registry.close()

    def let_pass(self, seconds: float) -> None:
        self.now += seconds
        self._registry.quorums.tick()

    def ask(self, threads: ThreadPoolExecutor, name: str) -> Future[list[str]]:
        """Who takes the next step, which has been requested by then."""
        asked = threads.submit(self._request, name)
        _until(lambda: not self.answered(name) or asked.done())
        return asked

    def answered(self, name: str) -> bool:
        """Whether it does not wait for a step."""
        return name not in self._registry.quorums._requests

    def asking(self, since: float = 0) -> str:
        """Wait for a request; who it is of."""
        _until(lambda: any(each.at >= since for each in self._requests()))
        return next(each.worker for each in self._requests() if each.at >= since)

    def _requests(self) -> list[Request]:
        return list(self._registry.quorums._requests.values())

    def _request(self, name: str) -> list[str]:
        with closing(connected(self.address, 600)[0]) as channel:
            request = {"replica_id": name, "step": 0, "holds": False, "unreached": []}
            channel.write({"quorum": {**request, **_NOTHING}})
            return sorted(channel.read()["members"]["places"])


@pytest.mark.slow
def test_a_fixed_world_trains_the_same_without_a_coordinator(calm: Any, tmp_path: Path) -> None:
    digits(tmp_path)
    environ = {
        **os.environ,
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "2",
        "TRAINWRIGHT_BACKEND": "gloo",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), "3", "0"],
            cwd=tmp_path,
            env={**environ, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for process in ranks:
        output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        losses = json.loads(output.splitlines()[-1])["losses"]
        assert losses == pytest.approx(calm["losses"], rel=REORDERED)


@pytest.mark.slow
def test_pieces_of_a_batch_add_up_to_it(calm: Any, tmp_path: Path) -> None:
    report = _alone(tmp_path / "pieces", 3, {"micro_batch": 7})
    assert report["step"] == calm["step"]
    assert report["losses"] == pytest.approx(calm["losses"], rel=REORDERED)


@pytest.mark.slow
def test_stopped_and_resumed_is_as_if_never_stopped(calm: Any, tmp_path: Path) -> None:
    environ = {"TRAINWRIGHT_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    digits(tmp_path)
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), "3", "0.05"],
            cwd=tmp_path,
            env={**os.environ, **environ, "TRAINWRIGHT_AUDIT_DIR": "audit"},
            stdout=log,
            stderr=log,
        )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            logs = [path.read_text() for path in tmp_path.glob("audit/*.jsonl")]
            if any(text.count('"commit"') > 10 for text in logs):
                break
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 128 + signal.SIGTERM, (tmp_path / "log").read_text()
    report = _alone(tmp_path, 3, **environ, TRAINWRIGHT_AUDIT_DIR="audit")
    assert report["losses"] == pytest.approx(calm["losses"], rel=EXACT)
    assert report["weights"] == pytest.approx(calm["weights"], rel=EXACT)
    assert audit.main([str(tmp_path / "audit"), "--epochs=3"]) == 0


@pytest.mark.slow
def test_all_killed_and_started_again_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    environ = {
        "TRAINWRIGHT_CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "TRAINWRIGHT_CHECKPOINT_EVERY": "10",
    }
    with workers(tmp_path, "w0 w1", "6", "0.03", environ=environ) as group:
        group.wait_for_commit(25, workers=2)
        for name in ("w0", "w1"):
            group.processes[name].kill()
            group.processes[name].wait()
        group.hurry()
        group.start("w0")
        group.start("w1")
        assert group.wait() == {"w0": 0, "w1": 0}, group.logs()
        assert "going on from the checkpoint of step" in group.logs()
        verdict = audit.verify(group.audit)
    assert not verdict.problems
    assert verdict.epochs == {"train": 6, "validation": 6}


@pytest.mark.slow
def test_a_worker_that_gets_sigterm_leaves_alone(tmp_path: Path) -> None:
    with workers(tmp_path, "w0 w1", "8", "0.05") as group:
        last = group.wait_for_commit(workers=2)
        group.processes["w0"].send_signal(signal.SIGTERM)
        group.wait_for_commit(last + 10)
        group.hurry()
        assert group.wait() == {"w0": 128 + signal.SIGTERM, "w1": 0}, group.logs()
        assert audit.main([str(group.audit), "--epochs=8"]) == 0


@pytest.mark.slow
def test_who_waits_for_others_and_is_told_to_stop_saves_what_it_has(tmp_path: Path) -> None:
    """A job is stopped pod by pod: the first of the quorum may be told last, and wait by then."""
    environ = {
        "TRAINWRIGHT_CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "TRAINWRIGHT_MIN_REPLICAS": "2",
        "TRAINWRIGHT_QUORUM_TIMEOUT": "3",
    }
    with workers(tmp_path, "w0 w1", "4", "0.03", environ=environ) as group:
        group.wait_for_commit(10, workers=2)
        for name in ("w1", "w0"):
            group.processes[name].send_signal(signal.SIGTERM)
            assert group.processes[name].wait(30) == 128 + signal.SIGTERM, group.logs()
        group.hurry()
        group.start("w0")
        group.start("w1")
        assert group.wait() == {"w0": 0, "w1": 0}, group.logs()
        verdict = audit.verify(group.audit)
    assert not verdict.problems
    assert verdict.abandoned == 0  # nothing was trained twice


@pytest.mark.slow
def test_the_rate_follows_the_world_when_asked_to(tmp_path: Path) -> None:
    options = json.dumps({"resize": "rate", "replicas": 4})
    environ = {"TRAINWRIGHT_MIN_REPLICAS": "2"}
    with workers(tmp_path, "w0 w1", "1", "0", options, environ=environ) as group:
        assert group.wait() == {"w0": 0, "w1": 0}, group.logs()
        # Batches of 64 for four workers are of 32 for two: twice as many steps.
        assert {report["step"] for report in group.reports()} == {45 + 12}


@pytest.mark.slow
def test_without_a_coordinator_it_ends_with_one_line_and_asks_for_a_retry(tmp_path: Path) -> None:
    digits(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-m", "trainwright_runtime.launch.process", str(SCRIPT), "1", "0"],
        cwd=tmp_path,
        env={
            **os.environ,
            "TRAINWRIGHT_COORDINATOR": f"127.0.0.1:{free_port()}",
            "TRAINWRIGHT_COORDINATOR_TIMEOUT": "2",
            "TRAINWRIGHT_QUORUM_TIMEOUT": "1",
            "TRAINWRIGHT_BACKEND": "gloo",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 170, ended.stderr
    assert "no quorum at coordinator 127.0.0.1:" in ended.stderr
    assert "Traceback" not in ended.stderr


class Numbers:
    def __len__(self) -> int:
        return 10

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index)])


def _line() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Linear(1, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def test_a_loop_that_is_left_does_not_commit_its_step() -> None:
    with elastic.training(*_line(), Numbers(), batch_size=4, shuffle=False) as run:
        for _ in run.epochs():
            for batch in run.batches():
                first = batch.flatten().tolist()
                break
            assert run.step == 0
            again = [batch.flatten().tolist() for batch in run.batches()]
            assert again[0] == first
    assert run.step == 3


def test_sparse_gradients_train_as_dense_ones_do() -> None:
    weights = []
    for sparse in (True, False):
        torch.manual_seed(0)
        model = torch.nn.Embedding(10, 3, sparse=sparse)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        data = [torch.tensor(n) for n in (1, 2, 2, 7)]
        with elastic.training(model, optimizer, data, batch_size=4, micro_batch=2) as run:
            for _ in run.epochs():
                for words in run.batches():
                    run.backward(model(words).square().mean())
        weights.append(model.weight.detach().clone())
    assert torch.equal(*weights)


def test_datasets_are_read_in_their_order() -> None:
    both = {"train": Numbers(), "validation": Numbers()}
    with elastic.training(*_line(), both, batch_size=4) as run:
        for _ in run.epochs():
            with pytest.raises(RuntimeError, match="in the order train, validation"):
                next(run.batches("validation"))
            with pytest.raises(KeyError, match="no dataset test; there are train, validation"):
                next(run.batches("test"))
            for _ in run.batches():
                with pytest.raises(KeyError, match="loss is not among the totals"):
                    run.add(loss=1.0)
            assert len(list(run.batches("validation"))) == 3


@pytest.mark.slow
def test_averages_of_a_layer_follow_all_workers_records(tmp_path: Path) -> None:
    """Batch norm's running mean is what one worker with all records would have."""
    script = tmp_path / "norm.py"
    script.write_text(
        "import torch\n"
        "from trainwright_runtime import elastic\n"
        "model = torch.nn.Sequential(torch.nn.BatchNorm1d(1, momentum=1.0), torch.nn.Linear(1, 1))\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.01)\n"
        "data = torch.arange(8.0).reshape(8, 1)\n"
        "with elastic.training(model, optimizer, data, batch_size=8, shuffle=False) as run:\n"
        "    for _ in run.epochs():\n"
        "        for batch in run.batches():\n"
        "            run.backward(model(batch).sum())\n"
        "    print('mean', round(model[0].running_mean.item(), 4), flush=True)\n"
    )
    environ = {"TRAINWRIGHT_MIN_REPLICAS": "2"}
    with workers(tmp_path, "w0 w1", script=script, environ=environ) as group:
        assert group.wait() == {"w0": 0, "w1": 0}, group.logs()
        assert group.logs().count("mean 3.5") == 2


@pytest.mark.slow
def test_the_audit_sees_what_is_missing_and_what_is_repeated(tmp_path: Path, capsys: Any) -> None:
    _alone(tmp_path, 2, TRAINWRIGHT_AUDIT_DIR=str(tmp_path / "audit"))
    (path,) = (tmp_path / "audit").glob("*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    assert audit.main([str(tmp_path / "audit"), "--epochs=2"]) == 0
    assert audit.main([str(tmp_path / "audit"), "--epochs=3"]) == 1
    assert "2 complete epochs of 3" in capsys.readouterr().out

    share = next(i for i, line in enumerate(lines) if '"first":64' in line)
    for change, problem in (
        (lines[:share] + lines[share + 1 :], "no line of rank 0 of 1"),
        ([line.replace('"first":64', '"first":60') for line in lines], "trained twice"),
        ([line.replace('"last":128', '"last":120') for line in lines], "missing"),
        ([line.replace('"digest":', '"digest":1') for line in lines], "other records than"),
        (lines[:5] + lines[8:], "is in no file"),
    ):
        path.write_text("".join(change))
        assert audit.main([str(tmp_path / "audit")]) == 1
        assert problem in capsys.readouterr().out
