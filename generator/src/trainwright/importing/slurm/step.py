"""The one command of a batch script that trains."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from trainwright.datatypes.model import Location
from trainwright.importing import shell
from trainwright.importing.shell import ShellCommand
from trainwright.importing.slurm.amounts import HEAD, RANK, NodeAmounts, SlurmOutput
from trainwright.importing.slurm.apptainer import is_container
from trainwright.kinds.reading import ImportingError

_STEP_WRAPPERS = frozenset({"time", "exec", "nohup", "stdbuf", "numactl", "env"})
LAUNCHER_NAMES = frozenset({"torchrun", "accelerate", "deepspeed"})
_PYTHON = re.compile(r"(?:.*/)?python(?:\d(?:\.\d+)?)?")


def training_step(commands: Sequence[ShellCommand], place: Location, file: str) -> ShellCommand:
    """The command that trains: the one step that srun, or else a launcher, starts."""
    steps = [c for c in commands if name_of(c) == "srun" and not asks_hostname(c)]
    steps = steps or [c for c in commands if _is_launched(without_wrappers(c.words))]
    if not steps:
        raise ImportingError(f"{place}: the script starts neither srun nor a program of Python")
    if len(steps) > 1:
        lines = ", ".join(str(step.line) for step in steps)
        raise ImportingError(
            f"{place}: the script starts {len(steps)} programs (lines {lines}), and a job spec is "
            "one: make a script of each"
        )
    (step,) = steps
    if step.block:
        raise ImportingError(
            f"{Location(file, step.line, step.column)}: what trains stands in {step.block}: leave "
            "the branch that is taken, or write the loop out"
        )
    return step


def name_of(command: ShellCommand) -> str:
    words = without_wrappers(command.words)
    return PurePosixPath(words[0]).name if words else ""


def asks_hostname(command: ShellCommand) -> bool:
    return "hostname" in command.words


def without_wrappers(words: tuple[str, ...]) -> tuple[str, ...]:
    while words and words[0] in _STEP_WRAPPERS:
        words = words[1:]
        while words and (words[0].startswith("-") or "=" in words[0]):
            words = words[1:]
    return words


_RUNNERS = frozenset({"uv", "poetry", "pixi", "pdm", "hatch", "rye"})


def without_runner(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The manager of an environment in front of a program, as `uv run`, and the program."""
    if words[0] not in _RUNNERS or words[1:2] != ("run",):
        return "", words
    program = words[2:]
    while program and program[0].startswith("-") and "=" in program[0]:
        program = program[1:]
    return (f"{words[0]} run", program) if _is_launched(program) else ("", words)


def _is_launched(words: tuple[str, ...]) -> bool:
    name = PurePosixPath(words[0]).name if words else ""
    return is_container(words) or name in LAUNCHER_NAMES or bool(_PYTHON.fullmatch(name))


_SHELL = re.compile(r"(?:.*/)?(?:ba|da|z)?sh")


def in_shell(
    words: tuple[str, ...], variables: Mapping[str, str], output: SlurmOutput
) -> tuple[str, ...]:
    """The one command that a shell of the step starts: what its variables are is known here."""
    if len(words) < 3 or not _SHELL.fullmatch(words[0]) or words[1] not in ("-c", "-lc", "-xc"):
        return words
    inside = shell.commands(words[2], variables, output)
    alone = len(inside) == 1 and not inside[0].block and not inside[0].environment
    return without_wrappers(inside[0].words) if alone else words


def pod_command(words: tuple[str, ...], amounts: NodeAmounts) -> list[str]:
    """The command of each pod: several tasks per node are the processes of one torchrun.

    Each task of srun has a rank of its own, as each process of torchrun has.
    """
    if amounts.tasks == 1 or not _PYTHON.fullmatch(words[0]):
        return list(words)
    program = words[1:]
    while program and program[0] in ("-u", "-X", "-O"):
        program = program[1:]
    if not program or program[0] == "-c":
        return list(words)
    meets = (
        f"--nnodes={amounts.nodes}",
        f"--nproc-per-node={amounts.tasks}",
        f"--node-rank={RANK}" if amounts.nodes > 1 else "--node-rank=0",
        f"--master-addr={HEAD}" if amounts.nodes > 1 else "--master-addr=127.0.0.1",
        "--master-port=29500",
    )
    return ["torchrun", *meets, *program]
