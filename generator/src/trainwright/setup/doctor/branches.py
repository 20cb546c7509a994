"""The branches of the repository, which must include those that an engine and workflows name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress

from trainwright.datatypes.environment import Environment, GitOps, Repository
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.listing import listed
from trainwright.files import git
from trainwright.gitops.wiring.wiring import ENGINES, Site
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, ok, skipped, warning
from trainwright.setup.init.repository import address

_LOCAL, _REMOTE = "refs/heads/", "refs/remotes/origin/"
_EVERY = f"+{_LOCAL}*:{_REMOTE}*"  # the refspec of a clone that has all branches
_USUAL = frozenset({"main", "master"})  # default branches: a repository has one of them
_NO_BRANCH = re.compile(r"[0-9a-f]{40}|refs/tags/.+|HEAD")


@dataclass(frozen=True, slots=True)
class Branches:
    """The branches that a clone knows, the default branch ("" if not known), and the remote's URL.
    A clone that fetches only some branches, as CI does, is not `complete`.
    """

    names: frozenset[str]
    default: str
    url: str
    complete: bool

    @classmethod
    def of(cls, repository: git.Repository) -> Branches:
        def line(*arguments: str) -> str:
            with suppress(git.GitError):
                return repository.line(*arguments)
            return ""

        references = line("for-each-ref", "--format=%(refname)", _LOCAL, _REMOTE).splitlines()
        current = line("symbolic-ref", "--quiet", "HEAD")  # also one that has no commit yet
        url = line("remote", "get-url", "origin")
        fetched = line("config", "--get-all", "remote.origin.fetch").splitlines()
        return cls(
            names=frozenset(_short(name) for name in filter(None, (*references, current))),
            default=_short(line("symbolic-ref", "--quiet", f"{_REMOTE}HEAD")),
            url=address(url) or url,
            complete=not url or _EVERY in fetched,
        )

    def lacks(self, names: Iterable[str]) -> bool:
        """Whether the repository is known to have none of these branches."""
        return self.complete and bool(self.names) and self.names.isdisjoint(names)


def _short(reference: str) -> str:
    return reference.removeprefix(_LOCAL).removeprefix(_REMOTE)


def followed(examined: Examined) -> Iterator[Diagnosis]:
    """Check that each branch an engine follows exists and is the one pull requests go into."""
    environments = examined.workspace.environments.values()
    sites = [Site(environment=each) for each in environments if _follows(each.gitops)]
    if sites:
        branches = Branches.of(git.find(examined.root)[0])
        sites = [site for site in sites if _is_here(site.gitops.repository, branches)]
        yield from (_of_site(site, branches) for site in sites)
    if not sites:
        unset = [it.name for it in environments if it.gitops.engine in ENGINES and _is_unset(it)]
        known = f", as gitops.repository.url of {listed(unset)} is not set" if unset else ""
        found = skipped if unset else ok
        yield found(f"no engine is known to follow one of this repository{known}")


def _is_unset(environment: Environment) -> bool:
    return not environment.gitops.repository.url


def _follows(gitops: GitOps) -> bool:
    """Whether an engine reads a branch of a git repository."""
    source = gitops.repository
    reads_git = (
        gitops.engine in ENGINES and bool(source.url) and not source.url.startswith("oci://")
    )
    return reads_git and not _NO_BRANCH.fullmatch(source.revision)


def _is_here(source: Repository, branches: Branches) -> bool:
    """Whether a source is this repository; True if this one's URL is not known."""
    return not branches.url or _place(source.url) == _place(branches.url)


def _place(url: str) -> str:
    """Return the host and path of a URL, which are the same over SSH and HTTPS."""
    return url.partition("://")[2].rpartition("@")[2].removesuffix("/").removesuffix(".git")


def _of_site(site: Site, branches: Branches) -> Diagnosis:
    engine, revision = ENGINES[site.gitops.engine], site.gitops.repository.revision
    message, default = f"{site.environment.name}: {engine} follows {revision}", branches.default
    place = site.environment.place
    if branches.lacks({revision}):
        usual = default or min(branches.names & _USUAL or branches.names)
        return warning(
            f"{message}, which is not a branch here: there is {listed(sorted(branches.names))}",
            "The engine finds no commit, and applies nothing.",
            f"{_setting(usual)}; or make the branch that it follows.",
            place,
        )
    if {revision, default} == _USUAL:
        message += f", and pull requests go into {default}"
        return warning(message, "What is merged is not applied.", f"{_setting(default)}.", place)
    return ok(message)


def _setting(branch: str) -> str:
    wired = "`trainwright gitops wire --out wiring`"
    return f"Set `gitops.repository.revision: {branch}` in environment.yaml, and run {wired}"
