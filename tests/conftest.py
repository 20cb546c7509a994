"""What every test may use: the shared upstream data, and one switch to rewrite expectations."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

_SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite expected outputs; review with git"
    )


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """A path below ../shared. Skips where that folder is absent, and fails there under CI."""

    def find(path: str) -> Path:
        found = _SHARED / path
        if not found.exists():
            message = f"the upstream test data ../shared/{path} is not here"
            if os.environ.get("CI") == "true":
                pytest.fail(message)
            pytest.skip(message)
        return found

    return find


@pytest.fixture(scope="session")
def npm_package(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The unpacked folder of an npm package, by name@version. npm itself comes from PyPI."""

    def fetch(package: str) -> Path:
        folder = tmp_path_factory.mktemp("npm")
        beside = Path(sys.executable).parent
        environment = {**os.environ, "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}"}
        packed = subprocess.run(
            ["npm", "pack", "--silent", package],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if packed.returncode:
            message = f"npm cannot bring {package}: {packed.stderr.strip()}"
            if os.environ.get("CI") == "true":
                pytest.fail(message)
            pytest.skip(message)
        with tarfile.open(next(folder.glob("*.tgz"))) as archive:
            archive.extractall(folder, filter="data")
        return folder / "package"

    return fetch
