"""Batch scripts of Slurm: the one step that trains, as an Indexed Job of as many pods as nodes.

`#SBATCH` lines give the amounts, `srun` and torchrun the command, pyxis the image and its mounts.
https://github.com/NVIDIA/pyxis
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePosixPath

from trainwright.datatypes.model import Location
from trainwright.importing import shell
from trainwright.importing.slurm import left, manifest
from trainwright.importing.slurm.amounts import STEP, NodeAmounts, SlurmOutput, narrowed
from trainwright.importing.slurm.apptainer import is_container, unpacked
from trainwright.importing.slurm.options import headers, options
from trainwright.importing.slurm.step import (
    in_shell,
    name_of,
    pod_command,
    training_step,
    without_runner,
    without_wrappers,
)
from trainwright.importing.source import Source
from trainwright.kinds.reading import ImportingError, NotImported, SourceObject

_SEVERAL = re.compile(r"^#SBATCH[ \t]+(?:het|pack)job\b|--(?:het|pack)-group\b", re.MULTILINE)


def is_script(raw: bytes) -> bool:
    """Whether a file is a batch script of Slurm."""
    return re.search(rb"^#SBATCH[ \t]", raw, re.MULTILINE) is not None


def read(file: str, text: str) -> Source:
    """Return the one training that a script starts. Raises ImportingError."""
    if several := _SEVERAL.search(text):
        place = Location(file, text.count("\n", 0, several.start()) + 1)
        raise ImportingError(
            f"{place}: sbatch: a heterogeneous job has groups of nodes that differ, and a job spec "
            "has one: make a script of each"
        )
    place = Location(file, 1)
    given = headers(text, place).given
    if "--array" in given:
        raise ImportingError(
            f"{place}: sbatch: --array {given['--array']} starts many jobs: write a spec for each, "
            "or one base that they extend"
        )
    amounts = NodeAmounts.of(given, place)
    name = str(given.get("--job-name") or PurePosixPath(file).stem)
    commands = shell.commands(text, amounts.variables(name), SlurmOutput(amounts))
    step = training_step(commands, place, file)
    place = Location(file, step.line, step.column)
    words = without_wrappers(step.words)
    if name_of(step) == "srun":
        of_step = options(place, "srun", words[1:])
        words, given = of_step.words, {**given, **of_step.given}
        amounts = narrowed(amounts, of_step.given, place)
    environment = dict(step.environment)
    left_of_container: tuple[NotImported, ...] = ()
    if is_container(words):
        container = unpacked(words, place)
        words, given = container.words, {**given, **container.given}
        environment |= container.environment
        left_of_container = container.left
    words = in_shell(words, {**amounts.variables(name), **environment}, SlurmOutput(amounts))
    if not words:
        raise ImportingError(f"{place}: srun starts nothing")
    runner, words = without_runner(words)
    run = replace(step, environment=environment)
    folder = manifest.folder(given, commands, step)
    bodies = (
        manifest.job(given, amounts, pod_command(words, amounts), run, folder),
        manifest.service(),
    )
    parts = (SourceObject(body=b, place=lambda _: place, called=manifest.called) for b in bodies)
    return Source(
        kind="Slurm",
        name=name,
        target=manifest.TARGET,
        parts=tuple(parts),
        left=(
            *left.options(given, Location(file, 1)),
            *left_of_container,
            *left.commands(file, commands, step),
            *left.variables(run, place),
            *left.unknown(place, (*words, *manifest.environment(run).values())),
            *left.ran_by(runner, place),
            *left.launched_twice(words, amounts, place),
            *left.not_for_pods(words, amounts, place),
        ),
        services=(STEP,),
        is_made=True,
        pool=str(given.get("--partition", "")).partition(",")[0],
    )
