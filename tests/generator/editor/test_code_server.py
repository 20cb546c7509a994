"""The extension in a real Visual Studio Code: code-server, which a browser opens."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import pytest

import git_repository
from continuous_integration import TAKES_CODE_SERVER
from opened_page import installed_browser
from repository import Repository

ROOT = Path(__file__).parents[3]
DRIVER = Path(__file__).with_name("vscode_driver.js")
_PATIENCE = 300  # seconds, on a busy machine
pytestmark = [pytest.mark.slow, pytest.mark.long]


@pytest.fixture
def code_server() -> Path:
    """The program, by the file that Node.js starts."""
    found = sorted((ROOT / "tests" / ".upstream").glob("code-server-*/lib/installed"))
    if not found:
        pytest.skip(f"{TAKES_CODE_SERVER}: make code-server")
    return found[-1].parents[1] / "out" / "node" / "entry.js"


def _extensions(folder: Path, package: Path) -> Path:
    """The extension as it is installed, and the one that looks at it."""
    with zipfile.ZipFile(package) as archive:
        archive.extractall(folder / "unpacked")
    extensions = folder / "extensions"
    shutil.copytree(folder / "unpacked" / "extension", extensions / "trainwright.trainwright-0.1.0")
    (extensions / "tests.driver-0.0.1").mkdir()
    shutil.copy(DRIVER, extensions / "tests.driver-0.0.1" / "driver.js")
    manifest = {"name": "driver", "publisher": "tests", "version": "0.0.1", "main": "./driver.js",
                "engines": {"vscode": "^1.82.0"}, "activationEvents": ["onStartupFinished"]}  # fmt: skip
    (extensions / "tests.driver-0.0.1" / "package.json").write_text(json.dumps(manifest))
    return extensions


@contextmanager
def _started(*command: str | Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """A program with all that it starts, which ends with what needs it."""
    started = subprocess.Popen(command, text=True, start_new_session=True, **options)
    try:
        yield started
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()


@contextmanager
def _shown(address: str, folder: Path) -> Iterator[None]:
    """A browser that shows a page. Nothing looks at it from outside, so that nothing waits for that."""
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--remote-debugging-port=0",
        "--disable-backgrounding-occluded-windows",
        "--disable-renderer-backgrounding",
        "--disable-background-timer-throttling",
    ]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    program = installed_browser()
    with _started(program, *options, f"--user-data-dir={folder}", address, **quiet):
        yield


@contextmanager
def _served(program: Path, folder: Path, extensions: Path, port: int) -> Iterator[str]:
    """The address of a server with settings and extensions of its own."""
    user = folder / "user"
    (user / "User").mkdir(parents=True)
    command = [sys.executable, "-m", "trainwright"]
    settings = {"trainwright.command": command, "trainwright.against": "HEAD"}
    (user / "User" / "settings.json").write_text(json.dumps(settings))
    node = shutil.which("node", path=str(Path(sys.executable).parent)) or "node"
    environment = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    # A file: terminals that it started keep what it prints to open, after it has ended.
    with (
        (folder / "printed").open("w+") as printed,
        _started(
            node, program, "--auth=none", "--bind-addr=127.0.0.1:0", f"--user-data-dir={user}",
            f"--extensions-dir={extensions}", "--disable-telemetry", "--disable-update-check",
            "--disable-workspace-trust",
            env={**environment, "TRAINWRIGHT_SEEN": str(port)}, stdout=printed, stderr=printed,
        ) as started,
    ):  # fmt: skip
        found = None
        while found is None:
            assert started.poll() is None, (folder / "printed").read_text()
            sleep(0.1)
            found = re.search(r"listening on (http://[\d.:]+/)", (folder / "printed").read_text())
        yield found[1]


@pytest.fixture
def broken(tmp_path: Path) -> Repository:
    made = Repository(git_repository.init(tmp_path / "specs"))
    made.environment("prod")
    made.job("prod/llm")
    made.run("render")
    git_repository.commit(made.root, "Begin")
    job = made.job("prod/llm")
    job.write_text(job.read_text("utf-8").replace("nodes: 2", "nods: 2"), "utf-8")
    return made


def test_findings_remedies_and_the_plan(
    code_server: Path, vsix: Callable[[], Path], broken: Repository, tmp_path: Path
) -> None:
    extensions = _extensions(tmp_path, vsix())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(_PATIENCE)
        port = listener.getsockname()[1]
        with _served(code_server, tmp_path, extensions, port) as address:
            with _shown(f"{address}?folder={broken.root}", tmp_path / "browser"):
                connection, _ = listener.accept()
            with connection, connection.makefile() as sent:
                seen = json.load(sent)
    assert "error" not in seen, seen
    assert seen["active"]
    assert seen["commands"] == ["trainwright.plan", "trainwright.restart"]
    (found,) = seen["diagnostics"]
    assert found["code"] == "TW010"
    assert found["message"].startswith('unknown key "nods"')
    assert "Replace nods by nodes" in seen["actions"]
    assert "set by job" in seen["hover"]
    assert "\nnodes: 2\n" in seen["text"], "the remedy is applied"
    assert seen["task"] == {"name": "plan", "code": 0}
    assert "plan" in seen["terminals"], "its terminal stays"
