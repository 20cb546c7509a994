"""Values cached on disk from one process to the next: where, and for which version of the code.

They are outside the repository and may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Container, Iterator
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from trainwright.datatypes.same import digest

EMBEDDED = "embedded"
_PACKAGE = Path(__file__).parents[1]
_Value = TypeVar("_Value")
_LIBRARIES = ("helm_python", "jsonschema_rs", "yaml")


def location(root: Path, name: str) -> Path:
    """Return where something about a repository is cached ($XDG_CACHE_HOME/trainwright/…)."""
    key = digest(os.fsencode(root.resolve()))[:16]
    return _base() / "trainwright" / key / f"{name}.json"


def _base() -> Path:
    """Return the user's cache folder or, without a home as in some containers, an impossible path.

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
    """Return a digest that changes with code, chart, schemas or engine, by size and time of change.

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
    return digest("\n".join(sorted(parts)).encode())


def _states(folder: str) -> Iterator[str]:
    """Yield size and time of change of each file, in folders that are links as well."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.is_dir():
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns}"
            elif entry.name != "__pycache__":
                yield from _states(entry.path)


_UNUSABLE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


class Kept(Generic[_Value]):
    """Named values in a file for the next process, each with what it was made of (see `memo`).

    `mark` identifies everything else that they depend on. `write` turns a value into JSON data, and
    `read` restores it from what it was made of and those data. An unusable file counts as empty.
    """

    def __init__(
        self,
        path: Path,
        mark: object,
        read: Callable[[Any, Any], _Value],
        write: Callable[[_Value], object],
    ):
        self._path = path
        self._mark = mark
        self._read = read
        self._write = write
        self._now: dict[str, tuple[object, object]] = {}

    @cached_property
    def _before(self) -> dict[str, tuple[object, object]]:
        try:
            data = json.loads(self._path.read_bytes())
            if data["mark"] != self._mark:
                return {}
            return {name: (made_of, value) for name, (made_of, value) in data["values"].items()}
        except _UNUSABLE:
            return {}

    def recall(self, name: str, is_as: Callable[[Any], bool]) -> _Value | None:
        """Return a value if everything that it was made from is unchanged, else None."""
        try:
            made_of, value = self._before[name]
            if not is_as(made_of):
                return None
            restored = self._read(made_of, value)
        except _UNUSABLE:
            return None
        self._now[name] = made_of, value
        return restored

    def keep(self, name: str, value: _Value, made_of: object) -> None:
        """Keep a value for the next process."""
        self._now[name] = made_of, self._write(value)

    def save(self, others: Container[str] = ()) -> None:
        """Save the values that were recalled or kept, and of the earlier ones those in `others`."""
        if not self._now:
            return
        values = {name: value for name, value in self._before.items() if name in others} | self._now
        if values != self._before:
            write(self._path, json.dumps({"mark": self._mark, "values": values}))


def write(path: Path, text: str) -> None:
    """Replace a cache file; failing to write it is no error."""
    temporary = path.with_name(f"{path.name}-{os.urandom(8).hex()}")
    try:
        with contextlib.suppress(OSError):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # it quotes their files
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
