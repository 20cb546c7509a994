"""Write the lock files of what CI and images install, or check that they follow from pyproject.

python scripts/requirements_lock.py [--check | --upgrade]

Every package that is needed by any promised Python, by its version and the hashes of its files.
`--check` needs no network: a lock holds the digest of its requirements.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Lock:
    """What a lock file is for, and what it follows from."""

    purpose: str
    requirements: Sequence[str]
    platform: str = "--universal"


def locks() -> dict[str, Lock]:
    """Return the locks by the path of their file."""
    generator = _project("generator/pyproject.toml")
    tool = [*generator["project"]["dependencies"], *generator["build-system"]["requires"]]
    servers = _project("editor/pyproject.toml")["project"]
    used = [*servers["dependencies"], *servers["optional-dependencies"]["mcp"]]
    image = _project("runtime/pyproject.toml")
    runtime = image["project"]
    extras = [each for extra in runtime["optional-dependencies"].values() for each in extra]
    return {
        "generator/requirements.txt": Lock(
            "What the GitHub action installs, and what builds the tool for it", tool
        ),
        "editor/requirements.txt": Lock(
            "What serves editors and assistants, with what the generator needs",
            [*generator["project"]["dependencies"], *(u for u in used if not _is_ours(u))],
        ),
        ".github/release-requirements.txt": Lock(
            "What lists the contents of a release", ["cyclonedx-bom>=7"]
        ),
        ".github/site-requirements.txt": Lock(
            "What builds the site", _listed("docs/requirements.txt")
        ),
        "runtime/requirements.txt": Lock(
            "What the image installs where its base lacks it, with the torch of the package index",
            [*runtime["dependencies"], *extras, f"torch=={_torch()}"],
            "--python-platform=x86_64-manylinux_2_28",
        ),
        "runtime/build-requirements.txt": Lock(
            "What builds the runtime's wheel for the image", image["build-system"]["requires"]
        ),
    }


def _listed(path: str) -> list[str]:
    """The requirements in a file of them."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _is_ours(requirement: str) -> bool:
    return requirement.startswith("trainwright==")


def _torch() -> str:
    """The torch of the image by default; what builds of other indexes add to it is left out."""
    dockerfile = (ROOT / "runtime/Dockerfile").read_text(encoding="utf-8")
    match = re.search(r"^ARG TORCH_VERSION=([0-9.]+)", dockerfile, re.MULTILINE)
    assert match is not None
    return match[1]


def _digest(requirements: Sequence[str]) -> str:
    return hashlib.sha256("\n".join([OLDEST, *sorted(requirements)]).encode()).hexdigest()


def compiled(path: Path, lock: Lock, *more: str) -> str:
    """The text of a lock file; versions stay as they are in the one that is there."""
    before = path.read_bytes() if path.exists() else None
    command = [
        sys.executable, "-m", "uv", "pip", "compile", "-", lock.platform, "--quiet",
        f"--python-version={OLDEST}", "--generate-hashes", "--no-annotate", "--no-header",
        "--no-emit-index-url", "--no-emit-find-links", f"--output-file={path}", *more,
    ]  # fmt: skip
    try:
        subprocess.run(  # noqa: S603 - an argument list, and no shell
            command, input="\n".join(lock.requirements), text=True, check=True, env=os.environ
        )
        body = path.read_text(encoding="utf-8")
    finally:
        if before is not None:
            path.write_bytes(before)
    return f"{_HEAD.format(purpose=lock.purpose)}{_OF}{_digest(lock.requirements)}\n{body}"


def stale(path: Path, requirements: Sequence[str]) -> bool:
    return not path.exists() or f"{_OF}{_digest(requirements)}\n" not in path.read_text()


def main(arguments: list[str]) -> int:
    wrong = 0
    for name, lock in locks().items():
        path = ROOT / name
        if "--check" not in arguments:
            path.write_text(compiled(path, lock, *arguments), encoding="utf-8")
        elif stale(path, lock.requirements):
            print(
                f"{name} does not follow from its requirements: run `python {Path(__file__).name}`"
            )
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
