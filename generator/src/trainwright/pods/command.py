"""The command line of the training container, written and read: who starts what, and how."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from trainwright.model import Data, Job

RUNTIME = ("python", "-m", "trainwright_runtime")
# The entrypoint's checks before training, and which of them it does unasked.
CHECKS = ("shm", "memory", "disk", "ports", "names", "checkpoint", "collective")
_UNASKED: Mapping[str, bool] = {"shm": True, "disk": True, "checkpoint": True}
SCRIPT_PATH = "/opt/trainwright/main.py"  # where a script that the spec holds is mounted

_PYTHON = re.compile(r"(?:.*/)?python(?:\d(?:\.\d+)?)?")
_TORCHRUN = re.compile(r"(?:.*/)?torchrun")
_TORCHRUN_MODULE = "torch.distributed.run"
_OPTION = re.compile(r"--?([A-Za-z][A-Za-z_-]*)(?:=(.*))?", re.DOTALL)
# Options of torchrun that take no value, and those of Python that take one.
_SWITCHES = frozenset({"standalone", "no-python", "run-path"})
_PYTHON_VALUES = frozenset({"-W", "-X"})


def command_line(
    job: Job, rendezvous: tuple[str, ...] = (), options: tuple[str, ...] = ()
) -> list[str]:
    """The container's command: the launcher and what it starts, without the job's flags.

    `rendezvous` are torchrun options for targets whose operator does not set PET_* itself,
    `options` those of our own entrypoint beside the ones that it always gets.
    """
    entry = job.entrypoint
    if entry.argv:
        return list(entry.argv)
    script = SCRIPT_PATH if entry.inline else entry.script
    program = [script] if script else ["-m", entry.module]
    if job.launcher == "torchrun":
        return ["torchrun", f"--nproc-per-node={job.procs_per_node}", *rendezvous, *program]
    if job.launcher == "python":
        return ["python", "-u", *program]
    return [
        *RUNTIME,
        f"--backend={job.backend}",
        f"--nproc-per-node={job.procs_per_node}",
        f"--grace-period={job.grace_period}",
        *options,
        *_preflight(job.preflight),
        "--",
        *program,
    ]


def _preflight(asked: Mapping[str, Data]) -> Iterator[str]:
    if asked:
        wanted = {**_UNASKED, **asked}
        words = [_check(name, wanted.get(name, False)) for name in CHECKS]
        yield f"--preflight={','.join(filter(None, words)) or 'none'}"


def _check(name: str, value: Data) -> str:
    if isinstance(value, bool):
        return name if value else ""
    return f"{name}={value if isinstance(value, str) else f'{value:g}'}"


def read_preflight(option: str) -> dict[str, Data]:
    """What a job says of its checks that gets such an option; nothing for one that is not ours."""
    if not option:
        return {}
    found: dict[str, Data] = dict.fromkeys(_UNASKED, False)
    for word in option.split(",") if option != "none" else ():
        name, equals, value = word.partition("=")
        if name not in CHECKS or (name == "collective" and equals and not _is_number(value)):
            return {}
        found[name] = (float(value) if name == "collective" else value) if equals else True
    return {name: found[name] for name in CHECKS if name in found}


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


def starts_runtime(job: Job) -> bool:
    """Whether our own entrypoint runs in the container, and so knows every way to be started."""
    return job.launcher == "trainwright" and not job.entrypoint.argv


def restart_policy(job: Job) -> str:
    """Our entrypoint says by its exit code whether a retry can help; other launchers do not."""
    if job.retries == 0:
        return "Never"
    return "ExitCode" if starts_runtime(job) else "OnFailure"


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


def parse(argv: tuple[str, ...]) -> Command:
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
