"""Checkpoints in object storage, with the guarantee of a folder: each is complete or invisible.

    step-0000000200.1f2e3d4c/   whole once XXH128SUMS is there, which is put last
    latest                      the name of the one to load first; replaced last

An object store replaces single objects atomically and renames none, so each attempt at a checkpoint
has its own name. Files are written to a local disk and uploaded; they are read from the store.
"""

from __future__ import annotations

import errno
import io
import logging
import os
import secrets
import tempfile
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright_runtime.checkpoint.digests import DIGESTS, sums
from trainwright_runtime.checkpoint.directory import (
    LATEST,
    Directory,
    Retention,
    in_order,
    outdated,
    step_of,
)
from trainwright_runtime.checkpoint.errors import CheckpointError

_ABANDONED = 24 * 3600.0  # seconds: no upload takes a day, and there are no locks to read
_KINDS = (FileNotFoundError, PermissionError, TimeoutError)
_log = logging.getLogger(__name__)


def is_url(location: str | os.PathLike[str]) -> bool:
    """Whether a location is in object storage, as in s3://bucket/run."""
    return "://" in str(location)


def store_of(location: str | os.PathLike[str]) -> Directory | Objects:
    """Return the store for the checkpoints at a URL or in a folder."""
    return Objects(str(location)) if is_url(location) else Directory(Path(location))


def split(location: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the parent of a location, "." for a bare name, and the location's own name."""
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

    @contextmanager
    def open(self, mode: str = "rb") -> Iterator[io.BufferedReader]:
        with refused(self.url), self.fs.open(self.path, mode) as file:
            yield file

    def read_bytes(self) -> bytes:
        with refused(self.url):
            content: bytes = self.fs.cat_file(self.path)
            return content

    def read_text(self) -> str:
        return self.read_bytes().decode()

    def write_bytes(self, content: bytes) -> None:
        with refused(self.url):
            self.fs.pipe_file(self.path, content)

    def iterdir(self) -> Iterator[ObjectPath]:
        """Yield all objects below this path, although stores list only a thousand at a time."""
        self.fs.invalidate_cache()
        with refused(self.url):
            paths = self.fs.find(self.path)
        yield from (self / str(path).removeprefix(f"{self.path}/") for path in paths)


class Objects:
    """Checkpoints under a URL: the counterpart of `Directory`."""

    def __init__(self, url: str) -> None:
        fs, path = _opened(url)
        self.path = ObjectPath(fs, path.rstrip("/"), url.rstrip("/"))
        self._fs = fs
        self._swept = False
        self._unfinished: set[str] = set()  # attempts of this process
        self._replaced: list[str] = []  # by the attempt that is under way
        self._disk: Directory | None = None

    def steps(self) -> list[str]:
        """Return the checkpoints' names in the order to try them. Raise OSError for no bucket."""
        try:
            pointed = (self.path / LATEST).read_text().strip()
        except (FileNotFoundError, UnicodeDecodeError):
            pointed = None
        # Listed after reading `latest`: if that one is removed in between, another comes first.
        return in_order(_whole(self._listed()), pointed)

    def checkpoint(self, name: str) -> ObjectPath:
        return self.path / name

    def begin(self, step: int) -> Path:
        """Return the name of a new attempt at the checkpoint of a step.

        The first call also removes what dead writers have left behind.
        """
        listed = self._listed()
        with _warned(f"what was never finished in {self.path} could not be removed"):
            if not self._swept:
                self._swept = True
                self._sweep(listed)
            for name in self._unfinished & listed.keys():
                self._remove(name)
            self._unfinished.clear()
        # Only those that exist now: two writers at once would otherwise remove each other's.
        self._replaced = [name for name in _whole(listed) if step_of(name) == step]
        name = f"step-{step:010}.{secrets.token_hex(4)}"
        self._unfinished.add(name)
        return Path(name)

    def stage(self, attempt: Path) -> Path:
        """Return a new local folder of this rank's own, to write the files of an attempt to."""
        if self._disk is None:
            self._disk = Directory(_local_folder())
        folder = self._disk.begin(step_of(attempt.name) or 0) / attempt.name
        folder.mkdir()
        return folder

    def collect(self, folder: Path, names: Collection[str]) -> None:
        """Upload the files that this rank has written."""
        for name in names:
            target = self.path / folder.name / name
            with refused(target.url):
                self._fs.put_file(str(folder / name), target.path)

    def publish(self, folder: Path, digests: Mapping[str, str], retention: Retention) -> None:
        """Make what all ranks have uploaded visible, all at once, then remove what is too old."""
        name = folder.name
        present = {path.name for path in (self.path / name).iterdir()}
        self.collect(folder, [file for file in digests if file not in present])
        (self.path / name / DIGESTS).write_bytes(sums(digests))
        (self.path / LATEST).write_bytes(f"{name}\n".encode())
        self._unfinished.discard(name)
        with _warned(f"old checkpoints in {self.path} could not be removed"):
            self._prune(name, retention)

    def abandon(self, folder: Path) -> None:
        """Delete a local folder; what a failed attempt has uploaded goes with the next `begin`."""
        if self._disk is not None:
            self._disk.abandon(folder.parent)

    def close(self) -> None:
        if self._disk is not None:
            self._disk.close()
            self._disk = None

    def _prune(self, newest: str, retention: Retention) -> None:
        names = self.steps()
        ages = {name: self._age([f"{name}/{DIGESTS}"]) for name in names if retention.max_age}
        for name in {*self._replaced, *outdated(names, newest, retention, ages)}:
            self._remove(name)

    def _remove(self, name: str) -> None:
        """Delete a checkpoint, what makes it visible first, so that a kill leaves no half of it."""
        files = [path.name for path in (self.path / name).iterdir()]
        with refused((self.path / name).url), suppress(FileNotFoundError):  # by another writer
            if DIGESTS in files:
                self._fs.rm_file((self.path / name / DIGESTS).path)
            if others := [(self.path / name / file).path for file in files if file != DIGESTS]:
                self._fs.rm(others)

    def _sweep(self, listed: Mapping[str, Collection[str]]) -> None:
        """Remove unfinished checkpoints and uploads that dead writers have left behind."""
        for name in listed.keys() - _whole(listed):
            if self._age([f"{name}/{file}" for file in listed[name]]) > _ABANDONED:
                _log.info("removing %s, which was never finished", self.path / name)
                self._remove(name)
        if "s3" in _protocols(self._fs):  # the others give them up by themselves
            self._sweep_uploads()

    def _sweep_uploads(self) -> None:
        """Abort multipart uploads that were not completed: they cost money and are not listed.

        https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html
        """
        bucket, _, folder = self.path.path.partition("/")
        markers: dict[str, str] = {}
        more = True
        while more:
            with refused(self.path.url):
                page = self._fs.call_s3(
                    "list_multipart_uploads", Bucket=bucket, Prefix=f"{folder}/", **markers
                )
                for upload in page.get("Uploads", ()):
                    name = upload["Key"].removeprefix(f"{folder}/").partition("/")[0]
                    old = time.time() - upload["Initiated"].timestamp() > _ABANDONED
                    if old and step_of(name) is not None:
                        self._fs.call_s3(
                            "abort_multipart_upload",
                            Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"],
                        )  # fmt: skip
            more = bool(page.get("IsTruncated"))
            markers = {
                "KeyMarker": page.get("NextKeyMarker", ""),
                "UploadIdMarker": page.get("NextUploadIdMarker", ""),
            }

    def _age(self, files: Iterable[str]) -> float:
        """Return the seconds since the newest of these objects was put; 0 if that is unknown."""
        try:
            modified = [self._fs.modified((self.path / file).path) for file in files]
        except (NotImplementedError, KeyError, OSError):
            return 0.0
        return time.time() - max((moment.timestamp() for moment in modified), default=0.0)

    def _listed(self) -> dict[str, set[str]]:
        """Return the names of the files of each checkpoint, complete or not, by its name."""
        by_name: dict[str, set[str]] = {}
        for path in self.path.iterdir():
            name, _, file = path.path.removeprefix(f"{self.path.path}/").partition("/")
            if file and step_of(name) is not None:
                by_name.setdefault(name, set()).add(file)
        return by_name


def _opened(url: str) -> tuple[Any, str]:
    """Return the file system of a URL and the path in it, without connecting yet."""
    try:
        import fsspec

        # Listings are not kept: other processes change what they list.
        fs, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        raise CheckpointError(
            f"{url} needs `pip install trainwright-runtime[checkpoint]` and the library of the "
            f"store: {one_line(error)}"
        ) from error
    except ValueError as error:
        raise CheckpointError(
            f"{url} is not a URL that checkpoints can be kept at: {one_line(error)}"
        ) from error
    return fs, str(path)


def _protocols(fs: Any) -> tuple[str, ...]:
    return (fs.protocol,) if isinstance(fs.protocol, str) else tuple(fs.protocol)


def _whole(listed: Mapping[str, Collection[str]]) -> list[str]:
    return [name for name, files in listed.items() if DIGESTS in files]


def _local_folder() -> Path:
    """Return the local folder where this user's processes write the files to be uploaded."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f".trainwright-{user}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.lstat().st_uid != user:
        raise PermissionError(errno.EACCES, "it belongs to another user: set TMPDIR", str(folder))
    return folder


class ObjectFiles:
    """The file operations that torch's reader uses, on an object store."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    @contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[io.IOBase]:
        with refused(str(path)), self._fs.open(os.fspath(path), mode) as stream:
            yield stream

    def concat_path(self, path: str | os.PathLike[str], suffix: str) -> str:
        return f"{os.fspath(path)}/{suffix}"


@contextmanager
def refused(url: str) -> Iterator[None]:
    """Raise what a store's library raises as OSError: to a checkpoint, each is a bad disk."""
    try:
        yield
    except (TypeError, AttributeError, AssertionError):
        raise  # ours
    except Exception as error:
        kind = next((kind for kind in _KINDS if isinstance(error, kind)), OSError)
        if isinstance(error, OSError):
            number, words = error.errno, error.strerror or str(error)
        else:
            number, words = None, f"{type(error).__name__}: {error}"
        raise kind(number or errno.EIO, " ".join(words.split()), url) from error


@contextmanager
def _warned(what: str) -> Iterator[None]:
    """Log an OSError that should not fail a save: credentials may not be allowed to delete."""
    try:
        yield
    except OSError as error:
        _log.warning("%s: %s", what, error.strerror or error)


def one_line(error: BaseException) -> str:
    """Return the message of an error without its line breaks."""
    return " ".join(str(error).split())
