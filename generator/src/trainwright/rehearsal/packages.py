"""Where in a repository the code is that its images contain."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from trainwright.datatypes.layout import ENVIRONMENTS

_DEEPEST = 3  # levels below the root: packages/trainer/src
_FOREIGN = frozenset({ENVIRONMENTS, "node_modules", "build", "dist", "site-packages"})


def with_module(root: Path, module: str) -> tuple[Path, ...]:
    """Return the folders from which Python would import a module, the nearest to the root first."""
    path = module.replace(".", "/")
    return with_file(root, f"{path}.py", f"{path}/__init__.py")


def with_file(root: Path, *paths: str) -> tuple[Path, ...]:
    """Return the folders of a repository with one of the files, those nearest to the root first."""
    folders = [
        folder for folder in _folders(root) if any((folder / path).is_file() for path in paths)
    ]
    return tuple(sorted(folders, key=lambda folder: (len(folder.parts), folder)))


def _folders(root: Path) -> Iterator[Path]:
    """Yield the root and folders that may hold code: not hidden ones, venvs or links."""
    for current, names, files in os.walk(root):
        folder = Path(current)
        if "pyvenv.cfg" in files:
            names.clear()
            continue
        yield folder
        deepest = len(folder.relative_to(root).parts) == _DEEPEST
        names[:] = [
            name for name in names if not (deepest or name.startswith(".") or name in _FOREIGN)
        ]
