"""Git, through its own command: what a commit holds, and what differs from it.

The command rather than a library, since only it honours a user's configuration whole: signing,
hooks, credentials, alternates, partial clones, formats of the object store yet to come.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from trainwright.errors import SourceError
from trainwright.tree import Entry, Kind

_KINDS: dict[bytes, Kind] = {b"100644": "file", b"100755": "file", b"120000": "link"}

# Never ask a terminal, never fetch what a partial clone lacks, never lock for a refreshed index.
_ENVIRONMENT = {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"}


class GitError(SourceError):
    """Git could not do what was asked; the message is its own."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A clone, by the folder of its working tree."""

    folder: Path

    def git(
        self, *arguments: str, given: bytes = b"", extra: Mapping[str, str] | None = None
    ) -> bytes:
        """What a git command prints. Raises GitError with what it complains of."""
        command = ["git", "-C", str(self.folder), *arguments]
        try:
            done = subprocess.run(  # noqa: S603 - a list, never a shell
                command,
                input=given,
                capture_output=True,
                check=False,
                env={**os.environ, **_ENVIRONMENT, **(extra or {}), "LC_ALL": "C"},
            )
        except FileNotFoundError as error:
            raise GitError("git is not installed, or not in PATH") from error
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip() or f"exit {done.returncode}"
            raise GitError(f"git {arguments[0]}: {said}")
        return done.stdout

    def line(self, *arguments: str) -> str:
        """The one line that a git command prints."""
        return self.git(*arguments).decode(errors="replace").strip()

    def commit(self, revision: str) -> str:
        """The hash of the commit that a revision names."""
        try:
            return self.line(
                "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
            )
        except GitError as error:
            raise GitError(
                f'"{revision}" names no commit here{self._shallow_hint(revision)}'
            ) from error

    def merge_base(self, one: str, other: str) -> str:
        """The newest commit that both have in their history."""
        try:
            return self.line("merge-base", self.commit(one), self.commit(other))
        except GitError as error:
            if str(error).startswith("git merge-base: exit"):
                raise GitError(
                    f"{one} and {other} have no commit in common{self._shallow_hint(one)}"
                ) from error
            raise

    def _shallow_hint(self, revision: str) -> str:
        if self.line("rev-parse", "--is-shallow-repository") == "true":
            return (
                "; this clone is shallow: set `fetch-depth: 0` in actions/checkout, "
                "or run `git fetch --unshallow`"
            )
        return f"; fetch it first: `git fetch origin {revision.removeprefix('origin/')}`"

    def changed(self, commit: str, folder: str, head: str | None = None) -> frozenset[str]:
        """Paths below a folder that differ between a commit and `head` (None: what is on disk).

        Untracked files that are not ignored count as well. Paths are relative to the folder.
        """
        where = ["--relative", "--", "."] if folder in ("", ".") else [f"--relative={folder}", "--"]
        heads = [head] if head else []
        differing = self.git("diff", "--name-only", "--no-renames", "-z", commit, *heads, *where)
        found = set(_paths(differing))
        if head is None:
            inside = Repository(self.folder / folder)
            found |= set(_paths(inside.git("ls-files", "--others", "--exclude-standard", "-z")))
        return frozenset(found)

    def tree(self, commit: str, folder: str = "", *, later: str = "") -> Commit:
        """The files of a commit below a folder of the repository.

        Those in folders named `later` are read when they are asked for, all others at once.
        """
        return Commit(self.folder, commit, folder, later)


def find(folder: Path) -> tuple[Repository, str]:
    """The repository around a folder, and the folder's path in it ("" for its top)."""
    try:
        top = Repository(folder).git("rev-parse", "--show-toplevel").decode().removesuffix("\n")
    except GitError as error:
        if "not a git repository" in str(error):
            raise GitError(f"{folder} is in no git repository") from error
        raise
    inside = folder.resolve().relative_to(Path(top).resolve())
    return Repository(Path(top)), "" if inside == Path() else inside.as_posix()


def _paths(listed: bytes) -> Iterator[str]:
    return (os.fsdecode(path) for path in listed.split(b"\0") if path)


class Commit:
    """The files of a commit, read from the object store: nothing is checked out. A `Tree`."""

    def __init__(self, repository: Path, commit: str, folder: str, later: str):
        self._repository = repository
        self.commit = commit
        self._folder = folder
        self._later = later

    def __reduce__(self) -> tuple[type[Commit], tuple[Path, str, str, str]]:
        """Another process reads for itself."""
        return (Commit, (self._repository, self.commit, self._folder, self._later))

    @cached_property
    def _blobs(self) -> dict[str, tuple[Kind, bytes]]:
        """Kind and hash by path of every file."""
        below = f"{self.commit}:{self._folder}" if self._folder else self.commit
        listed = Repository(self._repository).git("ls-tree", "-r", "-z", "--full-tree", below)
        found = {}
        for line in listed.split(b"\0"):
            if line:
                meta, _, path = line.partition(b"\t")
                mode, _, blob = meta.split(b" ")
                found[os.fsdecode(path)] = (_KINDS.get(mode, ""), blob)
        return found

    @cached_property
    def _folders(self) -> dict[str, dict[str, Kind]]:
        """What each folder holds, by its path; the root's is empty."""
        found: dict[str, dict[str, Kind]] = {"": {}}
        for path, (kind, _) in self._blobs.items():
            parent, _, name = path.rpartition("/")
            found.setdefault(parent, {})[name] = kind
            while parent:
                above, _, name = parent.rpartition("/")
                known = found.setdefault(above, {})
                if name in known:
                    break
                known[name], parent = "folder", above
        return found

    def entries(self, folder: str) -> tuple[Entry, ...]:
        if folder not in self._folders:
            raise SourceError(f"cannot list {folder}: it is not in commit {self.commit[:12]}")
        return tuple(sorted(Entry(name, kind) for name, kind in self._folders[folder].items()))

    def kind(self, path: str) -> Kind:
        if path in self._folders:
            return "folder"
        return self._blobs.get(path, ("", b""))[0]

    def read(self, path: str) -> bytes:
        found = self._blobs.get(path)
        if found is None:
            raise FileNotFoundError(path)
        if path in self._ahead:
            return self._ahead[path]
        return Repository(self._repository).git("cat-file", "blob", found[1].decode())

    @cached_property
    def _ahead(self) -> dict[str, bytes]:
        """Every file's bytes, but for those of `later`, in one go: thousands cost one process."""
        wanted = {
            path: blob
            for path, (kind, blob) in self._blobs.items()
            if kind == "file" and self._later not in path.split("/")
        }
        given = b"".join(blob + b"\n" for blob in wanted.values())
        answer = Repository(self._repository).git("cat-file", "--batch", given=given)
        found, at = {}, 0
        for path in wanted:
            end = answer.index(b"\n", at)
            size = int(answer[at:end].rsplit(b" ", 1)[1])
            found[path] = answer[end + 1 : end + 1 + size]
            at = end + size + 2
        return found
