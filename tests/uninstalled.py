"""The command line where a package is not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_START = (
    "import sys; sys.modules[sys.argv.pop(1)] = None; import trainwright.__main__ as m; m.main()"
)


def without(
    package: str, *arguments: str, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """What a command prints, and how it ends, where an import of a package fails."""
    command = [sys.executable, "-c", _START, package, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)
