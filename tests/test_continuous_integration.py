"""With CI=true a skip is a failure, whichever way a test is skipped; the workflow skips nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from continuous_integration import NOT_PUBLIC, TAKES_ROOT

TESTS = f"""\
import pytest

@pytest.fixture
def tool():
    pytest.skip("the tool is not installed")

def test_with(tool):
    pass

def test_within():
    pytest.importorskip("no_such_module")

@pytest.mark.skip(reason="not today")
def test_marked():
    pass

@pytest.mark.parametrize("case", [])
def test_of_nothing(case):
    pass

def test_as_root():
    pytest.skip("{TAKES_ROOT}: mount")

def test_of_a_recording():
    pytest.skip("{NOT_PUBLIC}: observed")
"""
ROOT = Path(__file__).parents[1]
MODULE = "import pytest\npytest.importorskip('no_such_module')\n"


@pytest.mark.parametrize(
    ("arguments", "ci", "message"),
    [
        ((), "", "7 skipped"),
        ((), "true", "2 failed, 1 skipped, 4 errors"),
        (("--without-recordings",), "true", "1 failed, 2 skipped, 4 errors"),
    ],
)
def test_a_skip_is_a_failure(
    tmp_path: Path, arguments: tuple[str, ...], ci: str, message: str
) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "test_other.py").write_text(MODULE)
    environment = {k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "continuous_integration", "-p", "no:cacheprovider",
         "--continue-on-collection-errors", *arguments],
        cwd=tmp_path,
        env={
            **environment,
            "CI": ci,
            "PYTHONPATH": str(Path(__file__).parent),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1].strip("= ").startswith(message), done.stdout
    assert ("skipped, which CI=true forbids: the tool is not installed" in done.stdout) == bool(ci)


def test_costly_tests_are_named_and_pass(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import continuous_integration\ncontinuous_integration._COSTLY = -1\n"
    )
    (tmp_path / "test_some.py").write_text("def test_it():\n    pass\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "continuous_integration", "-p", "no:cacheprovider",
         "-m", "not slow"],
        cwd=tmp_path,
        env={
            **{k: v for k, v in os.environ.items() if k != "PYTEST_ADDOPTS"},
            "CI": "true",
            "PYTHONPATH": str(Path(__file__).parent),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "s of a processor  test_some.py::test_it" in done.stdout
    assert done.returncode == 0, done.stdout


def test_the_workflow_runs_every_proof() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/check.yaml").read_text())
    job = workflow["jobs"]["check"]
    *prepared, check, test, slow = [step["run"] for step in job["steps"] if "run" in step]
    assert prepared == ["scripts/test_tools.sh", "python scripts/fetch_upstream.py"]
    assert check == "make --jobs=2 --output-sync check collect"
    assert (test, slow) == ("make test", "make test-slow")
    nightly = yaml.safe_load((ROOT / ".github/workflows/nightly.yaml").read_text())
    steps = [step["run"] for step in nightly["jobs"]["test"]["steps"] if "run" in step]
    assert steps == [*prepared, "make code-server test test-nightly CONSTRAINTS="]
    assert "CI" not in {
        name for part in (workflow, job, *job["steps"]) for name in part.get("env", ())
    }
