"""How git is started: the only place, since what git reads of a repository can name commands.

A command that only reads runs nothing but git. One that changes or sends something for the user
runs what the user has configured, as it would at the prompt: hooks, filters, signing, credentials.
Neither follows configuration that a file of the working tree holds: any commit can change that.
"""

from __future__ import annotations

import os
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.datatypes.errors import SourceError

if TYPE_CHECKING:  # where there is no repository, no process is started
    import subprocess
    from types import FrameType

_TIMEOUT = 600.0  # seconds: a server that no longer answers, a lock on a network's disk
_HOOKS = 3600.0  # whole test suites are run before a commit or a push
_RUNS_HOOKS = frozenset({"commit", "push", "merge"})
_GRACE = 5.0  # seconds in which a process cleans up, as git removes its lock files

# Commands that change or send something for the user; any other one reads, new ones included.
_FOR_THE_USER = frozenset(
    "add checkout commit commit-tree fetch init ls-remote merge push rm submodule "
    "update-ref".split()
)

# Never ask a terminal, never fetch what a partial clone lacks, never lock for a refreshed index.
_ENVIRONMENT = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "LC_ALL": "C",
}
# Read what a commit holds, not what a fetched ref replaces it with. Allow no transport: before Git
# 2.45 only this keeps a partial clone from fetching by a command that its remote names.
_READING = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_EDITOR": ":",
    "GIT_GRAFT_FILE": f"{os.devnull}/none",
    "GIT_NO_REPLACE_OBJECTS": "1",
}

# Git's variables that are passed on from this process. Others are not: a hook gets those of the
# repository that it runs for, which may not be this one; and some name commands or files to write.
_KEPT = re.compile("GIT_CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|PARAMETERS|COUNT|KEY_[0-9]+|VALUE_[0-9]+)")
_KEPT_FOR_THE_USER = re.compile(
    "GIT_(ALLOW_PROTOCOL|ASKPASS|(AUTHOR|COMMITTER|CURL|HTTP|PROTOCOL|PROXY|SSL)_.+|SSH.*)"
)

# Settings that name a command or lead to one, https://git-scm.com/docs/git-config, set as if
# nothing were configured. What looks like a bare repository within the tree is not used as one.
_ALWAYS = ("core.fsmonitor=false", "core.alternateRefsCommand=", "protocol.ext.allow=never")
_NO_COMMANDS = (
    f"core.hooksPath={os.devnull}",
    "core.askPass=",
    "core.gitProxy=",
    "core.sshCommand=",
    "credential.helper=",
    "gc.auto=0",
    "log.showSignature=false",
    "maintenance.auto=false",
    "safe.bareRepository=explicit",
    "submodule.recurse=false",
    "uploadpack.packObjectsHook=",
)
# Commands that print the configuration, and would print this one.
_PRINTS_SETTINGS = frozenset({"config", "rev-parse"})
# A submodule is read by another git process, which gets none of these settings.
_OF_DIFFERENCES = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty")
_OPTIONS = {
    "diff": _OF_DIFFERENCES,
    "log": (*_OF_DIFFERENCES, "--no-show-signature"),
    "show": (*_OF_DIFFERENCES, "--no-show-signature"),
    "status": ("--ignore-submodules=dirty",),
}
# Commands that compare files on disk with those of a commit, or write them.
_FILTERS = frozenset({"diff", "restore", "sparse-checkout", "status"})
_NAMED = {
    re.compile(r"(?s)filter\.(.+)\.(?:clean|smudge|process|required)"): (
        "filter.{}.clean=", "filter.{}.smudge=", "filter.{}.process=", "filter.{}.required=false",
    ),
    re.compile(r"(?s)hook\.(.+)\.(?:command|event)"): ("hook.{}.enabled=false",),
}  # fmt: skip


class GitError(SourceError):
    """A failure of git, with its message and exit status."""

    def __init__(self, message: str, status: int = 0):
        super().__init__(message)
        self.status = status


def top(folder: Path) -> Path | None:
    """Return the top of the working tree that a folder is in, or None.

    It is recognized by its `.git`, which no commit can contain; git itself would take any folder
    with the files of a repository for one.
    """
    real = folder.resolve()
    return next((path for path in (real, *real.parents) if _is_top(path)), None)


def _is_top(folder: Path) -> bool:
    """Whether a folder has a repository, or the file that names one, as in worktrees."""
    inside = folder / ".git"
    with suppress(OSError):
        if inside.is_file():
            with inside.open("rb") as file:
                return file.read(8) == b"gitdir: "
        held = (inside / "objects").is_dir() and (inside / "refs").is_dir()
        return held and os.path.lexists(inside / "HEAD")
    return False


def run(
    folder: Path, arguments: Sequence[str], given: bytes = b"", extra: Mapping[str, str] = {}
) -> bytes:
    """Return what a git command prints at the top of a working tree. Raise GitError."""
    if arguments[0] in _FOR_THE_USER:
        _refuse_settings_of_the_tree(folder, arguments[0])
        environment = _inherited(_KEPT, _KEPT_FOR_THE_USER) | _ENVIRONMENT
        settings: Iterable[str] = _ALWAYS
    else:
        environment = _inherited(_KEPT) | _ENVIRONMENT | _READING
        settings = _safe_settings(folder, arguments[0])
    # Git must not search above the top: if the .git there is not a repository, there is none.
    environment |= {"GIT_CEILING_DIRECTORIES": str(folder.absolute().parent), **extra}
    overrides = (word for setting in settings for word in ("-c", setting))
    command, *rest = arguments
    words = ("--no-pager", *overrides, "-C", str(folder), command, *_OPTIONS.get(command, ()))
    return _output((*words, *rest), environment, given, command)


def _safe_settings(folder: Path, command: str) -> Iterator[str]:
    """Yield the settings with which a command of git starts no other program."""
    yield from _ALWAYS
    if command not in _PRINTS_SETTINGS:
        yield from _NO_COMMANDS
    if command in _FILTERS:
        yield from _without_filters(folder)


def _without_filters(folder: Path) -> Iterator[str]:
    """Yield settings that disable git's configured filters and hooks, which have any name."""
    listed = os.fsdecode(run(folder, ("config", "--null", "--list", "--name-only")))
    for pattern, overrides in _NAMED.items():
        for name in sorted(
            {match[1] for key in listed.split("\0") if (match := pattern.fullmatch(key))}
        ):
            if "=" in name:  # there is no way to override it
                raise GitError(f'git is configured with "{name}", a name with "=": rename it')
            yield from (each.format(name) for each in overrides)


def _refuse_settings_of_the_tree(folder: Path, command: str) -> None:
    """Raise GitError if a file that a commit can change is part of git's configuration."""
    here = folder.resolve()
    listing = ("config", "--null", "--list", "--show-origin", "--name-only")
    fields = os.fsdecode(run(folder, listing)).split("\0")
    for origin, key in zip(fields[::2], fields[1::2], strict=False):
        file = (here / origin.removeprefix("file:")).resolve()
        inside = file.is_relative_to(here) and file.relative_to(here).parts[:1] != (".git",)
        if inside and origin.startswith("file:"):
            raise GitError(
                f"git {command}: {file} is part of git's configuration here and sets {key}: "
                "a commit that changes the file could run commands as you; set it with "
                "`git config --local` instead of including the file"
            )


def _inherited(*kept: re.Pattern[str]) -> dict[str, str]:
    """Return this process's environment variables, but of git's own only those to keep."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or any(pattern.fullmatch(name) for pattern in kept)
    }
    return variables | {"PATH": absolute_path()}


def absolute_path() -> str:
    """Return PATH without entries that are relative, or empty, which means the working folder."""
    entries = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(filter(os.path.isabs, entries)) or os.devnull


def _output(
    arguments: Sequence[str], environment: Mapping[str, str], given: bytes, name: str
) -> bytes:
    """Return what git prints. Raise GitError if it fails."""
    import subprocess

    deliver = hold_interrupts()
    try:
        process = subprocess.Popen(  # noqa: S603 - a list, never a shell
            ["git", *arguments],  # noqa: S607 - looked up in the PATH of `environment`
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # a group to end, with hooks and transports; no terminal
        )
    except BaseException as error:
        deliver()
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            raise GitError("git is not installed, or not in PATH") from error
        raise
    limit = _HOOKS if name in _RUNS_HOOKS else _TIMEOUT
    with process:
        try:
            deliver()
            out, complaint = process.communicate(given, timeout=limit)
        except subprocess.TimeoutExpired as error:
            end_group(process)
            raise GitError(f"git {name}: stopped after {limit:g} seconds") from error
        except BaseException:  # Ctrl-C reaches this process alone
            end_group(process)
            raise
    if process.returncode:
        message = complaint.decode(errors="replace").strip() or f"exit {process.returncode}"
        raise GitError(f"git {name}: {message}", process.returncode)
    return out


def hold_interrupts() -> Callable[[], None]:
    """Hold SIGINT until the function that is returned is called, which delivers it.

    An interrupt inside Popen() raises there, when git may run but no variable holds its process:
    nothing would end it, and its locks would stay. A blocked signal would be blocked in git too.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        return lambda: None  # no interrupt raises here
    received: list[tuple[int, FrameType | None]] = []

    def deliver() -> None:
        signal.signal(signal.SIGINT, handler)
        while received:
            handler(*received.pop())

    signal.signal(signal.SIGINT, lambda *arguments: received.append(arguments))
    return deliver


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Raise KeyboardInterrupt for SIGTERM and SIGHUP inside this context, too, which end a process
    at once otherwise: by a CI that cancels, or a terminal that is closed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    ending = (signal.SIGTERM, signal.SIGHUP)
    before = {each: signal.getsignal(each) for each in ending}
    default = [each for each, handler in before.items() if handler is signal.SIG_DFL]
    for each in default:
        signal.signal(each, end)
    try:
        yield
    finally:
        for each in default:
            signal.signal(each, signal.SIG_DFL)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process that leads a group, and then the processes that it started.

    Not all at once: if its hook is killed, git begins to remove its locks; killed meanwhile, it
    leaves one of them behind, once in 2,000 times with git 2.39.
    """
    import subprocess

    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            with suppress(ProcessLookupError):  # it started nothing that is left
                os.killpg(process.pid, signal.SIGTERM)
