"""What is remembered from one process to the next: where, and by which version.

It lies outside the repository and may be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

EMBEDDED = "embedded"
_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = ("helm_python", "jsonschema_rs", "yaml")


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
