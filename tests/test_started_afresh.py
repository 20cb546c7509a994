"""The suite passes whatever it was started with: signals, limits, umask, locale, home, variables."""

from __future__ import annotations

import locale
import os
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

import started_afresh

ROOT = Path(__file__).parents[1]
SAMPLE = (
    "tests/test_started_afresh.py::test_what_tests_begin_with",
    "tests/generator/test_interrupts.py::test_a_verb_at_work_ends_with_130[check]",
    "tests/generator/test_rehearse.py::test_a_signal_ends_everything",
    "tests/generator/test_git.py",
    "tests/generator/lifecycle/test_verbs.py::test_other_edits_are_never_committed",
    "tests/generator/test_init.py::test_a_new_repository_passes_its_own_checks[none-job]",
    "tests/generator/upgrade/test_charts.py",
    "tests/runtime/test_checkpoint.py::test_the_state_comes_back_as_it_was_when_saved",
    "tests/runtime/test_checkpoint.py::test_what_is_written_does_not_depend_on_how_a_python_pickles_enums",
)
# As `make` starts it. In a session of its own there is no terminal.
PYTEST = (sys.executable, *"-E -X utf8 -m pytest -q -p no:cacheprovider".split())
IGNORED = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGQUIT, signal.SIGCHLD)


def _ignore_signals() -> None:
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)


def _block_signals() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, IGNORED)


def _lower_limits() -> None:
    for kind, soft in (
        (resource.RLIMIT_NOFILE, 64),
        (resource.RLIMIT_FSIZE, 1024 * 1024),
        (resource.RLIMIT_STACK, 1024 * 1024),
        (resource.RLIMIT_NPROC, 512),
    ):
        resource.setrlimit(kind, (soft, resource.getrlimit(kind)[1]))


def _close_input() -> None:
    os.close(0)


STARTS: dict[str, Callable[[], object]] = {
    "signals that are ignored": _ignore_signals,
    "signals that are blocked": _block_signals,
    "low limits": _lower_limits,
    "a umask that keeps others out": lambda: os.umask(0o077),
    "a umask that keeps nobody out": lambda: os.umask(0),
    "no input": _close_input,
}
ENVIRONMENTS: dict[str, Mapping[str, str | None]] = {
    "the locale C": {"LC_ALL": "C", "LANG": "C", "LANGUAGE": "de"},
    "a locale that does not exist": {"LC_ALL": "xx_YY.ISO-8859-1", "LANG": "tr_TR"},
    "no locale": {"LC_ALL": None, "LANG": None},
    "an odd time zone": {"TZ": "Pacific/Kiritimati"},
    "a time zone that does not exist": {"TZ": "Nowhere/Else"},
    "no home": {"HOME": None},
    "a home that is not there": {"HOME": "/nonexistent"},
    "a home that nobody can write to": {"HOME": "/proc"},
    "no terminal's type": {"TERM": None},
    "a narrow terminal in colour": {"COLUMNS": "10", "FORCE_COLOR": "1", "CLICOLOR_FORCE": "1"},
    "Python without assertions": {"PYTHONOPTIMIZE": "2"},
    "Python with other settings": {
        "PYTHONDEVMODE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONHASHSEED": "1",
        "PYTHONINSPECT": "1",
        "PYTHONIOENCODING": "latin-1",
        "PYTHONPROFILEIMPORTTIME": "1",
        "PYTHONSAFEPATH": "1",
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "0",
        "PYTHONWARNINGS": "error",
    },
}


def _run(
    *tests: str,
    start: Callable[[], object] | None = None,
    environment: Mapping[str, str | None] | None = None,
) -> subprocess.CompletedProcess[str]:
    variables: dict[str, str | None] = {**os.environ, **(environment or {})}
    return subprocess.run(
        [*PYTEST, *tests],
        cwd=ROOT,
        env={name: value for name, value in variables.items() if value is not None},
        preexec_fn=start,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
    )


def _both(first: str, second: str) -> Mapping[str, str | None]:
    assert not ENVIRONMENTS[first].keys() & ENVIRONMENTS[second].keys()
    return {**ENVIRONMENTS[first], **ENVIRONMENTS[second]}


def test_what_tests_begin_with(tmp_path: Path) -> None:
    """Here, and in each process that they start."""
    program = (
        "from signal import *; print(*[int(n) for n in valid_signals() if getsignal(n) is SIG_IGN])"
    )
    started = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert {*map(int, started.stdout.split())} == {signal.SIGPIPE, signal.SIGXFSZ}  # Python's own
    assert started.stderr == ""
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not signal.pthread_sigmask(signal.SIG_BLOCK, ())
    (tmp_path / "file").touch()
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= min(4096, hard)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert soft == hard
    assert (locale.getencoding(), sys.getfilesystemencoding()) == ("UTF-8", "utf-8")
    assert time.tzname == ("UTC", "UTC")
    (Path.home() / ".trainwright-test").touch()
    (Path.home() / ".trainwright-test").unlink()
    foreign = {name for name in os.environ if started_afresh.FOREIGN.fullmatch(name)}
    assert foreign == {"LC_ALL"}
    if sys.flags.optimize:
        pytest.fail("no assertion was made")


# A shell may have three of them at once, of which none sets what another does.
AT_ONCE = [*zip(STARTS, [*ENVIRONMENTS][:6], [*ENVIRONMENTS][6:], strict=True)]


@pytest.mark.parametrize(("start", "first", "second"), AT_ONCE)
def test_tests_begin_with_the_same_whatever_the_suite_was_started_with(
    start: str, first: str, second: str
) -> None:
    done = _run(SAMPLE[0], start=STARTS[start], environment=_both(first, second))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("start", "first", "second"),
    [AT_ONCE[0], *(pytest.param(*each, marks=pytest.mark.nightly) for each in AT_ONCE[1:])],
)
def test_a_sample_passes_whatever_the_suite_was_started_with(
    start: str, first: str, second: str
) -> None:
    done = _run("-n2", *SAMPLE, start=STARTS[start], environment=_both(first, second))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "skipped" not in done.stdout


def test_make_starts_the_suite_as_this_does() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert makefile.count("-m pytest") == makefile.count("python -E -X utf8 -m pytest")
