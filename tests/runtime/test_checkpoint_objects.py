"""Checkpoints in object storage: whole or invisible there too, wherever it ends."""

from __future__ import annotations

import itertools
import logging
import signal
from pathlib import Path
from typing import Any

import fsspec
import pytest
from checkpoint_programs import killed_before_it_puts, load, save, start, step_of, uniform, wait
from click.testing import CliRunner
from fsspec.implementations.memory import MemoryFileSystem

from trainwright_runtime.checkpoint import CheckpointError, Checkpoints
from trainwright_runtime.checkpoint.__main__ import main
from trainwright_runtime.checkpoint.directory import Retention
from trainwright_runtime.checkpoint.objects import Objects

_numbers = itertools.count()


@pytest.fixture
def url() -> str:
    return f"memory://bucket-{next(_numbers)}/run"


def files(url: str) -> list[str]:
    fs, path = fsspec.core.url_to_fs(url)
    return sorted(name.removeprefix(f"{path}/") for name in fs.find(path))


def steps(url: str) -> list[int]:
    names = [name for name in files(url) if name.endswith("XXH128SUMS")]
    return sorted(int(name.split("-")[1].split(".")[0]) for name in names)


def test_the_newest_are_kept_and_found_again(url: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert load(url) is None
    save(url, 1, 2, 3)
    assert steps(url) == [2, 3]
    assert load(url) == 3
    save(url, 3)  # the same step again has another name, and replaces it
    assert steps(url) == [2, 3]
    assert len({name.split("/")[0] for name in files(url)} - {"latest"}) == 2
    assert load(url) == 3
    [local] = tmp_path.iterdir()
    assert not list(local.iterdir())  # nothing of it stays on the disk


def test_another_runs_checkpoints_are_where_a_fresh_run_starts(url: str, tmp_path: Path) -> None:
    save(url, 4, 5)
    state = uniform(0)
    with Checkpoints(tmp_path, resume_from=url) as checkpoints:
        assert checkpoints.load(state) == 5
    first = next(name.split("/")[0] for name in files(url) if "-0000000004" in name)
    with Checkpoints(tmp_path, resume_from=f"{url}/{first}") as checkpoints:
        assert checkpoints.load(state) == step_of(state) == 4
    with (
        Checkpoints(tmp_path, resume_from=f"{url}/nothing") as checkpoints,
        pytest.raises(CheckpointError, match="holds no checkpoint"),
    ):
        checkpoints.load(state)


@pytest.mark.parametrize("name", ["__0_0.distcp", ".metadata", "state.json", "XXH128SUMS"])
def test_what_is_damaged_or_gone_is_passed_over(name: str, url: str, caplog) -> None:
    for damage in ("flip", "remove"):
        save(url, 1, 2)
        fs, path = fsspec.core.url_to_fs(url)
        [found] = [f for f in fs.find(path) if "-0000000002" in f and f.endswith(f"/{name}")]
        if damage == "remove":
            fs.rm_file(found)
        else:
            content = bytearray(fs.cat_file(found))
            content[len(content) // 2] ^= 0x10
            fs.pipe_file(found, bytes(content))
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert load(url) == 1
        hidden = (damage, name) == ("remove", "XXH128SUMS")  # as one that was never finished
        assert hidden or "memory://" in caplog.text or "bucket" in caplog.text


class Unreachable(Exception):
    """As the libraries of object stores have them, which are no OSErrors."""


def test_wherever_it_ends_the_one_before_is_whole(url: str, monkeypatch) -> None:
    """The store refuses everything from the n-th change on, as after a kill."""
    for last in range(1, 40):
        place = f"{url}-{last}"
        save(place, 1)
        changes = itertools.count(1)

        def counted(work: Any) -> Any:
            def run(*arguments: Any, **options: Any) -> Any:
                if next(changes) >= last:  # noqa: B023
                    raise Unreachable("connection reset")
                return work(*arguments, **options)

            return run

        with monkeypatch.context() as patch:
            for name in ("put_file", "pipe_file", "rm_file", "rm"):
                patch.setattr(MemoryFileSystem, name, counted(getattr(MemoryFileSystem, name)))
            try:
                with Checkpoints(place, keep=1) as checkpoints:
                    checkpoints.save(2, uniform(2), wait=True)
                ended = True
            except CheckpointError as error:
                assert "Unreachable: connection reset" in str(error)  # noqa: PT017
                ended = False
        assert load(place) in ((2,) if ended else (1, 2))
        save(place, 3)
        assert load(place) == 3
        if ended and next(changes) < last:
            assert last > 5, "the store was asked to change something"
            return
    pytest.fail("it never came to the end")


def test_what_was_never_finished_is_swept_when_it_is_old(url: str, monkeypatch) -> None:
    fs, path = fsspec.core.url_to_fs(url)
    fs.pipe_file(f"{path}/step-0000000007.00000000/__0_0.distcp", b"half")
    save(url, 1)
    assert any("-0000000007" in name for name in files(url))  # it may be under way
    monkeypatch.setattr("trainwright_runtime.checkpoint.objects._ABANDONED", -1.0)
    save(url, 2)
    assert not any("-0000000007" in name for name in files(url))


def test_what_cannot_be_read_now_is_no_damage(url: str, monkeypatch) -> None:
    save(url, 1, 2)

    def refuse(*_arguments: Any, **_options: Any) -> None:
        raise Unreachable("connection reset")

    with Checkpoints(url, keep=1) as checkpoints:
        for work in ("find", "cat_file", "_open"):
            with monkeypatch.context() as patch:
                patch.setattr(MemoryFileSystem, work, refuse)
                with pytest.raises(CheckpointError, match=r"Unreachable: connection reset; the"):
                    checkpoints.load(uniform(0))
        assert checkpoints.load(uniform(0)) == 2
    assert steps(url) == [1, 2]


def test_who_may_not_delete_saves_all_the_same(url: str, monkeypatch, caplog) -> None:
    def refuse(*_arguments: Any, **_options: Any) -> None:
        raise PermissionError("Access Denied")

    monkeypatch.setattr(MemoryFileSystem, "rm", refuse)
    monkeypatch.setattr(MemoryFileSystem, "rm_file", refuse)
    save(url, 1, 2, 3, 4, keep=1)
    assert load(url) == 4
    assert "could not be removed: Access Denied" in caplog.text


def test_writers_of_one_step_do_not_remove_each_other(url: str) -> None:
    writers = [Objects(url), Objects(url)]
    attempts = [writer.begin(7) for writer in writers]
    for writer, attempt in zip(writers, attempts, strict=True):
        folder = writer.stage(attempt)
        (folder / "file").write_bytes(b"")
        writer.collect(folder, ["file"])
        writer.publish(folder, {"file": "0" * 64}, Retention(keep=1))
        writer.abandon(folder)
        writer.close()
    assert steps(url) == [7, 7]
    save(url, 8, keep=1)
    assert steps(url) == [8]


def test_what_came_to_nothing_goes_with_the_next(url: str, monkeypatch) -> None:
    real = MemoryFileSystem.pipe_file

    def full(self: Any, path: str, *arguments: Any, **options: Any) -> None:
        if path.endswith("XXH128SUMS"):
            raise Unreachable("insufficient storage")
        real(self, path, *arguments, **options)

    with Checkpoints(url) as checkpoints:
        with monkeypatch.context() as patch:
            patch.setattr(MemoryFileSystem, "pipe_file", full)
            checkpoints.save(1, uniform(1), wait=True)
        checkpoints.save(2, uniform(2), wait=True)
    assert {name.split("/")[0].split(".")[0] for name in files(url)} == {
        "latest",
        "step-0000000002",
    }


def test_what_a_killed_writer_left_on_the_disk_is_removed(url: str, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert wait([start(killed_before_it_puts, str(tmp_path))]) == [-signal.SIGKILL]
    assert [path for path in tmp_path.rglob("*.distcp") if path.stat().st_size]
    save(url, 1)
    assert not list(tmp_path.rglob("*.distcp"))


@pytest.mark.parametrize("place", ["s9://bucket/run", "gs://bucket/run"])
def test_a_url_that_nothing_opens_is_one_line(place: str) -> None:
    with pytest.raises(CheckpointError, match=place) as refusal:
        Checkpoints(place)
    assert "\n" not in str(refusal.value)


def test_the_command_takes_urls(url: str) -> None:
    save(url, 1, 2)
    shown = CliRunner().invoke(main, ["inspect", url])
    assert shown.exit_code == 0, shown.output
    assert "step 2, " in shown.output
