"""Repositories in which something names a command: each leaves a mark where it is run.

A `Plant` puts it into a repository; its `control` are commands of git or Python that do run it, and
so prove that it works. Where this machine's git is too old to know it, there is none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from git_repository import git

ATTRIBUTES = "* filter=evil diff=evil merge=evil\n"


@dataclass(frozen=True)
class Site:
    """A repository to plant in, and where marks are left."""

    root: Path
    marks: Path

    @property
    def command(self) -> str:
        """A shell's command; what a program adds to it is a comment."""
        return f"touch {self.marks}/mark #"

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
        full.chmod(mode)
        return full

    def script(self, path: str) -> str:
        """An executable file of the tree."""
        return str(self.write(path, f"#!/bin/sh\n{self.command}\nexit 1\n", 0o755))

    def config(self, *settings: str, file: str = ".git/config") -> None:
        """Settings as `section.key=value`, in a file of git's configuration."""
        for setting in settings:
            key, _, value = setting.partition("=")
            git(self.root, "config", "--file", str(self.root / file), "--add", key, value)


@dataclass(frozen=True)
class Plant:
    put: Callable[[Site], None]
    control: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)  # {tree} is the top of the tree
    from_here: bool = False
    """Whether a file of the tree is included in git's configuration."""


_WITH_A_TREE = ("core.repositoryFormatVersion=0", "core.bare=false", "core.worktree=..")


def bare(folder: str, *settings: str, more: Callable[[Site], None] | None = None) -> Plant:
    """What git takes for a repository without a working tree, committed like any other files."""

    def put(site: Site) -> None:
        at = f"{folder}/" if folder else ""
        site.write(f"{at}HEAD", "ref: refs/heads/main\n")
        site.write(f"{at}objects/none", "")
        site.write(f"{at}refs/none", "")
        site.config(*_WITH_A_TREE, file=f"{at}config")
        site.config(*(each.format(site=site) for each in settings), file=f"{at}config")
        if more:
            more(site)

    where = folder or "."
    return Plant(put, ("git", "-c", "safe.bareRepository=all", "-C", where, "ls-files", "-o"))


def local(
    *settings: str,
    control: tuple[str, ...] = ("git", "status"),
    attributes: str = "",
    more: Callable[[Site], None] | None = None,
) -> Plant:
    """Settings of the repository itself, as in a tree that was unpacked."""

    def put(site: Site) -> None:
        if attributes:
            site.write(".gitattributes", attributes)
        site.config(*(each.format(site=site) for each in settings))
        if more:
            more(site)

    return Plant(put, control)


def included(*settings: str, control: tuple[str, ...] = ("git", "status")) -> Plant:
    """Settings in a file of the tree that the user has included, as many repositories ask for."""

    def put(site: Site) -> None:
        site.write(".gitattributes", ATTRIBUTES)
        site.config("include.path=../.gitconfig")
        site.config(*(each.format(site=site) for each in settings), file=".gitconfig")

    return Plant(put, control, from_here=True)


def variable(control: tuple[str, ...] = (), **environment: str) -> Plant:
    """A variable of the caller's that leads into the tree."""

    def put(site: Site) -> None:
        for name in ("evil", "git", "helm"):
            site.script(name)
        for name in ("git", "helm", "git-ls-files", "git-remote-https", "python3", "ssh"):
            site.script(f"tools/{name}")

    return Plant(put, control, environment)


def module(path: str, text: str = "", **environment: str) -> Plant:
    """A module that Python would import if the checkout were on its path."""

    def put(site: Site) -> None:
        done = f"import os\nopen({str(site.marks / 'mark')!r}, 'w').close()\nos._exit(9)\n"
        site.write(path, text or done)

    name = path.removesuffix("/__init__.py").removesuffix(".py")
    return Plant(put, (sys.executable, "-c", f"import {name}") if not text else (), environment)


# --- what several plants are made of --------------------------------------------------------------


def _hooks(folder: str, *names: str) -> Callable[[Site], None]:
    def put(site: Site) -> None:
        for name in names:
            site.script(f"{folder}/{name}")

    return put


def _changed(site: Site) -> None:
    """Attributes in the clone's own file instead of the tree."""
    site.write(".git/info/attributes", ATTRIBUTES)


def _lost(site: Site) -> None:
    """A partial clone that lacks what its HEAD holds, and fetches it by a command."""
    listed = git(site.root, "ls-tree", "-r", "--format=%(objectname)", "HEAD").split()
    for blob in set(listed):
        (site.root / ".git/objects" / blob[:2] / blob[2:]).unlink()


def _submodule(site: Site) -> None:
    """A submodule whose own configuration names a command."""
    inner = site.root / "environments/prod/inner"
    inner.mkdir()
    git(inner, "init", "--quiet")
    git(inner, "commit", "--quiet", "--allow-empty", "--message=Inner")
    head = git(inner, "rev-parse", "HEAD")
    git(site.root, "update-index", "--add", "--cacheinfo", f"160000,{head},environments/prod/inner")
    git(inner, "config", "core.fsmonitor", site.command)
    module = '[submodule "inner"]\n\tpath = environments/prod/inner\n\turl = ./x\n\tignore = none\n'
    site.write(".gitmodules", module)


def _signed(site: Site) -> None:
    """The newest commit is signed, by nobody."""
    site.script("evil")
    body = git(site.root, "cat-file", "commit", "HEAD")
    head, _, message = body.partition("\n\n")
    mark = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    made = site.write(".git/signed", f"{head}\n{mark}\n\n{message}\n")
    commit = git(site.root, "hash-object", "-t", "commit", "-w", "--literally", str(made))
    git(site.root, "update-ref", "HEAD", commit)


def _linked(site: Site) -> None:
    """A folder whose `.git` names a repository that lies in the tree."""
    BARE["configuration of a folder"].put(site)
    site.write("conf/inner/.git", "gitdir: ..\n")


_FSMONITOR = "core.fsmonitor={site.command}"
_HOOKS = (
    "post-index-change", "post-checkout", "post-merge", "pre-auto-gc", "fsmonitor-watchman",
    "pre-rebase", "post-rewrite", "sendemail-validate", "post-applypatch", "proc-receive",
)  # fmt: skip
_DIFF = ("git", "diff", "HEAD", "--", "environments")
_LOG = ("git", "log", "-p", "--ext-diff", "--textconv", "-n2")

_OF_SPEC = "conf"

BARE: dict[str, Plant] = {
    "configuration of a folder": bare(_OF_SPEC, _FSMONITOR),
    "deeper": bare(f"{_OF_SPEC}/deep/er", _FSMONITOR),
    "beside jobs": bare("environments/prod/jobs", _FSMONITOR),
    "an environment": bare("environments/prod", _FSMONITOR),
    "all environments": bare("environments", _FSMONITOR),
    "the top": Plant(bare("", _FSMONITOR).put),  # where git sees its .git first
    "rendered files": bare("environments/prod/rendered", _FSMONITOR),
    "a run": bare("environments/prod/rendered/llm", _FSMONITOR),
    "included by a bare one": bare(
        _OF_SPEC, "include.path=more",
        more=lambda site: site.config(_FSMONITOR.format(site=site), file=f"{_OF_SPEC}/more"),
    ),
    "with hooks": bare(_OF_SPEC, _FSMONITOR, more=_hooks(f"{_OF_SPEC}/hooks", *_HOOKS)),
    "with filters": bare(
        _OF_SPEC, _FSMONITOR, "filter.evil.clean={site.command}", "core.attributesFile=attributes",
        more=lambda site: site.write(f"{_OF_SPEC}/info/attributes", ATTRIBUTES) and None,
    ),
    "named by a file": Plant(_linked),
}  # fmt: skip

LOCAL: dict[str, Plant] = {
    "fsmonitor": local(_FSMONITOR),
    "clean": local("filter.evil.clean={site.command}", attributes=ATTRIBUTES, control=_DIFF),
    "process": local("filter.evil.process={site.command}", attributes=ATTRIBUTES, control=_DIFF),
    "a required filter": local(
        "filter.evil.clean={site.command}", "filter.evil.required=true", attributes=ATTRIBUTES,
        control=_DIFF,
    ),
    "a filter of odd name": local(
        "filter.evil. two.clean={site.command}", control=(),
        attributes='* filter="evil. two"\n* filter=evil.\n',
    ),
    "attributes of the clone": local("filter.evil.clean={site.command}", control=_DIFF, more=_changed),
    "smudge": local(
        "filter.evil.smudge={site.command}", attributes=ATTRIBUTES,
        control=("git", "checkout", "HEAD", "--", "environments"),
    ),
    "textconv": local("diff.evil.textconv={site.command}", attributes=ATTRIBUTES, control=_LOG),
    "a driver of differences": local(
        "diff.evil.command={site.command}", attributes=ATTRIBUTES, control=_DIFF
    ),
    "external diff": local("diff.external={site.command}", control=_DIFF),
    "hooks": local(control=("git", "checkout"), more=_hooks(".git/hooks", *_HOOKS)),
    "hooks of the tree": local(
        "core.hooksPath=hooks", control=("git", "checkout"), more=_hooks("hooks", *_HOOKS)
    ),
    "configured hooks": local(
        "hook.evil.command={site.command}", *(f"hook.evil.event={name}" for name in _HOOKS),
        control=(),
    ),
    "shown signatures": local(
        "log.showSignature=true", "gpg.program={site.root}/evil", control=("git", "log", "-1"),
        more=_signed,
    ),
    "a partial clone by ext": local(
        "extensions.partialClone=evil", "remote.evil.promisor=true", "protocol.ext.allow=always",
        "remote.evil.url=ext::sh -c touch% {site.marks}/mark", "core.repositoryFormatVersion=1",
        control=("git", "show", "HEAD:environments/prod/jobs/llm.yaml"), more=_lost,
    ),
    "a partial clone by ssh": local(
        "extensions.partialClone=evil", "remote.evil.promisor=true",
        "remote.evil.url=ssh://host.invalid/x", "core.sshCommand={site.command}",
        "core.repositoryFormatVersion=1",
        control=("git", "show", "HEAD:environments/prod/jobs/llm.yaml"), more=_lost,
    ),
    "a partial clone by path": local(
        "extensions.partialClone=evil", "remote.evil.promisor=true", "remote.evil.url={site.root}",
        "remote.evil.uploadpack={site.command}", "core.repositoryFormatVersion=1",
        control=("git", "show", "HEAD:environments/prod/jobs/llm.yaml"), more=_lost,
    ),
    "a submodule": local(control=("git", "status"), more=_submodule),
    "pager and editor": local(
        *(f"{key}={{site.command}}" for key in (
            "core.pager", "pager.log", "pager.diff", "pager.show", "core.editor",
            "sequence.editor", "interactive.diffFilter",
        )),
        control=(),
    ),
    "credentials": local(
        *(f"{key}={{site.command}}" for key in (
            "core.askPass", "credential.helper", "core.gitProxy", "core.sshCommand",
        )),
        control=("git", "ls-remote", "ssh://host.invalid/x"),
    ),
    "aliases": local(
        *(f"alias.{name}=!{{site.command}}" for name in (
            "diff", "log", "status", "ls-files", "ls-tree", "rev-parse", "evil",
        )),
        control=("git", "evil"),
    ),
    "alternate refs": local(
        "core.alternateRefsCommand={site.command}", "gc.auto=1", "maintenance.auto=true", control=(),
    ),
}  # fmt: skip

INCLUDED: dict[str, Plant] = {
    "included fsmonitor": included(_FSMONITOR),
    "included filter": included("filter.evil.clean={site.command}", control=_DIFF),
    "included process": included("filter.evil.process={site.command}", control=_DIFF),
    "included textconv": included("diff.evil.textconv={site.command}", control=_LOG),
    "included signing": included(
        "commit.gpgSign=true", "gpg.program={site.root}/evil", control=()
    ),
    "included hooks": included("core.hooksPath=hooks", control=()),
    "included ssh": included(
        "core.sshCommand={site.command}", "remote.origin.url=ssh://host.invalid/x",
        control=("git", "fetch"),
    ),
    "included credentials": included("credential.helper=!{site.command}", control=()),
}  # fmt: skip

_HERE = "{tree}/evil"
VARIABLES: dict[str, Plant] = {
    "an empty entry of PATH": variable(PATH=f":{os.environ['PATH']}"),
    "an empty PATH": variable(PATH=""),
    "no entry of PATH that counts": variable(PATH="tools"),
    "a relative entry of PATH": variable(PATH=f"tools:./tools:{os.environ['PATH']}"),
    "GIT_EXEC_PATH": variable(("git", "remote-https"), GIT_EXEC_PATH="{tree}/tools"),
    "GIT_EXTERNAL_DIFF": variable(_DIFF, GIT_EXTERNAL_DIFF=_HERE),
    "GIT_PAGER": variable((), GIT_PAGER=_HERE, PAGER=_HERE),
    "GIT_SSH": variable(
        ("git", "ls-remote", "ssh://host.invalid/x"), GIT_SSH=_HERE, GIT_SSH_COMMAND=_HERE,
        GIT_ASKPASS=_HERE, SSH_ASKPASS=_HERE, GIT_PROXY_COMMAND=_HERE,
    ),
    "GIT_EDITOR": variable((), GIT_EDITOR=_HERE, EDITOR=_HERE, VISUAL=_HERE),
    "GIT_DIR": variable((), GIT_DIR=f"{{tree}}/{_OF_SPEC}", GIT_WORK_TREE="{tree}"),
    "GIT_TRACE": variable(
        ("git", "status"), GIT_TRACE="{marks}/mark", GIT_TRACE2="{marks}/mark",
        GIT_TRACE_SETUP="{marks}/mark", GIT_TRACE2_EVENT="{marks}/mark",
    ),
}  # fmt: skip

PYTHON: dict[str, Plant] = {
    name: module(path)
    for name, path in {
        "our package": "trainwright/__init__.py",
        "sitecustomize": "sitecustomize.py",
        "usercustomize": "usercustomize.py",
        "a library": "yaml/__init__.py",
        "a library that is not there": "watchfiles/__init__.py",
        "the standard library": "multiprocessing/__init__.py",
        "what starts others": "subprocess.py",
        "pip": "pip/__init__.py",
        "venv": "venv/__init__.py",
    }.items()
}
PYTHON |= {
    "an entry point": module(
        "evil-1.dist-info/entry_points.txt", "[trainwright.plugins]\nx = evil\n"
    ),
    "a .pth": module("evil.pth", "import trainwright_evil\n"),
}

PLANTS = {**BARE, **LOCAL, **INCLUDED, **VARIABLES}
