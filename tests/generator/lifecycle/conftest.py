"""A repository under git, rendered and committed, with an identity of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import git_repository
from repository import Copied, Repository


@pytest.fixture(autouse=True)
def _own_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in git_repository.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def _begin(folder: Path) -> None:
    made = Repository(git_repository.init(folder))
    made.environment("dev")
    made.environment("prod")
    for name in ("dev/mnist", "prod/mnist", "prod/llm"):
        made.job(name)
    assert made.run("render").exit_code == 0
    git_repository.commit(made.root, "Begin")


@pytest.fixture
def repository(copied: Copied, tmp_path: Path) -> Repository:
    return copied(_begin, tmp_path / "repository")
