"""Local steps between synchronisations: the same parameters in all workers, each record once."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from preloaded import Script
from workers import Workers, digits, workers

from trainwright_runtime import elastic
from trainwright_runtime.checkpoint import CheckpointError, Checkpoints
from trainwright_runtime.coordination.activity import Activities
from trainwright_runtime.coordination.registry import IN_STEP, WAITING, Registry
from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.elastic import audit
from trainwright_runtime.elastic.cursor import cursors
from trainwright_runtime.elastic.errors import TrainingOver
from trainwright_runtime.elastic.members import Callbacks, Members
from trainwright_runtime.elastic.progress import Progress
from trainwright_runtime.elastic.replica import Address, Replica
from trainwright_runtime.elastic.session import Session
from trainwright_runtime.elastic.source import Batching
from trainwright_runtime.launch.machine import free_port

SCRIPT = Path(__file__).parent / "elastic_local.py"
PROGRAM = Path(__file__).parent / "local_program.py"
DROPPED = "local steps with"


def fixed_world(folder: Path, *arguments: str, world: int = 2) -> list[Any]:
    """What each rank reports of a world that no one leaves."""
    folder.mkdir(exist_ok=True)
    digits(folder)
    environ = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [
        Script(
            SCRIPT,
            arguments,
            cwd=folder,
            env={**environ, "RANK": str(rank), "WORLD_SIZE": str(world)},
            log=folder / f"{rank}.log",
        )
        for rank in range(world)
    ]
    codes = [rank.wait(120) for rank in ranks]
    texts = [(folder / f"{rank}.log").read_text() for rank in range(world)]
    assert codes == [0] * world, "\n".join(texts)
    return [json.loads(text.splitlines()[-1]) for text in texts]


def agreed(folder: Path, *, but: int = 0) -> dict[int, set[str]]:
    """What the workers held after each synchronisation, `but` the process of one worker."""
    found: dict[int, set[str]] = defaultdict(set)
    for path in folder.glob("digests-*"):
        if not path.name.endswith(f"-{but}"):
            for line in path.read_text().splitlines():
                number, digest = line.split()
                found[int(number)].add(digest)
    return found


@pytest.mark.slow
def test_synchronised_after_each_step_it_is_ddp(tmp_path: Path) -> None:
    ordinary = fixed_world(tmp_path / "ddp", "ddp", "1", "1", "0")
    local = fixed_world(tmp_path / "local", "local-sgd", "1", "1", "0")
    assert local[0]["weights"] == local[1]["weights"]
    for mine, theirs in zip(local[0]["weights"], ordinary[0]["weights"], strict=True):
        torch.testing.assert_close(torch.tensor(mine), torch.tensor(theirs), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("how", ["local-sgd", "diloco"])
def test_all_hold_the_same_after_each_synchronisation(tmp_path: Path, how: str) -> None:
    reports = fixed_world(tmp_path, how, "4", "2", "0")
    assert reports[0] == reports[1]
    # 22 batches: five times four, then two; and six of 64 for the validation.
    assert reports[0]["step"] == 2 * (6 + 7)
    held = agreed(tmp_path)
    assert sorted(held) == list(range(1, 2 * 6 + 1))
    assert all(len(digests) == 1 for digests in held.values())


@pytest.mark.slow
def test_it_learns_what_each_step_synchronised_learns(tmp_path: Path) -> None:
    accuracies = {
        how: fixed_world(tmp_path / how, how, "8", "15", "0")[0]["accuracy"]
        for how in ("each-step", "local-sgd", "diloco")
    }
    assert accuracies["each-step"] > 0.85
    for accuracy in accuracies.values():
        assert accuracy > accuracies["each-step"] - 0.03, accuracies


@pytest.mark.slow
@pytest.mark.parametrize("how", ["local-sgd", "diloco"])
def test_a_worker_lost_between_synchronisations_loses_its_local_steps_alone(
    tmp_path: Path, how: str
) -> None:
    with workers(tmp_path, "w0 w1 w2", how, "6", "12", "0.1", script=SCRIPT) as group:
        group.wait_for_commit(workers=3)
        # In the local steps after the first of the four synchronisations of an epoch.
        (tmp_path / "hold").touch()
        lost = group.processes["w1"]
        wait_for((tmp_path / f"held-{lost.pid}").exists, group)
        lost.kill()
        group.hurry()
        codes = group.wait()
    assert codes == {"w0": 0, "w1": -signal.SIGKILL, "w2": 0}, group.logs()
    require_each_record_once(group, 12)
    assert all(len(digests) == 1 for digests in agreed(tmp_path, but=lost.pid).values())
    # The synchronisation without it holds what the two others did, and what it did is done again.
    train = [line for line in lineage(group) if line["dataset"] == "train"]
    without = next(b for a, b in pairwise(train) if (a["world"], b["world"]) == (3, 2))
    assert without["records"] == pytest.approx(2 / 3 * 6 * 64, abs=2)
    assert 0 < next(line["records"] for line in train if line["step"] > without["step"]) < 6 * 64


@pytest.mark.slow
def test_a_newcomer_takes_over_outer_momentum_and_states(tmp_path: Path) -> None:
    with workers(tmp_path, "w0", "diloco", "6", "12", "0.02", script=SCRIPT) as group:
        group.wait_for_commit(2)
        group.start("w1")
        met = group.wait_for_commit(workers=2)
        group.wait_for_commit(met + 2, workers=2)
        group.hurry()
        assert group.wait() == {"w0": 0, "w1": 0}, group.logs()
    require_each_record_once(group, 12)
    newcomer = next(tmp_path.glob("digests-w1-*")).read_text().splitlines()
    assert int(newcomer[0].split()[0]) > 1
    assert all(len(digests) == 1 for digests in agreed(tmp_path).values())
    first, second = group.reports()
    assert first["digest"] == second["digest"]


@pytest.mark.slow
def test_workers_killed_at_any_time_come_back(tmp_path: Path) -> None:
    """Every second one during a synchronisation: as soon as it has written what it adds."""
    chance = random.Random(5)
    with workers(tmp_path, "w0 w1 w2", "local-sgd", "3", "60", "0.05", script=SCRIPT) as group:
        for number in range(8):
            group.wait_for_commit(workers=2)
            name = chance.choice(sorted(group.commits()))
            before = shares(group, name)
            if number % 2:
                time.sleep(chance.uniform(0, 0.2))
            else:
                wait_for(lambda name=name, before=before: shares(group, name) > before, group)
            group.processes[name].kill()
            group.processes[name].wait()
            group.wait_for_commit(max(group.commits().values()))
            group.start(name)
        group.hurry()
        assert set(group.wait().values()) == {0}, group.logs()
    require_each_record_once(group, 60)
    assert len({report["digest"] for report in group.reports()}) == 1


@pytest.mark.slow
def test_told_to_stop_between_synchronisations_all_keep_their_local_steps(tmp_path: Path) -> None:
    environ = {
        "TRAINWRIGHT_CHECKPOINT_DIR": str(tmp_path / "checkpoints"),
        "TRAINWRIGHT_CHECKPOINT_EVERY": "1000",
        "TRAINWRIGHT_MIN_REPLICAS": "2",
    }
    arguments = ("diloco", "100000", "4", "0.05")  # a synchronisation per epoch
    (tmp_path / "hold").touch()
    with workers(tmp_path, "w0 w1", *arguments, script=SCRIPT, environ=environ) as group:
        for process in group.processes.values():
            wait_for((tmp_path / f"held-{process.pid}").exists, group)
        for process in group.processes.values():
            process.send_signal(signal.SIGTERM)
        (tmp_path / "hold").unlink()
        assert group.wait() == {"w0": 143, "w1": 143}, group.logs()
        stopped = max(group.committed(), key=lambda line: int(line["step"]))
        assert 0 < stopped["records"] < 1408
        group.start("w0")
        group.start("w1")
        group.hurry()
        assert group.wait() == {"w0": 0, "w1": 0}, group.logs()
    require_each_record_once(group, 4)
    assert not audit.verify(group.audit).lost


@pytest.mark.slow
def test_of_two_groups_that_synchronised_nothing_one_counts(tmp_path: Path) -> None:
    """Each would go on with local steps that were cut for its own members."""
    environ = {"TRAINWRIGHT_QUORUM_TIMEOUT": "3", "TRAINWRIGHT_MIN_REPLICAS": "2"}
    names = "w0 w1 w2"
    with workers(tmp_path, names, "torn", script=PROGRAM, environ=environ) as group:
        assert set(group.wait().values()) == {0}, group.logs()
    verdict = audit.verify(group.audit)
    assert not verdict.problems, "\n".join(verdict.problems[:10])
    assert verdict.records == 24
    assert totals(group) == ["24.0"] * 3
    late = [path.name for path in tmp_path.glob("w*.log") if DROPPED in path.read_text()]
    assert sorted(late) == ["w1-2.log", "w2-3.log"]


@pytest.mark.slow
def test_those_without_a_shard_wait_for_who_reads_one(tmp_path: Path) -> None:
    """Though its local steps take longer than a step waits for a worker."""
    environ = {"TRAINWRIGHT_QUORUM_TIMEOUT": "3", "TRAINWRIGHT_MIN_REPLICAS": "3"}
    names = "w0 w1 w2"
    with workers(tmp_path, names, "shard", script=PROGRAM, environ=environ) as group:
        assert set(group.wait().values()) == {0}, group.logs()
    verdict = audit.verify(group.audit)
    assert not verdict.problems, "\n".join(verdict.problems[:10])
    assert verdict.records == 36
    assert totals(group) == ["36.0"] * 3
    assert DROPPED not in group.logs()


@pytest.mark.slow
def test_those_without_a_shard_go_on_where_who_read_it_is_lost(tmp_path: Path) -> None:
    environ = {"TRAINWRIGHT_QUORUM_TIMEOUT": "3"}
    names = "w0 w1 w2"
    with workers(tmp_path, names, "shard", script=PROGRAM, environ=environ) as group:
        wait_for(lambda: bool(list(tmp_path.glob("reads-*"))), group)
        reader = next(tmp_path.glob("reads-*")).name.removeprefix("reads-")
        group.processes[reader].kill()
        codes = group.wait()
    assert codes.pop(reader) == -signal.SIGKILL
    assert set(codes.values()) == {0}, group.logs()
    verdict = audit.verify(group.audit)
    assert not verdict.problems, "\n".join(verdict.problems[:10])
    assert verdict.records == 36
    assert totals(group).count("36.0") == 2


def totals(group: Workers) -> list[str]:
    """What each worker printed last; torchft's own lines may come later."""
    logs = [path.read_text() for path in sorted(group.folder.glob("w*.log"))]
    return [(re.findall(r"^\d+\.\d+$", log, re.MULTILINE) or [""])[-1] for log in logs]


def wait_for(happened: Callable[[], bool], group: Workers) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline, group.logs()
        time.sleep(0.0005)


def require_each_record_once(group: Workers, epochs: int) -> None:
    verdict = audit.verify(group.audit)
    assert not verdict.problems, "\n".join(verdict.problems[:10])
    assert verdict.epochs == {"train": epochs, "validation": epochs}
    assert verdict.records == epochs * 1797


def lineage(group: Workers) -> list[dict[str, Any]]:
    """The commits that count, oldest first."""
    commits = {line["lineage"]: line for line in group.committed()}
    at = max(commits.values(), key=lambda line: int(line["step"]))
    chain = [at]
    while at["parent"]:
        chain.append(at := commits[at["parent"]])
    return chain[::-1]


def shares(group: Workers, name: str) -> int:
    """How many contributions a worker has written down in this life."""
    paths = group.audit.glob(f"{name}-{group.processes[name].pid}-*.jsonl")
    return sum(path.read_bytes().count(b'"kind":"share"') for path in paths)


class Numbers:
    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([float(index)])


def _line() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    model = torch.nn.Linear(1, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.001)


def test_a_loop_that_is_left_goes_back_to_the_last_synchronisation() -> None:
    model, optimizer = _line()
    before = model.weight.item()  # type: ignore[union-attr, operator]
    with elastic.training(
        model, optimizer, Numbers(), batch_size=4, shuffle=False, totals=("n",),
        synchronize=elastic.LocalSGD(every=4),
    ) as run:  # fmt: skip
        for _ in run.epochs():
            for number, batch in enumerate(run.batches()):
                run.backward(model(batch).square().mean())
                run.add(n=len(batch))
                if number == 2:
                    break
            assert model.weight.item() == before  # type: ignore[union-attr, operator]
            assert run.step == 0
            read = []
            for batch in run.batches():
                run.backward(model(batch).square().mean())
                run.add(n=len(batch))
                read += batch.flatten().tolist()
        assert read == list(range(24))
        assert run.totals() == {"n": 24}
    assert run.step == 2


@pytest.mark.parametrize("how", [elastic.LocalSGD(every=4), elastic.DiLoCo(every=4)])
def test_averages_of_layers_go_back_with_the_parameters(
    how: elastic.LocalSGD | elastic.DiLoCo,
) -> None:
    """Also in what a newcomer gets, and what is saved, between two synchronisations."""
    norm = torch.nn.BatchNorm1d(1)
    model = torch.nn.Sequential(norm, torch.nn.Linear(1, 1))
    optimizer = torch.optim.AdamW(model.parameters())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    between: dict[str, torch.Tensor] = {}
    with elastic.training(
        model, optimizer, Numbers(), batch_size=4, shuffle=False, synchronize=how
    ) as run:
        for _ in run.epochs():
            for number, batch in enumerate(run.batches()):
                run.backward(model(batch).square().mean())
                if number == 2:
                    assert norm.num_batches_tracked == 3
                    between = {name: v.clone() for name, v in run._dump()["model"].items()}
                    break
            torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0)
            break
    torch.testing.assert_close(between, before, rtol=0, atol=0)


def test_shards_are_read_in_local_steps() -> None:
    lengths = {"a": 11, "b": 5, "c": 0}
    shards = elastic.Shards(
        names=[*lengths],
        open=lambda name, skip: (torch.tensor([float(n)]) for n in range(skip, lengths[name])),
    )
    model, optimizer = _line()
    with elastic.training(
        model, optimizer, shards, batch_size=2, totals=("n",),
        synchronize=elastic.DiLoCo(every=3),
    ) as run:  # fmt: skip
        for _ in run.epochs():
            for batch in run.batches():
                run.backward(model(batch).square().mean())
                run.add(n=len(batch))
        assert run.totals() == {"n": 16}


def test_a_learning_rate_schedule_follows_local_steps() -> None:
    model, optimizer = _line()
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    with elastic.training(
        model, optimizer, Numbers(), batch_size=4, scheduler=schedule,
        synchronize=elastic.LocalSGD(every=4),
    ) as run:  # fmt: skip
        for _ in run.epochs():
            for batch in run.batches():
                run.backward(model(batch).square().mean())
    assert schedule.last_epoch == 6


def test_a_checkpoint_is_resumed_with_another_synchronisation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.setenv("TRAINWRIGHT_CHECKPOINT_EVERY", "1")
    steps = []
    ways = (elastic.DiLoCo(every=4), elastic.LocalSGD(every=4), None, elastic.LocalSGD(every=6))
    for epochs, synchronize in enumerate(ways, start=1):
        model, optimizer = _line()
        with elastic.training(
            model, optimizer, Numbers(), batch_size=4, epochs=epochs, synchronize=synchronize
        ) as run:
            for _ in run.epochs():
                for batch in run.batches():
                    run.backward(model(batch).square().mean())
        steps.append(run.step)
    assert steps == [2, 4, 10, 11]


def test_only_images_that_know_of_gaps_load_a_position_with_gaps(tmp_path: Path) -> None:
    """Others ignore them: the records of a lost worker would be in no epoch."""

    def progress() -> Progress:
        batching = Batching(collate=list, micro_batch=4)
        sources = cursors({"train": Numbers()}, batching, seed=0, shuffle=False,
                          local_steps={"train": 3})  # fmt: skip
        return Progress(sources, ())

    held, checkpoints = progress(), Checkpoints(tmp_path)
    members = Members(quorum=1, rank=0, names=("a", "b"))
    formats, left = [], []
    for reports in ([0, 6, 6, 12], [0, 0, 18, 24], [12, 18, 0, 0]):
        held.commit(members, 4, "train", reports, [])
        checkpoints.save(held.step, {"progress": held}, wait=True)
        text = max(tmp_path.glob("step-*/state.json")).read_text()
        formats.append(json.loads(text)["format"])
        loaded = progress()
        checkpoints.load({"progress": loaded})
        left.append(loaded.sources["train"].state_dict().get("gaps"))
    assert formats == [1, 2, 1]
    assert left == [None, [[12, 18]], None]


def test_a_checkpoint_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(1, {"n": Newer()}, wait=True)
    with pytest.raises(CheckpointError, match="is of format 3, and this version reads 1 and 2: "):
        checkpoints.load({"n": Newer()})


class Newer:
    """A part of a state that only a newer image reads."""

    trainwright_checkpoint_format = 3

    def state_dict(self) -> dict[str, int]:
        return {"n": 1}

    def load_state_dict(self, state: dict[str, int]) -> None:
        raise AssertionError(state)


def test_mistakes_are_told_before_training_begins() -> None:
    model, optimizer = _line()
    with pytest.raises(ValueError, match=r"every=0: expected a number of local steps, 1 or more"):
        elastic.LocalSGD(every=0)
    other = torch.optim.SGD(_line()[0].parameters(), lr=0.7)
    wrong = elastic.DiLoCo(every=4, outer=other)
    with pytest.raises(ValueError, match=r"DiLoCo\(outer=...\) has other parameters"):  # noqa: SIM117
        with elastic.training(model, optimizer, Numbers(), batch_size=4, synchronize=wrong):
            pass


def test_local_steps_are_not_one_long_step_that_hangs() -> None:
    """A worker whose local steps go on is left alone however long others wait for it."""
    port = free_port()
    registry = Registry(port, recovery=0, silence=60, stall=60)
    now = 0.0
    registry._activities = Activities(lambda: now)
    coordinator = f"127.0.0.1:{port}"
    slow, waiting = Session([coordinator], "slow-1", 60), Session([coordinator], "waits-1", 60)
    try:
        for session in (slow, waiting):
            session.request_step(0)
            session.hold()
        waiting.doing = WAITING
        waiting.confirm()
        slow.doing = IN_STEP
        for _ in range(10):  # it would end this process
            slow.steps += 1
            slow.confirm()
            now += 20
    finally:
        slow.close()
        waiting.close()
        registry.close()


@pytest.mark.slow
def test_a_worker_that_is_left_alone_learns_that_training_is_over(tmp_path: Path) -> None:
    """As one that was late for the last step: with too few workers there is no quorum to tell."""

    def replica(name: str, port: int) -> Replica:
        address = Address(
            coordinator=f"127.0.0.1:{port}", name=name, min_replicas=2, backend="gloo",
            timeouts=Timeouts(quorum=3),
        )  # fmt: skip
        return Replica(address, Callbacks(dump=dict, load=lambda _: None))

    environ = {"TRAINWRIGHT_MIN_REPLICAS": "2", "TRAINWRIGHT_QUORUM_TIMEOUT": "3"}
    with ThreadPoolExecutor() as threads, workers(tmp_path, "", environ=environ) as group:
        both = [replica(name, group.port) for name in "ab"]
        list(threads.map(Replica.join, both))
        assert all(threads.map(Replica.commit, both))
        first, left = both
        assert first.complete()
        first.lead()
        assert first.finish()
        first.leave()
        first.close()
        with pytest.raises(TrainingOver):
            left.join()
        left.leave()
        left.close()


def test_of_two_groups_that_took_the_same_step_one_counts(tmp_path: Path) -> None:
    """Else each would go on from its own records, and each of those would be trained twice."""
    loaded: dict[str, list[str]] = {"a": [], "b": []}
    positions: dict[str, str] = {}

    def replica(name: str, port: int) -> Replica:
        address = Address(
            coordinator=f"127.0.0.1:{port}", name=name, min_replicas=2, backend="gloo",
            timeouts=Timeouts(),
        )  # fmt: skip
        return Replica(
            address,
            Callbacks(
                dump=lambda: {"from": name},
                load=lambda state: loaded[name].append(state["from"]),
                position=lambda: positions[name],
            ),
        )

    environ = {"TRAINWRIGHT_MIN_REPLICAS": "2"}
    with ThreadPoolExecutor() as threads, workers(tmp_path, "", environ=environ) as group:
        both = [replica(name, group.port) for name in "ab"]
        taken = []
        for a, b in (("", ""), ("1", "1"), ("2", "other")):
            positions.update(a=a, b=b)
            list(threads.map(Replica.join, both))
            assert all(threads.map(Replica.commit, both))
            taken.append(sum(map(len, loaded.values())))
        for each in both:
            each.leave()
            each.close()
    assert taken == [1, 1, 2]  # the newcomer; none; one of the two
