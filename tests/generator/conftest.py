"""Repositories in temporary folders, with their own cache and a fixed date."""

from __future__ import annotations

from pathlib import Path

import pytest

from repository import Repository


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-06-01")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.environment("dev")
    made.environment("prod")
    for name in ("dev/mnist", "prod/mnist", "prod/llm"):
        made.job(name)
    return made
