"""Programs that a script starts in a container of Apptainer or Singularity, as pyxis has them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from trainwright.importing import options
from trainwright.importing.commandline import Line
from trainwright.importing.programs import program
from trainwright.kinds.reading import ImportingError

if TYPE_CHECKING:
    from trainwright.importing.slurm.step import Step

_NAMES = frozenset({"apptainer", "singularity"})
_OPTIONS = options.options_of("apptainer exec")


def is_container(words: tuple[str, ...]) -> bool:
    """Whether a command starts another in a container."""
    return program(words) in _NAMES and "exec" in words


def unpacked(step: Step) -> Step:
    """Return the step with the program in its container, and the pyxis options that are equal to
    its own. Raise ImportingError for unknown options.
    """
    words, place = step.words, step.place
    line = Line(words=words[words.index("exec") :], place=place)
    given, rest = options.parse(line, 1, _OPTIONS)
    if len(rest) < 2:
        raise ImportingError(f"{place}: {words[0]} exec starts nothing")
    mounts = [part for bind in given.get("--bind", ()) for part in bind.split(",")]
    folder = given.get("--pwd") or given.get("--cwd")
    pairs = [pair for env in given.get("--env", ()) for pair in env.split(",") if "=" in pair]
    return replace(
        step,
        words=rest[1:],
        given={
            **step.given,
            # Anything else is a file or folder of the nodes.
            "--container-image": rest[0] if rest[0].startswith("docker://") else f"./{rest[0]}",
            **({"--container-mounts": ",".join(mounts)} if mounts else {}),
            **({"--container-workdir": folder} if folder else {}),
        },
        environment={**step.environment, **dict(pair.partition("=")[::2] for pair in pairs)},
        left=tuple(options.left(_OPTIONS, given, place)),
    )
