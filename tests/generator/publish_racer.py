"""One of two clones that publish at the same time: folder, branch and number of rounds."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import git_repository
from git_repository import git
from repository import Repository
from trainwright.gitops.publish import publisher
from trainwright.gitops.publish.model import PublishOptions
from trainwright.render import build as plan

_PLANNING = plan.BuildOptions(today="2026-06-01", use_cache=False, check_next_runs=False)
_OPTIONS = PublishOptions(build=_PLANNING, push=True, attempts=40)


def _pushed(folder: Path) -> bool:
    try:
        git(folder, "pull", "--quiet", "--rebase", "origin", "main")
        git(folder, "push", "--quiet", "origin", "main")
    except AssertionError:
        return False
    return True


def main(folder: Path, branch: str, rounds: int) -> None:
    repository = Repository(folder)
    for number in range(1, rounds + 1):
        repository.job(f"prod/{folder.name}", f"flags: {{round: {number}}}\n")
        git_repository.commit(folder, f"{folder.name} {number}")
        while not _pushed(folder):
            pass
        list(publisher.publish(folder, ("prod",), replace(_OPTIONS, branch=branch)))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
