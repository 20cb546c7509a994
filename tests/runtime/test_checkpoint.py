"""Checkpoints: nothing lost, nothing mixed, whatever dies, fills up or rots."""

from __future__ import annotations

import errno
import itertools
import logging
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

import checkpoint_programs as programs  # noqa: E402
from checkpoint_programs import load, together, uniform, wait  # noqa: E402
from torch.distributed.checkpoint import metadata  # noqa: E402

from continuous_integration import TAKES_ROOT  # noqa: E402
from trainwright_runtime.checkpoint import (  # noqa: E402
    STOPPED,
    CheckpointError,
    Checkpoints,
    RngState,
    StopSignal,
)
from trainwright_runtime.checkpoint import directory as checkpoint_directory  # noqa: E402
from trainwright_runtime.checkpoint.digests import DIGESTS, digest_of, sums  # noqa: E402
from trainwright_runtime.checkpoint.directory import Directory, defect  # noqa: E402
from trainwright_runtime.failures.errors import EnvironmentMistake  # noqa: E402


def save(directory: Path, *steps: int, keep: int = 5) -> None:
    with Checkpoints(directory, keep=keep) as checkpoints:
        for step in steps:
            checkpoints.save(step, uniform(step))


def _names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def visible(directory: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in directory.glob("step-*"))


# --- what comes back ---------------------------------------------------------------------------


def test_the_state_comes_back_as_it_was_when_saved(tmp_path: Path) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 2, 5])
    values = {
        "epoch": 3,
        "text": "ü",
        "nothing": None,
        "floats": [0.1, float("inf"), -0.0],
        "pair": (1, (True, b"\0\xff")),
        7: {"a/b": 1, "a": {"b": 2}},
        "numpy": np.float32(0.5),
        "none of it": {},
    }
    tensor = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    for _ in range(3):
        model(torch.randn(5, 3)).sum().backward()
        optimizer.step()
        scheduler.step()
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    expected = {name: _frozen(holder.state_dict()) for name, holder in state.items()}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {**state, "values": values, "tensor": tensor})
        with torch.no_grad():  # what training does while the checkpoint is written
            for parameter in [*model.parameters(), tensor]:
                parameter.fill_(-1)

    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1])
    there = torch.zeros(2, 3, dtype=torch.bfloat16)
    state = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    loaded = {**state, "values": None, "tensor": there}
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.load(loaded) == 1
    assert {name: _frozen(holder.state_dict()) for name, holder in state.items()} == expected
    assert repr(loaded["values"]) == repr({**values, "numpy": 0.5})
    assert loaded["tensor"] is there
    assert there.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert isinstance(scheduler.milestones, Counter)


def _frozen(value: object) -> object:
    match value:
        case torch.Tensor():
            return (str(value.dtype), value.tolist())
        case dict():
            return {key: _frozen(item) for key, item in value.items()}
        case list() | tuple():
            return [_frozen(item) for item in value]
    return value


def test_random_numbers_go_on_where_they_were(tmp_path: Path) -> None:
    def draw() -> list[object]:
        return [random.random(), np.random.rand(), torch.rand(()).item(), np.random.randn()]

    draw()
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"rng": RngState()}, wait=True)
        expected = draw()
        assert draw() != expected
        checkpoints.load({"rng": RngState()})
        assert draw() == expected


@pytest.mark.parametrize("wrapped", ["module.", "_orig_mod."])
def test_how_a_model_is_wrapped_does_not_matter(tmp_path: Path, wrapped: str) -> None:
    inner = torch.nn.Linear(2, 2)
    outer: object = torch.compile(inner, backend="eager")
    if wrapped == "module.":
        outer = object.__new__(torch.nn.parallel.DistributedDataParallel)
        torch.nn.Module.__init__(outer)
        outer.module = inner
    assert all(key.startswith(wrapped) for key in outer.state_dict())
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"model": outer})
        other = torch.nn.Linear(2, 2)
        checkpoints.load({"model": other})
    assert torch.equal(other.weight, inner.weight)


def test_what_cannot_be_saved_is_refused_at_once_and_by_name(tmp_path: Path) -> None:
    with Checkpoints(tmp_path) as checkpoints, pytest.raises(CheckpointError) as refusal:
        checkpoints.save(1, {"extra": {"places": [1, {2, 3}]}})
    assert "'extra/places/1'" in str(refusal.value)
    assert "a set cannot be saved" in str(refusal.value)


def test_a_state_that_does_not_fit_is_an_error_and_not_a_reason_to_fall_back(
    tmp_path: Path,
) -> None:
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"model": torch.nn.Linear(2, 2)})
        checkpoints.save(2, {"model": torch.nn.Linear(2, 3)})
        with pytest.raises(CheckpointError, match=r"step-0000000002 does not fit 'model'.*size"):
            checkpoints.load({"model": torch.nn.Linear(2, 2)})
        with pytest.raises(CheckpointError, match=r"has no 'optimizer', only model: "):
            checkpoints.load({"optimizer": 1})


@pytest.mark.parametrize(
    ("saved", "says"),
    [
        (5, "it has a int there, saved as a plain value"),
        (torch.zeros(2), "it has a Tensor there, saved as a plain value"),
        ({"state": {}, "param_groups": 5}, "object is not iterable|has no len"),
    ],
)
def test_a_plain_value_in_place_of_a_state_is_an_error_in_words(
    saved: object, says: str, tmp_path: Path
) -> None:
    optimizer = torch.optim.SGD(torch.nn.Linear(2, 2).parameters())
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, {"optimizer": saved})
        with pytest.raises(CheckpointError, match=f"does not fit 'optimizer', a SGD: .*({says})"):
            checkpoints.load({"optimizer": optimizer})


# --- what lies on the disk ---------------------------------------------------------------------


def test_the_newest_are_kept_and_latest_names_the_last(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3, 4, 5, keep=2)
    assert _names(tmp_path) == ["latest", "step-0000000004", "step-0000000005"]
    assert (tmp_path / "latest").read_text() == "step-0000000005\n"
    content = (tmp_path / "step-0000000005" / DIGESTS).read_bytes()
    _seal(tmp_path / "step-0000000005")
    assert (tmp_path / "step-0000000005" / DIGESTS).read_bytes() == content
    with Checkpoints(tmp_path) as checkpoints:
        assert checkpoints.latest() == 5


def test_the_old_go_by_their_age_but_for_the_newest(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3)
    for step in (1, 3):
        os.utime(tmp_path / f"step-{step:010}" / DIGESTS, (0, 0))
    with Checkpoints(tmp_path, keep=9, max_age=3600) as checkpoints:
        checkpoints.save(4, uniform(4))
    assert visible(tmp_path) == [2, 4]
    os.utime(tmp_path / f"step-{4:010}" / DIGESTS, (0, 0))
    assert load(tmp_path) == 4


def test_what_was_saved_says_how_long_it_took_and_how_large_it_is(tmp_path: Path) -> None:
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, uniform(1))
        checkpoints.save(2, uniform(2), wait=True)
        first, second = checkpoints.saved()
        assert not checkpoints.saved()
    assert (first.step, second.step) == (1, 2)
    assert first.size > 8 * 300 * 50 * 4
    assert first.seconds > 0


def test_a_run_that_went_back_goes_on_from_where_it_went(tmp_path: Path) -> None:
    save(tmp_path, 10, 20, 30)
    save(tmp_path, 15)
    assert load(tmp_path) == 15
    save(tmp_path, 20, 25)
    assert load(tmp_path) == 25
    assert visible(tmp_path) == [10, 15, 20, 25, 30]


def test_nothing_is_found_where_there_is_nothing(tmp_path: Path) -> None:
    assert load(tmp_path / "absent") is None
    (tmp_path / "step-12").mkdir()  # not one of ours: ten digits
    assert load(tmp_path) is None


def test_another_runs_checkpoint_is_where_a_fresh_run_starts(tmp_path: Path) -> None:
    save(tmp_path / "other", 7, 8)
    for start, expected in (("other", 8), ("other/step-0000000007", 7)):
        with Checkpoints(tmp_path / "own", resume_from=tmp_path / start) as checkpoints:
            assert checkpoints.load(uniform(0)) == expected
    save(tmp_path / "own", 3)
    with Checkpoints(tmp_path / "own", resume_from=tmp_path / "other") as checkpoints:
        assert checkpoints.load(uniform(0)) == 3
    with (
        Checkpoints(tmp_path / "new", resume_from=tmp_path / "nowhere") as checkpoints,
        pytest.raises(CheckpointError, match="nowhere holds no checkpoint"),
    ):
        checkpoints.load(uniform(0))


def test_the_environment_says_where_and_how_often(tmp_path: Path) -> None:
    environ = {
        "TRAINWRIGHT_CHECKPOINT_DIR": str(tmp_path),
        "TRAINWRIGHT_CHECKPOINT_EVERY": "10",
        "TRAINWRIGHT_CHECKPOINT_KEEP": "1",
    }
    with Checkpoints.from_environment(environ) as checkpoints:
        assert [step for step in range(31) if checkpoints.due(step)] == [10, 20, 30]
        for step in (10, 20):
            checkpoints.save(step, uniform(step))
    assert visible(tmp_path) == [20]
    with Checkpoints.from_environment({}) as checkpoints:
        assert not checkpoints.due(10)
        checkpoints.save(10, uniform(10))
        assert checkpoints.load(uniform(0)) is None
    for text in ("-1", "0", "many", "1.5", "²"):
        with pytest.raises(EnvironmentMistake, match="TRAINWRIGHT_CHECKPOINT_KEEP"):
            Checkpoints.from_environment({**environ, "TRAINWRIGHT_CHECKPOINT_KEEP": text})


# --- damage ------------------------------------------------------------------------------------


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def _flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0x10
    path.write_bytes(content)


DAMAGES = [
    *((name, how) for name in ("__0_0.distcp", ".metadata", "state.json") for how in (_cut, _flip)),
    *((name, Path.unlink) for name in ("__0_0.distcp", ".metadata", "state.json", DIGESTS)),
    (DIGESTS, _cut),
    (DIGESTS, _flip),
    (DIGESTS, lambda path: path.write_text("")),
    (DIGESTS, lambda path: path.write_text(path.read_text().split("\n", 1)[1])),
]


@pytest.mark.parametrize(("name", "damage"), DAMAGES)
def test_a_damaged_checkpoint_is_passed_over_by_name(
    name: str, damage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, 1, 2)
    damage(tmp_path / "step-0000000002" / name)
    assert load(tmp_path) == 1
    [warning] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert "step-0000000002: " in warning.getMessage()
    assert name in warning.getMessage() or DIGESTS in warning.getMessage()


def test_a_damaged_checkpoint_makes_room_for_the_next(tmp_path: Path) -> None:
    save(tmp_path, 1, 2, 3)
    _flip(tmp_path / "step-0000000002" / "__0_0.distcp")
    _flip(tmp_path / "step-0000000003" / "__0_0.distcp")
    state = uniform(0)
    with Checkpoints(tmp_path, keep=2) as checkpoints:
        assert checkpoints.load(state) == 1
        checkpoints.save(3, uniform(3))
        checkpoints.wait()
    assert visible(tmp_path) == [1, 3]
    assert load(tmp_path) == 3


def test_what_cannot_be_read_for_want_of_descriptors_is_not_damaged(tmp_path: Path) -> None:
    """Nor is what a server that is away does not give: a later try reads it."""
    save(tmp_path, 1)
    (checkpoint,) = tmp_path.glob("step-*")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files"):
            defect(checkpoint)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert defect(checkpoint) is None


def test_a_checkpoint_with_something_else_in_place_of_a_file_is_damaged(tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    (file,) = tmp_path.glob("step-*2/*.distcp")
    file.unlink()
    file.symlink_to(file.name)
    assert load(tmp_path) == 1


def test_when_all_are_damaged_training_does_not_start_over_by_itself(tmp_path: Path) -> None:
    save(tmp_path, 1, 2)
    for checkpoint in tmp_path.glob("step-*"):
        _flip(checkpoint / "state.json")
    with pytest.raises(CheckpointError, match=r"no checkpoint is whole .*0002.*0001.*state\.json"):
        load(tmp_path)


def test_a_checkpoint_that_another_writer_removes_once_it_is_listed_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    save(tmp_path, 2)
    listings = iter([["step-0000000001"]])  # the only one, until the other writer replaced it
    steps = Directory.steps
    monkeypatch.setattr(Directory, "steps", lambda self: next(listings, None) or steps(self))
    assert load(tmp_path) == 2
    assert "passing over" not in caplog.text


def test_a_checkpoint_to_resume_from_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    absent = tmp_path / "step-0000000007"
    with (
        Checkpoints(tmp_path / "own", resume_from=absent) as checkpoints,
        pytest.raises(CheckpointError, match=r"XXH128SUMS is missing"),
    ):
        checkpoints.load(uniform(0))


class _Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


def test_loading_runs_no_code_that_lies_on_the_volume(tmp_path: Path) -> None:
    save(tmp_path / "ckpt", 1)
    checkpoint, sign = tmp_path / "ckpt" / "step-0000000001", tmp_path / "executed"
    dotted = b"\x80\x04\x8c\x25torch.distributed.checkpoint.metadata\x8c\x08os.mkdir\x93\x8c"
    path = str(sign).encode()
    for attack in (pickle.dumps(_Bomb(sign)), dotted + bytes([len(path)]) + path + b"\x85R."):
        (checkpoint / ".metadata").write_bytes(attack)
        _seal(checkpoint)
        with pytest.raises(CheckpointError, match="which no checkpoint needs"):
            load(tmp_path / "ckpt")
        assert not sign.exists()
        pickle.loads(attack)  # it is a bomb indeed
        sign.rmdir()


def _by_getattr(member: Enum, _protocol: object = None) -> tuple[object, tuple[object, str]]:
    """Pickles a member as Python 3.11.2 does."""
    return getattr, (type(member), member.name)


def test_what_is_written_does_not_depend_on_how_a_python_pickles_enums(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1)
    monkeypatch.setattr(Enum, "__reduce_ex__", _by_getattr)
    save(tmp_path, 2)
    assert load(tmp_path) == 2
    first, second = (path.read_bytes() for path in sorted(tmp_path.glob("step-*/.metadata")))
    assert first == second


@pytest.mark.parametrize("python", ["3.11.2", "3.13.0"])
def test_what_another_python_wrote_is_read(python: str, tmp_path: Path) -> None:
    written = shutil.copytree(Path(__file__).parent / "checkpoints" / python, tmp_path / "written")
    state: dict[str, Any] = {
        "weights": torch.zeros(2, 3),
        "half": torch.zeros(2, dtype=torch.bfloat16),
        "cursor": None,
    }
    with Checkpoints(written) as checkpoints:
        assert checkpoints.load(state) == 1
    assert state["weights"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert state["half"].tolist() == [1, 1]
    assert state["cursor"] == {"epoch": 2, "files": ["a", b"b", (1, 2.5, None)]}


class _Attribute:
    """Pickled as a call of `getattr`."""

    def __init__(self, *arguments: object) -> None:
        self.arguments = arguments

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return getattr, self.arguments


@pytest.mark.parametrize(
    "name", ["mro", "__class__", "__init__", "_missing_", "name", "", 1, ["x"]]
)
@pytest.mark.parametrize("kind", [metadata._MEM_FORMAT_ENCODING, metadata.Metadata, torch.Size])
def test_getattr_is_refused(tmp_path: Path, kind: object, name: object) -> None:
    save(tmp_path, 1)
    checkpoint = tmp_path / "step-0000000001"
    (checkpoint / ".metadata").write_bytes(pickle.dumps(_Attribute(kind, name)))
    _seal(checkpoint)
    with pytest.raises(CheckpointError, match="it was tampered with"):
        load(tmp_path)


def test_a_save_fails_whose_metadata_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another torch or Python may write what this version refuses to read."""
    monkeypatch.setattr(
        metadata.StorageMeta, "__reduce__", _Bomb(tmp_path).__reduce__, raising=False
    )
    with pytest.raises(CheckpointError, match="which no checkpoint needs"):
        save(tmp_path / "ckpt", 1)
    assert visible(tmp_path / "ckpt") == []


def _seal(checkpoint: Path) -> None:
    (checkpoint / DIGESTS).unlink()
    digests = {path.name: digest_of(path.read_bytes()) for path in checkpoint.iterdir()}
    (checkpoint / DIGESTS).write_bytes(sums(digests))


# --- a full disk -------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    mounted = tmp_path / "disk"
    mounted.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(mounted)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip(f"{TAKES_ROOT}: mounting a small tmpfs")
    yield mounted
    subprocess.run(["umount", str(mounted)], check=True)


def test_a_full_disk_is_survived_until_it_has_been_full_too_often(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ballast = small_disk / "ballast"
    with Checkpoints(small_disk / "ckpt", keep=1, tolerate=3, tolerate_seconds=0) as checkpoints:
        checkpoints.save(1, uniform(1), wait=True)
        fill(ballast)
        checkpoints.save(2, uniform(2))
        checkpoints.save(3, uniform(3))
        checkpoints.wait()
        assert load(small_disk / "ckpt") == 1
        ballast.unlink()
        checkpoints.save(4, uniform(4), wait=True)  # two failures in a row are forgotten
        assert load(small_disk / "ckpt") == 4
        fill(ballast)
        checkpoints.save(5, uniform(5))
        checkpoints.save(6, uniform(6))
        checkpoints.save(7, uniform(7))
        with pytest.raises(CheckpointError) as refusal:
            checkpoints.save(8, uniform(8))
    assert "step 7 could not be saved in" in str(refusal.value)
    assert "No space left on device; 3 saves in a row" in str(refusal.value)
    assert "\n" not in str(refusal.value)
    errors = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert [error.split(" could")[0][-1] for error in errors] == ["2", "3", "5", "6", "7"]
    assert load(small_disk / "ckpt") == 4
    assert _names(small_disk / "ckpt") == ["latest", "step-0000000004"]


def test_failures_that_follow_each_other_at_once_are_survived(small_disk: Path) -> None:
    """A disk or a server is away for longer than some steps take."""
    ballast = small_disk / "ballast"
    with Checkpoints(small_disk / "ckpt", tolerate=3) as checkpoints:
        fill(ballast)
        for step in range(1, 11):
            checkpoints.save(step, uniform(step), wait=True)
        ballast.unlink()
        checkpoints.save(11, uniform(11))
    assert load(small_disk / "ckpt") == 11


def test_the_seconds_count_from_the_first_of_the_failures(small_disk: Path) -> None:
    fill(small_disk / "ballast")
    with Checkpoints(small_disk / "ckpt", tolerate=3, tolerate_seconds=0.5) as checkpoints:
        with pytest.raises(
            CheckpointError, match=r"saves in a row have failed, for \d+ s"
        ) as refusal:
            _save_for_ever(checkpoints)
        assert "step 1 could" not in str(refusal.value)


def _save_for_ever(checkpoints: Checkpoints) -> None:
    for step in itertools.count(1):
        checkpoints.save(step, uniform(step), wait=True)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return


@pytest.mark.parametrize("left", [0, 4, 8, 12, 16, 24, 100, 450])
def test_wherever_the_space_runs_out_the_one_before_stays(small_disk: Path, left: int) -> None:
    """`left` kilobytes of the disk are free when the second checkpoint is saved."""
    save(small_disk / "ckpt", 1)
    fill(small_disk / "ballast")
    with (small_disk / "ballast").open("r+b") as file:
        file.truncate(file.seek(0, os.SEEK_END) - left * 1024)
    with pytest.raises(CheckpointError, match="step 2 could not be saved"):
        save(small_disk / "ckpt", 2)
    assert load(small_disk / "ckpt") == 1
    assert _names(small_disk / "ckpt") == ["latest", "step-0000000001"]


@pytest.fixture
def no_folder(tmp_path: Path) -> Path:
    """Where no checkpoint can be written, by root either."""
    (tmp_path / "file").touch()
    return tmp_path / "file" / "ckpt"


def test_a_run_whose_last_checkpoint_failed_does_not_end_well(no_folder: Path) -> None:
    checkpoints = Checkpoints(no_folder)
    checkpoints.save(1, uniform(1))
    checkpoints.save(2, uniform(2))
    with pytest.raises(CheckpointError, match="it was the last one"):
        checkpoints.close()
    with pytest.raises(CheckpointError, match="step 1 could not be saved"):
        _save_and_raise(no_folder, SystemExit(0))


def test_nor_does_one_whose_folder_cannot_be_read_any_more(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(CheckpointError, match="step 1 could not be saved"):
        _save_and_raise(tmp_path / "loop" / "ckpt", SystemExit(0))


def test_a_step_that_was_given_up_is_no_later_one(tmp_path: Path) -> None:
    for step in (6, 10):
        save(tmp_path, step)
    (tmp_path / "latest").write_text("step-0000000006\n")  # step 10 was damaged, and 6 came after
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.latest() == 6
    assert [checkpoints._lacks(step) for step in (6, 7)] == [False, True]


def test_a_damaged_checkpoint_makes_up_for_no_failed_save(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, 1, 2)
    _flip(tmp_path / "step-0000000002" / "__0_0.distcp")
    checkpoints = Checkpoints(tmp_path)
    assert checkpoints.load(uniform(0)) == 1

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Directory, "begin", full)
    checkpoints.save(2, uniform(2))
    with pytest.raises(CheckpointError, match="step 2 could not be saved"):
        checkpoints.close()


def _save_and_raise(directory: Path, error: BaseException) -> None:
    with Checkpoints(directory) as checkpoints:
        checkpoints.save(1, uniform(1))
        raise error


def test_a_failed_save_before_a_stop_does_not_end_well_either(no_folder: Path) -> None:
    with pytest.raises(CheckpointError, match="step 1 could not be saved"):
        _save_and_stop(no_folder)


def _save_and_stop(directory: Path) -> None:
    with StopSignal() as stop, Checkpoints(directory) as checkpoints:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.agreed()
        checkpoints.save(1, uniform(1), wait=True)


def test_the_error_that_ends_a_run_is_not_hidden_by_a_failed_checkpoint(no_folder: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        _save_and_raise(no_folder, ZeroDivisionError())


def test_a_failed_save_that_another_process_made_up_for_is_forgotten(tmp_path: Path) -> None:
    (tmp_path / "ckpt").touch()
    with Checkpoints(tmp_path / "ckpt") as checkpoints:
        checkpoints.save(1, uniform(1))
        checkpoints.wait()
        (tmp_path / "ckpt").unlink()
        save(tmp_path / "ckpt", 2)
    assert load(tmp_path / "ckpt") == 2


# --- kills -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kills", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_a_kill_at_any_moment_leaves_whole_checkpoints(kills: int, tmp_path: Path) -> None:
    chance = random.Random(kills)
    newest = 0
    for kill in range(kills):
        process = programs.start(programs.save_for_ever, tmp_path, kill)
        _until(lambda before=newest: _newest(tmp_path) > before, process)
        time.sleep(chance.random() * 0.3)
        process.kill()
        assert wait([process]) == [-signal.SIGKILL]
        loaded = load(tmp_path)
        assert loaded is not None
        assert loaded > newest
        newest = loaded
    save(tmp_path, newest + 1, keep=2)
    assert not list(tmp_path.glob(".writer-*")), "left-overs are gone after the next write"


def _newest(directory: Path) -> int:
    with Checkpoints(directory) as checkpoints:
        return checkpoints.latest() or 0


def _until(condition, process) -> None:
    deadline = time.monotonic() + programs.TIMEOUT
    while not condition():
        assert process.is_alive(), f"it ended with {process.exitcode}"
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.slow
def test_a_kill_before_each_change_of_the_directory_leaves_whole_checkpoints(
    tmp_path: Path,
) -> None:
    for fatal in range(1, 200):
        directory = tmp_path / str(fatal)
        save(directory, 1, 2, keep=2)
        [code] = wait([programs.start(programs.save_until_event, directory, fatal)])
        assert load(directory) in {2, 3}
        save(directory, 4, keep=2)
        assert load(directory) == 4
        assert not list(directory.glob(".writer-*"))
        if code == 0:
            assert fatal > 20, "the hook has seen what a save does"
            return
        assert code == -signal.SIGKILL
    pytest.fail("it never came to the end")


def test_a_save_does_not_wait_until_the_one_before_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, in_time = threading.Event(), list[bool]()
    monkeypatch.setattr(
        checkpoint_directory, "_remove_trees", lambda _: in_time.append(saved.wait(60))
    )
    with Checkpoints(tmp_path, keep=1) as checkpoints:
        for step in (1, 2):
            checkpoints.save(step, uniform(step), wait=True)
        assert checkpoints.latest() == 2
        saved.set()
    assert in_time == [True]


# --- several writers ---------------------------------------------------------------------------


def test_a_living_writers_work_is_not_taken_for_a_left_over(tmp_path: Path) -> None:
    with Checkpoints(tmp_path) as slow:
        slow.save(1, uniform(1), wait=True)
        folder = slow._directory.begin(9)
        save(tmp_path, 2)
        assert folder.is_dir()
    [dead] = wait([programs.start(programs.save_until_event, tmp_path, 8)])
    assert dead == -signal.SIGKILL
    assert list(tmp_path.glob(".writer-*-step-0000000003"))
    save(tmp_path, 4)
    assert not list(tmp_path.glob(".writer-*-step-0000000003"))


def test_two_writers_at_once_damage_nothing(tmp_path: Path) -> None:
    save(tmp_path, 1)
    steps = [range(2, 40), range(2, 40)]
    processes = [programs.start(programs.save_some, tmp_path, each) for each in steps]
    while any(process.is_alive() for process in processes):
        assert load(tmp_path)
    wait(processes)
    assert load(tmp_path)
    save(tmp_path, 50)
    assert not list(tmp_path.glob(".writer-*"))


# --- several ranks -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [pytest.param("ddp", marks=pytest.mark.slow), "fsdp"])
def test_training_goes_on_alike_in_another_world_size(kind: str, tmp_path: Path) -> None:
    directory = tmp_path / "ckpt"
    losses, again = together(2, tmp_path, programs.train_and_save, directory, kind)
    assert losses == again
    for world, resumed_as in ((2, kind), (1, kind), (3, kind), (1, "plain")):
        for resumed in together(world, tmp_path, programs.load_and_train, directory, resumed_as):
            assert resumed == pytest.approx(losses, rel=1e-5)


def test_each_rank_goes_on_with_its_own_random_numbers(tmp_path: Path) -> None:
    drawn = together(2, tmp_path, programs.draw_and_save, tmp_path / "ckpt")
    assert drawn[0] != drawn[1]
    assert together(2, tmp_path, programs.load_and_draw, tmp_path / "ckpt") == drawn
    *old, new = together(3, tmp_path, programs.load_and_draw, tmp_path / "ckpt")
    assert old == drawn
    assert new == together(3, tmp_path, programs.seeded_draw)[2]


@pytest.mark.parametrize("name", ["__0_0.distcp", "__1_0.distcp", "state.json", ".metadata"])
def test_all_ranks_pass_over_what_any_of_them_finds_damaged(name: str, tmp_path: Path) -> None:
    for step in (1, 2):
        together(2, tmp_path, programs.save_uniform, tmp_path / "ckpt", step)
    _flip(tmp_path / "ckpt" / "step-0000000002" / name)
    assert together(3, tmp_path, programs.load_uniform, tmp_path / "ckpt") == [1, 1, 1]


def test_a_rank_that_is_behind_the_others_meets_nothing_of_theirs(tmp_path: Path) -> None:
    ranks = together(2, tmp_path, programs.save_beside_a_slow_rank, tmp_path / "ckpt")
    assert ranks[0] == ["latest", "step-0000000001"]


def test_a_disk_that_fails_one_rank_fails_them_all(tmp_path: Path) -> None:
    ranks = together(2, tmp_path, programs.save_where_one_rank_may_not_write, tmp_path / "ckpt")
    assert ranks == [["", "", "step-0000000003"]] * 2


# --- SIGTERM -----------------------------------------------------------------------------------


def test_sigterm_is_only_noted_and_the_step_is_saved(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    process = programs.start(programs.train_until_stopped, tmp_path / "ckpt", ready, 1)
    _until(ready.with_suffix(".0").exists, process)
    process.terminate()
    assert wait([process]) == [STOPPED]
    assert (load(tmp_path / "ckpt") or 0) >= 20


@pytest.mark.parametrize("every", [1, 7])
def test_a_signal_to_one_rank_stops_all_at_the_same_step(every: int, tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    arguments = (3, tmp_path / "meeting", tmp_path / "ckpt", ready, every)
    processes = [
        programs.start(programs.ranks_until_stopped, rank, *arguments) for rank in range(3)
    ]
    _until(ready.with_suffix(".1").exists, processes[1])
    processes[1].terminate()
    assert wait(processes) == [STOPPED] * 3
    # Were the steps different, the ranks would have waited for one another, or for ever.
    step = load(tmp_path / "ckpt")
    assert step is not None
    assert step % every == 0


def test_afterwards_sigterm_does_what_it_did_before() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignal() as stop:
        assert not stop.agreed()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.noted
        assert stop.agreed()
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_handler_that_was_set_since_stays() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with StopSignal() as stop:
            signal.signal(signal.SIGTERM, _own_handler)
            os.kill(os.getpid(), signal.SIGTERM)
            assert not stop.noted
        assert signal.getsignal(signal.SIGTERM) is _own_handler
    finally:
        signal.signal(signal.SIGTERM, before)


def _own_handler(_number: int, _frame: object) -> None:
    """As a script has one."""


def test_signals_that_are_closed_out_of_order_note_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    first, second = StopSignal(), StopSignal()
    first.close()
    os.kill(os.getpid(), signal.SIGTERM)
    assert second.noted
    second.close()
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("leaves", [False, True])
def test_a_handler_may_save_or_leave_while_a_checkpoint_is_written(
    leaves: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The buffers that it is written from stay as they are until it is written."""
    module = sys.modules[Checkpoints.__module__]
    write, main = module.write_files, threading.main_thread().ident
    handled = threading.Event()

    def slow(*arguments: object, **options: object) -> object:
        if not handled.is_set():
            while not _waits(main):
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGTERM)
            handled.wait()
        return write(*arguments, **options)

    monkeypatch.setattr(module, "write_files", slow)

    def handler(_number: int, _frame: object) -> None:
        handled.set()
        if leaves:
            raise SystemExit(STOPPED)
        checkpoints.save(2, uniform(2))

    before = signal.signal(signal.SIGTERM, handler)
    try:
        with suppress(SystemExit), Checkpoints(tmp_path) as checkpoints:
            checkpoints.save(1, uniform(1))
            checkpoints.wait()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert visible(tmp_path) == ([1] if leaves else [1, 2])
    for step in visible(tmp_path):
        (tmp_path / "latest").write_text(f"step-{step:010}\n")
        assert load(tmp_path) == step
    assert not list(tmp_path.glob(".writer-*"))


def _waits(thread: int | None) -> bool:
    """Whether a thread waits for the result of another."""
    frame = sys._current_frames()[thread or 0].f_back
    return frame is not None and frame.f_code.co_name == "result"


# --- limits ------------------------------------------------------------------------------------


def test_a_limit_of_file_size_fails_saves_with_its_cause(tmp_path: Path) -> None:
    [code] = wait([programs.start(programs.save_within_a_file_size, tmp_path, tmp_path / "log")])
    assert code == 0
    log = (tmp_path / "log").read_text()
    assert "no shared memory of" in log
    assert log.count("could not be saved") == 2
    assert log.count(": File too large") == 2
    assert load(tmp_path) == 3
    assert _names(tmp_path) == ["latest", "log", "step-0000000003"]
