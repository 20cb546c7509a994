"""No test depends on how its user has configured git, Helm, pip or npm."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GIT = """\
[commit]
    gpgsign = true
[core]
    autocrlf = true
    hooksPath = /nowhere
[diff]
    noprefix = true
[init]
    defaultBranch = trunk
[user]
    useConfigOnly = true
"""
VERBS = "tests/generator/lifecycle/test_verbs.py"
TESTS = (
    "tests/generator/test_git.py",
    f"{VERBS}::test_other_edits_are_never_committed",
    "tests/generator/test_init.py::test_a_new_repository_passes_its_own_checks[none-job]",
)


def test_tools_have_the_settings_of_a_fresh_machine() -> None:
    listed = subprocess.run(
        ["git", "config", "--list", "--show-scope"],
        cwd="/", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert listed.stdout.splitlines() == ["command\tsafe.directory=*"]
    helm = {name for name in os.environ if name.startswith("HELM_")}
    assert helm == {"HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"}
    assert os.environ["PIP_CONSTRAINT"] == os.devnull


IMAGE = "tests/runtime/test_image.py::test_a_requirement_that_would_replace_torch_is_refused"


@pytest.mark.slow
@pytest.mark.parametrize("tests", [TESTS, (IMAGE,)], ids=["generator", "image"])
def test_tests_pass_in_a_hostile_home(tests: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / ".gitconfig").write_text(GIT)
    (tmp_path / ".npmrc").write_text("json=true\ndry-run=true\n")
    (tmp_path / "constraints.txt").write_text("torch==0.0.1\n")
    (tmp_path / ".config/pip").mkdir(parents=True)
    (tmp_path / ".config/pip/pip.conf").write_text(
        f"[global]\nconstraint = {tmp_path}/constraints.txt\n"
    )
    hostile = {
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / ".config"),
        "GIT_DIR": str(tmp_path / "nowhere"),
        "HELM_NAMESPACE": "elsewhere",
        "HELM_KUBECONTEXT": "nowhere",
        "PIP_CONSTRAINT": str(tmp_path / "constraints.txt"),
    }
    removed = {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM"}  # which guard this process
    environment = {k: v for k, v in os.environ.items() if k not in removed}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        env={**environment, **hostile},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
