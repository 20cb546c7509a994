"""What a batch script has that a job spec does not carry."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from trainwright.datatypes.model import Data, Location
from trainwright.equivalence.containers import places
from trainwright.importing.shell import ShellCommand
from trainwright.importing.slurm.amounts import NodeAmounts
from trainwright.importing.slurm.manifest import image_name
from trainwright.importing.slurm.options import is_read
from trainwright.importing.slurm.step import LAUNCHER_NAMES, asks_hostname, name_of
from trainwright.kinds.reading import Loss, NotImported, shown
from trainwright.pods import command as launched
from trainwright.specs.other_forms import clock
from trainwright.specs.other_names import of_job

_WHERE_AND_WHEN = frozenset(
    "--nodelist --exclude --constraint --qos --account --reservation --dependency --begin "
    "--licenses --signal".split()
)
# Commands that neither train nor change what is trained.
_HARMLESS = frozenset(
    "[ [[ : cat clear date df echo env exit free hostname id ls nvcc nvidia-smi printenv printf "
    "pwd scontrol set shopt sleep squeue time true trap type ulimit umask uname wait which whoami "
    "export declare local unset readonly read sacct sinfo mkdir test return tee head".split()
)
# What makes the programs of a cluster available, which an image brings.
_OF_THE_IMAGE = frozenset({"module", "ml", "source", ".", "conda", "mamba", "micromamba", "spack"})
_CONTAINERS = frozenset({"apptainer", "singularity", "docker", "podman", "enroot", "shifter"})
_BROUGHT = "the image has to bring what it makes available"
_SET_UP = re.compile(r"\b(?:conda|mamba|micromamba|pyenv|pixi|spack|modulecmd)\b")
# The folder that sbatch was called in, which is none of the image's.
_SUBMITTED = (("$SLURM_SUBMIT_DIR",), ("${SLURM_SUBMIT_DIR}",), ("$PWD",), (".",))


def options(given: Mapping[str, Data], place: Location) -> Iterator[NotImported]:
    for name, value in given.items():
        if (is_read(name) and name != "--signal") or name.startswith("--container"):
            continue
        row = of_job(name.removeprefix("--"))
        why = row.why if row else "it decides how the run is watched or placed, not what runs"
        severity = Loss.BEHAVIOUR if name in _WHERE_AND_WHEN else Loss.COSMETIC
        yield NotImported(
            field=name, place=place, value=shown(name, value), why=why, severity=severity
        )
    image = str(given.get("--container-image", ""))
    if image and not image_name(image):
        yield NotImported(
            field="--container-image",
            place=place,
            value=image,
            why="a cluster cannot pull a file: push the image, and name it with --image",
        )
    if "--time" in given and clock(str(given["--time"])) is None:
        yield NotImported(
            field="--time", place=place, value=str(given["--time"]), why="use maxDuration"
        )


def commands(
    file: str, commands: Sequence[ShellCommand], step: ShellCommand
) -> Iterator[NotImported]:
    """What the script does beside the step."""
    for command in commands:
        name = name_of(command)
        if command is step or not name or name in _HARMLESS or asks_hostname(command):
            continue
        if name == "cd" and command.words[1:] and command.words[1].startswith("/"):
            continue
        of_image = name in _OF_THE_IMAGE or _sets_up(command.words)
        from_there = name == "cd" and command.words[1:] in _SUBMITTED
        why = "a job spec starts one program: run it in the image, or as an init container"
        if of_image:
            why = _BROUGHT
        if from_there:
            why = "the program starts in the image's folder, unless workingDir names another"
        yield NotImported(
            field=name,
            place=Location(file, command.line, command.column),
            value=shown("", " ".join(command.words[1:])),
            why=why,
            severity=Loss.BEHAVIOUR
            if of_image or from_there or command.line > step.line
            else Loss.CANNOT_RUN,
        )


def _sets_up(words: Sequence[str]) -> bool:
    """Whether a command is `eval "$(conda shell.bash hook)"`, as conda's own page has it."""
    return words[0] == "eval" and bool(_SET_UP.search(" ".join(words)))


def variables(step: ShellCommand, place: Location) -> Iterator[NotImported]:
    for name, value in step.environment.items():
        if places(name):
            yield NotImported(
                field=name,
                place=place,
                value=shown(name, value),
                why="the launcher and the target set it",
                severity=Loss.COSMETIC,
            )


_UNKNOWN = re.compile(r"\$(?!\(JOB_COMPLETION_INDEX\))(?:\{|\(|[A-Za-z_])|`")


def unknown(place: Location, texts: Sequence[str]) -> Iterator[NotImported]:
    for text in dict.fromkeys(texts):
        if _UNKNOWN.search(text):
            yield NotImported(
                field=shown("", text),
                place=place,
                value="",
                why="only the running script knows it: write its value",
                severity=Loss.CANNOT_RUN,
            )


def launched_twice(
    words: tuple[str, ...], amounts: NodeAmounts, place: Location
) -> Iterator[NotImported]:
    """Launchers of which each node would have several."""
    name = PurePosixPath(words[0]).name
    of_module = launched.parse(words).launcher != "none"
    if amounts.tasks > 1 and (name in LAUNCHER_NAMES or of_module):
        yield NotImported(
            field="--ntasks-per-node",
            place=place,
            value=str(amounts.tasks),
            why=f"srun starts {name} {amounts.tasks} times per node, and each starts processes for "
            "all GPUs: one per node is imported",
            severity=Loss.BEHAVIOUR,
        )


def ran_by(runner: str, place: Location) -> Iterator[NotImported]:
    if runner:
        yield NotImported(
            field=runner,
            place=place,
            value="",
            why=_BROUGHT,
            severity=Loss.BEHAVIOUR,
        )


def not_for_pods(
    words: tuple[str, ...], amounts: NodeAmounts, place: Location
) -> Iterator[NotImported]:
    """Programs that start others where pods cannot."""
    name = PurePosixPath(words[0]).name
    why = ""
    if name in _CONTAINERS:
        why = "a pod is the container: write its program as `exec IMAGE PROGRAM`, or name --image"
    # https://www.deepspeed.ai/getting-started/#resource-configuration-multi-node
    if name == "deepspeed" and amounts.nodes > 1 and "--no_ssh" not in words:
        why = "it starts the other nodes by ssh, which pods do not have: start torchrun instead"
    if why:
        yield NotImported(field=name, place=place, value="", why=why, severity=Loss.CANNOT_RUN)
