"""The install steps of the image: each of them leaves the torch of the base image as it was."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
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

# The beginnings of names of which each build of torch names the versions that it needs.
_OF_A_BUILD = ("cuda-", "nvidia-", "torch", "triton")

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


def torch(version: str, index_url: str, sha256: str, lock: Path) -> None:
    """Install torch where the base image has none; refuse a label that would name another.

    By its hash, where the lock has it or `sha256` names that of the wheel.
    """
    if version and not _torch():
        _install_torch(version, index_url, sha256, _locked(lock))
    found = _present_torch().version
    if found != version:
        _fail(
            f"the base image has torch {found}, and TORCH_VERSION says {version or 'nothing'}: "
            f"pass --build-arg TORCH_VERSION={found}"
        )


def _install_torch(version: str, index_url: str, sha256: str, locked: Mapping[str, Locked]) -> None:
    wanted, needs = f"torch=={version}", f"torch {version}"
    index = f"--index-url={index_url}"
    if locked["torch"].version == version and not sha256:
        _install(_resolved([wanted], index, needs=needs), locked, index, needs=needs)
        return
    # Another index has builds of its own, and the lock has their hashes neither of torch nor of
    # what they need of its vendor.
    alone = Locked(version, wanted + (f" --hash=sha256:{sha256}" if sha256 else ""))
    _install({"torch": version}, {"torch": alone}, index, needs=needs)
    also = f"--extra-index-url={index_url}"
    with _pinned({n: it for n, it in locked.items() if not n.startswith(_OF_A_BUILD)}) as pins:
        beside = _resolved([wanted], pins, also, needs=needs)
    known = {n: v for n, v in beside.items() if n in locked and locked[n].version == v}
    _install(known, locked, needs=needs)
    others = [f"{name}=={found}" for name, found in beside.items() if name not in known]
    if others:
        sys.stdout.write(f"install.py: without a hash in the lock: {', '.join(others)}\n")
        _pip("install", "--no-deps", also, *others, needs=needs)


def dependencies(pyproject: Path, extras: tuple[str, ...], lock: Path, held: Path) -> None:
    """Install what the runtime needs beside the base image's own packages, by hash.

    Writes `held`, the constraint that keeps them, for whoever builds an image from this one.
    """
    wanted = requirements(pyproject, extras)
    before = _present_torch()
    installed = {_normal(found.name): found.version for found in metadata.distributions()}
    held.parent.mkdir(parents=True, exist_ok=True)
    held.write_text("".join(f"{n}=={installed[n]}\n" for n in HELD if n in installed))
    locked, needs = _locked(lock), f"{', '.join(wanted)} beside torch {before.version}"
    missing = {name: it for name, it in locked.items() if name not in installed}
    with _pinned(missing) as pins:
        chosen = _resolved(wanted, f"--constraint={held}", pins, needs=needs)
    unknown = [f"{n}=={v}" for n, v in chosen.items() if n not in locked or locked[n].version != v]
    if unknown:
        _fail(
            f"{lock.name} has no hash of {', '.join(unknown)}: write it anew, with "
            "scripts/requirements_lock.py"
        )
    _install(chosen, locked, needs=needs)
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


@dataclass(frozen=True, slots=True)
class Locked:
    """A package of the lock: its version, and the line with its hashes."""

    version: str
    line: str


def _locked(path: Path) -> dict[str, Locked]:
    """The packages of a lock by name."""
    joined = path.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    lines = [line.strip() for line in joined if line.strip() and not line.startswith("#")]
    return {
        _normal(pin.partition("==")[0]): Locked(pin.partition("==")[2], line)
        for line in lines
        for pin in [line.split()[0]]
    }


@contextmanager
def _pinned(locked: Mapping[str, Locked]) -> Iterator[str]:
    """The option by which pip chooses these versions and no others."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.writelines(f"{name}=={it.version}\n" for name, it in locked.items())
        constraints.flush()
        yield f"--constraint={constraints.name}"


def _resolved(wanted: Iterable[str], *options: str, needs: str) -> dict[str, str]:
    """What pip would install, versions by name: hashes cannot be given of what is looked for."""
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        _pip("install", "--dry-run", f"--report={report.name}", *options, *wanted, needs=needs)
        found = json.load(report)["install"]
    packages = (each["metadata"] for each in found)
    return {_normal(package["name"]): package["version"] for package in packages}


def _install(
    chosen: Mapping[str, str], locked: Mapping[str, Locked], *options: str, needs: str
) -> None:
    """Install exactly these, by the hashes that the lock has of them."""
    lines = [locked[name].line for name in chosen]
    hashed = ("--require-hashes",) if all("--hash=" in line for line in lines) else ()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.writelines(f"{line}\n" for line in lines)
        requirements.flush()
        if lines:
            files = f"--requirement={requirements.name}"
            _pip("install", "--no-deps", *hashed, *options, files, needs=needs)


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
    step.add_argument("--sha256", required=True)
    step.add_argument("--lock", type=Path, required=True)
    step = steps.add_parser("dependencies", description=dependencies.__doc__)
    step.set_defaults(run=dependencies)
    step.add_argument("--pyproject", type=Path, required=True)
    step.add_argument("--extras", type=_extras, required=True)
    step.add_argument("--lock", type=Path, required=True)
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
