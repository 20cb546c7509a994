"""Scripts of Slurm or of a shell alone: the one step that trains, as an Indexed Job with one pod
per node.

`#SBATCH` lines give the amounts, `srun` and torchrun the command, pyxis the image and its mounts.
https://github.com/NVIDIA/pyxis
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePosixPath

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Location
from trainwright.importing import shell
from trainwright.importing.slurm import left, manifest
from trainwright.importing.slurm.amounts import STEP, NodeAmounts, SlurmOutput, of_step
from trainwright.importing.slurm.meeting import meeting
from trainwright.importing.slurm.options import Given, exported, headers
from trainwright.importing.slurm.step import (
    Step,
    finds_others,
    is_harmless,
    is_launcher,
    pod_command,
    prepares,
    program_name,
    starts_training,
    step_of,
    training_step,
)
from trainwright.importing.source import Source
from trainwright.kinds.reading import ImportingError, SourceObject

__all__ = ["is_harmless", "is_script", "prepares", "read", "starts_training"]

_SEVERAL = re.compile(r"^#SBATCH[ \t]+(?:het|pack)job\b|--(?:het|pack)-group\b", re.MULTILINE)
_CHAIN = re.compile(r"\d+(?:-\d+)?%1")


def is_script(raw: bytes) -> bool:
    """Whether a file is a batch script of Slurm."""
    return re.search(rb"^#SBATCH[ \t]", raw, re.MULTILINE) is not None


def read(file: str, text: str, values: Mapping[str, str] | None = None) -> Source:
    """Return the one training step that a script starts; `values` are of variables that it lacks.

    Raise ImportingError if there is none, or more than one.
    """
    if several := _SEVERAL.search(text):
        at = Location(file, text.count("\n", 0, several.start()) + 1)
        raise ImportingError(
            f"{at}: sbatch: a heterogeneous job has groups of nodes that differ, and a job spec "
            "has one: make a script of each"
        )
    top = Location(file, 1)
    sbatch = headers(file, text)
    of_script = sbatch.values
    _refuse_many(sbatch, text)
    amounts = NodeAmounts.of(of_script, sbatch.place)
    name = str(of_script.get("--job-name") or PurePosixPath(file).stem)
    variables = {**amounts.variables(name, of_script), **(values or {})}
    output = SlurmOutput(amounts)
    commands = shell.commands(text, variables, output)

    def place(command: shell.ShellCommand) -> Location:
        return Location(file, command.line, command.column)

    steps = [step_of(c, place(c), variables, output) for c in commands if c.words]
    step = training_step(steps, top)
    step = replace(step, in_slurm=step.is_of_srun or is_script(text.encode()))
    if not step.words:
        raise ImportingError(f"{step.place}: srun starts nothing")
    given = sbatch.then(step.given, step.place)
    amounts = of_step(
        amounts,
        of_script,
        step.given if step.is_of_srun else None,
        given.place,
        starts_others=is_launcher(step.words) or finds_others(step.words),
    )
    is_named = PurePosixPath(file).suffix not in ("", ".md", ".txt")
    name = name if step.in_slurm or is_named else program_name(step.words)
    return _source(name, replace(step, given=given.values), given, commands, amounts)


def _refuse_many(given: Given, text: str) -> None:
    """Refuse a job array, unless its jobs are the same training, one after the other."""
    array = str(given.values.get("--array", ""))
    is_chain = _CHAIN.fullmatch(array) or array in ("0", "1", "0-0", "1-1")
    if array and (not is_chain or "SLURM_ARRAY" in text):
        place = given.place("--array")
        raise ImportingError(
            f"{place}: sbatch: --array {array} starts many jobs: write a spec for each, "
            "or one base that they extend"
        )


def _source(
    name: str,
    step: Step,
    options: Given,
    commands: tuple[shell.ShellCommand, ...],
    amounts: NodeAmounts,
) -> Source:
    place, given = step.place, step.given
    meets = meeting(tuple(pod_command(step.words, amounts)), amounts, place, in_slurm=step.in_slurm)
    command, amounts = list(meets.words), meets.amounts
    amounts, assumed = left.gpus_of_launcher(command, amounts, step)
    step = replace(step, environment={**exported(given), **step.environment})
    folder = manifest.folder(given, commands, step)
    job = manifest.job(given, amounts, command, step, folder)
    bodies = [manifest.elastic(job, meets.elastic)] if meets.elastic else [job, manifest.service()]
    called = manifest.called(given, in_slurm=step.in_slurm)

    def written(body: Mapping[str, Data]) -> SourceObject:
        def at(pointer: str) -> Location:
            variable = manifest.variable(body, pointer)
            return step.setting(variable) if variable else options.place(called(pointer))

        return SourceObject(body=body, place=at, called=called, given=options.texts)

    mounts = options.place("--container-mounts")
    unknown = (
        *((word, place) for word in command),
        *((text, step.setting(name)) for name, text in manifest.environment(step).items()),
        *((text, mounts) for text in str(given.get("--container-mounts", "")).split(",")),
    )
    return Source(
        kind="Slurm" if step.in_slurm else "Shell",
        name=name,
        target=manifest.ELASTIC if meets.elastic else manifest.TARGET,
        parts=tuple(map(written, bodies)),
        left=left.named(
            *left.options(options),
            *left.mounts(given, mounts),
            *step.left,
            *meets.left,
            *left.commands(commands, step),
            *left.variables(step),
            *left.unknown_options(step),
            *left.unknown(unknown),
            *left.per_run(step, command, mounts),
            *left.ran_by(step),
            *assumed,
            *left.launched_otherwise(step, amounts, options),
            *left.not_for_pods(step, amounts),
            *left.started_elsewhere(step),
            *left.logged(step),
        ),
        services=(STEP,),
        is_made=True,
        pool=str(given.get("--partition", "")).partition(",")[0],
    )
