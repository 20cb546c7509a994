"""`--watch`: a real process answers every save with what a fresh command would print."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

import git_repository
from repository import Repository

pytest.importorskip("watchfiles", reason="watchfiles is not installed")

PATIENCE = 60  # seconds after which something hangs


class Watching:
    """A command that goes on, and what it has printed so far."""

    def __init__(self, repository: Repository, *arguments: str):
        command = [sys.executable, "-m", "trainwright", "-C", str(repository.root), *arguments]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
        )
        assert self.process.stdout
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self._lines.put(line)

    def until(self, text: str) -> str:
        """What is printed up to a line with a text."""
        found = ""
        while text not in found:
            found += self._lines.get(timeout=PATIENCE)
        return found

    def stop(self, by: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        os.killpg(self.process.pid, by)
        self.process.wait(timeout=PATIENCE)
        self._reader.join()
        with self.process as process:
            assert process.stderr
            return process.returncode, process.stderr.read()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(git_repository.init(tmp_path / "specs"))
    made.environment("prod")
    made.job("prod/llm")
    made.job("prod/other")
    assert made.run("render").exit_code == 0
    git_repository.commit(made.root, "Begin")
    git_repository.git(made.root, "checkout", "--quiet", "-b", "change")
    return made


@pytest.fixture
def start(repository: Repository) -> Iterator[type[Watching]]:
    begun: list[Watching] = []

    def starting(*arguments: str) -> Watching:
        begun.append(Watching(repository, *arguments))
        return begun[-1]

    yield starting  # type: ignore[misc]
    for one in begun:
        if one.process.poll() is None:
            one.stop(signal.SIGKILL)


def test_a_check_follows_the_files(repository: Repository, start: type[Watching]) -> None:
    watching = start("check", "--watch")
    assert watching.until("2 jobs").startswith("no findings")
    repository.job("prod/llm", "node: 3\n")
    assert 'unknown key "node"' in watching.until("1 error in 2 jobs")
    (repository.root / "environments/prod/jobs/other.yaml").unlink()
    watching.until("1 error in 1 job")
    repository.job("prod/llm", "nodeSelector: {a: b}\n")
    watching.until("no findings in 1 job")
    repository.environment("prod", "nonsense: 1\n")
    assert watching.until("1 error") == repository.run("check").output.partition("1 error")[0] + (
        "1 error in 1 job\n"
    )
    assert watching.stop() == (130, "watching for changes; Ctrl-C ends\ntrainwright: interrupted\n")


def test_a_selection_is_all_that_is_shown(repository: Repository, start: type[Watching]) -> None:
    watching = start("check", "--watch", "prod/other")
    watching.until("no findings in 1 job")
    repository.job("prod/llm", "node: 3\n")
    watching.until("no findings in 1 job")
    repository.job("prod/other", "node: 3\n")
    assert "other.yaml" in watching.until("1 error in 1 job")


def test_a_plan_follows_the_files(repository: Repository, start: type[Watching]) -> None:
    watching = start("plan", "--against", "main", "--watch")
    watching.until("Nothing changes for any job")
    repository.job("prod/llm", "nodeSelector: {a: b}\n")
    assert "nodeSelector" in watching.until("Starts 1 run beside the old one") + watching.until(
        "nodeSelector"
    )
    repository.job("prod/llm")
    watching.until("Nothing changes for any job")


def test_what_excludes_it_is_said(repository: Repository) -> None:
    refused = repository.run("check", "--watch", "--kubernetes-version", "1.34")
    assert refused.exit_code == 2
    assert "--fix and --watch exclude --kubernetes-version" in refused.output
