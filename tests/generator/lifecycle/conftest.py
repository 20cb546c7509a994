"""A repository under git, rendered and committed, with an identity of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

import git_repository
from repository import Repository


@pytest.fixture(autouse=True)
def _own_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in git_repository.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(git_repository.init(tmp_path / "repository"))
    made.environment("dev")
    made.environment("prod")
    for name in ("dev/mnist", "prod/mnist", "prod/llm"):
        made.job(name)
    assert made.run("render").exit_code == 0
    git_repository.commit(made.root, "Begin")
    return made
