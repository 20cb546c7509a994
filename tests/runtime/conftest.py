"""What tests of the runtime share: torch must be here, and the entrypoint runs as a real process."""

from __future__ import annotations

import importlib.util
import multiprocessing.util
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from containers import Entrypoint

# Sockets of processes that are forked are in it, whose paths are short; a test may set another
# folder for temporary files, whose path is not.
multiprocessing.util.get_temp_dir()


class _WithoutTorch(pytest.Module):
    def collect(self) -> Iterator[pytest.Item]:
        pytest.skip("torch is not installed: pip install ./runtime", allow_module_level=True)


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Module | None:
    if importlib.util.find_spec("torch") is None:
        return _WithoutTorch.from_parent(parent, path=module_path)
    return None


@pytest.fixture
def entrypoint(tmp_path: Path) -> Iterator[Entrypoint]:
    running = Entrypoint(tmp_path)
    yield running
    for process in running.started:
        if process.poll() is None:
            process.kill()
        with suppress(ValueError):  # communicate() has closed the pipes already
            process.communicate()
