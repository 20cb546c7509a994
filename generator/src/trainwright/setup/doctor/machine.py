"""What has to be installed."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from trainwright.files import git
from trainwright.helm import sdk
from trainwright.setup.doctor.diagnosis import Diagnosis, Examined, error, ok, skipped

_GIT = (2, 25)  # the oldest that knows every option of git.py


def python(_: Examined) -> Iterator[Diagnosis]:
    yield ok(".".join(map(str, sys.version_info[:3])))


def git_command(_: Examined) -> Iterator[Diagnosis]:
    version_line = git.at(Path()).line("version")
    match = re.search(r"(?<!\d)\d++\.\d+(\.\d+)?", version_line)
    version = tuple(int(part) for part in match[0].split(".")) if match else ()
    if version >= _GIT:
        yield ok(match[0] if match else version_line)
        return
    effect = "plan and publish use options that it does not know."
    yield error(version_line, effect, f"Install git {'.'.join(map(str, _GIT))} or later.")


def helm_engine(_: Examined) -> Iterator[Diagnosis]:
    yield ok(f"{sdk.load().helm_sdk_version()}, in this process")


def cluster(_: Examined) -> Iterator[Diagnosis]:
    """Report the kubeconfig files, without contacting a cluster; a missing one is no error, since
    only commands that read a cluster need it.
    """
    configured = os.environ.get("KUBECONFIG", str(Path.home() / ".kube" / "config"))
    there = [path for path in configured.split(os.pathsep) if path and Path(path).is_file()]
    missing = skipped("no kubeconfig: status and logs cannot reach a cluster")
    yield ok(", ".join(there)) if there else missing
