"""Repositories in temporary folders, with their own cache and a fixed date."""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
import venv
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path

import pytest

import remembered_engine
from repository import Copied, Repository
from trainwright.helm import engines


@pytest.fixture(scope="session")
def _caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Folders that are made by what is written into them: most tests write nothing."""
    folder = tmp_path_factory.mktemp("caches")
    return (str(folder / str(number)) for number in count())


@pytest.fixture(autouse=True)
def _own_cache(_caches: Iterator[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", next(_caches))
    monkeypatch.setenv("TRAINWRIGHT_TODAY", "2026-06-01")
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture(autouse=True)
def _one_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Helm's start, its reading of the chart and most renderings are the same for every test."""
    monkeypatch.setattr(engines, "engine", remembered_engine.engine)


@pytest.fixture(scope="session")
def _made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[Path], object]], Path]:
    @cache
    def made(make: Callable[[Path], object]) -> Path:
        folder = tmp_path_factory.mktemp("made")
        make(folder)
        return folder

    return made


@pytest.fixture
def copied(_made: Callable[[Callable[[Path], object]], Path]) -> Copied:
    """Copies of what a function makes in a folder, which it does once: rendering and git cost more."""

    def copy(make: Callable[[Path], object], folder: Path) -> Repository:
        return Repository(shutil.copytree(_made(make), folder, symlinks=True, dirs_exist_ok=True))

    return copy


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.environment("dev")
    made.environment("prod")
    for name in ("dev/mnist", "prod/mnist", "prod/llm"):
        made.job(name)
    return made


@pytest.fixture(scope="session")
def only_torch(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter of a laptop: it has PyTorch, and nothing that is installed as editable."""
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        pytest.skip("PyTorch is not installed")
    folder = tmp_path_factory.mktemp("laptop")
    venv.create(folder, symlinks=True)
    python = folder / "bin/python"
    vars_ = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", vars_))
    # Lines of .pth files in it are not followed, which is how editable packages are found.
    (packages / "torch.pth").write_text(f"{Path(torch.origin).parents[1]}\n")
    return str(python)
