"""A real git repository for a test: committed to by a made-up user, at a fixed time."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

# No configuration of the machine that tests run on, so that the same test makes the same commits.
ENVIRONMENT = {
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}


def git(folder: Path, *arguments: str) -> str:
    """What a git command prints, without the last line end."""
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        env={**os.environ, **ENVIRONMENT},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"git {arguments}: {done.stderr}"
    return done.stdout.rstrip("\n")


def init(folder: Path) -> Path:
    """A repository with the branch main, and nothing in it."""
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    return folder


def commit(folder: Path, message: str = "Change") -> None:
    """Everything in the folder as a commit, without a process that tidies up after it."""
    git(folder, "add", "--all")
    without = ("-c", "maintenance.auto=false")
    git(folder, *without, "commit", "--quiet", "--allow-empty", "--message", message)


def committed(folder: Path, message: str = "Change") -> str:
    """The same; the hash of the commit."""
    commit(folder, message)
    return git(folder, "rev-parse", "HEAD")
