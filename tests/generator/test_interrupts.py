"""Ctrl-C ends every verb with 130 and one line: 1 would mean findings."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

import pytest

from repository import Repository
from trainwright.render import batch
from trainwright.tasks.processors import at_work

PATIENCE = 60  # seconds after which something hangs


def _start(repository: Repository, *arguments: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "trainwright", "-C", str(repository.root), *arguments],
        cwd=repository.root,
        env={**os.environ, **environ},
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


def _interrupt(process: subprocess.Popen[str], then: Callable[[], object] = bool) -> None:
    os.killpg(process.pid, signal.SIGINT)
    then()
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


@pytest.fixture
def jobs(repository: Repository) -> Repository:
    """So many that it is worth processes to render them."""
    for number in range(batch._WORTH_A_PROCESS):
        repository.job(f"dev/job-{number}")
    return repository


def test_workers_that_render_print_nothing(jobs: Repository, slow: Path) -> None:
    started = _start(jobs, "render", "--helm", str(slow))
    _until(started, (slow.parent / "started").exists)
    _interrupt(started)
    assert not jobs.tree()


# Python imports it when it starts. Here workers are held, in their imports or at work, until they
# have been interrupted: a test that is late would find them done.
SITECUSTOMIZE = """
import os, pathlib, sys, time
def hold():
    pathlib.Path({started!r}).touch()
    while not pathlib.Path({interrupted!r}).exists(): time.sleep(0.01)
"""
SPAWNED = """
if "--multiprocessing-fork" in sys.orig_argv:
    hold()
"""
FORKED = """
def hold_at_work():
    from trainwright.manifests import parallel
    parallel.check_text = lambda *_: hold()
os.register_at_fork(after_in_child=hold_at_work)
"""


def _interrupt_workers(repository: Repository, hold: str, *arguments: str) -> None:
    started, interrupted = repository.root / "started", repository.root / "interrupted"
    site = repository.root / "site"
    site.mkdir()
    places = {"started": str(started), "interrupted": str(interrupted)}
    (site / "sitecustomize.py").write_text(SITECUSTOMIZE.format(**places) + hold)
    process = _start(repository, *arguments, PYTHONPATH=str(site))
    _until(process, started.exists)
    _interrupt(process, interrupted.touch)


def test_workers_that_still_import_print_nothing(jobs: Repository) -> None:
    _interrupt_workers(jobs, SPAWNED, "render")
    assert not jobs.tree()


def test_workers_that_check_manifests_print_nothing(repository: Repository) -> None:
    text = "".join(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a-{number}}}\ndata: {{a: b}}\n---\n"
        for number in range(8_000)
    )
    folder = repository.root / "manifests"
    folder.mkdir()
    (folder / "many.yaml").write_text(text)
    _interrupt_workers(repository, FORKED, "validate", str(folder))


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


def test_work_that_was_cancelled_before_its_workers_ended_is_no_error() -> None:
    """The thread of a pool would print a traceback: a warning here, and each fails the test."""
    with at_work(pool := ProcessPoolExecutor(1, get_context("fork"))):
        worker = pool.submit(os.getpid).result()
        waiting = [pool.submit(time.sleep, 600) for _ in range(8)]
        assert waiting[-1].cancel()
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(BrokenProcessPool):
            waiting[0].result(PATIENCE)
