"""What every test may use: the shared upstream data, and one switch to rewrite expectations."""

from __future__ import annotations

import os
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
