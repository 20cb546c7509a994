"""The extension for Visual Studio Code: its manifest, and the package that its own tool makes of it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

import git_repository
from packaged_extension import run
from repository import Repository

ROOT = Path(__file__).parents[3]
EXTENSION = ROOT / "editor" / "vscode"
MANIFEST = json.loads((EXTENSION / "package.json").read_text())
CODE = (EXTENSION / "extension.js").read_text()
PLANNED = Path(__file__).with_name("planned_task.js")


def test_the_manifest_names_what_is_there() -> None:
    for validation in MANIFEST["contributes"]["yamlValidation"]:
        name = validation["url"].removeprefix("./schemas/")
        assert (ROOT / "schemas" / name).is_file(), validation
    commands = {command["command"] for command in MANIFEST["contributes"]["commands"]}
    assert commands == set(re.findall(r"registerCommand\('([^']+)'", CODE))
    read = {f"trainwright.{name}" for name in re.findall(r"\.get\('([^']+)', ", CODE)}
    assert read == set(MANIFEST["contributes"]["configuration"]["properties"])
    assert f"--outfile={MANIFEST['main'].removeprefix('./')}" in MANIFEST["scripts"]["bundle"]
    assert (EXTENSION / MANIFEST["icon"]).read_bytes().startswith(b"\x89PNG")
    (task,) = MANIFEST["contributes"]["taskDefinitions"]
    assert f"type: '{task['type']}'" in CODE
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


@pytest.mark.parametrize(("against", "given"), [("", []), ("change", ["--against", "change"])])
def test_the_plan_is_a_task_whose_terminal_stays(
    against: str, given: list[str], tmp_path: Path
) -> None:
    node = shutil.which("node", path=str(Path(sys.executable).parent)) or shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    made = Repository(git_repository.init(tmp_path / "specs"))
    made.environment("prod")
    made.job("prod/llm")
    made.run("render")
    git_repository.commit(made.root, "Begin")
    git_repository.git(made.root, "branch", "change")
    git_repository.git(made.root, "update-ref", "refs/remotes/origin/main", "HEAD")
    git_repository.git(
        made.root, "symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main"
    )
    settings = {"command": [sys.executable, "-m", "trainwright"], "against": against}
    done = subprocess.run(
        [node, PLANNED, EXTENSION / "extension.js", json.dumps(settings), made.root],
        capture_output=True,
        text=True,
        check=True,
    )
    task = json.loads(done.stdout)
    assert task["presentationOptions"]["close"] is False
    assert task["presentationOptions"]["reveal"] == "always"
    run = task["execution"]
    assert run["args"] == ["-m", "trainwright", "plan", *given]
    planned = subprocess.run(
        [run["process"], *run["args"]],
        cwd=run["options"]["cwd"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (planned.returncode, planned.stderr) == (0, "")


@pytest.mark.slow
def test_its_own_tool_packages_it(vsix: Callable[[], Path]) -> None:
    made = vsix()
    checked = run(made.parent, "npm", "run", "check")
    assert checked.returncode == 0, checked.stdout
    assert run(made.parent, "node", "--check", "dist/extension.js").returncode == 0
    with zipfile.ZipFile(made) as package:
        names = set(package.namelist())
        shipped = package.read("extension/schemas/job.schema.json")
    assert shipped == (ROOT / "schemas" / "job.schema.json").read_bytes()
    folders = {name.split("/")[1] for name in names if name.startswith("extension/")}
    assert folders == {
        "LICENSE.txt", "dist", "icon.png", "package.json", "readme.md", "schemas",
    }  # fmt: skip
