"""A repository under git, rendered and committed, with an identity of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import git_repository
from repository import Repository


@pytest.fixture(autouse=True)
def _own_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in git_repository.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(scope="session")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Repository]:
    """A repository that is rendered and committed once; tests get copies of it."""

    @cache
    def made() -> Repository:
        made = Repository(git_repository.init(tmp_path_factory.mktemp("begun")))
        made.environment("dev")
        made.environment("prod")
        for name in ("dev/mnist", "prod/mnist", "prod/llm"):
            made.job(name)
        assert made.run("render").exit_code == 0
        git_repository.commit(made.root, "Begin")
        return made

    return made


@pytest.fixture
def repository(begun: Callable[[], Repository], tmp_path: Path) -> Repository:
    return Repository(shutil.copytree(begun().root, tmp_path / "repository", symlinks=True))
