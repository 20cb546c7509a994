"""What is not imported of a batch script, and why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from trainwright.datatypes.data import Data, digits
from trainwright.datatypes.finding import Location
from trainwright.documents.validation.other_names import of_job
from trainwright.importing.commandline import LOGGED
from trainwright.importing.equivalence.containers import places
from trainwright.importing.names import OWN_NAME, RUN
from trainwright.importing.programs import (
    CONTAINERS,
    HARMLESS,
    is_check,
    program,
    sets_up,
    sourced,
    starts_ray,
    unwrapped,
)
from trainwright.importing.shell import ShellCommand
from trainwright.importing.slurm.amounts import NodeAmounts, unread
from trainwright.importing.slurm.manifest import (
    SELECTED,
    environment,
    image_name,
    is_mount,
    is_of_the_image,
)
from trainwright.importing.slurm.options import Given, option
from trainwright.importing.slurm.step import (
    Step,
    asks_hostname,
    is_launcher,
    name_of,
)
from trainwright.kinds.reading import Loss, NotImported, shown
from trainwright.objects.pods import command as launched
from trainwright.objects.pods.launching import MPI
from trainwright.objects.pods.launching import options as options_of
from trainwright.objects.pods.template import Container

_BROUGHT = "the image has to bring what it makes available"
# The folder that sbatch was called in, which is none of the image's.
_SUBMITTED = (("$SLURM_SUBMIT_DIR",), ("${SLURM_SUBMIT_DIR}",), ("$PWD",), (".",))


def options(given: Given) -> Iterator[NotImported]:
    for name in given.values:
        known = option(name)
        if not known.read:
            row = of_job(name.removeprefix("--"))
            why = row.why if row else known.why
            yield NotImported(name, given.place(name), given.texts[name], why, Loss(known.loss))
    image = str(given.values.get("--container-image", ""))
    if image and not image_name(image):
        why = "a cluster cannot pull a file: push the image, and name it with --image"
        yield NotImported("--container-image", given.place("--container-image"), image, why)
    for name, field in unread(given.values):
        yield NotImported(name, given.place(name), given.texts[name], f"use {field}")


def mounts(given: Mapping[str, Data], place: Location) -> Iterator[NotImported]:
    """Yield the mounts whose source is no folder of the nodes, such as a relative path."""
    for text in filter(None, str(given.get("--container-mounts", "")).split(",")):
        if not is_mount(text) and OWN_NAME not in text and not _UNKNOWN.search(text):
            why = "it is not a folder of the nodes: write it under volumes"
            yield NotImported("--container-mounts", place, shown("", text), why, Loss.CANNOT_RUN)


def commands(commands: Sequence[ShellCommand], step: Step) -> Iterator[NotImported]:
    """Yield what the script does apart from the step."""
    at = commands.index(step.command)
    for index, command in enumerate(commands):
        place = Location(step.place.file, command.line, command.column)
        if index != at:
            yield from _command(command, place, step, later=index > at)
    for command in step.inside:
        yield from _command(command, step.place, step, later=False)
    if step.command.block:
        why = "the program starts where a condition of the script holds: here it always does"
        yield NotImported(step.command.block, step.place, "", why)


def _command(
    command: ShellCommand, place: Location, step: Step, *, later: bool
) -> Iterator[NotImported]:
    name, severity = name_of(command), Loss.CANNOT_RUN
    why = "a job spec starts one program: run it in the image, or as an init container"
    words = unwrapped(command.words).words
    if starts_ray(words):
        why = "launcher: ray starts the cluster, on all nodes of the run: write it"
    elif written := _written(command, step):
        why = f"the program reads {written}: write it under files"
    elif not name or name in HARMLESS or asks_hostname(command) or is_check(words):
        return
    elif name in ("cd", "pushd", "popd"):
        if command.words[1:] and is_mount(command.words[1]):
            return
        why = "write the folder of the image in which the program starts as workingDir"
        if command.words[1:] in _SUBMITTED:
            why = "the program starts in the image's folder, unless workingDir names another"
            severity = Loss.BEHAVIOUR
    elif sets_up(words):
        why, severity = _BROUGHT, Loss.BEHAVIOUR
    elif sourced(words):
        why = "what it exports is not in the run: write it under env"
        severity = Loss.BEHAVIOUR
    elif later:
        severity = Loss.BEHAVIOUR
    value = shown("", " ".join(command.words[1:]))
    yield NotImported(name, place, value, why, severity)


def _written(command: ShellCommand, step: Step) -> str:
    """Return the file that a command writes if the program's arguments or variables name it."""
    path = command.writes
    texts = (*step.words, *step.environment.values())
    return path if path and not path.startswith("/dev/") and any(path in t for t in texts) else ""


def variables(step: Step) -> Iterator[NotImported]:
    for name, value in step.environment.items():
        why, severity = "the launcher and the target set it", Loss.COSMETIC
        if is_of_the_image(name, value):
            why, severity = _BROUGHT, Loss.BEHAVIOUR
        elif not places(name):
            continue
        yield NotImported(name, step.setting(name), shown(name, value), why, severity)


_UNKNOWN = re.compile(r"\$(?!\(JOB_COMPLETION_INDEX\))(?:\{|\(|\w)|`")
_NAMES = re.compile(r"\$\{?(\w+)")


def unknown_options(step: Step) -> Iterator[NotImported]:
    """Yield the variables of the script in place of options of srun."""
    for text in step.unknown:
        why = "only the running script knows which options of srun it stands for"
        yield NotImported(shown("", text), step.place, "", why)


def unknown(texts: Iterable[tuple[str, Location]]) -> Iterator[NotImported]:
    """Yield the texts that only the running script knows, as one those of a variable and place."""
    together: dict[tuple[str, Location], list[str]] = {}
    for text, place in dict(texts).items():
        if _UNKNOWN.search(text):
            name = _NAMES.search(text)
            together.setdefault((name[1] if name else text, place), []).append(text)
    for (variable, place), (first, *others) in together.items():
        with_option = f", or import it with --set {variable}=…" if variable != first else ""
        why = f"only the running script knows it: write its value{with_option}"
        if others:
            has = "another text has" if len(others) == 1 else f"{len(others)} other texts have"
            why = f"{has} ${variable} as well, and {why}"
        yield NotImported(shown("", first), place, "", why, Loss.CANNOT_RUN)


def per_run(step: Step, command: Sequence[str], mounts: Location) -> Iterator[NotImported]:
    """Yield texts in which the name of the run stands for what each job of Slurm has of its own."""
    first = launched.parse(tuple(command)).program or 0  # what it meets by is the launcher's
    texts = dict.fromkeys(command[first:], step.place)
    texts |= {f"{name}={text}": step.setting(name) for name, text in environment(step).items()}
    for text, place in texts.items():
        if OWN_NAME in text:
            why = "the name of the run stands for what each job has of its own: its ID, or a date"
            yield NotImported(shown("", text), place, "", why)
    for text in str(step.given.get("--container-mounts", "")).split(","):
        if OWN_NAME in text:
            why = "each job has a folder of its own there: write under volumes what all runs share"
            yield NotImported("--container-mounts", mounts, shown("", text), why, Loss.CANNOT_RUN)


def named(*losses: NotImported) -> tuple[NotImported, ...]:
    """Return the losses with the reference to the run's name for what stands for it."""
    return tuple(
        replace(
            loss,
            field=loss.field.replace(OWN_NAME, RUN),
            value=loss.value.replace(OWN_NAME, RUN),
            why=loss.why.replace(OWN_NAME, RUN),
        )
        for loss in losses
    )


_WITH_A_RANK = "with a rank each: write the Python program that it starts, with launcher: torchrun"


def launched_otherwise(step: Step, amounts: NodeAmounts, options: Given) -> Iterator[NotImported]:
    """Yield srun's tasks that are not processes of the run, and nodes that start nothing."""
    name = program(step.words)
    if amounts.tasks > 1 and (is_launcher(step.words) or not launched.is_python(step.words[0])):
        why, severity = _WITH_A_RANK, Loss.CANNOT_RUN
        if is_launcher(step.words):
            why = "and each starts processes for all GPUs: one per node is imported"
            severity = Loss.BEHAVIOUR
        why = f"srun starts {name} {amounts.tasks} times per node, {why}"
        place = options.place("--ntasks-per-node")
        yield NotImported("--ntasks-per-node", place, str(amounts.tasks), why, severity)
    if not step.is_of_srun and amounts.nodes == 1 and str(step.given.get("--nodes", 1)) != "1":
        why = "no srun starts the program on the other nodes, so that it trains on one"
        place = options.place("--nodes")
        yield NotImported("--nodes", place, str(step.given["--nodes"]), why)


_UNNAMED = "no option has the GPUs of a node"
_MOST_PROCESSES = 16  # of a node, that have a GPU each


def gpus_of_launcher(
    command: Sequence[str], amounts: NodeAmounts, step: Step
) -> tuple[NodeAmounts, tuple[NotImported, ...]]:
    """Return the amounts with GPUs by the processes of a node, if no option has any GPUs.

    That is so with `--exclusive`, and without Slurm. The assumption is returned as well.
    """
    given = step.given
    processes = options_of(Container("", {"command": command})).get("nproc-per-node", "")
    number = digits(processes) or 0
    selected = "" if step.in_slurm else step.environment.get(SELECTED, "")
    if selected and not amounts.gpus:
        count = len(selected.split(","))
        why = f"{count} GPUs are requested: a pod sees those that it requests, numbered from 0"
        return replace(amounts, gpus=count), (
            NotImported(SELECTED, step.setting(SELECTED), selected, why),
        )
    on_cpu = "gloo" in " ".join(command) or "cpu" in str(given.get("--partition", ""))
    fewest = 1 if "--exclusive" in given else 2
    if amounts.gpus or on_cpu:
        return amounts, ()
    assumed = NotImported(
        "--gres" if step.in_slurm else program(step.words),
        step.place,
        "",
        f"{_UNNAMED}: {number} are requested, one for each process",
    )
    if fewest <= number <= _MOST_PROCESSES:
        return replace(amounts, gpus=number), (assumed,)
    why = f"{_UNNAMED}, and it starts one process for each: write resources.gpu"
    if _counts_gpus(command):
        return amounts, (replace(assumed, why=why, severity=Loss.CANNOT_RUN),)
    none = replace(assumed, why=f"{_UNNAMED}, and none are requested: write resources.gpu")
    return amounts, () if step.in_slurm else (none,)


def _counts_gpus(command: Sequence[str]) -> bool:
    """Whether a launcher starts a process for each GPU that it finds."""
    parsed = launched.parse(tuple(command))
    if parsed.launcher == "deepspeed":
        return {"num-gpus", "world-info"}.isdisjoint(parsed.options)
    if parsed.launcher == "accelerate":
        return "multi-gpu" in parsed.options and "num-processes" not in parsed.options
    return parsed.options.get("nproc-per-node") == "gpu"


def started_elsewhere(step: Step) -> Iterator[NotImported]:
    """Yield a program in the folder that the script is called in, to which its path is relative."""
    given = step.given
    has_folder = given.get("--container-image") or given.get("--container-workdir")
    relative = [word for word in step.words if _RELATIVE.fullmatch(word)]
    starter = "Slurm has it below the folder that sbatch is called"
    if not step.in_slurm:
        starter = "a shell has it below the folder that it is"
    if relative and not has_folder:
        why = f"{starter} in, the run below the image's: workingDir names another"
        yield NotImported(relative[0], step.place, "", why, Loss.COSMETIC)


_RELATIVE = re.compile(r"(?![-/$])(?:[\w.-]+/)*[\w.-]+\.(?:py|sh|ya?ml|json|toml|bin)")


def logged(step: Step) -> Iterator[NotImported]:
    """Yield the file that the program's output goes to."""
    if step.command.writes not in ("", "/dev/null"):
        yield NotImported(">", step.place, shown("", step.command.writes), LOGGED, Loss.COSMETIC)


def ran_by(step: Step) -> Iterator[NotImported]:
    if step.runner:
        yield NotImported(step.runner, step.place, "", _BROUGHT)


def not_for_pods(step: Step, amounts: NodeAmounts) -> Iterator[NotImported]:
    """Yield a program that starts others in a way that does not work in pods."""
    name, why = program(step.words), ""
    if name in CONTAINERS:
        why = "a pod is the container: write its program as `exec IMAGE PROGRAM`, or name --image"
    # https://www.deepspeed.ai/getting-started/#resource-configuration-multi-node
    if name == "deepspeed" and amounts.nodes > 1 and "--no_ssh" not in step.words:
        why = "it starts the other nodes by ssh, which pods do not have: start torchrun instead"
    if name in MPI and amounts.nodes > 1:
        why = "it starts the other nodes by ssh or Slurm, which pods do not have: start torchrun"
    if why:
        yield NotImported(name, step.place, "", why, Loss.CANNOT_RUN)
