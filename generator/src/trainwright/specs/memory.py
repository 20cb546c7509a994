"""What is remembered from one process to the next: where, by which version, and of which files.

It lies outside the repository and may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from trainwright.errors import SourceError
from trainwright.specs.entry import Entry, Kind
from trainwright.specs.tree import Tree

EMBEDDED = "embedded"
_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = ("helm_python", "jsonschema_rs", "yaml")

Seen: TypeAlias = Mapping[str, Mapping[str, str]]  # by kind of question and path, the answer


def location(root: Path, name: str) -> Path:
    """Where something about a repository is kept ($XDG_CACHE_HOME/trainwright/…)."""
    key = hashlib.sha256(os.fsencode(root.resolve())).hexdigest()[:16]
    return _base() / "trainwright" / key / f"{name}.json"


def _base() -> Path:
    """The user's folder for caches; without a home, as in some containers, one that cannot be.

    https://specifications.freedesktop.org/basedir-spec/latest/: a relative path is ignored.
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():
        return named
    try:
        return Path.home().absolute() / ".cache"
    except RuntimeError:
        return Path(os.devnull)  # nothing can be read or written below it


@cache
def fingerprint(engine: str) -> str:
    """Changes whenever code, chart, schemas or an engine do, by size and time of change.

    An engine is a Helm binary, or `EMBEDDED`.
    """
    parts = [engine, sys.version]
    if engine != EMBEDDED:
        from shutil import which

        with contextlib.suppress(OSError):
            status = Path(which(engine) or engine).stat()
            parts.append(f"{status.st_size} {status.st_mtime_ns}")
    for package in _LIBRARIES:
        spec = find_spec(package)
        if spec and spec.origin:
            parts.append(f"{spec.origin} {Path(spec.origin).stat().st_mtime_ns}")
    parts += _states(os.fspath(_PACKAGE))
    return hashlib.sha256("\n".join(sorted(parts)).encode()).hexdigest()


def _states(folder: str) -> Iterator[str]:
    """Size and time of change of each file, in folders that are links as well."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir():
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
            elif entry.name != "__pycache__":
                yield from _states(entry.path)


def write(path: Path, text: str) -> None:
    """Replace what is remembered; what cannot be written is no failure."""
    temporary = path.with_name(f"{path.name}-{os.urandom(8).hex()}")
    try:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # it quotes their files
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


class Observed:
    """Another tree, and every answer that it gave: while those stay, so does what followed.

    `whole` says whether the others are known too: another process reads them itself.
    """

    def __init__(self, below: Tree):
        self._below = below
        self._answers: dict[str, dict[str, str]] = {
            "entries": {},
            "kind": {},
            "read": {},
            "ignored": {},
        }
        self.whole = True

    @property
    def seen(self) -> Seen:
        """The answers, but for the kinds that a listing of their folder has in it."""
        listings = {folder: self._listing(folder) for folder in self._answers["entries"]}
        alone = {}
        for path, kind in self._answers["kind"].items():
            folder, _, name = path.rpartition("/")
            listing = listings.get(folder)
            if listing is None or listing.get(name, "") != kind:
                alone[path] = kind
        return {**self._answers, "kind": alone}

    def _listing(self, folder: str) -> Mapping[str, Kind] | None:
        """What lies in a folder, by name; None where it could not be listed."""
        try:
            return {entry.name: entry.kind for entry in self._below.entries(folder)}
        except SourceError:
            return None

    def is_as(self, seen: Seen) -> bool:
        """Whether the tree gives the same answers as another one did."""
        return all(
            _answer(self._below, question, path) == answer
            for question, answers in seen.items()
            for path, answer in answers.items()
        )

    def __reduce__(self) -> tuple[type[Observed], tuple[Tree]]:
        self.whole = False
        return (Observed, (self._below,))

    def entries(self, folder: str) -> tuple[Entry, ...]:
        self._note("entries", folder)
        return self._below.entries(folder)

    def kind(self, path: str) -> Kind:
        self._note("kind", path)
        return self._below.kind(path)

    def read(self, path: str) -> bytes:
        self._note("read", path)
        return self._below.read(path)

    def ignored(self, folder: str) -> frozenset[str]:
        self._note("ignored", folder)
        return self._below.ignored(folder)

    def _note(self, question: str, path: str) -> None:
        known = self._answers[question]
        if path not in known:
            known[path] = _answer(self._below, question, path)


def _answer(tree: Tree, question: str, path: str) -> str:
    """What a tree says of a path, in few letters."""
    try:
        if question == "kind":
            return tree.kind(path)
        if question == "read":
            return hashlib.sha256(tree.read(path)).hexdigest()
        if question == "ignored":
            return hashlib.sha256(os.fsencode("\0".join(sorted(tree.ignored(path))))).hexdigest()
        listed = repr([(entry.name, entry.kind) for entry in tree.entries(path)])
        return hashlib.sha256(listed.encode("utf-8", "backslashreplace")).hexdigest()
    except (OSError, ValueError, SourceError) as error:
        return f"{type(error).__name__}: {error}"
