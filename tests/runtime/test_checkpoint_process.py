"""Checkpoints written by a process of its own: what a thread writes, and no wait for a dead one."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
from checkpoint_programs import load_and_train as load_and_train_by_thread
from checkpoint_programs import step_of, together, train_and_save, uniform
from containers import ending

from trainwright_runtime.checkpoint import Checkpoints, checkpoints
from trainwright_runtime.checkpoint.buffers import Buffers


@pytest.fixture(autouse=True)
def _worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "WORTH_IT", 0)


def _children() -> Iterator[psutil.Process]:
    for process in psutil.Process().children():
        if "trainwright_runtime.checkpoint.process" in " ".join(process.cmdline()):
            yield process


def load(directory: Path) -> int | None:
    state = uniform(0)
    with Checkpoints(directory) as found:
        step = found.load(state)
    assert step == step_of(state)
    return step


@pytest.mark.slow
def test_what_changes_meanwhile_is_not_in_it(tmp_path: Path) -> None:
    state = {
        **uniform(1),
        "strided": torch.arange(12.0).reshape(3, 4).t(),
        "empty": torch.zeros(0, 3),
        "scalar": torch.tensor(7, dtype=torch.int16),
        "half": torch.full((5,), 1.5, dtype=torch.bfloat16),
        "flags": torch.tensor([True, False]),
    }
    expected = {
        name: state[name].clone() for name in ("strided", "empty", "scalar", "half", "flags")
    }
    with Checkpoints(tmp_path) as saving:
        saving.save(1, state)
        for weight in state["weights"]:
            weight.fill_(99.0)
        for name in expected:
            state[name].zero_()
        saving.wait()
        [writer] = _children()
        saving.save(2, uniform(2))  # of another shape: other buffers
        saving.wait()
        [other] = _children()
        assert other.pid != writer.pid
        saving.save(3, uniform(3))
        saving.wait()
        assert [other] == list(_children())
        assert other.nice() > psutil.Process().nice()
    assert not list(_children())
    assert load(tmp_path) == 3
    found = {name: torch.ones_like(tensor) for name, tensor in expected.items()}
    (tmp_path / "latest").write_text("step-0000000001\n")
    with Checkpoints(tmp_path) as loading:
        assert loading.load(found) == 1
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


@pytest.mark.slow
def test_a_killed_process_costs_one_checkpoint(tmp_path: Path) -> None:
    with Checkpoints(tmp_path) as saving:
        saving.save(1, uniform(1))
        saving.wait()
        [writer] = _children()
        writer.suspend()
        saving.save(2, uniform(2))
        writer.kill()
        saving.wait()
        assert load(tmp_path) == 1
        saving.save(3, uniform(3))
    assert load(tmp_path) == 3
    assert not list(tmp_path.glob(".writer-*"))


def test_what_the_disk_refuses_there_is_known_here(tmp_path: Path, caplog) -> None:
    with Checkpoints(tmp_path) as saving:
        saving.save(1, uniform(1))
        saving.wait()
        [writer] = _children()
        writer.rlimit(psutil.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        saving.save(2, uniform(2))
        saving.wait()
        assert "the checkpoint of step 2 could not be saved" in caplog.text
        writer.rlimit(psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        saving.save(3, uniform(3))
    assert load(tmp_path) == 3


ORPHAN = """
import sys, time, torch
from trainwright_runtime.checkpoint import Checkpoints, checkpoints
checkpoints.WORTH_IT = 0
saving = Checkpoints(sys.argv[1])
saving.save(1, {"weight": torch.ones(1000)})
saving.wait()
print(saving._writer._process.pid, flush=True)
time.sleep(1000)
"""


@pytest.mark.slow
def test_it_ends_with_a_killed_training(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ORPHAN, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        with ending([int(process.stdout.readline())]):
            process.kill()
            process.stdout.read()  # until no process holds it open


def save_by_process(directory: Path, kind: str) -> list[float]:
    checkpoints.WORTH_IT = 0  # type: ignore[misc]
    return train_and_save(directory, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_shards_of_several_ranks_are_written_and_resharded(kind: str, tmp_path: Path) -> None:
    [losses, *_] = together(2, tmp_path, save_by_process, tmp_path / "ckpt", kind)
    [again] = together(1, tmp_path, load_and_train_by_thread, tmp_path / "ckpt", kind)
    assert again == pytest.approx(losses, rel=1e-5)


def test_buffers_are_kept_while_their_tensors_are_alike() -> None:
    buffers = Buffers()
    first = buffers.copy({"a": torch.ones(3), "b": torch.zeros(2, dtype=torch.int8)})
    again = buffers.copy({"a": torch.full((3,), 2.0), "b": torch.ones(2, dtype=torch.int8)})
    assert first["a"].tolist() == [2.0, 2.0, 2.0]  # the same memory
    assert again["b"].tolist() == [1, 1]
    assert buffers.allocations == 1
    buffers.copy({"a": torch.ones(4)})
    assert buffers.allocations == 2
    buffers.close()
