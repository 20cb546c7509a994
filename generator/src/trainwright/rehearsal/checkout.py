"""The commit of a job's code, as a folder of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

from trainwright.datatypes.job import Code, GitCode
from trainwright.files import git
from trainwright.rehearsal import RehearsalError

# The commit itself says where its submodules are: not among the files of this machine.
_OF_SUBMODULES = {"GIT_ALLOW_PROTOCOL": "https:ssh"}


def folder(code: Code, root: Path, work: Path) -> Path:
    """Return the folder to use as the mounted code. Raise RehearsalError if there is none."""
    if code.git is None:
        raise RehearsalError(
            f"the code is in {code.image}, and images are not run here; name a folder that holds "
            "it with --code DIR"
        )
    made = work / "code" / code.git.commit
    if made.exists():  # of an earlier rehearsal, which may have written there
        shutil.rmtree(made)
    made.mkdir(parents=True)
    _check_out(code.git, root, made)
    subfolder = made / code.git.path
    if not subfolder.is_dir():
        raise RehearsalError(
            f"{code.git.url} has no folder {code.git.path} at {code.git.commit}; correct "
            "code.git.path"
        )
    return subfolder


def _check_out(code: GitCode, root: Path, made: Path) -> None:
    """Check out exactly this commit with its submodules, from the local repository if it has it."""
    repository = git.Repository(made)
    source = str(root.resolve()) if git.at(root).has(code.commit) else code.url
    try:
        repository.git("init", "--quiet", "--template=")
        shallow = ("--quiet", "--no-tags", "--depth=1", "--no-recurse-submodules")
        repository.git("fetch", *shallow, "--", source, code.commit)
        repository.git("checkout", "--quiet", "--detach", code.commit)
        if (made / ".gitmodules").is_file():
            update = ("update", "--quiet", "--init", "--recursive", "--depth=1")
            repository.git("submodule", *update, extra=_OF_SUBMODULES)
    except git.GitError as error:
        raise RehearsalError(
            f"{code.url} at {code.commit} cannot be checked out: {error}; name a folder that holds "
            "the code with --code DIR"
        ) from error
