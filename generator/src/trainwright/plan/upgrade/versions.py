"""Versions of Trainwright by where they are installed, each run in a process of its own."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

import trainwright
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.frozen import dataclass
from trainwright.files.git_command import end_group
from trainwright.helm.archives import leads_out

_TIMEOUT = 3600.0  # seconds for one verb; thousands of jobs take some ten
_ASKED = 60.0  # seconds in which a version says which it is
_SHOWN = 5  # lines of what a version complains of
_VERSION = re.compile(r"^trainwright (?P<version>\S+)$", re.MULTILINE)
# Variables that are not inherited, such as those that a hook sets for git, and those that point
# Python to another environment.
_FOREIGN = re.compile(r"TRAINWRIGHT_\w+|GIT_(?!CONFIG|SSL|EXEC)\w+|PYTHON(?:PATH|HOME|SAFEPATH)")

# Not from the working folder, which is a copy of the checkout.
_START = ("-P", "-m", "trainwright")


class UpgradeError(TrainwrightError):
    """A version is not there, is not Trainwright, or ends in an unforeseen way."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code of a subcommand, 0 or 1 in every version, and what it printed."""

    code: int
    out: str
    complaint: str


@dataclass(frozen=True, slots=True)
class Installed:
    """An installed version: the command that starts it, and extra env for its processes."""

    command: tuple[str, ...]
    version: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, folder: Path, *arguments: str, timeout: float = _TIMEOUT) -> CommandResult:
        """Run a verb in a folder. Raises UpgradeError unless it ends with 0 or 1."""
        inherited = {k: v for k, v in os.environ.items() if not _FOREIGN.fullmatch(k)}
        try:
            process = subprocess.Popen(  # noqa: S603 - a list, never a shell
                [*self.command, *arguments],
                cwd=folder,
                env={**inherited, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # a group to end, with its workers
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise UpgradeError(f"{self.command[0]} cannot be run: {reason}") from error
        with process:
            try:
                out, complaint = process.communicate(timeout=timeout)
            except subprocess.TimeoutExpired as error:
                end_group(process)
                raise UpgradeError(
                    f"{self._command_line(arguments)}: no end in {timeout:g} s"
                ) from error
            except BaseException:  # Ctrl-C reaches this process alone
                end_group(process)
                raise
        done = CommandResult(process.returncode, out.decode(errors="replace"), _excerpt(complaint))
        if done.code not in (0, 1):
            message = done.complaint or "nothing was printed"
            raise UpgradeError(f"{self._command_line(arguments)}: exit {done.code}: {message}")
        return done

    def _command_line(self, arguments: tuple[str, ...]) -> str:
        name = f"trainwright {self.version}" if self.version else " ".join(self.command)
        return f"{name} {arguments[0]}"


def _excerpt(complaint: bytes) -> str:
    """Return the first error lines of stderr, or else its last lines (a traceback's reason)."""
    lines = complaint.decode(errors="replace").strip().splitlines()
    errors = [line for line in lines if line.startswith("error")]
    return "\n".join(errors[:_SHOWN] or lines[-_SHOWN:])


def running(environment: Mapping[str, str], scratch: Path) -> Installed:
    """The version that runs this code."""
    return _with_version(_module(Path(trainwright.__file__).parents[1], environment), "", scratch)


def find(path: Path, environment: Mapping[str, str], scratch: Path) -> Installed:
    """Return the version at a path. Raises UpgradeError if there is none.

    The path may be a virtual environment, its Python, a `trainwright` command, a folder with the
    package (a source tree, or what `pip install --target` made), or a wheel, which is unpacked
    below `scratch` and runs with the libraries of this version.
    """
    if path.suffix == ".whl":
        return _with_version(_module(_unpacked(path, scratch), environment), str(path), scratch)
    if path.is_dir():
        return _with_version(_in_folder(path, environment), str(path), scratch)
    if not path.is_file():
        raise UpgradeError(f"{path} does not exist: name a virtual environment, or a wheel")
    if not os.access(path, os.X_OK):
        raise UpgradeError(f"{path} is not executable: name a virtual environment, or a wheel")
    start = _START if path.name.startswith(("python", "pypy")) else ()
    command = (str(path.absolute()), *start)
    return _with_version(Installed(command, environment=environment), str(path), scratch)


def _in_folder(folder: Path, environment: Mapping[str, str]) -> Installed:
    for name in ("bin/python", "Scripts/python.exe"):
        if (folder / name).exists():
            command = (str(folder.absolute() / name), *_START)
            return Installed(command, environment=environment)
    for inside in (folder, folder / "src", folder / "generator/src"):
        if (inside / "trainwright/__main__.py").is_file():
            return _module(inside, environment)
    raise UpgradeError(
        f"{folder} has neither bin/python nor trainwright/: name a virtual environment"
    )


def _module(folder: Path, environment: Mapping[str, str]) -> Installed:
    """The package in a folder, with the interpreter and the libraries of this version."""
    libraries = [entry for entry in sys.path if entry and Path(entry).is_dir()]
    path = os.pathsep.join([str(folder.absolute()), *libraries])
    command = (sys.executable, *_START)
    return Installed(command, environment={**environment, "PYTHONPATH": path})


def _unpacked(wheel: Path, scratch: Path) -> Path:
    """The files of a wheel."""
    folder = scratch / "wheel" / wheel.name
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                _refuse_hazard(wheel, member)
            archive.extractall(folder)
    except (OSError, NotImplementedError, RuntimeError, zlib.error, zipfile.BadZipFile) as error:
        raise UpgradeError(f"{wheel} cannot be unpacked: {error}") from error
    if not (folder / "trainwright/__main__.py").is_file():
        raise UpgradeError(f"{wheel} is not a wheel of Trainwright")
    return folder


def _refuse_hazard(wheel: Path, member: zipfile.ZipInfo) -> None:
    """Raise UpgradeError for a member that pip refuses, and zipfile would extract elsewhere."""
    kind = stat.S_IFMT(member.external_attr >> 16)  # 0 where it was packed without
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise UpgradeError(
            f"{wheel} cannot be unpacked: {member.filename!r} is neither a file nor a folder"
        )
    if leads_out(member.filename):
        raise UpgradeError(
            f"{wheel} cannot be unpacked: {member.filename!r} leads out of its folder"
        )


def _with_version(installed: Installed, name: str, scratch: Path) -> Installed:
    """Return the installation with the version that it prints. Raises UpgradeError for none."""
    name = name or installed.command[0]
    try:
        done = installed.run(scratch, "--version", timeout=_ASKED)
    except UpgradeError as error:
        raise UpgradeError(f"{name} does not run Trainwright: {error}") from error
    match = _VERSION.search(done.out)
    if done.code or not match:
        detail = done.complaint or done.out.strip()[:200] or "nothing was printed"
        raise UpgradeError(f"{name} does not run Trainwright: {detail}")
    return Installed(installed.command, match["version"], installed.environment)
