"""The extension for Visual Studio Code: its manifest, and the package that its own tool makes of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXTENSION = ROOT / "editor" / "vscode"
MANIFEST = json.loads((EXTENSION / "package.json").read_text())
CODE = (EXTENSION / "extension.js").read_text()


def test_the_manifest_names_what_is_there() -> None:
    for validation in MANIFEST["contributes"]["yamlValidation"]:
        name = validation["url"].removeprefix("./schemas/")
        assert (ROOT / "schemas" / name).is_file(), validation
    commands = {command["command"] for command in MANIFEST["contributes"]["commands"]}
    assert commands == set(re.findall(r"registerCommand\('([^']+)'", CODE))
    read = {f"trainwright.{name}" for name in re.findall(r"settings\(\)\.get\('([^']+)'\)", CODE)}
    assert read == set(MANIFEST["contributes"]["configuration"]["properties"])
    assert (EXTENSION / MANIFEST["main"]).is_file()
    assert (EXTENSION / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert MANIFEST["capabilities"]["untrustedWorkspaces"]["supported"] is False


def test_the_command_that_it_starts_is_one(tmp_path: Path) -> None:
    assert "'editor', 'lsp', '--stdio'" in CODE
    command = [
        sys.executable,
        "-m",
        *MANIFEST["contributes"]["configuration"]["properties"]["trainwright.command"]["default"],
    ]
    done = subprocess.run(
        [*command, "editor", "lsp", "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 0
    assert "--stdio" in done.stdout


@pytest.mark.slow
def test_its_own_tool_packages_it(tmp_path: Path) -> None:
    ignore = shutil.ignore_patterns("node_modules", "schemas", "*.vsix", "package-lock.json")
    folder = tmp_path / "editor" / "vscode"
    shutil.copytree(EXTENSION, folder, ignore=ignore)
    shutil.copytree(ROOT / "schemas", tmp_path / "schemas")
    beside = Path(sys.executable).parent
    environment = {**os.environ, "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}"}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )

    installed = run("npm", "install", "--no-audit", "--no-fund", "--dry-run=false")
    if installed.returncode:
        pytest.skip(f"npm cannot bring what the extension needs: {installed.stderr.strip()}")
    packaged = run("npx", "vsce", "package", "--out", "extension.vsix")
    assert packaged.returncode == 0, packaged.stdout + packaged.stderr
    assert run("node", "--check", "extension.js").returncode == 0
    with zipfile.ZipFile(folder / "extension.vsix") as package:
        names = set(package.namelist())
        shipped = package.read("extension/schemas/job.schema.json")
    assert shipped == (ROOT / "schemas" / "job.schema.json").read_bytes()
    assert {"extension/extension.js", "extension/package.json", "extension/LICENSE.txt"} <= names
    assert any(name.startswith("extension/node_modules/vscode-languageclient/") for name in names)
    assert not any(name.endswith((".vsix", "schemas.js")) for name in names)
