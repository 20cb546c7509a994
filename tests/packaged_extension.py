"""The extension for Visual Studio Code as its own tool packages it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXTENSION = ROOT / "editor" / "vscode"


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """A command in the folder of the extension, with the Node.js of the tests."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


@pytest.fixture
def vsix(tmp_path: Path) -> Callable[[], Path]:
    """Makes the package, beside what it is made of."""

    def made() -> Path:
        ignored = "dist node_modules schemas *.vsix package-lock.json".split()
        folder = tmp_path / "editor" / "vscode"
        shutil.copytree(EXTENSION, folder, ignore=shutil.ignore_patterns(*ignored))
        shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
        installed = run(folder, "npm", "install", "--no-audit", "--no-fund", "--dry-run=false")
        if installed.returncode:
            pytest.skip(f"npm cannot bring what the extension needs: {installed.stderr.strip()}")
        packaged = run(folder, "npx", "vsce", "package", "--out", "extension.vsix")
        assert packaged.returncode == 0, packaged.stdout + packaged.stderr
        return folder / "extension.vsix"

    return made
