"""Checkpoints in object storage, with the promise of a folder: each is whole or invisible.

    step-0000000200.1f2e3d4c/   whole once SHA256SUMS is there, which is put last
    latest                      the name of the one to load first; replaced last

An object store replaces one object at once and renames none, so that each attempt has a name of its
own. Files are written to a local disk and put from there; they are read where they lie.
"""

from __future__ import annotations

import io
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright_runtime.checkpoint.directory import (
    DIGESTS,
    LATEST,
    Directory,
    Retention,
    in_order,
    outdated,
    step_of,
    sums,
)

_ABANDONED = 24 * 3600.0  # seconds: no upload takes a day, and there are no locks to read
_log = logging.getLogger(__name__)


def is_url(location: str | os.PathLike[str]) -> bool:
    """Whether a location is in object storage, as in s3://bucket/run."""
    return "://" in str(location)


def store_of(location: str | os.PathLike[str]) -> Directory | Objects:
    """What keeps the checkpoints of a folder, or of a URL."""
    return Objects(str(location)) if is_url(location) else Directory(Path(location))


def split(location: str | os.PathLike[str]) -> tuple[str, str]:
    """What a location lies in, and its name."""
    parent, _, name = str(location).rstrip("/").rpartition("/")
    return parent or ".", name


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """The operations on a checkpoint's files, as pathlib has them."""

    fs: Any
    path: str
    url: str

    def __truediv__(self, name: str) -> ObjectPath:
        return ObjectPath(self.fs, f"{self.path}/{name}", f"{self.url}/{name}")

    def __str__(self) -> str:
        return self.url

    def __fspath__(self) -> str:
        return self.path

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def open(self, mode: str = "rb") -> io.BufferedReader:
        with _refused(self.url):
            file: io.BufferedReader = self.fs.open(self.path, mode)
            return file

    def read_bytes(self) -> bytes:
        with self.open() as file:
            return file.read()

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def iterdir(self) -> Iterator[ObjectPath]:
        with _refused(self.url):
            found = self.fs.ls(self.path, detail=False)
        yield from (self / str(path).rstrip("/").rpartition("/")[2] for path in found)


class Objects:
    """Where checkpoints are kept: what `Directory` is for a disk."""

    def __init__(self, url: str) -> None:
        try:
            import fsspec
        except ImportError as error:
            raise OSError(f"{url} needs `pip install trainwright-runtime[checkpoint]`") from error
        fs, path = fsspec.core.url_to_fs(url)
        self.path = ObjectPath(fs, path.rstrip("/"), url.rstrip("/"))
        self._fs = fs
        self._swept = False

    def steps(self) -> list[str]:
        """Names of the checkpoints, in the order in which to try them."""
        names = [name for name in self._names() if self._exists(self.path / name / DIGESTS)]
        try:
            pointed = (self.path / LATEST).read_text().strip()
        except OSError:
            pointed = None
        return in_order(names, pointed)

    def checkpoint(self, name: str) -> ObjectPath:
        return self.path / name

    def begin(self, step: int) -> Path:
        """A new local folder to write the checkpoint of a step into; each rank makes its own."""
        if not self._swept:
            self._sweep()
            self._swept = True
        name = f"step-{step:010}.{secrets.token_hex(4)}"
        return Path(tempfile.gettempdir()) / f".trainwright-{secrets.token_hex(8)}" / name

    def collect(self, folder: Path, names: Collection[str]) -> None:
        """Put what this rank has written."""
        for name in names:
            target = self.path / folder.name / name
            with _refused(target.url):
                self._fs.put_file(str(folder / name), target.path)

    def publish(self, folder: Path, digests: Mapping[str, str], retention: Retention) -> None:
        """Make what all ranks have put visible, all at once, then remove what is too old."""
        present = {path.name for path in (self.path / folder.name).iterdir()}
        self.collect(folder, [name for name in digests if name not in present])
        self._put(self.path / folder.name / DIGESTS, sums(digests))
        self._put(self.path / LATEST, f"{folder.name}\n".encode())
        self._prune(folder.name, retention)

    def abandon(self, folder: Path) -> None:
        """Delete a local folder; what was put of one that came to nothing is swept later."""
        shutil.rmtree(folder.parent, ignore_errors=True)

    def close(self) -> None: ...

    def _prune(self, newest: str, retention: Retention) -> None:
        names = self.steps()
        same = [n for n in names if step_of(n) == step_of(newest) and n != newest]
        ages = {name: self._age(name) for name in names} if retention.max_age else {}
        for name in {*same, *outdated(names, newest, retention, ages)}:
            self._remove(name)

    def _remove(self, name: str) -> None:
        """First from sight, so that a kill leaves no half of one."""
        with _refused(self.path.url):
            if self._exists(self.path / name / DIGESTS):
                self._fs.rm_file((self.path / name / DIGESTS).path)
            self._fs.rm((self.path / name).path, recursive=True)

    def _sweep(self) -> None:
        """Remove what writers that died have left behind."""
        for name in self._names():
            abandoned = not self._exists(self.path / name / DIGESTS)
            if abandoned and self._age(name) > _ABANDONED:
                _log.info("removing %s, which was never finished", self.path / name)
                self._remove(name)

    def _age(self, name: str) -> float:
        """Seconds since the newest of its objects was put; 0 where the store does not report it."""
        try:
            found = [self._fs.modified(path.path) for path in (self.path / name).iterdir()]
        except (NotImplementedError, KeyError, OSError):
            return 0.0
        return time.time() - max((moment.timestamp() for moment in found), default=0.0)

    def _names(self) -> list[str]:
        self._fs.invalidate_cache()
        try:
            return [path.name for path in self.path.iterdir() if step_of(path.name) is not None]
        except FileNotFoundError:
            return []

    def _exists(self, path: ObjectPath) -> bool:
        with _refused(path.url):
            return bool(self._fs.exists(path.path))

    def _put(self, path: ObjectPath, content: bytes) -> None:
        with _refused(path.url):
            self._fs.pipe_file(path.path, content)


class ObjectFiles:
    """What torch's reader opens files by."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[io.IOBase]:
        with _refused(str(path)), self._fs.open(os.fspath(path), mode) as stream:
            yield stream

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        return f"{os.fspath(path)}/{suffix}"


@contextmanager
def _refused(url: str) -> Iterator[None]:
    """Libraries of object stores have errors of their own: to a checkpoint all are a bad disk."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            raise type(error)(error.errno or 5, str(error), url) from error
        raise
    except (ValueError, TypeError, AttributeError, AssertionError):
        raise  # ours
    except Exception as error:
        raise OSError(5, f"{type(error).__name__}: {error}", url) from error
