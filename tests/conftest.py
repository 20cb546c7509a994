"""What every test may use: the shared upstream data, and one switch to rewrite expectations."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import git_repository

# Settings of pip that change what is installed. Its index, proxy and certificates stay the user's.
_PIP = "BUILD_CONSTRAINT CONSTRAINT NO_BINARY NO_DEPS ONLY_BINARY PREFIX REQUIREMENT TARGET USER"
_SHARED = Path(__file__).resolve().parents[2] / "shared"

# `make test` draws few examples and `make test-slow` many; a test whose examples are expensive takes
# a fraction of what the profile says. No deadlines: machines are busy.
_CI = os.environ.get("CI") == "true"
_PROFILE = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("quick", _PROFILE, max_examples=60)
settings.register_profile("thorough", _PROFILE, max_examples=500)
settings.load_profile("quick")

# What a test may use of a processor before it has to be marked as slow. The time of processors, of
# this process and its children, hardly depends on who else is on the machine, but on how fast it
# is: five seconds are meant, and three times as many fail.
_LIMIT = 15  # seconds


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite expected outputs; review with git"
    )


def _processor_time() -> float:
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    before = _processor_time()
    yield
    spent = _processor_time() - before
    quick = item.config.getoption("markexpr") == "not slow"  # others draw many more examples
    if _CI and quick and spent > _LIMIT:
        pytest.fail(
            f"{spent:.1f} seconds of a processor in a test that is not marked as slow, "
            f"of at most {_LIMIT}: mark it, or make it cheaper",
            pytrace=False,
        )


@pytest.fixture(scope="session", autouse=True)
def _nobodys_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Git, Helm, pip and npm as on a fresh machine, whatever its user has configured."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            ours = name.startswith("GIT_") and not name.startswith("GIT_SSL_")
            if ours or name.startswith("HELM_") or name.removeprefix("PIP_") in _PIP.split():
                patch.delenv(name)
        for name, value in git_repository.ENVIRONMENT.items():
            if not name.endswith("_DATE"):
                patch.setenv(name, value)
        # In a container the checkout is often another user's.
        patch.setenv("GIT_CONFIG_COUNT", "1")
        patch.setenv("GIT_CONFIG_KEY_0", "safe.directory")
        patch.setenv("GIT_CONFIG_VALUE_0", "*")
        patch.setenv("PIP_CONSTRAINT", os.devnull)  # an empty value would leave pip.conf's
        helm = tmp_path_factory.mktemp("helm")
        for name in ("CACHE", "CONFIG", "DATA"):
            patch.setenv(f"HELM_{name}_HOME", str(helm / name.lower()))
        yield


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """A path below ../shared. Skips where that folder is absent, and fails there under CI."""

    def find(path: str) -> Path:
        found = _SHARED / path
        if not found.exists():
            message = f"the upstream test data ../shared/{path} is not here"
            if _CI:
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
            ["npm", "pack", "--silent", "--json=false", "--dry-run=false",
             f"--pack-destination={folder}", package],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if packed.returncode:
            message = f"npm cannot bring {package}: {packed.stderr.strip()}"
            if _CI:
                pytest.fail(message)
            pytest.skip(message)
        with tarfile.open(next(folder.glob("*.tgz"))) as archive:
            archive.extractall(folder, filter="data")
        return folder / "package"

    return fetch
