"""Which commits are a branch's own, and which it shares with the branch that it is merged into."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from posixpath import join

from trainwright.datatypes.frozen import dataclass
from trainwright.files import git, git_command
from trainwright.files.git import LITERAL, GitError, Repository

# The branch that others are merged into, where nothing names it: the first of these that exists.
_REMOTE = tuple(f"refs/remotes/origin/{name}" for name in ("HEAD", "main", "master"))
_MAIN = (*_REMOTE, "refs/heads/main", "refs/heads/master")
# What is being merged into HEAD right now. A commit being cherry-picked, reverted or rebased is of
# no use: the resulting commit does not have it in its history.
_MERGED = "MERGE_HEAD"


class NoBase(GitError):
    """The clone lacks the history that a branch shares with the one that it is merged into."""


@dataclass(frozen=True, slots=True)
class Lineage:
    """The commits of a branch.

    `bases` are shared with the branch that it is merged into, first the one where it began; `tips`
    are the newest ones of its own: HEAD, and what is being merged into it. `inside` is the path of
    the root in the repository. One that is `whole` began with nothing: its runs began under what
    held then, and not under what a review of the last commit sees.
    """

    repository: Repository
    inside: str
    bases: tuple[str, ...]
    tips: tuple[str, ...]
    whole: bool = False

    def path(self, path: str) -> str:
        """Return a path below the root as a path from the top of the repository."""
        return join(self.inside, path)

    def own(self, path: str) -> tuple[str, ...]:
        """Return the branch's commits that change what is at a path, the oldest first."""
        order = ("--topo-order", "--reverse", "--full-history")
        return self._commits(*order, *self.tips, *(f"^{base}" for base in self.bases), path=path)

    def shared(self, path: str, most: int) -> tuple[str, ...]:
        """Return the last commits up to a base that change what is at a path, the newest first."""
        return self._commits(f"--max-count={most}", "--full-history", *self.bases, path=path)

    def _commits(self, *options: str, path: str) -> tuple[str, ...]:
        command = ("rev-list", *options, "--", self.path(path))
        return tuple(self.repository.line(*command, extra=LITERAL).split())


def find(root: Path, against: str = "", head: str = "HEAD") -> Lineage | None:
    """Return the branch whose tip is `head`, or None without a repository or a commit in it.

    `against` is the branch that it is merged into: by default the one that a forge's CI job names,
    or else the usual one. Raise NoBase if the clone lacks the history to tell.
    """
    commits = _named(root, (head, *_MAIN, _MERGED))
    if head not in commits:
        if against:
            raise NoBase(f'there is no commit here, and so none of "{against}"')
        return None
    if why := git.apart(root):
        raise NoBase(why)
    repository, inside = git.around(root)
    merged = commits.get(_MERGED) if head == "HEAD" else None
    tips = (commits[head], merged) if merged else (commits[head],)
    onto = against or _of_forge(repository)
    if onto:
        bases: Iterable[str] = (_base(repository, onto, tip) for tip in tips)
    else:
        bases = _usual(repository, commits, tips)
    return Lineage(repository, inside, tuple(dict.fromkeys(bases)), tips)


def history(root: Path, revision: str, against: str = "") -> Lineage:
    """Return the history of a commit as a branch that began from nothing or, if `against` names an
    earlier commit, from that.

    Raise GitError if the commit does not exist, or `against` has it already.
    """
    repository, inside = git.find(root)
    commit = repository.commit(revision)
    if not against:
        nothing = repository.line("hash-object", "-t", "tree", "--stdin")
        return Lineage(repository, inside, (nothing,), (commit,), whole=True)
    base = repository.merge_base(against, commit)
    if base == commit:
        raise GitError(f"{against} has {revision} already: name an earlier commit with --against")
    return Lineage(repository, inside, (base,), (commit,))


def state(root: Path, against: str = "") -> Mapping[str, str]:
    """Return what `find` depends on, quickly: the commits of all names that it looks at."""
    forge = {name: os.environ.get(name, "") for name in _FORGE}
    onto = (against, f"refs/remotes/origin/{forge['GITHUB_BASE_REF']}")
    return {**_named(root, ("HEAD", *_MAIN, _MERGED, *onto)), **forge}


def _named(root: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Return the existing commits by name; empty if there is no repository."""
    top = git_command.top(root)
    if top is None:
        return {}
    return Repository(top).commits(names)


def _usual(
    repository: Repository, commits: Mapping[str, str], tips: tuple[str, ...]
) -> Iterator[str]:
    """Yield the bases of tips if nothing names the branch that they are merged into.

    If there is only one branch, HEAD itself is a base.
    """
    name = next((name for name in _MAIN if name in commits), "")
    if not name:
        _require_all_branches(repository)
    if not name and not repository.is_on_branch:
        raise NoBase(
            "no branch is checked out, and there is neither `main` nor `master` to compare with: "
            "name the branch that others are merged into with `--against`"
        )
    for tip in tips:
        if not name:
            yield tips[0]
        else:
            yield tip if commits[name] == tip else _base(repository, commits[name], tip)


def _require_all_branches(repository: Repository) -> None:
    """Raise NoBase if a clone may lack the branch that others are merged into."""
    shallow, single = repository.shallow, repository.is_of_one_branch
    if not shallow and not single:
        return
    fetch = "git fetch --unshallow" if shallow else "git fetch"
    fetch = f"git remote set-branches origin '*' && {fetch}" if single else fetch
    kind = "is shallow" if shallow else "is of one branch"
    in_action = "set `fetch-depth: 0` in actions/checkout, or " if shallow else ""
    raise NoBase(
        f"this clone {kind} and has no branch to compare with: {in_action}run `{fetch}`, or name "
        "one with `--against`"
    )


def _base(repository: Repository, onto: str, tip: str) -> str:
    try:
        return repository.merge_base(onto, tip)
    except GitError as error:
        raise NoBase(str(error)) from error


# --- what forges tell their jobs -----------------------------------------------------------------

_FORGE = (
    *("GITHUB_WORKSPACE", "GITHUB_BASE_REF", "GITHUB_REF", "GITHUB_SHA"),
    *("CI_PROJECT_DIR", "CI_MERGE_REQUEST_DIFF_BASE_SHA"),
)


_MERGE = re.compile("refs/pull/[0-9]+/merge")


def _of_forge(repository: Repository) -> str:
    """Return the branch or commit that a CI job's pull request in this clone goes into, or "".

    https://docs.github.com/en/actions/reference/workflows-and-actions/variables
    https://docs.gitlab.com/ci/variables/predefined_variables/
    """
    workspace, branch, ref, merge, project, commit = (
        os.environ.get(variable, "") for variable in _FORGE
    )
    if commit and _is_in(repository, project):
        return commit
    if not branch or not _is_in(repository, workspace):
        return ""
    commits = repository.commits(("HEAD", "HEAD^1", "HEAD^2"))
    # The forge's own merge, and not one that the author of a branch made, of any two parents.
    is_merged_by_forge = len(commits) == 3 and commits["HEAD"] == merge and _MERGE.fullmatch(ref)
    return commits["HEAD^1"] if is_merged_by_forge else f"refs/remotes/origin/{branch}"


def _is_in(repository: Repository, folder: str) -> bool:
    return bool(folder) and repository.folder.resolve().is_relative_to(Path(folder).resolve())
