"""Ctrl-C ends every verb with 130 and one line: 1 would mean findings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from repository import Repository

PATIENCE = 60  # seconds after which something hangs


def _start(repository: Repository, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trainwright", "-C", str(repository.root), *arguments],
        cwd=repository.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal's foreground group, which Ctrl-C reaches as a whole
    )


def _until(process: subprocess.Popen[str], condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def _interrupt(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)
    _, stderr = process.communicate(timeout=PATIENCE)
    assert (process.returncode, stderr) == (130, "trainwright: interrupted\n")


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A program that says that it was started, and then does nothing."""
    program = tmp_path / "slow"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexec sleep 600\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "--helm", "SLOW"),
        ("render", "--helm", "SLOW"),
        ("rehearse", "dev/mnist", "--python", "SLOW"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_verb_at_work_ends_with_130(
    arguments: tuple[str, ...], repository: Repository, slow: Path
) -> None:
    job = repository.job("dev/mnist")
    job.write_text(job.read_text().replace("script: train.py", "module: train"))
    started = _start(repository, *(str(slow) if a == "SLOW" else a for a in arguments))
    _until(started, (slow.parent / "started").exists)
    _interrupt(started)


@pytest.mark.parametrize("binary", [True, False], ids=["helm", "embedded"])
def test_workers_that_render_print_nothing(
    binary: bool, repository: Repository, slow: Path
) -> None:
    for number in range(200):
        repository.job(f"dev/job-{number}")
    started = _start(repository, "render", *(("--helm", str(slow)) if binary else ()))
    if binary:
        _until(started, (slow.parent / "started").exists)
    else:  # in the middle of their imports
        _until(started, psutil.Process(started.pid).children)
    _interrupt(started)
    assert not repository.tree()


def test_workers_that_check_manifests_print_nothing(repository: Repository) -> None:
    text = "".join(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a-{number}}}\ndata: {{a: b}}\n---\n"
        for number in range(8_000)
    )
    folder = repository.root / "manifests"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.yaml").write_text(text)
    started = _start(repository, "check", "--manifests", str(folder))
    _until(started, psutil.Process(started.pid).children)
    _interrupt(started)


def test_a_verb_that_is_still_being_imported_ends_with_130(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGINT)\n")
    done = subprocess.run(
        [sys.executable, "-m", "trainwright", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (130, "")
