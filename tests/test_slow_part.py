"""The parts in which slow tests run by turns leave none out."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from slow_part import part, taken


@pytest.mark.parametrize("parts", [1, 2, 4, 7])
@pytest.mark.parametrize("tests", [0, 1, 3, 4, 101])
def test_the_parts_have_each_test_once(tests: int, parts: int) -> None:
    all_parts = [taken([*range(tests)], number, parts) for number in range(1, parts + 1)]
    assert sorted(chain(*all_parts)) == [*range(tests)]
    assert max(map(len, all_parts)) - min(map(len, all_parts)) <= 1


@pytest.mark.parametrize("text", ["0/4", "5/4", "1", "1/", "1/0", "-1/4", "a/b", ""])
def test_what_is_no_part_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a part"):
        part(text)


TESTS = """
import pytest
@pytest.mark.slow
@pytest.mark.parametrize("case", range(8))
def test_slow(case): ...
@pytest.mark.parametrize("case", range(3))
def test_fast(case): ...
"""


def _session(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = slow: as in ours\n")
    return subprocess.run(
        [sys.executable, *"-m pytest -p xdist.plugin -p slow_part -q".split(), *options],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(__file__).parent),
            "PYTEST_ADDOPTS": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # they take longer to import than all else
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_session_runs_its_part_of_the_slow_tests_and_all_others(tmp_path: Path) -> None:
    (tmp_path / "test_both.py").write_text(TESTS)
    done = _session(tmp_path, "--slow-part=2/4", "--co")
    slow = [f"test_both.py::test_slow[{case}]" for case in (1, 5)]
    fast = [f"test_both.py::test_fast[{case}]" for case in range(3)]
    assert done.stdout.split("\n\n")[0].splitlines() == [*slow, *fast]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_failed_in_a_part_is_run_again(tmp_path: Path, workers: str) -> None:
    """Whatever its number is among the few tests that are collected then."""
    case = tmp_path / "test_both.py"
    again = ["--slow-part=2/4", "--last-failed", "--last-failed-no-failures=none", f"-n{workers}"]
    case.write_text(TESTS.replace("(case): ...", "(case): assert case != 5", 1))
    assert "1 failed, 4 passed" in _session(tmp_path, "--slow-part=2/4").stdout
    assert "1 failed in" in _session(tmp_path, *again).stdout
    case.write_text(TESTS)
    assert "1 passed in" in _session(tmp_path, *again).stdout
