"""How a training ends: with 0 when every epoch is committed and its end was run, and only then."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from containers import Entrypoint
from preloaded import Script
from workers import SCRIPT, digits, workers

from trainwright_runtime.checkpoint.objects import store_of
from trainwright_runtime.coordination import ending
from trainwright_runtime.coordination.ending import Life, Stage
from trainwright_runtime.coordination.registry import Registry
from trainwright_runtime.coordination.rules import (
    Answer,
    Phase,
    Run,
    enter,
    recovered,
    request_step,
)
from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.elastic import audit
from trainwright_runtime.elastic.errors import TrainingOver
from trainwright_runtime.elastic.members import Callbacks
from trainwright_runtime.elastic.replica import Address, Replica
from trainwright_runtime.elastic.session import Session
from trainwright_runtime.launch.machine import free_port
from trainwright_runtime.recovery.live import _Child

# --- the registry, as workers see it -------------------------------------------------------------


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def registries(port: int) -> Iterator[Callable[..., Registry]]:
    opened = []

    def start(recovery: float = 0) -> Registry:
        opened.append(Registry(port, recovery=recovery, silence=60))
        return opened[-1]

    yield start
    for registry in opened:
        registry.close()


@pytest.fixture
def session(port: int) -> Iterator[Callable[..., Session]]:
    opened = []

    def connect(name: str) -> Session:
        opened.append(Session([f"127.0.0.1:{port}"], f"{name}-1", silence=60))
        return opened[-1]

    yield connect
    for one in opened:
        one.close()


def _until(happens: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_one_worker_begins_and_the_others_follow_it(
    registries: Callable[..., Registry], session: Callable[[str], Session]
) -> None:
    registries()
    first, second = session("a"), session("b")
    assert first.request_step(0) is Answer.FOUND
    assert second.request_step(0) is Answer.FOLLOW
    assert second.lineage == first.lineage == "1/a-1"
    assert second.behind
    second.hold()
    first.close()
    _until(lambda: second.request_step(0) is Answer.TRAIN)


def test_no_worker_begins_while_a_worker_may_come_back_to_a_new_coordinator(
    registries: Callable[..., Registry], session: Callable[[str], Session]
) -> None:
    lost = registries()
    worker = session("a")
    assert worker.request_step(0) is Answer.FOUND
    lost.close()
    worker._disconnect()  # as when its process had died
    registries(recovery=60)
    newcomer = session("b")
    _until(
        lambda: newcomer.request_step(0) is Answer.FOLLOW
    )  # the worker says what it holds by itself
    assert newcomer.lineage == worker.lineage


def test_a_worker_that_no_other_reaches_does_not_begin() -> None:
    """The others would follow it, and could not take over what it holds."""
    alone, _ = enter(Run(recovering=False), "a", "", Phase.NEW)
    assert request_step(alone, "a", Phase.NEW, apart=True) == (alone, Answer.WAIT)
    assert request_step(alone, "a", Phase.NEW)[1] is Answer.FOUND


def test_of_workers_that_were_out_of_touch_the_latest_lineage_counts() -> None:
    run = Run()
    for worker, lineage in (("a", "9/a"), ("b", "10/b"), ("c", "10/b")):
        run, _ = enter(run, worker, lineage, Phase.HOLDS, sure=False)
    run = recovered(run)
    assert (run.lineage, run.holders) == ("10/b", {"b", "c"})
    assert enter(run, "a", "9/a", Phase.HOLDS)[1] is Phase.STALE


def test_a_generation_comes_after_that_of_the_checkpoint(
    registries: Callable[..., Registry], session: Callable[[str], Session]
) -> None:
    registries()
    worker = session("a")
    assert worker.request_step(6) is Answer.FOUND
    assert worker.lineage == "7/a-1"


def test_a_latecomer_hears_that_training_is_over_once_its_end_was_run(
    registries: Callable[..., Registry], session: Callable[[str], Session]
) -> None:
    registry = registries()
    worker, other, late = (session(name) for name in "abc")
    assert worker.request_step(0) is Answer.FOUND
    assert other.request_step(0) is Answer.FOLLOW
    other.hold()
    assert other.complete("a-1") is Answer.WAIT  # the first of the quorum leads, when it gets there
    assert worker.complete("a-1") is Answer.LEAD
    assert late.request_step(0) is Answer.WAIT
    worker.lead()
    assert other.complete("a-1") is Answer.OVER
    other.close()
    assert registry.leader() == "a"
    worker.finish()
    worker.close()
    assert late.request_step(0) is Answer.OVER
    assert registry.missing() == []


def test_the_end_is_run_by_another_when_its_worker_is_lost(
    registries: Callable[..., Registry], session: Callable[[str], Session]
) -> None:
    registries()
    worker, other = session("a"), session("b")
    assert worker.request_step(0) is Answer.FOUND
    assert other.request_step(0) is Answer.FOLLOW
    other.hold()
    assert worker.complete("a-1") is Answer.LEAD
    assert other.complete("a-1") is Answer.WAIT
    worker.close()
    _until(lambda: other.complete("a-1") is Answer.LEAD)
    assert other.leads


def test_who_was_lost_before_the_end_is_missing_until_it_comes_back(
    registries: Callable[..., Registry], session: Callable[[str], Session]
) -> None:
    registry = registries()
    worker, lost = session("a"), session("b")
    assert worker.request_step(0) is Answer.FOUND
    assert lost.request_step(0) is Answer.FOLLOW
    lost.close()
    assert worker.complete("a-1") is Answer.LEAD
    worker.finish()
    _until(lambda: registry.missing() == ["b"])
    back = session("b")
    assert back.request_step(0) is Answer.OVER
    assert registry.missing() == []


def test_who_is_still_connected_is_missing_until_it_hears_that_training_is_over(
    registries: Callable[..., Registry], session: Callable[[str], Session]
) -> None:
    """The coordinator left while the last step of another node was on its way, which then waited
    for a coordinator in vain.
    """
    registry = registries()
    worker, slow = session("a"), session("b")
    assert worker.request_step(0) is Answer.FOUND
    assert slow.request_step(0) is Answer.FOLLOW
    slow.hold()
    assert worker.complete("a-1") is Answer.LEAD
    assert registry.missing() == []  # of a training that goes on
    worker.finish()
    assert registry.missing() == ["b"]
    assert slow.complete("a-1") is Answer.OVER
    assert registry.missing() == []


def test_who_is_in_a_step_while_others_wait_is_found(
    registries: Callable[..., Registry], session: Callable[[str], Session], port: int
) -> None:
    registry = registries()
    registry._stall = 0
    waits, hangs = session("a"), session("b")
    assert waits.request_step(0) is Answer.FOUND
    assert hangs.request_step(0) is Answer.FOLLOW
    hangs.hold()
    message = {"worker": "b-1", "lineage": hangs.lineage, "phase": "holds", "sure": True}
    message = {"do": "enter", "doing": "step", **message}
    assert registry.answer(message, None)["waiting"] == ""
    waits.doing = "waiting"
    waits.confirm()
    assert registry.answer(message, None)["waiting"] == "a"
    waits.confirm()
    assert waits.late == "b"


def test_a_worker_that_was_replaced_cannot_complete(
    registries: Callable[..., Registry], session: Callable[[str], Session]
) -> None:
    registries()
    old, new = session("a"), session("b")
    assert old.request_step(0) is Answer.FOUND
    stale = old.lineage
    old._disconnect()
    _until(lambda: new.request_step(0) is Answer.FOUND)
    assert not old.confirm()
    old.lineage, old.phase = stale, Phase.HOLDS
    assert old.complete("a-1") is Answer.WAIT
    assert old.behind


# --- what a worker leaves behind -----------------------------------------------------------------


def test_a_life_is_read_as_it_was_noted(tmp_path: Path) -> None:
    environ = {ending.VARIABLE: str(tmp_path / "life")}
    assert ending.read(tmp_path / "life") == Life()
    for life in (Life(stage=Stage.COMMITTED, step=7), Life(stage=Stage.OVER, leads=True)):
        ending.note(life, environ)
        assert ending.read(tmp_path / "life") == life
    for text in ("", "[]", "null", '{"stage": "over"}', '{"stage": "gone", "step": 1}'):
        (tmp_path / "life").write_text(text)
        assert ending.read(tmp_path / "life") == Life()


def test_the_record_of_the_end_is_whole_or_not_there(tmp_path: Path) -> None:
    assert ending.recorded_epochs(tmp_path) == 0
    (tmp_path / "finished.json").write_text('{"epochs": 3')
    assert ending.recorded_epochs(tmp_path) == 0
    ending.record(tmp_path, epochs=3, step=87)
    assert ending.recorded_epochs(tmp_path) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["finished.json"]


def test_the_record_of_the_end_is_in_object_storage_where_checkpoints_are(tmp_path: Path) -> None:
    store = store_of("memory://finished/run").path
    assert ending.recorded_epochs(store) == 0
    (store / "finished.json").write_bytes(b'{"epochs": 3')
    assert ending.recorded_epochs(store) == 0
    ending.record(store, epochs=3, step=87)
    assert ending.recorded_epochs(store) == 3
    assert [path.url for path in store.iterdir()] == ["memory://finished/run/finished.json"]


def test_a_worker_whose_checkpoints_go_to_a_url_records_its_end_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FSSPEC_FILE_AUTO_MKDIR", "yes")  # as stores do
    store = f"local://{tmp_path}/store"
    code, log = _with_coordinator(tmp_path, checkpoints=store)
    assert code == 0, log
    assert json.loads((tmp_path / "store/finished.json").read_text())["epochs"] == 1
    assert ending.read(tmp_path / "life").leads
    code, log = _with_coordinator(tmp_path, checkpoints=store)
    assert code == 0, log
    assert ending.read(tmp_path / "life") == Life(stage=Stage.OVER)  # it ran nothing again


def _worker(folder: Path, epochs: int, **environ: str) -> subprocess.CompletedProcess[str]:
    digits(folder)
    return subprocess.run(
        [sys.executable, str(SCRIPT), str(epochs), "0"],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_latecomer_ends_with_0_where_no_other_is_left_to_ask(tmp_path: Path) -> None:
    ending.record(tmp_path / "checkpoints", epochs=2, step=58)
    ended = _worker(
        tmp_path,
        2,
        TRAINWRIGHT_CHECKPOINT_DIR=str(tmp_path / "checkpoints"),
        TRAINWRIGHT_COORDINATOR=f"127.0.0.1:{free_port()}",
        TRAINWRIGHT_BACKEND="gloo",
        TRAINWRIGHT_LIFE_FILE=str(tmp_path / "life"),
    )
    assert ended.returncode == 0, ended.stderr
    assert "training of 2 epochs is over" in ended.stderr
    assert ended.stdout == ""  # its program's end is not run again
    assert ending.read(tmp_path / "life").stage is Stage.OVER


# A worker and its coordinator in one process, with what happens to either of them meanwhile: once
# the worker has read its checkpoint, after a step, and at the end.
WITH_COORDINATOR = """
import os, shutil, signal, sys, threading, time
from dataclasses import replace
from pathlib import Path
import torch
from trainwright_runtime import elastic
from trainwright_runtime.checkpoint.objects import store_of
from trainwright_runtime.coordination import ending
from trainwright_runtime.coordination.registry import Registry
from trainwright_runtime.elastic.session import Session
port, read, stepped, ended = int(sys.argv[1]), *sys.argv[2:]
folder = Path(os.environ["TRAINWRIGHT_CHECKPOINT_DIR"])
def restart():
    time.sleep(0.5)
    return Registry(port, recovery=0, silence=60)
def lose():
    registry.close()
    for connection in list(registry._connections.values()):
        connection.connection.shutdown(2)
registry = Registry(port, recovery=0, silence=60)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
with elastic.training(model, optimizer, torch.ones(8, 1), batch_size=4, epochs=1) as run:
    exec(read)
    for epoch in run.epochs():
        for batch in run.batches():
            run.backward(model(batch).sum())
            exec(stepped)
assert run.rank == 0
exec(ended)
"""


def _with_coordinator(
    folder: Path, *, read: str = "", stepped: str = "", ended: str = "", checkpoints: str = ""
) -> tuple[int, str]:
    """The exit code and the log."""
    port, log = free_port(), folder / "log"
    (folder / "train.py").write_text(WITH_COORDINATOR)
    process = Script(
        folder / "train.py",
        (str(port), read, stepped, ended),
        cwd=folder,
        env={
            **os.environ,
            "TRAINWRIGHT_COORDINATOR": f"127.0.0.1:{port}",
            "TRAINWRIGHT_BACKEND": "gloo",
            "TRAINWRIGHT_REPLICA": "w0",
            "TRAINWRIGHT_CHECKPOINT_DIR": checkpoints or str(folder / "checkpoints"),
            "TRAINWRIGHT_CHECKPOINT_EVERY": "100",
            "TRAINWRIGHT_AUDIT_DIR": str(folder / "audit"),
            "TRAINWRIGHT_LIFE_FILE": str(folder / "life"),
            "TRAINWRIGHT_QUORUM_TIMEOUT": "2",
        },
        log=log,
    )
    return process.wait(120), log.read_text()


@pytest.mark.parametrize("change", ["lineage", "leader"])
def test_a_worker_whose_end_is_refused_records_none(change: str, tmp_path: Path) -> None:
    checkpoints, audited = tmp_path / "checkpoints", tmp_path / "audit"
    # As when this worker was cut off, and has not heard of it yet.
    displaced = f"registry._run = replace(registry._run, {change}='2/other-1')"
    code, log = _with_coordinator(tmp_path, ended=displaced)
    assert code == 0, log
    life = ending.read(tmp_path / "life")
    # Another one runs the end of the same training, or trains on, which this one has to join.
    assert life.stage is (Stage.COMPLETE if change == "leader" else Stage.COMMITTED)
    assert not life.leads
    assert ending.recorded_epochs(checkpoints) == 0
    assert '"end"' not in "".join(file.read_text() for file in audited.iterdir())


@pytest.mark.parametrize(
    "meanwhile",
    ["ending.record(folder, 1, 2)", "shutil.copytree(folder.with_name('later'), folder)"],
)
def test_a_worker_does_not_begin_where_training_went_on_since_it_read_its_checkpoint(
    meanwhile: str, tmp_path: Path
) -> None:
    """The others trained on and ended, and the coordinator, which is another one, knows nothing."""
    code, log = _with_coordinator(tmp_path)
    assert code == 0, log
    (tmp_path / "checkpoints/finished.json").unlink()
    (tmp_path / "checkpoints").rename(tmp_path / "later")
    code, log = _with_coordinator(tmp_path, read=meanwhile)
    assert "training went on without the steps that this worker holds" in log
    assert "beginning" not in log
    code, log = _with_coordinator(tmp_path)
    assert code == 0, log


@pytest.mark.parametrize("wait", ["join", "complete"])
def test_a_worker_that_finds_no_coordinator_sees_that_training_is_over(
    wait: str, tmp_path: Path
) -> None:
    """It was paused, or cut off, while the others ended and left with their coordinator."""
    worker = Replica(
        Address(
            coordinator=f"127.0.0.1:{free_port()}", name="a", min_replicas=1, backend="gloo",
            timeouts=Timeouts(),
        ),
        Callbacks(
            dump=dict, load=lambda _: None,
            recorded=lambda: ending.recorded_epochs(tmp_path) >= 3,
        ),
    )  # fmt: skip
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(getattr(worker, wait))
        with pytest.raises(TimeoutError):
            waiting.result(0.5)
        ending.record(tmp_path, epochs=3, step=99)
        with pytest.raises(TrainingOver):
            waiting.result(60)
    worker.close()


def test_the_last_checkpoint_waits_for_a_coordinator_that_is_away(tmp_path: Path) -> None:
    leads = """
complete = Session.complete
def lose_the_coordinator(self, first):
    answer = complete(self, first)
    lose()
    threading.Thread(target=restart).start()
    return answer
Session.complete = lose_the_coordinator
"""
    code, log = _with_coordinator(tmp_path, read=leads)
    assert code == 0, log
    assert (tmp_path / "checkpoints/step-0000000002").is_dir()
    assert ending.recorded_epochs(tmp_path / "checkpoints") == 1


def test_a_stopped_worker_saves_where_the_coordinator_was_stopped_first(tmp_path: Path) -> None:
    code, log = _with_coordinator(tmp_path, stepped="lose(); os.kill(os.getpid(), signal.SIGTERM)")
    assert code == 143, log
    assert (tmp_path / "checkpoints/step-0000000001").is_dir()
    assert "the coordinator was not reached before a last checkpoint" in log


# --- whole trainings -----------------------------------------------------------------------------


@pytest.mark.slow
def test_a_worker_that_comes_back_after_the_end_does_not_train_again(tmp_path: Path) -> None:
    with workers(tmp_path, "w0 w1", "3", "0.02") as group:
        group.wait_for_commit(5, workers=2)
        group.processes["w1"].kill()
        group.processes["w1"].wait()
        group.hurry()
        assert group.processes["w0"].wait(120) == 0, group.logs()
        group.start("w1")
        assert group.processes["w1"].wait(120) == 0, group.logs()
        assert len(group.reports()) == 1
        assert "training of 3 epochs is over" in group.logs()
        assert audit.main([str(group.audit), "--epochs=3"]) == 0


@pytest.mark.long
@pytest.mark.slow
def test_a_newcomer_to_a_coordinator_that_came_back_joins_those_who_train(tmp_path: Path) -> None:
    with workers(tmp_path, "w0 w1", "60", "0.05") as group:
        group.wait_for_commit(10, workers=2)
        assert group.coordinator is not None
        for number in range(3):
            group.coordinator.kill()
            group.coordinator.wait()
            group.start(f"n{number}")
            time.sleep(1)  # it is about to look for the coordinator when that is back
            group.start_coordinator()
            last = max(group.commits().values())
            group.wait_for_commit(last + 3, workers=3 + number)
        group.hurry()
        assert set(group.wait().values()) == {0}, group.logs()
        verdict = audit.verify(group.audit)
        assert not verdict.problems
        assert not verdict.lost
        assert {line["generation"] for line in group.committed()} == {
            group.committed()[0]["generation"]
        }


PROGRAM = """
import os, pathlib, signal, sys, time
import torch
from trainwright_runtime import elastic
torch.set_num_threads(1)
replica = os.environ["TRAINWRIGHT_REPLICA"]
note = pathlib.Path("starts-" + replica)
with note.open("a") as file: file.write("|")
starts = note.stat().st_size
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.arange(64.0).reshape(64, 1)
with elastic.training(model, optimizer, data, batch_size=4, epochs=4) as run:
    for epoch in run.epochs():
        for batch in run.batches():
            run.backward(model(batch).square().mean() * 1e-4)
            time.sleep(0.02)
            {step}
        {epoch}
if run.rank == 0:
    pathlib.Path("model.pt").write_text(str(run.step))
    {end}
print("end", replica, run.step, flush=True)
"""


def _run(entrypoint: Entrypoint, *options: str, **code: str) -> subprocess.CompletedProcess[str]:
    text = PROGRAM.format(**{"step": "", "epoch": "", "end": "", **code})
    script = entrypoint.script("train.py", text)
    audit_folder = str(entrypoint.folder / "audit")
    argv = ["--recovery=live", "--nproc-per-node=2", "--grace-period=20", *options, "--", script]
    environ = {
        "HOSTNAME": "host",
        "TRAINWRIGHT_AUDIT_DIR": audit_folder,
        "TRAINWRIGHT_MIN_REPLICAS": "2",  # else one may be through before the other is there
    }
    return entrypoint.run(*argv, env=environ)


def _starts(entrypoint: Entrypoint, replica: str) -> int:
    return (entrypoint.folder / f"starts-{replica}").stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize("leave", ["sys.exit(0)", "os._exit(0)"])
def test_a_worker_that_ends_early_with_0_is_a_lost_one(entrypoint: Entrypoint, leave: str) -> None:
    done = _run(entrypoint, step=f"if run.step >= 20 and starts == 1 and run.rank == 1: {leave}")
    assert done.returncode == 0, done.stderr
    assert "exit code 0 before training was over" in done.stderr
    assert (entrypoint.folder / "model.pt").read_text() == "64"
    assert audit.main([str(entrypoint.folder / "audit"), "--epochs=4"]) == 0


@pytest.mark.slow
def test_a_program_that_always_ends_early_with_0_fails(entrypoint: Entrypoint) -> None:
    done = _run(entrypoint, "--max-restarts=1", step="if run.step == 5: sys.exit(0)")
    assert done.returncode == 1, done.stderr
    assert not (entrypoint.folder / "model.pt").exists()


@pytest.mark.slow
def test_training_that_has_learned_enough_ends_early_with_0(entrypoint: Entrypoint) -> None:
    done = _run(entrypoint, epoch="if epoch == 1: run.finish()")
    assert done.returncode == 0, done.stderr
    assert (entrypoint.folder / "model.pt").read_text() == "32"
    assert "lost" not in done.stderr


@pytest.mark.slow
def test_a_worker_that_is_killed_in_the_program_s_end_runs_it_again(
    entrypoint: Entrypoint, tmp_path: Path
) -> None:
    end = "if starts == 1: pathlib.Path('model.pt').unlink(); os.kill(os.getpid(), 9)"
    checkpoints = {
        "TRAINWRIGHT_CHECKPOINT_DIR": str(tmp_path / "ckpt"),
        "TRAINWRIGHT_CHECKPOINT_EVERY": "1000",
    }
    os.environ.update(checkpoints)
    try:
        script = entrypoint.script("train.py", PROGRAM.format(step="", epoch="", end=end))
        argv = ["--recovery=live", "--nproc-per-node=2", "--grace-period=20", "--", script]
        done = entrypoint.run(*argv, env={"HOSTNAME": "host", **checkpoints})
    finally:
        for name in checkpoints:
            del os.environ[name]
    assert done.returncode == 0, done.stderr
    assert (entrypoint.folder / "model.pt").read_text() == "64"
    assert json.loads((tmp_path / "ckpt" / "finished.json").read_text())["epochs"] == 4


READS_THE_WORLD = """
import os, pathlib, torch
from trainwright_runtime import elastic
torch.set_num_threads(1)
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
with elastic.training(model, optimizer, torch.ones(4, 1), batch_size=4) as run:
    for epoch in run.epochs():
        for batch in run.batches():
            run.backward(model(batch).mean())
    before = pathlib.Path("before")
    if not before.exists():
        before.touch()
        os.kill(os.getpid(), 9)
    print(run.rank, "of", run.world_size, flush=True)
"""


def test_the_world_is_known_where_a_worker_begins_after_the_last_step(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(READS_THE_WORLD)
    environ = {"TRAINWRIGHT_CHECKPOINT_DIR": str(tmp_path), "TRAINWRIGHT_CHECKPOINT_EVERY": "1"}
    with workers(tmp_path, "w0", script=script, environ=environ) as group:
        assert group.processes["w0"].wait(60) == -9, group.logs()
        group.start("w0")
        assert group.wait(60) == {"w0": 0}, group.logs()
        assert (tmp_path / "w0-2.log").read_text() == "0 of 1\n"


@pytest.mark.parametrize(
    ("steps", "restarts"),
    [((5, 5, 5), 3), ((5, 6, 7), 1), ((5, -1, 6), 1), ((-1, -1, -1), 3), ((7, 6, 7), 3)],
)
def test_restarts_are_counted_since_training_moved_on(
    steps: tuple[int, ...], restarts: int, tmp_path: Path
) -> None:
    """By the first step of each life, -1 for one that committed none."""
    worker = _Child(argv=[], environ={}, label={}, notes=tmp_path / "notes")
    for step in steps:
        ending.note(Life(step=step), {ending.VARIABLE: str(worker.notes)})
        worker.count()
    assert worker.restarts == restarts


@pytest.mark.slow
def test_restarts_do_not_add_up_while_training_moves_on(entrypoint: Entrypoint) -> None:
    die = "if run.rank == 1 and starts <= 3 and run.step >= 8 * starts: os.kill(os.getpid(), 9)"
    done = _run(entrypoint, "--max-restarts=1", step=die)
    assert done.returncode == 0, done.stderr
    assert (entrypoint.folder / "model.pt").read_text() == "64"


@pytest.mark.slow
def test_a_worker_that_dies_at_the_same_step_is_given_up(entrypoint: Entrypoint) -> None:
    done = _run(entrypoint, "--max-restarts=2", step="if run.step == 5: os.kill(os.getpid(), 9)")
    assert done.returncode == 137, done.stderr


@pytest.mark.slow
def test_a_worker_that_hangs_is_named_and_started_again(
    entrypoint: Entrypoint,
) -> None:
    """Half of the workers: the others are not the more, and cannot go on without it."""
    hang = "while run.step >= 20 and starts == 1 and run.rank == 1: time.sleep(0.1)"
    script = entrypoint.script("train.py", PROGRAM.format(step=hang, epoch="", end=""))
    argv = ["--recovery=live", "--nproc-per-node=2", "--grace-period=20", "--", script]
    environ = {
        "HOSTNAME": "host",
        "TRAINWRIGHT_MIN_REPLICAS": "2",
        "TRAINWRIGHT_STALL_TIMEOUT": "3",
    }
    done = entrypoint.run(*argv, env=environ)
    assert done.returncode == 0, done.stderr
    assert "hangs in a step while host-" in done.stderr
    assert 'train.py", line' in done.stderr
    assert (entrypoint.folder / "model.pt").read_text() == "64"


PLAIN = """
import os, torch
rank = int(os.environ.get("RANK", 0))
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model(torch.ones(1, 1)).sum().backward()
optimizer.step()
open("model.pt", "w").close()
"""


@pytest.mark.slow
def test_a_program_that_trains_without_elastic_is_refused(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", PLAIN)
    done = entrypoint.run("--recovery=live", "--nproc-per-node=2", "--", script)
    assert done.returncode == 2, done.stderr
    assert "--recovery=live" in done.stderr
    assert "elastic.training" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (entrypoint.folder / "model.pt").exists()


# --- the audit -----------------------------------------------------------------------------------


def _commit(step: int, lineage: str, parent: str, generation: str) -> dict[str, Any]:
    return {
        "kind": "commit", "step": step, "quorum": 1, "world": 1, "dataset": "train", "epoch": 0,
        "records": 2, "generation": generation, "parent": parent, "lineage": lineage,
    }  # fmt: skip


def _share(step: int, first: int) -> dict[str, Any]:
    digest = 0
    return {
        "kind": "share", "step": step, "quorum": 1, "rank": 0, "world": 1, "unit": "s",
        "first": first, "last": first + 2, "ended": first == 4, "digest": digest,
    }  # fmt: skip


def test_the_audit_follows_the_lineage_that_lives_and_says_what_was_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    datasets = {"train": {"shards": ["s"], "seed": 0, "shuffle": False}}
    lines = [
        {"kind": "start", "version": 1, "datasets": datasets},
        *(
            _commit(step, f"old{step}", f"old{step - 1}" if step else "", "1/a")
            for step in range(9)
        ),
        *(_share(step, 2 * step) for step in range(3)),
        *(
            _commit(step, f"new{step}", f"new{step - 1}" if step else "", "2/b")
            for step in range(3)
        ),
        {"kind": "end", "lineage": "new2", "step": 3, "epochs": 1},
    ]
    path = tmp_path / "w0.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    verdict = audit.verify(tmp_path)
    assert not verdict.problems
    assert (verdict.steps, verdict.epochs) == (3, {"train": 1})
    assert audit.main([str(tmp_path)]) == 0
    assert "the state of all workers was lost: 9 steps after step 0" in capsys.readouterr().out
    with path.open("a") as file:
        file.write(json.dumps({"kind": "end", "lineage": "old8", "step": 9, "epochs": 1}) + "\n")
    assert any("training ended 2 times" in problem for problem in audit.verify(tmp_path).problems)
