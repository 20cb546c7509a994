"""A container's command line, as far as it says who starts what."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainwright.pods.launch import RUNTIME

_PYTHON = re.compile(r"(?:.*/)?python(?:\d(?:\.\d+)?)?")
_TORCHRUN = re.compile(r"(?:.*/)?torchrun")
_TORCHRUN_MODULE = "torch.distributed.run"
_OPTION = re.compile(r"--?([A-Za-z][A-Za-z_-]*)(?:=(.*))?", re.DOTALL)
# Options of torchrun that take no value, and those of Python that take one.
_SWITCHES = frozenset({"standalone", "no-python", "run-path"})
_PYTHON_VALUES = frozenset({"-W", "-X"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Who starts the program, by which options, and where in argv the program's name stands.

    `program` is None when the words do not show it: a shell line, `python -c`. A `launcher` of
    "none" means that the container's process is the program itself, "tool" that it is one
    of the entrypoint's own subcommands and trains nothing.
    """

    launcher: Literal["trainwright", "torchrun", "none", "tool"]
    options: Mapping[str, str] = field(default_factory=dict)
    program: int | None = None
    is_module: bool = False


def is_python(word: str) -> bool:
    """Whether a word names a Python interpreter."""
    return bool(_PYTHON.fullmatch(word))


def is_torchrun(word: str) -> bool:
    return bool(_TORCHRUN.fullmatch(word))


def read(argv: tuple[str, ...]) -> Command:
    """Take a command line apart."""
    if not argv:
        return Command(launcher="none")
    if is_torchrun(argv[0]):
        return _launcher("torchrun", argv, 1)
    if not is_python(argv[0]):
        return Command(launcher="none")
    at = 1
    while at < len(argv) and argv[at].startswith("-") and argv[at] not in ("-m", "-c"):
        at += 2 if argv[at] in _PYTHON_VALUES else 1
    if at + 1 < len(argv) and argv[at] == "-m":
        return _module(argv, at + 1)
    if at >= len(argv) or argv[at] == "-c":
        return Command(launcher="none")
    return Command(launcher="none", program=at)


def _module(argv: tuple[str, ...], at: int) -> Command:
    following = argv[at + 1 : at + 2]
    if argv[at] == RUNTIME[-1]:
        if following and not following[0].startswith("-"):
            return Command(launcher="tool", program=at, is_module=True)
        return _launcher("trainwright", argv, at + 1)
    if argv[at] == _TORCHRUN_MODULE:
        return _launcher("torchrun", argv, at + 1)
    return Command(launcher="none", program=at, is_module=True)


def _launcher(
    launcher: Literal["trainwright", "torchrun"], argv: tuple[str, ...], at: int
) -> Command:
    """Options up to the first word that is none, to `-m`, or to `--`; then the program."""
    options: dict[str, str] = {}
    is_module = False
    while at < len(argv) and argv[at].startswith("-"):
        word, at = argv[at], at + 1
        if word == "--":
            continue
        if word in ("-m", "--module"):
            is_module = True
            break
        match = _OPTION.fullmatch(word)
        if match:
            name, value = match.group(1).replace("_", "-"), match.group(2)
            if value is None and name not in _SWITCHES and at < len(argv):
                value, at = argv[at], at + 1
            options[name] = value or ""
    return Command(
        launcher=launcher,
        options=options,
        program=at if at < len(argv) else None,
        is_module=is_module,
    )
