"""Long work shows on a terminal how far it is, and nowhere else."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from dataclasses import dataclass

import pytest

from repository import Repository
from trainwright.tasks.progress import counted, reported_to

# As `trainwright`, but patient for no time at all.
AT_ONCE = """
import sys
from trainwright.cli import main, progress
progress._PATIENCE = 0
main(sys.argv[1:], prog_name="trainwright")
"""
NO_CURSOR = {"TERM": "dumb"}
IN_CI = {"CI": "true"}


@dataclass(frozen=True)
class Seen:
    code: int
    out: str
    err: str


def on_a_terminal(repository: Repository, *arguments: str, **environ: str) -> Seen:
    """What a command prints whose standard error is a terminal."""
    ours, theirs = pty.openpty()
    known = {key: value for key, value in os.environ.items() if key not in ("CI", "NO_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", AT_ONCE, "-C", str(repository.root), *arguments],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**known, "TERM": "xterm", "COLUMNS": "120", **environ},
        text=True,
    )
    os.close(theirs)
    err = b""
    try:
        while part := os.read(ours, 65536):
            err += part
    except OSError:  # EIO: the other end is closed
        pass
    os.close(ours)
    out, _ = process.communicate()
    return Seen(process.returncode, out, err.decode())


@pytest.mark.parametrize(
    ("arguments", "doing"),
    [
        (("check", "--no-cache"), "checking"),
        (("render",), "rendering"),
        (("render", "--check"), "rendering"),
        (("report",), "checking"),
    ],
)
def test_a_terminal_shows_what_takes_long_until_it_is_done(repository, arguments, doing):
    assert repository.run("render").exit_code == 0
    plain = repository.run(*arguments)
    seen = on_a_terminal(repository, *arguments)
    assert seen.code == plain.exit_code
    assert doing in seen.err
    assert doing not in seen.out
    assert "\x1b[2K" in seen.err  # the line is empty again
    assert seen.err.rindex("\x1b[?25h") > seen.err.rindex("\x1b[?25l")  # and the cursor is back


def test_the_number_of_jobs_is_shown(repository):
    repository.job("dev/second")
    seen = on_a_terminal(repository, "check", "--no-cache")
    assert "/" in seen.err
    assert "jobs" in seen.err


@pytest.mark.parametrize("environ", [IN_CI, NO_CURSOR])
def test_a_log_shows_none(repository, environ):
    plain = repository.run("check", "--no-cache")
    seen = on_a_terminal(repository, "check", "--no-cache", **environ)
    assert seen == Seen(plain.exit_code, plain.stdout, "")


def test_a_program_that_reads_json_is_shown_none(repository):
    seen = on_a_terminal(repository, "check", "--no-cache", "-o", "json")
    assert seen.err == ""
    assert seen.out.startswith("{")


def test_what_is_short_shows_nothing(repository):
    """Of the cursor neither, which a bar hides."""
    seen = on_a_terminal(repository, "list", "jobs")
    assert seen.err == ""


def test_an_error_is_printed_where_the_bar_was(repository):
    seen = on_a_terminal(repository, "check", "--no-cache", "nowhere")
    assert seen.code == 2
    assert seen.err.endswith(
        'trainwright: nothing matches "nowhere"; there are the environments dev, prod and the jobs '
        "prod/llm, dev/mnist, prod/mnist\r\n"
    )


def test_items_are_reported_as_they_are_done():
    told = []
    with reported_to(lambda *it: told.append(it)):
        assert list(counted("ab", 2, "letters")) == ["a", "b"]
    assert told == [(0, 2, "letters"), (1, 2, "letters"), (2, 2, "letters")]
    assert list(counted("ab", 2, "letters")) == ["a", "b"]
    assert len(told) == 3
