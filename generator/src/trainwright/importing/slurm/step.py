"""The one command of a batch script that trains, and what starts it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Location
from trainwright.datatypes.frozen import dataclass
from trainwright.importing import shell
from trainwright.importing.programs import (
    CONTAINERS,
    HARMLESS,
    LAUNCHERS,
    PREPARING,
    RUNNERS,
    STARTS_PROCESSES,
    is_check,
    program,
    sets_up,
    starts_ray,
    unwrapped,
)
from trainwright.importing.shell import ShellCommand
from trainwright.importing.slurm.amounts import HEAD, RANK, NodeAmounts, SlurmOutput
from trainwright.importing.slurm.apptainer import is_container, unpacked
from trainwright.importing.slurm.options import options
from trainwright.kinds.reading import ImportingError, NotImported
from trainwright.objects.pods.command import is_python
from trainwright.objects.pods.launching import SHELLS, starts_ranks

_SHELL_OPTION = re.compile(r"-[abd-z]*c[a-z]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The program that a command of the script starts, without the wrappers in front of it.

    `given` are the options of srun, pyxis and Apptainer in front of it, `inside` the other commands
    of the shell that srun starts, `runner` an environment manager such as `uv run`, `unknown`
    variables in place of options whose values are not known. `in_slurm` is whether Slurm runs it,
    or a shell alone.
    """

    command: ShellCommand
    place: Location
    words: tuple[str, ...]
    environment: Mapping[str, str]
    given: Mapping[str, Data]
    left: tuple[NotImported, ...] = ()
    inside: tuple[ShellCommand, ...] = ()
    runner: str = ""
    unknown: tuple[str, ...] = ()
    in_slurm: bool = True

    def setting(self, variable: str) -> Location:
        """Return where a variable has its value; the program's own place if that is unknown."""
        at = self.command.set_at.get(variable)
        return Location(self.place.file, *at) if at else self.place

    @property
    def is_of_srun(self) -> bool:
        return name_of(self.command) == "srun"


def step_of(
    command: ShellCommand, place: Location, variables: Mapping[str, str], output: SlurmOutput
) -> Step:
    """Return what a command starts. Raise ImportingError for an unknown option."""
    step = _without_wrappers(_called(command, place))
    if program(step.words) == "srun":
        step = _without_wrappers(_of_srun(step))
    if is_container(step.words):
        step = unpacked(step)
    return _without_runner(_in_shell(step, variables, output))


def _called(command: ShellCommand, place: Location) -> Step:
    environment = command.environment
    return Step(
        command=command, place=place, words=command.words, environment=environment, given={}
    )


def _without_wrappers(step: Step) -> Step:
    """Return the step without the programs in front of its own, such as `sudo` and `env`."""
    inner = unwrapped(step.words)
    return replace(
        step,
        words=inner.words,
        environment={**step.environment, **inner.variables},
        left=(*step.left, *inner.left(step.place)),
    )


def _of_srun(step: Step) -> Step:
    """Return the step with srun's own options read off its words. An unexpanded variable in front
    of the program is taken for further options.
    """
    given, words = options(step.place, "srun", step.words[1:])
    unknown: list[str] = []
    if words[:1] and words[0].startswith("$") and (more := _more(words[1:], step.place)):
        further, started = more
        unknown = [word for word in words if word.startswith("$") and word not in started]
        words, given = started, {**given, **further}
    for name in _NUMBERS & given.keys():
        if "$" in str(given[name]):
            unknown.append(str(given.pop(name)))
    return replace(step, words=words, given=given, unknown=tuple(unknown))


_NUMBERS = frozenset({"--nodes", "--ntasks", "--ntasks-per-node"})


def _more(
    words: tuple[str, ...], place: Location
) -> tuple[dict[str, Data], tuple[str, ...]] | None:
    """Return the srun options after an unexpanded variable, and the program that follows them; None
    if none does.
    """
    try:
        given, rest = options(place, "srun", words)
    except ImportingError:
        return None
    if rest[:1] and rest[0].startswith("$"):
        more = _more(rest[1:], place)
        return more and ({**given, **more[0]}, more[1])
    return (given, rest) if _is_program(unwrapped(rest).words) else None


def training_step(steps: Sequence[Step], place: Location) -> Step:
    """Return the step that trains. Raise ImportingError if no step, or more than one, is most
    likely to train, or if it is in a loop.
    """
    likely = _most_likely(steps)
    if not likely:
        raise ImportingError(f"{place}: the script starts neither srun nor a program of Python")
    if len(likely) > 1:
        lines = ", ".join(str(step.command.line) for step in likely)
        raise ImportingError(
            f"{place}: the script starts {len(likely)} programs (lines {lines}), and a job spec is "
            "one: make a script of each"
        )
    (step,) = likely
    if step.command.block == "a loop":
        raise ImportingError(f"{step.place}: what trains stands in a loop: write the loop out")
    return step


def _most_likely(steps: Sequence[Step]) -> list[Step]:
    """Return the steps that most likely train: the first group below that has any.

    Steps in the background serve the others, and steps in a branch may not be run.
    """
    of_srun = [step for step in steps if step.is_of_srun and not _trains_nothing(step)]
    groups = (
        [step for step in of_srun if is_launcher(step.words)],
        [step for step in of_srun if _is_program(step.words)],
        of_srun,
        [step for step in steps if is_launcher(step.words)],
        [step for step in steps if _is_program(step.words)],
        [step for step in steps if _may_train(step)],
    )
    likely = next(filter(None, groups), [])
    likely = [step for step in likely if not step.command.background] or likely
    return [step for step in likely if not step.command.block] or likely


def name_of(command: ShellCommand) -> str:
    return program(unwrapped(command.words).words)


def asks_hostname(command: ShellCommand) -> bool:
    return "hostname" in command.words


def _trains_nothing(step: Step) -> bool:
    """Whether a step is not training but a helper, such as `srun hostname` or `srun mkdir`."""
    is_known = program(step.words) in HARMLESS | PREPARING
    return is_known or asks_hostname(step.command) or starts_ray(step.words) or is_check(step.words)


def _without_runner(step: Step) -> Step:
    """Return the step without the manager of an environment before its program, as `uv run`."""
    words = step.words
    if words[1:2] != ("run",) or words[0] not in RUNNERS:
        return step
    started = words[RUNNERS[words[0]].behind(words, 2) :]
    if started and started[0].endswith(".py"):  # which the manager starts by its Python
        started = ("python", *started)
    return replace(step, runner=f"{words[0]} run", words=started) if _is_program(started) else step


def is_launcher(words: Sequence[str]) -> bool:
    """Whether a command starts the processes of its node itself."""
    is_module = is_python(program(words)) and not STARTS_PROCESSES.isdisjoint(words)
    return program(words) in LAUNCHERS or is_module


def starts_training(words: Sequence[str]) -> bool:
    """Whether a command starts a training, by itself or through srun, a shell or a container."""
    name, *inside = (PurePosixPath(part).name for word in words for part in word.split())
    starts_others = name == "srun" or name in {*RUNNERS, *CONTAINERS} or SHELLS.fullmatch(name)
    if starts_others:
        return any(starts_ranks((part,)) or is_python(part) for part in inside)
    return starts_ranks((name,)) or (is_python(name) and not is_check(words))


def prepares(words: Sequence[str]) -> bool:
    """Whether a command stands in front of one that trains, and trains nothing itself."""
    return is_harmless(words) or program(words) in PREPARING


def is_harmless(words: Sequence[str]) -> bool:
    """Whether a command neither trains nor changes what is trained."""
    return program(words) in {*HARMLESS, "cd"}


def _is_program(words: tuple[str, ...]) -> bool:
    runs_python = is_python(program(words)) and not is_check(words)
    return runs_python or is_container(words) or is_launcher(words)


def _may_train(step: Step) -> bool:
    """Whether a command may train: it does not only print, prepare or set up something."""
    name = name_of(step.command)
    is_known = name in HARMLESS | PREPARING or sets_up(step.words)
    return bool(name) and not is_known and "$" not in name


def _in_shell(step: Step, variables: Mapping[str, str], output: SlurmOutput) -> Step:
    """Return the step with the program that its `sh -c` script trains with, or unchanged if the
    step starts no shell or the script has no single such program.
    """
    at = next((i for i, word in enumerate(step.words) if _SHELL_OPTION.fullmatch(word)), 0)
    if not at or len(step.words) <= at + 1 or not SHELLS.fullmatch(step.words[0]):
        return step
    given = {**variables, **step.environment}
    inside = shell.commands(step.words[at + 1], given, output)
    plain = [_without_runner(_without_wrappers(_called(c, step.place))) for c in inside]
    likely = _most_likely(plain)
    if len(likely) != 1 or likely[0].command.block:
        return step
    (training,) = likely
    return replace(
        step,
        words=training.words,
        runner=training.runner,
        environment={**step.environment, **training.environment},
        left=(*step.left, *training.left),
        inside=tuple(command for command in inside if command is not training.command),
    )


def program_name(words: Sequence[str]) -> str:
    """Return what people call a program: its file, or its module, without what is around it."""
    module = words[words.index("-m") + 1 :] if "-m" in words else ()
    files = (PurePosixPath(word).stem for word in words if word.endswith(".py"))
    return next(files, next((it.rpartition(".")[2] for it in module), PurePosixPath(words[0]).name))


def pod_command(words: tuple[str, ...], amounts: NodeAmounts) -> list[str]:
    """Return the command of each pod: the tasks of srun are the processes of one torchrun.

    Each task of srun has a rank of its own, as each process of torchrun has.
    """
    started = words[1:]
    while started and started[0].startswith("-") and started[0] not in ("-m", "-c"):
        started = started[2 if started[0] in ("-W", "-X") else 1 :]
    alone = amounts.tasks == 1 and (amounts.nodes == 1 or finds_others(words))
    is_other = not is_python(words[0]) or not started or started[0] == "-c"
    if alone or is_other or is_launcher(words):
        return list(words)
    meets = (
        f"--nnodes={amounts.nodes}",
        f"--nproc-per-node={amounts.tasks}",
        f"--node-rank={RANK}" if amounts.nodes > 1 else "--node-rank=0",
        f"--master-addr={HEAD}" if amounts.nodes > 1 else "--master-addr=127.0.0.1",
        "--master-port=29500",
    )
    return ["torchrun", *meets, *started]


def finds_others(words: Sequence[str]) -> bool:
    """Whether a program has its rank or the first node by its arguments."""
    return any(text in word for word in words for text in (RANK, HEAD))
