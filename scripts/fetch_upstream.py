"""Fetch what the tests read of other projects, as tests/upstream.toml pins it, to tests/.upstream.

python scripts/fetch_upstream.py

Needs nothing but Python. A file that is there with the right content stays; one in a local copy is
taken from there, without any network.
"""

from __future__ import annotations

import hashlib
import sys
import tomllib
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / "tests/upstream.toml"
FETCHED = ROOT / "tests/.upstream"
SHARED = ROOT.parent / "shared"
_LARGEST = 4 << 20  # bytes; the largest definition has 1.6 MB
_SECONDS = 60


@dataclass(frozen=True, slots=True)
class File:
    """A file at a commit of another project. `fill` replaces placeholders of a template."""

    path: str
    url: str
    sha256: str
    fill: Mapping[str, str] = field(default_factory=dict)

    def mismatch(self, content: bytes) -> str:
        """Why content is not that of the file; empty where it is."""
        digest = hashlib.sha256(content).hexdigest()
        if digest == self.sha256:
            return ""
        return f"{self.path}: expected SHA-256 {self.sha256}, got {digest}"


def locked(lock: Path = LOCK) -> list[File]:
    with lock.open("rb") as stream:
        return [File(**entry) for entry in tomllib.load(stream)["file"]]


def fetch(files: Iterable[File], to: Path, shared: Path) -> list[str]:
    """Bring every file below `to`, and return why the others could not be had."""
    with ThreadPoolExecutor(8) as pool:
        return [error for error in pool.map(partial(_fetch, to=to, shared=shared), files) if error]


def _fetch(file: File, to: Path, shared: Path) -> str:
    target = to / file.path
    if _is_there(file, target):
        return ""
    if _is_there(file, shared / file.path):
        content = (shared / file.path).read_bytes()
    else:
        try:
            content = _download(file)
        except OSError as error:
            return f"{file.path}: {file.url}: {error}"
        if wrong := file.mismatch(content):
            return f"{wrong} from {file.url}"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return ""


def _is_there(file: File, path: Path) -> bool:
    return path.is_file() and not file.mismatch(path.read_bytes())


def _download(file: File) -> bytes:
    with urllib.request.urlopen(file.url, timeout=_SECONDS) as response:  # noqa: S310  # of the lock
        content: bytes = response.read(_LARGEST)
    for placeholder, value in file.fill.items():
        content = content.replace(placeholder.encode(), value.encode())
    return content


def main() -> None:
    files = locked()
    errors = fetch(files, FETCHED, SHARED)
    print(*errors, sep="\n", end="\n" if errors else "", file=sys.stderr)
    print(f"{len(files) - len(errors)} of {len(files)} files in {FETCHED.relative_to(ROOT)}")
    sys.exit(bool(errors))


if __name__ == "__main__":
    main()
