"""The rendered tree on disk: its files, what would change, and the change made safely."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from trainwright.datatypes import same
from trainwright.datatypes.errors import OutputError
from trainwright.datatypes.frozen import dataclass
from trainwright.files.tree import SCRATCH, read_regular

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_HELD = "TRAINWRIGHT_HELD"  # the folder that an ancestor of this process has locked
_WRITERS = 4  # fsync waits for the disk, not for the processor


@dataclass(frozen=True, slots=True)
class Changes:
    """What to do to a folder, by path relative to it. Texts are the new contents."""

    added: Mapping[str, str]
    changed: Mapping[str, str]
    removed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)

    @property
    def written(self) -> dict[str, str]:
        return {**self.added, **self.changed}


def digest(text: str) -> str:
    """Return the SHA-256 of a text as it is on disk."""
    return digest_of(text.encode())


def digest_of(raw: bytes) -> str:
    """Return the SHA-256 of a file's bytes with the line ends of a rendered text.

    Git converts them to CRLF in a working tree (core.autocrlf), which is not an edit by hand.
    """
    return same.digest(raw.replace(b"\r\n", b"\n"))


def listing(folder: Path) -> tuple[str, ...]:
    """Return every file below the folder, relative to it, sorted; () if there is no folder."""
    return tuple(sorted(_walk(os.fspath(folder), "")))


def _walk(folder: str, prefix: str) -> Iterator[str]:
    """Yield all files below a folder, by their paths after `prefix`. Raise OutputError."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(entry.path, f"{prefix}{entry.name}/")
                else:
                    yield f"{prefix}{entry.name}"
    except FileNotFoundError:
        return
    except OSError as error:
        raise OutputError(f"cannot read {folder}: {error.strerror}") from error


def hashes(folder: Path, paths: tuple[str, ...]) -> dict[str, str]:
    """Return digests by path of readable regular files; links and missing files have none."""
    digests = {}
    for path in paths:
        full = os.path.join(folder, path)  # noqa: PTH118 - thousands of files, and Path is slow
        with contextlib.suppress(OSError):
            digests[path] = digest_of(read_regular(full, follow=False))
    return digests


def compare(wanted: Mapping[str, str], present: Mapping[str, str], keep: frozenset[str]) -> Changes:
    """Return the changes that turn `present` (hashes by path) into `wanted` (texts by path).

    Files in `keep` are not removed: they are right, or nothing was requested for them.
    """
    added = {path: text for path, text in wanted.items() if path not in present}
    changed = {
        path: text
        for path, text in wanted.items()
        if path in present and present[path] != digest(text)
    }
    removed = tuple(sorted(path for path in present if path not in wanted and path not in keep))
    return Changes(added, changed, removed)


def apply(folder: Path, changes: Changes) -> None:
    """Apply the changes; at every instant each file is either the old one or the new one.

    New contents are written and synced beside their place, then renamed into it in one pass,
    lists after what they list; removals come last. If it is killed, the next run repairs it.
    """
    with prepared(folder, changes) as finish:
        finish()


@contextmanager
def prepared(folder: Path, changes: Changes) -> Iterator[Callable[[], None]]:
    """Do all of `apply` that can fail; yield a function that makes the changes, to call once.

    If it is not called, nothing is left behind. So files that belong together in several folders
    are written in all of them, or in none.
    """
    with writing(folder):
        _make_folder(folder)
        with exclusive(folder):
            _sweep(folder)
            made: list[Path] = []
            staged: list[tuple[Path, Path]] = []
            try:
                _stage_all(folder, changes, made, staged)
                yield lambda: _finish(folder, changes, made, staged)
            finally:
                for temporary, _ in staged:
                    temporary.unlink(missing_ok=True)
                for path in reversed(made):
                    with contextlib.suppress(OSError):  # it is not empty
                        path.rmdir()


@contextmanager
def writing(folder: Path) -> Iterator[None]:
    """Raise OutputError if the system refuses to write there."""
    try:
        yield
    except OSError as error:
        where = error.filename2 or error.filename or folder
        taken = isinstance(error, FileExistsError)  # by mkdir: a file, or a link to nothing
        reason = "it is there, and not a folder" if taken else error.strerror
        raise OutputError(f"cannot write {where}: {reason}") from error


def write(root: Path, inside: str, files: Mapping[str, bytes], before: Mapping[str, bytes]) -> None:
    """Create or replace files; at every instant each is either the old one or the new one.

    Their paths are from the root, all in one folder of it, `inside`, which the caller has locked
    (see `exclusive`). `before` are the contents that the new ones were computed from: if one has
    changed since, nothing is written. Permissions stay. If it is killed, nothing is left among the
    files: new contents are staged in a folder that git ignores and the next writer removes.
    """
    with writing(root):
        _remove_staging(root / inside)
        with _staging(root / inside) as staging:
            staged = [
                (_staged(staging / str(number), root / path, raw), root / path)
                for number, (path, raw) in enumerate(files.items())
            ]
            for path in files:
                if _content(root / path) != before.get(path):
                    raise OutputError(f"{path} has just changed; try again")
            for temporary, final in staged:
                final.parent.mkdir(parents=True, exist_ok=True)
                temporary.replace(final)
        _sync_folders({final.parent for _, final in staged})


@contextmanager
def _staging(folder: Path) -> Iterator[Path]:
    import shutil  # 5 ms, and only writing needs it

    staging = _scratch(folder)
    try:
        staging.mkdir()
        (staging / ".gitignore").write_text("*\n", encoding="utf-8")
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _remove_staging(folder: Path) -> None:
    import shutil

    for left in folder.glob(f"{SCRATCH}*"):
        shutil.rmtree(left, ignore_errors=True)


def _staged(temporary: Path, final: Path, raw: bytes) -> Path:
    _write_new(temporary, raw)
    if final.exists():
        temporary.chmod(stat.S_IMODE(final.stat().st_mode))
    return temporary


def _content(path: Path) -> bytes | None:
    return read_regular(path, follow=False) if os.path.lexists(path) else None


@contextmanager
def exclusive(folder: Path, waiting: Callable[[], object] = int) -> Iterator[None]:
    """Lock a folder, so that one process at a time changes it; the lock ends with the process.

    `waiting` is called if another process holds the lock.
    """
    if fcntl is None:
        raise OutputError(
            f"cannot write {folder}: this system has no POSIX file locks; on Windows, use WSL"
        )
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise OutputError(f"cannot open {folder}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def held(root: Path, waiting: Callable[[], object] = int) -> Iterator[None]:
    """Hold the lock of a repository, so that no other process that takes the lock writes meanwhile.

    But for what this process starts: a hook of the commit that it makes may render.
    """
    folder = (root / "environments").resolve()
    if os.environ.get(_HELD) == str(folder):
        yield
        return
    with exclusive(folder, waiting):
        os.environ[_HELD] = str(folder)
        try:
            yield
        finally:
            del os.environ[_HELD]


def _stage_all(
    folder: Path, changes: Changes, made: list[Path], staged: list[tuple[Path, Path]]
) -> None:
    """Write new contents beside their places; note where, and the folders made for them."""
    from concurrent.futures import ThreadPoolExecutor  # 10 ms, and only writing needs it

    # Job folders first, then what lists them (kustomization) at the top.
    written = sorted(changes.written.items(), key=lambda item: ("/" not in item[0], item[0]))
    for name in sorted({name for path, _ in written for name in _above(path)}):
        if _make_folder(folder / name):
            made.append(folder / name)
    for path, _ in written:
        final = folder / path
        if final.is_dir() and not final.is_symlink():
            raise OutputError(f"{final} is in the way: it should be a file")
        staged.append((_scratch(final.parent), final))
    with ThreadPoolExecutor(_WRITERS) as pool:
        pairs = zip(staged, written, strict=True)
        list(pool.map(lambda pair: _write_new(pair[0][0], pair[1][1].encode()), pairs))


def _finish(
    folder: Path, changes: Changes, made: list[Path], staged: list[tuple[Path, Path]]
) -> None:
    for temporary, final in staged:
        temporary.replace(final)
    for path in changes.removed:
        (folder / path).unlink(missing_ok=True)
    _remove_empty(folder, changes.removed)
    _sync_folders({final.parent for _, final in staged})
    made.clear()
    staged.clear()


def _above(path: str) -> Iterator[str]:
    """Yield the folders above a relative path, from the innermost on."""
    while path := path.rpartition("/")[0]:
        yield path


def _make_folder(path: Path) -> bool:
    """Create a folder unless it is there, which a link is not; return whether it is new."""
    try:
        path.mkdir(parents=True)
    except FileExistsError:
        if path.is_symlink() or not path.is_dir():
            raise OutputError(f"{path} is in the way: it should be a folder") from None
        return False
    return True


def _scratch(folder: Path) -> Path:
    """Return the path of a temporary file that does not exist yet."""
    return folder / f"{SCRATCH}{os.urandom(8).hex()}"


def _write_new(path: Path, raw: bytes) -> None:
    """Create a file, which must not exist, and sync it to the disk."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    with os.fdopen(os.open(path, flags, 0o644), "wb") as file:
        file.write(raw)
        file.flush()
        os.fsync(file.fileno())


def _sweep(folder: Path) -> None:
    """Remove what an interrupted run left behind."""
    for path in listing(folder):
        if path.rpartition("/")[2].startswith(SCRATCH):
            (folder / path).unlink(missing_ok=True)


def _remove_empty(folder: Path, removed: tuple[str, ...]) -> None:
    for parent in sorted({(folder / path).parent for path in removed}, reverse=True):
        while parent != folder and parent.is_dir() and not any(parent.iterdir()):
            parent.rmdir()
            parent = parent.parent  # noqa: PLW2901


def _sync_folders(folders: set[Path]) -> None:
    """Make the renames themselves durable."""
    for folder in folders:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
