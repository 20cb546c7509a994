"""Git, through its own command: what a commit holds, and what differs from it.

The command rather than a library, since only it honours a user's configuration whole: signing,
hooks, credentials, alternates, partial clones, formats of the object store yet to come.
`git_command` starts it so that reading runs nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TypeAlias

from trainwright.datatypes.errors import SourceError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import ENVIRONMENTS
from trainwright.files import git_command
from trainwright.files.entry import Entry, Kind, above, in_order, within
from trainwright.files.git_command import GitError as GitError  # noqa: PLC0414 - its name here
from trainwright.files.tree import MAX_BYTES, too_large

_KINDS: dict[str, Kind] = {  # a submodule's is 160000
    "100644": "file", "100755": "file", "120000": "link", "160000": "special"
}  # fmt: skip

# Small files that are read of every folder, also of those that are read later.
_AHEAD = "/run.lock"
_FEW = 16  # folders whose files are read by themselves before all are read at once
_KEPT = 256 * 2**20  # bytes of files that are kept for other commits

# The bytes of a file and its permissions; () where there was none.
_Kept: TypeAlias = tuple[bytes, int] | tuple[()]

_FETCHED = re.compile(r"[\w][\w./-]*")  # what `git fetch` takes, which is not HEAD~1
LITERAL = {"GIT_LITERAL_PATHSPECS": "1"}  # no patterns in the names of files
_USUAL = ("main", "master")  # names of the branch that others are merged into


@dataclass(frozen=True, slots=True)
class Repository:
    """A clone, by the folder of its working tree."""

    folder: Path

    def git(
        self, *arguments: str, given: bytes = b"", extra: Mapping[str, str] | None = None
    ) -> bytes:
        """Return the output of a git command. Raise GitError with git's error message."""
        return git_command.run(self.folder, arguments, given, extra or {})

    def line(self, *arguments: str, extra: Mapping[str, str] | None = None) -> str:
        """Return the one line that a git command prints. Raise GitError."""
        return self.git(*arguments, extra=extra).decode(errors="replace").strip()

    def commit(self, revision: str) -> str:
        """Return the hash of the commit that a revision names. Raise GitError if there is none."""
        try:
            return self.line(
                "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
            )
        except GitError as error:
            raise GitError(
                f'there is no commit "{revision}" here{self._shallow_hint(revision)}'
            ) from error

    def commits(self, names: Iterable[str]) -> dict[str, str]:
        """Return the hashes of the commits that exist, by the names in `names`."""
        revisions = [name for name in dict.fromkeys(names) if name and name.isprintable()]
        given = "".join(f"{name}^{{commit}}\n" for name in revisions).encode()
        try:
            listed = self.git("cat-file", "--batch-check=%(objectname)", given=given)
        except GitError:
            return {}
        pairs = zip(revisions, listed.decode(errors="replace").splitlines(), strict=True)
        return {name: commit for name, commit in pairs if not commit.endswith("missing")}

    def parents(self, commit: str) -> tuple[str, ...]:
        """The commits that a commit came after."""
        return tuple(self.line("rev-list", "--parents", "--max-count=1", commit).split()[1:])

    def merge_base(self, one: str, other: str) -> str:
        """Return the newest commit that both have in their history.

        Raise GitError if there is none.
        """
        try:
            return self.line("merge-base", "--end-of-options", one, other)
        except GitError as error:
            for revision in (one, other):  # its error says more if one is not there
                self.commit(revision)
            if error.status == 1:
                raise GitError(
                    f"{one} and {other} have no commit in common{self._shallow_hint(one)}"
                ) from error
            raise

    @property
    def shallow(self) -> bool:
        """Whether history was cut off when this was cloned."""
        return self.line("rev-parse", "--is-shallow-repository") == "true"

    @property
    def is_of_one_branch(self) -> bool:
        """Whether a fetch from `origin` leaves out all branches but chosen ones."""
        try:
            fetched = self.line("config", "--get-all", "remote.origin.fetch").splitlines()
        except GitError:
            return False  # there is no such remote
        return not any("refs/heads/*" in refs for refs in fetched)

    @property
    def partial(self) -> bool:
        """Whether files may have been left out when this was cloned."""
        names = self.git("config", "--null", "--list", "--name-only").split(b"\0")
        return any(name.endswith(b".promisor") for name in names)

    @property
    def is_on_branch(self) -> bool:
        """Whether a branch is checked out, and not just a commit."""
        return self.line("rev-parse", "--symbolic-full-name", "HEAD") != "HEAD"

    def _shallow_hint(self, revision: str) -> str:
        """Return what to do about a revision that is not there, as the end of a message."""
        if self.shallow:
            return (
                "; this clone is shallow: set `fetch-depth: 0` in actions/checkout, "
                "or run `git fetch --unshallow`"
            )
        if revision == "origin/HEAD":  # no fetch makes it, a clone does
            name = f"name the branch to compare with: `--against {self._main_branch()}`"
            if "origin" in self.line("remote").split():
                return f"; run `git remote set-head origin --auto`, or {name}"
            return f" without a remote `origin`; {name}"
        if not self.line("remote") or not _FETCHED.fullmatch(revision):
            return "; `git log --all` lists the commits that there are"
        return f"; fetch it first: `git fetch origin {revision.removeprefix('origin/')}`"

    def _main_branch(self) -> str:
        """Return the main branch by its usual names, origin's first; HEAD if none exists."""
        usual = [f"{where}/{name}" for where in ("remotes/origin", "heads") for name in _USUAL]
        branches = self.line(
            "for-each-ref", "--format=%(refname:short)", *(f"refs/{name}" for name in usual)
        ).splitlines()
        return max(branches, key=lambda name: "/" in name) if branches else "HEAD"

    def changed(
        self,
        commit: str,
        folder: str,
        head: str | None = None,
        *,
        among: Collection[str] = (),
    ) -> frozenset[str]:
        """Return paths below a folder that differ between a commit and `head` (None: the disk).

        Untracked files that are not ignored count as well. Paths are relative to the folder; if
        `among` names any, only those are looked at.
        """
        paths = self.differing(commit, folder, head, among=among)
        return paths if head else paths | self.untracked(folder, among=among)

    def differing(
        self, commit: str, folder: str, head: str | None = None, *, among: Collection[str] = ()
    ) -> frozenset[str]:
        """Return the paths of `changed` without untracked files."""
        names = ("--name-only", "--no-renames", "-z", commit, *([head] if head else []))
        where = _where(folder, among)
        return _below(_paths(self.git("diff", *names, *where, extra=LITERAL)), folder)

    def untracked(self, folder: str, *, among: Collection[str] = ()) -> frozenset[str]:
        """Return untracked files below a folder that are not ignored, at any commit."""
        listing = ("--others", "--exclude-standard", "-z", *_where(folder, among))
        return _below(_paths(self.git("ls-files", *listing, extra=LITERAL)), folder)

    def tree(self, commit: str, folder: str = "", *, later: str = "") -> Commit:
        """Return the files of a commit below a folder of the repository.

        Those in folders named `later` are read on demand, all others at once.
        """
        return _commit(self.folder, commit, folder, later)

    def contents(self, blobs: Collection[str]) -> Mapping[str, bytes | None]:
        """Return the contents of files by their hash, None for what this clone lacks."""
        return _objects(self.folder).read(blobs)

    def has(self, commit: str, path: str = "") -> bool:
        """Whether this clone has an object: a commit, or the file or folder at a path in one."""
        try:
            self.git("cat-file", "-e", f"{commit}:{path}" if path else f"{commit}^{{commit}}")
        except GitError:
            return False
        return True

    def contains(self, commit: str, earlier: str) -> bool:
        """Whether a commit is the same as another one or descends from it."""
        return not self.git("rev-list", "--max-count=1", earlier, f"^{commit}")

    # --- writing: commits of what is on disk ---------------------------------------------------

    def uncommitted(self, folder: str) -> frozenset[str]:
        """Return paths below a folder that differ from HEAD on disk or in the index.

        They are relative to the top of the repository.
        """
        every = ("--porcelain", "-z", "--no-renames", "--untracked-files=all")
        listed = self.git("status", *every, "--", folder or ".", extra=LITERAL)
        return frozenset(path[3:] for path in _paths(listed))

    def ignored(self, folder: str) -> frozenset[str]:
        """Return files below a folder that git ignores, as paths from the top."""
        listing = ("--others", "--ignored", "--exclude-standard", "-z")
        return frozenset(_paths(self.git("ls-files", *listing, "--", folder or ".", extra=LITERAL)))

    def record(self, paths: Iterable[str], message: str) -> str:
        """Commit these files as on disk, without others that are staged. Return the hash.

        Raise GitError if git refuses: because of a hook, or without a key to sign with.
        """
        listed = b"\0".join(os.fsencode(path) for path in sorted(paths))
        among = ("--pathspec-from-file=-", "--pathspec-file-nul")
        self.git("add", "--all", *among, given=listed, extra=LITERAL)
        commit = ("commit", "--quiet", "--only", "--message", message)
        self.git(*commit, *among, given=listed, extra=LITERAL)
        return self.commit("HEAD")

    @contextmanager
    def undone_unless_committed(self, paths: Iterable[str]) -> Iterator[None]:
        """Restore files after an error, Ctrl-C or a request to end, unless they are committed: on
        disk as they were, and in the index as in HEAD.

        Their bytes are kept meanwhile: git writes no file while another git locks the index. The
        error has a note that says so. Raise GitError if the index could not be restored.
        """
        before = {path: kept for path in paths if (kept := _kept(self.folder / path)) is not None}
        head = self.commits(("HEAD",))
        try:
            with git_command.ended_by_signals():
                yield
        except BaseException as error:
            deliver = git_command.hold_interrupts()
            try:
                if self.commits(("HEAD",)) == head:
                    self._put_back(before)
                    error.add_note("Nothing is committed, and every file is as it was before.")
            finally:
                deliver()
            raise

    def _put_back(self, before: Mapping[str, _Kept]) -> None:
        for path, kept in before.items():
            file = self.folder / path
            if not kept:
                file.unlink(missing_ok=True)
                self._remove_empty(file.parent)
            elif _kept(file) != kept:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(kept[0])
                file.chmod(kept[1])
        staged = _paths(self.git("diff", "--cached", "--name-only", "--no-renames", "-z"))
        if ours := before.keys() & {*staged}:
            given = b"\0".join(os.fsencode(path) for path in sorted(ours))
            among = ("--pathspec-from-file=-", "--pathspec-file-nul")
            try:
                self.git("reset", "--quiet", *among, given=given, extra=LITERAL)
            except GitError as error:
                unstage = f"`git reset -- {os.path.commonpath(ours)}`"
                message = "Nothing is committed, and every file is as it was before, but staged"
                raise GitError(f"{error}\n{message}: run {unstage}") from error

    def _remove_empty(self, folder: Path) -> None:
        with contextlib.suppress(OSError):  # not empty: others' files are in it
            while folder != self.folder:
                folder.rmdir()
                folder = folder.parent

    # --- writing: commits of what never was on disk --------------------------------------------

    def write_tree(self, base: str, removed: Iterable[str], files: Mapping[str, str]) -> str:
        """Write a commit's tree (empty: none) without some files and with others, and return its
        hash. `files` are texts by path.

        Neither the working tree nor its index takes part.
        """
        from tempfile import TemporaryDirectory  # 8 ms, for writing alone

        with TemporaryDirectory() as temporary:
            own = {"GIT_INDEX_FILE": f"{temporary}/index"}
            if base:
                self.git("read-tree", base, extra=own)
            nothing = "0" * len(self.line("hash-object", "--stdin"))
            blobs = self._blobs(Path(temporary), files)
            lines = [f"0 {nothing}\t{path}" for path in removed]
            lines += [f"100644 {blob}\t{path}" for path, blob in blobs.items()]
            given = b"".join(os.fsencode(line) + b"\0" for line in lines)
            self.git("update-index", "-z", "--index-info", given=given, extra=own)
            return self.line("write-tree", extra=own)

    def _blobs(self, folder: Path, files: Mapping[str, str]) -> dict[str, str]:
        """Return hashes of texts by path, stored byte for byte, without filters."""
        for number, text in enumerate(files.values()):
            (folder / str(number)).write_bytes(text.encode())
        given = "".join(f"{folder}/{number}\n" for number in range(len(files))).encode()
        done = self.git("hash-object", "-w", "--no-filters", "--stdin-paths", given=given)
        return dict(zip(files, done.decode().split(), strict=True))

    def commit_tree(self, tree: str, parent: str, message: str) -> str:
        """Return a new commit of a tree, on no branch yet; signed if the user signs commits."""
        signs = self.line("config", "--type=bool", "--default=false", "--get", "commit.gpgSign")
        options = [*(["-S"] if signs == "true" else []), *(["-p", parent] if parent else [])]
        made = self.git("commit-tree", *options, "-F", "-", tree, given=message.encode())
        return made.decode().strip()

    # --- remotes -------------------------------------------------------------------------------

    def has_remote(self, name: str) -> bool:
        return name in self.line("remote").split()

    def remote_tip(self, remote: str, branch: str) -> str:
        """Return the commit of a branch of a remote (a name, URL or path), or "" if none."""
        line = self.line("ls-remote", "--quiet", "--", remote, f"refs/heads/{branch}")
        return line.partition("\t")[0]

    def fetch(self, remote: str, wanted: str) -> None:
        """Fetch a commit of a remote, by its hash or a ref, without moving any branch."""
        quietly = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules")
        self.git("fetch", *quietly, "--", remote, wanted)

    def push(self, remote: str, commit: str, branch: str) -> None:
        """Fast-forward a remote's branch to a commit. Raise GitError if that is impossible."""
        once = ("--quiet", "--no-follow-tags", "--no-force")
        self.git("push", *once, "--", remote, f"{commit}:refs/heads/{branch}")


def _kept(path: Path) -> _Kept | None:
    """Return what to restore of a path; None for what is no file, which nothing here writes."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return ()
    if not stat.S_ISREG(status.st_mode):
        return None
    return path.read_bytes(), stat.S_IMODE(status.st_mode)


class Differing:
    """The paths below a folder that differ between a commit and another one or the files on disk,
    kept current by comparing only edited files again.
    """

    def __init__(self, repository: Repository, commit: str, folder: str, head: str | None = None):
        self._repository = repository
        self._asked = commit, folder, head
        self._paths: frozenset[str] | None = None

    def paths(self, edits: Collection[str] = ()) -> frozenset[str]:
        """Return the differing paths after edits of these files and folders."""
        previous = self._paths
        if previous is None or len(edits) > _MANY or any(map(_tells_git, edits)):
            changed = self._repository.changed(*self._asked)
        elif edits:
            is_edited = within(edits)
            changed = self._repository.changed(*self._asked, among=edits)
            changed |= {path for path in previous if not is_edited(path)}
        else:
            changed = previous
        self._paths = changed
        return changed


class Settings:
    """What decides, outside the files below a root, which of them git ignores or finds changed: the
    configuration, the index, and the patterns of parent folders, the clone and the user.
    """

    def __init__(self, root: Path):
        self._root = root
        self._named: object = None  # what the files below follow from
        self._files: tuple[Path, ...] = ()
        self._state: object = self._read()

    def have_changed(self) -> bool:
        """Whether any of that has changed since the last question."""
        before, self._state = self._state, self._read()
        return before != self._state

    def _read(self) -> object:
        try:
            repository, folder = find(self._root)
            named = repository, repository.git("config", "--null", "--list")
            if named != self._named:
                self._files = (*_of_clone(repository, folder), *_of_user(repository))
                self._named = named
        except GitError:
            return None
        return named, tuple(map(_mark, self._files))


def _of_clone(repository: Repository, folder: str) -> Iterator[Path]:
    named = (word for name in _OF_GIT for word in ("--git-path", name))
    yield from map(repository.folder.joinpath, repository.line("rev-parse", *named).splitlines())
    for inside in ("", *above(folder), folder):
        yield from (repository.folder / inside / name for name in _OF_FOLDERS)


def _of_user(repository: Repository) -> Iterator[Path]:
    """Yield the user's own gitignore and gitattributes files, whether they exist or not.

    https://git-scm.com/docs/gitignore and https://git-scm.com/docs/gitattributes
    """
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111 - no error without a home
    for key, name in (("core.excludesFile", "ignore"), ("core.attributesFile", "attributes")):
        usual = f"--default={base}/git/{name}"
        yield repository.folder / repository.line("config", "--type=path", usual, "--get", key)


_Mark: TypeAlias = tuple[int, int, int] | None
_MANY = 200  # paths on one command line
_OF_GIT = ("index", "info/exclude", "info/attributes", "info/sparse-checkout")
_OF_FOLDERS = (".gitignore", ".gitattributes", ".gitmodules")
_TELLS_GIT = frozenset({*_OF_FOLDERS, ".git"})


def _tells_git(path: str) -> bool:
    """Whether a file controls how git treats other files, such as a .gitignore."""
    return not _TELLS_GIT.isdisjoint(path.split("/"))


def _mark(path: Path) -> _Mark:
    """Return a file's modification time, size and inode, to detect changes; None without one."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def at(folder: Path) -> Repository:
    """Return the repository around a folder; if there is none, the folder as if it were one."""
    return Repository(git_command.top(folder) or folder)


def find(folder: Path) -> tuple[Repository, str]:
    """Return the repository around a folder, and the folder's path in it ("" for its top).

    Raise GitError if there is none, or git refuses it.
    """
    repository, inside = around(folder)
    repository.git("rev-parse", "--show-toplevel")  # git is here, and does not distrust the owner
    if why := apart(folder):
        raise GitError(why)
    return repository, inside


def apart(root: Path) -> str:
    """Return why no commit of the repository around a root holds its environments, or "" if they
    may.
    """
    folder = root / ENVIRONMENTS
    if git_command.top(folder) == git_command.top(root):
        return ""
    return (
        f"{folder} is in a repository of its own, as a submodule is, and no commit of "
        f"{root} has its files: keep {ENVIRONMENTS}/ as a folder of the repository whose commits "
        "are rendered"
    )


class NoRepositoryError(GitError):
    """A folder is in no git repository."""

    def __init__(self, folder: Path):
        super().__init__(f"{folder} is not in a git repository: run `git init` there, and commit")


def around(folder: Path) -> tuple[Repository, str]:
    """Do what `find` does without asking git, for a folder that git has accepted before."""
    top = git_command.top(folder)
    if top is None:
        raise NoRepositoryError(folder)
    repository = Repository(top)
    return repository, _path_in(repository, folder)


def _path_in(repository: Repository, folder: Path) -> str:
    inside = folder.resolve().relative_to(repository.folder)
    return "" if inside == Path() else inside.as_posix()


def ignored(root: Path, folder: str) -> frozenset[str]:
    """Return files in a folder below a root that git ignores, by path in the folder.

    Empty without git or a repository, or in one that ignores the root itself: a home folder's.
    """
    top = git_command.top(root / folder)
    if top is None:
        return frozenset()
    repository = Repository(top)
    try:
        inside = _path_in(repository, root / folder)
        paths = _below(repository.ignored(inside), inside)
    except GitError:
        return frozenset()
    with contextlib.suppress(GitError):  # git exits with 1 if it does not ignore it
        if paths:
            below, start = find(root)
            path = f"{start}/{ENVIRONMENTS}".lstrip("/")
            below.git("check-ignore", "--quiet", "--", path)
            return frozenset()
    return paths


def _where(folder: str, among: Collection[str]) -> Sequence[str]:
    """Return a git command's path arguments: those of `among` in a folder, or all of it."""
    prefix = f"{folder}/" if folder else ""
    return ("--", *(f"{prefix}{path}" for path in sorted(among) or ["."]))


def _below(paths: Iterable[str], folder: str) -> frozenset[str]:
    """Return those paths that are below a folder, relative to it."""
    prefix = f"{folder}/" if folder else ""
    return frozenset(path.removeprefix(prefix) for path in paths if path.startswith(prefix))


def _paths(listed: bytes) -> Iterator[str]:
    return (os.fsdecode(path) for path in listed.split(b"\0") if path)


class _Objects:
    """The contents of files by their hash, which commits have in common: each is read once."""

    def __init__(self, repository: Repository):
        self._repository = repository
        self._known: dict[str, bytes] = {}
        self._size = 0

    def read(self, wanted: Collection[str]) -> Mapping[str, bytes | None]:
        """Return contents by hash, None for what this clone lacks. One process reads thousands."""
        if self._size > _KEPT:
            self._known, self._size = {}, 0
        missing = [name for name in dict.fromkeys(wanted) if name not in self._known]
        fetched = dict(self._fetched(missing)) if missing else {}
        self._known |= {name: raw for name, raw in fetched.items() if raw is not None}
        self._size += sum(len(raw) for raw in fetched.values() if raw is not None)
        return {name: self._known.get(name) for name in wanted}

    def _fetched(self, names: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield the content of objects by their names; None for one that is not there."""
        given = "".join(f"{name}\n" for name in names).encode()
        answer, at = self._repository.git("cat-file", "--batch", "--buffer", given=given), 0
        for name in names:
            end = answer.index(b"\n", at)
            size = answer[at:end].rpartition(b" ")[2]
            at = end + 1
            if size == b"missing":
                yield name, None
            else:
                yield name, answer[at : at + int(size)]
                at += int(size) + 1


@lru_cache(maxsize=8)
def _objects(repository: Path) -> _Objects:
    return _Objects(Repository(repository))


class Commit:
    """The files of a commit, read from the object store: nothing is checked out. A `Tree`."""

    def __init__(self, repository: Path, commit: str, folder: str, later: str):
        self._repository = repository
        self.commit = commit
        self._folder = folder
        self._later = later
        self._known: dict[str, bytes] = {}  # what was read, by path
        self._near: set[str] = set()  # folders that were read by themselves

    def __reduce__(self) -> tuple[Callable[..., Commit], tuple[Path, str, str, str]]:
        """Pickle what identifies the commit: another process reads it by itself."""
        return (_commit, (self._repository, self.commit, self._folder, self._later))

    @cached_property
    def _blobs(self) -> dict[str, tuple[Kind, str, str]]:
        """Kind, hash and size by path of every file."""
        below = f"{self.commit}:{self._folder}" if self._folder else self.commit
        listing = ("-r", "-z", "--long", "--full-tree")
        try:
            listed = os.fsdecode(Repository(self._repository).git("ls-tree", *listing, below))
        except GitError as error:
            if Repository(self._repository).partial:  # before Git 2.44 sizes are looked for
                raise GitError(_lacks("files", self.commit)) from error
            raise
        blobs = {}
        for line in filter(None, listed.split("\0")):
            meta, _, path = line.partition("\t")
            mode, _, blob, size = meta.split()
            blobs[path] = (_KINDS.get(mode, "special"), blob, size)
        return blobs

    @cached_property
    def _folders(self) -> dict[str, dict[str, Kind]]:
        """The entries of each folder by its path, which is empty for the root."""
        children: dict[str, dict[str, Kind]] = {"": {}}
        for path, (kind, _, _) in self._blobs.items():
            parent, _, name = path.rpartition("/")
            if parent not in children:
                children |= {folder: {} for folder in above(path) if folder not in children}
            children[parent][name] = kind
        for folder in filter(None, children):
            parent, _, name = folder.rpartition("/")
            children[parent][name] = "folder"
        return children

    @property
    def paths(self) -> Iterable[str]:
        """The paths of all files."""
        return self._blobs.keys()

    def entries(self, folder: str) -> tuple[Entry, ...]:
        if folder not in self._folders:
            raise SourceError(f"cannot list {folder}: it is not in commit {self.commit[:12]}")
        return in_order(Entry(name, kind) for name, kind in self._folders[folder].items())

    def kind(self, path: str) -> Kind:
        if path in self._folders:
            return "folder"
        return self._blobs[path][0] if path in self._blobs else ""

    def read(self, path: str) -> bytes:
        blob = self._blobs.get(path)
        if blob is None:
            raise FileNotFoundError(path)
        if blob[0] == "special":
            raise OSError(errno.EINVAL, "Not a regular file", path)
        if _is_large(blob[2]):
            raise too_large(path)
        if blob[0] == "link":
            return self._contents({path: blob[1]})[path]
        if path not in self._known:
            self._known |= self.several(self._beside(path))
        return self._known[path]

    def _beside(self, path: str) -> Iterable[str]:
        """Return the paths to read together with one: all but the late ones, or for a late one
        those of its folder, and after some folders everything."""
        if not self._is_later(path):
            return (other for other in self._blobs if not self._is_later(other))
        if len(self._near) == _FEW:
            return self._blobs
        folder = path.rpartition("/")[0]
        self._near.add(folder)
        return (f"{folder}/{name}" for name in self._folders[folder])

    def ignored(self, folder: str) -> frozenset[str]:
        return frozenset()  # it would not be in a commit

    def _is_later(self, path: str) -> bool:
        return self._later in path.split("/") and not path.endswith(_AHEAD)

    def _is_read(self, path: str) -> bool:
        """Whether a path is a file that is not too large to be read."""
        return self.kind(path) == "file" and not _is_large(self._blobs[path][2])

    def several(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the bytes by path of those paths that are files, read in one go."""
        return self._contents({path: self._blobs[path][1] for path in paths if self._is_read(path)})

    def _contents(self, names: Mapping[str, str]) -> dict[str, bytes]:
        contents = _objects(self._repository).read(names.values())
        by_path = {}
        for path, name in names.items():
            content = contents[name]
            if content is None:
                raise GitError(_lacks(path, self.commit))
            by_path[path] = content
        return by_path


def _lacks(path: str, commit: str) -> str:
    return (
        f"this clone lacks {path} of commit {commit[:12]}: it is a partial one, or damaged; clone "
        "it without --filter (in actions/checkout without `filter`), or run "
        "`git fetch --refetch --no-filter`"
    )


@lru_cache(maxsize=16)
def _commit(repository: Path, commit: str, folder: str, later: str) -> Commit:
    return Commit(repository, commit, folder, later)


def _is_large(size: str) -> bool:
    """Whether a file is too large to be read; False if a partial clone does not have its size."""
    return size.isdigit() and int(size) > MAX_BYTES
