"""The install steps of the image: each of them leaves the torch of the base image as it was."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import NoReturn

try:
    import tomllib
except ModuleNotFoundError:
    sys.exit(f"install.py: the base image has Python {sys.version.split()[0]}, 3.11 is the oldest")

DISTRIBUTION = "trainwright-runtime"

# Compiled against each other by whoever built the base image: another numpy under NVIDIA's torch
# breaks as surely as another torch under its torchvision.
HELD = ("torch", "torchvision", "torchaudio", "triton", "pytorch-triton", "numpy")

# Printed by a process of its own, since this one must not hold on to a torch that pip replaces.
_IMPORTED_TORCH = """\
import importlib.util, json
if importlib.util.find_spec("torch"):
    import torch
    print(json.dumps({"version": torch.__version__, "file": torch.__file__}))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Torch:
    """The torch that `import torch` finds; `version` is torch's own word, local part included."""

    version: str
    file: str


def torch(version: str, index_url: str) -> None:
    """Install torch where the base image has none; refuse a label that would name another."""
    if version and not _torch():
        _pip("install", f"--index-url={index_url}", f"torch=={version}", needs=f"torch {version}")
    found = _present_torch().version
    if found != version:
        _fail(
            f"the base image has torch {found}, and TORCH_VERSION says {version or 'nothing'}: "
            f"pass --build-arg TORCH_VERSION={found}"
        )


def dependencies(pyproject: Path, extras: tuple[str, ...], pins: Path, held: Path) -> None:
    """Install what the runtime needs beside the base image's own packages.

    Writes `held`, the constraint that keeps them, for whoever builds an image from this one.
    """
    wanted = requirements(pyproject, extras)
    before = _present_torch()
    installed = {_normal(found.name): found.version for found in metadata.distributions()}
    held.parent.mkdir(parents=True, exist_ok=True)
    held.write_text("".join(f"{n}=={installed[n]}\n" for n in HELD if n in installed))
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as missing:
        missing.writelines(pin for pin in _pins(pins) if _name(pin) not in installed)
        missing.flush()
        _pip(
            "install", f"--constraint={held}", f"--constraint={missing.name}", *wanted,
            needs=f"{', '.join(wanted)} beside torch {before.version}",
        )  # fmt: skip
    _unchanged(before)


def runtime(wheels: Path, extras: tuple[str, ...], version: str, contract: int) -> None:
    """Install the runtime's own wheel, offline, and refuse labels that it does not keep.

    pip resolves its dependencies without an index, so one that an earlier step forgot fails here.
    """
    before = _present_torch()
    _pip(
        "install", "--no-cache-dir", "--no-index", f"--find-links={wheels}",
        f"{DISTRIBUTION}[{','.join(extras)}]=={version}",
        needs=f"{DISTRIBUTION} {version} (RUNTIME_VERSION) from {wheels} and what is installed",
    )  # fmt: skip
    _unchanged(before)
    found = int(_python("import trainwright_runtime as runtime; print(runtime.CONTRACT)"))
    if found != contract:
        _fail(
            f"the runtime keeps contract {found}, and CONTRACT says {contract}: "
            f"pass --build-arg CONTRACT={found}"
        )


def requirements(pyproject: Path, extras: tuple[str, ...]) -> list[str]:
    """The requirements of the project and of its extras, before its code is there."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    for extra in extras:
        if extra not in optional:
            _fail(f"EXTRAS names {extra!r}, there are {', '.join(sorted(optional))}")
    return [*project["dependencies"], *(needed for extra in extras for needed in optional[extra])]


def _pins(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as lines:
        yield from (line for line in lines if line.strip() and not line.startswith("#"))


def _name(pin: str) -> str:
    return _normal(pin.partition("==")[0].strip())


def _normal(name: str) -> str:
    # https://packaging.python.org/en/latest/specifications/name-normalization/
    return re.sub(r"[-_.]+", "-", name).lower()


def _torch() -> Torch | None:
    printed = _python(_IMPORTED_TORCH)
    return Torch(**json.loads(printed)) if printed else None


def _present_torch() -> Torch:
    found = _torch()
    if not found:
        _fail("the base image has no torch: pass --build-arg TORCH_VERSION=<version>")
    return found


def _unchanged(before: Torch) -> None:
    after = _present_torch()
    if after != before:
        _fail(
            f"torch was {before.version} in {before.file} and is now {after.version} in "
            f"{after.file}: leave out the requirement that brings its own, or choose another base"
        )


def _python(code: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - no shell
    if done.returncode:
        _fail(f"an installed package cannot be imported: {done.stderr.strip().splitlines()[-1]}")
    return done.stdout.strip()


def _pip(*arguments: str, needs: str) -> None:
    # With an epoch, byte code is checked by the source's hash instead of its date: the same bytes
    # in each build, and still valid when BuildKit rewrites the dates of all files.
    environment = {"SOURCE_DATE_EPOCH": "0", **os.environ}
    command = [sys.executable, "-m", "pip", *arguments, "--root-user-action=ignore"]
    if subprocess.run(command, env=environment, check=False).returncode:  # noqa: S603 - no shell
        _fail(f"pip cannot install {needs}; its own words are above")


def _fail(message: str) -> NoReturn:
    sys.exit(f"install.py: {message}")


def _extras(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    steps = parser.add_subparsers(required=True)
    step = steps.add_parser("torch", description=torch.__doc__)
    step.set_defaults(run=torch)
    step.add_argument("--version", required=True)
    step.add_argument("--index-url", required=True)
    step = steps.add_parser("dependencies", description=dependencies.__doc__)
    step.set_defaults(run=dependencies)
    step.add_argument("--pyproject", type=Path, required=True)
    step.add_argument("--extras", type=_extras, required=True)
    step.add_argument("--pins", type=Path, required=True)
    step.add_argument("--held", type=Path, required=True)
    step = steps.add_parser("runtime", description=runtime.__doc__)
    step.set_defaults(run=runtime)
    step.add_argument("--wheels", type=Path, required=True)
    step.add_argument("--extras", type=_extras, required=True)
    step.add_argument("--version", required=True)
    step.add_argument("--contract", type=int, required=True)
    chosen = vars(parser.parse_args())
    chosen.pop("run")(**chosen)


if __name__ == "__main__":
    main()
