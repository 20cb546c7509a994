"""What every test may use: the shared upstream data, and one switch to rewrite expectations."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import git_repository
import preloaded_command
import started_afresh

started_afresh.begin()

pytest_plugins = [
    "continuous_integration",
    "longest_first",
    "opened_page",
    "packaged_extension",
    "slow_part",
]

# Settings of pip that change what is installed. Its index, proxy and certificates stay the user's.
_PIP = "BUILD_CONSTRAINT CONSTRAINT NO_BINARY NO_DEPS ONLY_BINARY PREFIX REQUIREMENT TARGET USER"

# Where data of other projects is: beside the repository, or where scripts/fetch_upstream.py puts
# what is pinned in upstream.toml, which is all that has a public source.
_UPSTREAM = (
    Path(__file__).resolve().parents[2] / "shared",
    Path(__file__).resolve().parent / ".upstream",
)
_FETCHED = "crds"

# `make test` and `make test-slow` draw few examples, and `make test-nightly` as many as a night holds;
# a test whose examples are expensive takes a fraction of what the profile says. No deadlines:
# machines are busy.
_PROFILE = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("quick", _PROFILE, max_examples=30)
settings.register_profile("nightly", _PROFILE, max_examples=1000)
settings.load_profile("quick")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite expected outputs; review with git"
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether a file has none of the slow tests, where only these run: imports take a worker long."""
    only_slow = config.getoption("markexpr") == "slow and not nightly"
    if not only_slow or not collection_path.match("test_*.py"):
        return None
    return b"slow" not in collection_path.read_bytes() or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of collected tests stay to the end: no search for garbage has to visit them.

    Not while they are made either. https://docs.python.org/3/library/gc.html#gc.freeze
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(50_000, 20, 20)


def _takes_files(folder: str) -> bool:
    try:
        with tempfile.TemporaryFile(dir=folder):
            return bool(folder)
    except OSError:
        return False


@pytest.fixture(scope="session", autouse=True)
def _no_user_configuration(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Git, Helm, pip and npm as on a fresh machine, whatever its user has configured."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            ours = name.startswith("GIT_") and not name.startswith("GIT_SSL_")
            if ours or name.startswith("HELM_") or name.removeprefix("PIP_") in _PIP.split():
                patch.delenv(name)
        if not _takes_files(os.environ.get("HOME", "")):
            patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
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
def preloaded_trainwright(_no_user_configuration: None) -> Iterator[Path]:
    """An executable `trainwright` where its own start is not the point."""
    with preloaded_command.serving() as executable:
        yield executable


@pytest.fixture(scope="session")
def shared() -> Callable[[str], Path]:
    """A path in ../shared, or in what was fetched. Skips where neither is."""

    # A plugin: pytest has to import it first.
    from continuous_integration import NOT_PUBLIC, TAKES_NETWORK

    def find(path: str) -> Path:
        for folder in _UPSTREAM:
            if (folder / path).exists():
                return folder / path
        if path.partition("/")[0] == _FETCHED:
            beside, fetched = (folder.exists() for folder in _UPSTREAM)
            if beside and not fetched:
                pytest.skip(f"{TAKES_NETWORK}: {path}")
            pytest.skip(f"{path} is not here: python3 scripts/fetch_upstream.py")
        pytest.skip(f"{NOT_PUBLIC}: {path}")

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
            pytest.skip(f"npm cannot bring {package}: {packed.stderr.strip()}")
        # tar leaves no folder either, and tarfile's filters are not in every Python.
        subprocess.run(["tar", "-xzf", next(folder.glob("*.tgz"))], cwd=folder, check=True)
        return folder / "package"

    return fetch
