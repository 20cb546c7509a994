"""What has to be installed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from trainwright.files import git
from trainwright.helm import sdk
from trainwright.render.build import BuildOptions
from trainwright.setup.doctor.diagnosis import Diagnosis, State

_GIT = (2, 25)  # the oldest that knows every option of git.py


def python(_root: Path, _options: BuildOptions) -> Iterator[Diagnosis]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Diagnosis(about="python", state=State.OK, message=version)


def git_command(_root: Path, _options: BuildOptions) -> Iterator[Diagnosis]:
    version_line = git.at(Path()).line("version")
    match = re.search(r"(?<!\d)\d++\.\d+(\.\d+)?", version_line)
    version = tuple(int(part) for part in match[0].split(".")) if match else ()
    if version >= _GIT:
        yield Diagnosis(about="git", state=State.OK, message=match[0] if match else version_line)
        return
    wanted = ".".join(map(str, _GIT))
    yield Diagnosis(
        about="git", state=State.ERROR, message=version_line,
        effect="plan and publish use options that it does not know.",
        remedy=f"Install git {wanted} or later.",
    )  # fmt: skip


def helm_engine(_root: Path, _options: BuildOptions) -> Iterator[Diagnosis]:
    version = sdk.load().helm_sdk_version()
    yield Diagnosis(about="helm", state=State.OK, message=f"{version}, in this process")


def cluster(_root: Path, _options: BuildOptions) -> Iterator[Diagnosis]:
    """Report the kubeconfig files, without contacting a cluster; a missing one is no error, since
    only commands that read a cluster need it.
    """
    configured = os.environ.get("KUBECONFIG", str(Path.home() / ".kube" / "config"))
    there = [path for path in configured.split(os.pathsep) if path and Path(path).is_file()]
    message = ", ".join(there) if there else "no kubeconfig: status and logs cannot reach a cluster"
    yield Diagnosis(about="cluster", state=State.OK if there else State.SKIPPED, message=message)
