"""What the commands of batch scripts do, by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from trainwright.importing.wrappers import PROGRAMS, by_name
from trainwright.objects.pods.command import is_python
from trainwright.objects.pods.launching import MPI

HARMLESS, OF_THE_IMAGE, CONTAINERS, STARTS_PROCESSES = (
    frozenset(PROGRAMS[name].split())
    for name in ("harmless", "of_the_image", "containers", "starts_processes")
)
PREPARING = OF_THE_IMAGE.union(PROGRAMS["prepares"].split())
LAUNCHERS = MPI.union(PROGRAMS["launchers"].split())
RUNNERS = by_name(PROGRAMS["runners"])
_SET_UP = re.compile(r"\b(?:conda|mamba|micromamba|pyenv|pixi|spack|modulecmd)\b")
_SETS_UP_ENVIRONMENT = re.compile(
    r"activate|conda|mamba|modules?\.sh|lmod|profile|bashrc|setvars|spack|scl_source|venv|init"
)
_CHECKS = (["--version"], ["-V"], ["-m", "torch.utils.collect_env"], ["-m", "pip", "list"])
_PRINTS = re.compile(r"\bprint\(")


def program(words: Sequence[str]) -> str:
    """Return the name of the program that a command starts, without its folder."""
    return PurePosixPath(words[0]).name if words else ""


def sets_up(words: Sequence[str]) -> bool:
    """Whether a command makes the programs of a cluster available."""
    name = program(words)
    is_eval = name == "eval" and bool(_SET_UP.search(" ".join(words)))
    return is_eval or (name in OF_THE_IMAGE and not sourced(words))


def sourced(words: Sequence[str]) -> str:
    """Return the file that a script sources, or "" if there is none or it sets up programs."""
    if words[:1] not in (("source",), (".",), ["source"], ["."]) or len(words) < 2:
        return ""
    return "" if _SETS_UP_ENVIRONMENT.search(words[1].lower()) else words[1]


def is_check(words: Sequence[str]) -> bool:
    """Whether a Python command only prints information, such as versions."""
    if not words or not is_python(words[0]):
        return False
    rest = [word for word in words[1:] if word != "-u"]
    prints = rest[:1] == ["-c"] and len(rest) > 1 and _PRINTS.search(rest[1]) is not None
    return prints or any(rest[: len(check)] == check for check in _CHECKS)


_RAY = re.compile(r"\bray start\b")


def starts_ray(words: Sequence[str]) -> bool:
    """Whether a command starts a node of a Ray cluster."""
    return _RAY.search(" ".join(words)) is not None
