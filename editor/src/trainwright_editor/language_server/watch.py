"""Files changed from outside (git, a terminal, `render`), for editors that don't report them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from trainwright.datatypes.layout import ENVIRONMENTS
from trainwright.files.tree import SCRATCH

_Stamp = tuple[int, int, int]  # time of change, size, inode


class Watch:
    """The states of a repository's files when they were last read."""

    def __init__(self, root: Path):
        self._root = root
        self._since = time.time_ns()
        self._seen: dict[str, _Stamp] | None = None

    def changed(self, others: Iterable[str]) -> set[str]:
        """Return the files that were changed, added or removed since the last call: below
        environments/, and `others`, with all that is in the folders among them.
        """
        now = dict(self._stamps(others))
        was, self._seen = self._seen, now
        if was is None:  # a read meanwhile may have seen what was there before
            return {path for path, (changed, _, _) in now.items() if changed >= self._since}
        return {path for path in {*was, *now} if was.get(path) != now.get(path)}

    def _stamps(self, others: Iterable[str]) -> Iterator[tuple[str, _Stamp]]:
        root = f"{self._root}/"
        yield from _inside(root, ENVIRONMENTS)
        for path in others:
            yield from _stamp(root, path)
            yield from _inside(root, path)


def _inside(root: str, folder: str) -> Iterator[tuple[str, _Stamp]]:
    for path, _, files in os.walk(root + folder):
        for name in files:
            if not name.startswith(SCRATCH):
                yield from _stamp(root, os.path.join(path, name).removeprefix(root))  # noqa: PTH118 - hot


def _stamp(root: str, path: str) -> Iterator[tuple[str, _Stamp]]:
    try:
        status = os.lstat(root + path)
    except (OSError, ValueError):
        return
    yield path, (status.st_mtime_ns, status.st_size, status.st_ino)
