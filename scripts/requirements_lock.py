"""Write the lock files of what CI installs, or check that they follow from the requirements.

python scripts/requirements_lock.py [--check | --upgrade]

Every package that is needed by any promised Python, by its version and the hashes of its files.
`--check` needs no network: a lock holds the digest of its requirements.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OLDEST = "3.11"
_OF = "# Of requirements sha256:"

_HEAD = """\
# {purpose}: these versions, these bytes.
# Written by `python scripts/requirements_lock.py`; newer versions with --upgrade.
"""


def _project(path: str) -> Mapping[str, Any]:
    return tomllib.loads((ROOT / path).read_text(encoding="utf-8"))


def locks() -> dict[str, tuple[str, Sequence[str]]]:
    """Return the purpose and the requirements of each lock file."""
    generator = _project("generator/pyproject.toml")
    tool = [*generator["project"]["dependencies"], *generator["build-system"]["requires"]]
    return {
        "generator/requirements.txt": (
            "What the GitHub action installs, and what builds the tool for it", tool,
        ),
        ".github/release-requirements.txt": (
            "What lists the contents of a release", ["cyclonedx-bom>=7"],
        ),
    }  # fmt: skip


def _digest(requirements: Sequence[str]) -> str:
    return hashlib.sha256("\n".join([OLDEST, *sorted(requirements)]).encode()).hexdigest()


def compiled(path: Path, purpose: str, requirements: Sequence[str], *more: str) -> str:
    """The text of a lock file; versions stay as they are in the one that is there."""
    before = path.read_bytes() if path.exists() else None
    command = [
        sys.executable, "-m", "uv", "pip", "compile", "-", "--universal", "--quiet",
        f"--python-version={OLDEST}", "--generate-hashes", "--no-annotate", "--no-header",
        "--no-emit-index-url", "--no-emit-find-links", f"--output-file={path}", *more,
    ]  # fmt: skip
    try:
        subprocess.run(  # noqa: S603 - an argument list, and no shell
            command, input="\n".join(requirements), text=True, check=True, env=os.environ
        )
        body = path.read_text(encoding="utf-8")
    finally:
        if before is not None:
            path.write_bytes(before)
    return f"{_HEAD.format(purpose=purpose)}{_OF}{_digest(requirements)}\n{body}"


def stale(path: Path, requirements: Sequence[str]) -> bool:
    return not path.exists() or f"{_OF}{_digest(requirements)}\n" not in path.read_text()


def main(arguments: list[str]) -> int:
    wrong = 0
    for name, (purpose, requirements) in locks().items():
        path = ROOT / name
        if "--check" not in arguments:
            path.write_text(compiled(path, purpose, requirements, *arguments), encoding="utf-8")
        elif stale(path, requirements):
            print(
                f"{name} does not follow from its requirements: run `python {Path(__file__).name}`"
            )
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
