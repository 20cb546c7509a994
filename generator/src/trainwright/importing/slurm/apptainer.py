"""Programs that a script starts in a container of Apptainer or Singularity, as pyxis has them.

https://apptainer.org/docs/user/main/cli/apptainer_exec.html
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import click

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Location
from trainwright.importing.commandline import Line, parameter, parse
from trainwright.kinds.reading import ImportingError, NotImported, shown

if TYPE_CHECKING:
    from trainwright.importing.slurm.step import Step

_NAMES = frozenset({"apptainer", "singularity"})
_SEVERAL = ("--bind,-B", "--env", "--mount")
_VALUED = """
--pwd --cwd --workdir,-W --home,-H --overlay,-o --scratch,-S --env-file --no-mount --hostname
--network --network-args --security --add-caps --drop-caps --app --dns --cpus --memory --shm-size
""".split()
_SWITCHES = """
--nv --nvccli --rocm --cleanenv,-e --contain,-c --containall,-C --writable,-w --writable-tmpfs
--no-home --unsquash --fakeroot,-f --ipc,-i --pid,-p --net,-n --uts --no-init --no-privs
--no-umask --keep-privs --allow-setuid --compat --disable-cache --no-eval --userns,-u --no-https
--silent,-s --quiet,-q --verbose,-v --debug,-d
""".split()
# The other options say how a container is isolated, and a pod is isolated already.
_WHY = {
    "--mount": "write it under volumes",
    "--env-file": "write its variables under env",
    "--home": "write a folder under volumes, and set HOME under env",
    "--workdir": "write a folder for /tmp under volumes",
    "--scratch": "write an emptyDir under volumes",
    "--overlay": "the image has to hold its files",
    "--dns": "write dnsConfig",
    "--add-caps": "write security",
    "--fakeroot": "security says which user a pod runs as",
    "--cpus": "write resources",
    "--memory": "write resources",
    "--app": "the image's own app decides what starts: write its program",
}


def is_container(words: tuple[str, ...]) -> bool:
    """Whether a command starts another in a container."""
    return bool(words) and PurePosixPath(words[0]).name in _NAMES and "exec" in words


def unpacked(step: Step, place: Location) -> Step:
    """Return the step with the program in its container, and the pyxis options that are equal to
    its own. Raise ImportingError for unknown options.
    """
    words = step.words
    line = Line(words=words[words.index("exec") :], place=place)
    given, rest = parse(line, 1, _parameters(), strict=True)
    if len(rest) < 2:
        raise ImportingError(f"{place}: {words[0]} exec starts nothing")
    mounts = [part for bind in _texts(given, "--bind") for part in bind.split(",")]
    folder = given.get("--pwd") or given.get("--cwd")
    pairs = [pair for env in _texts(given, "--env") for pair in env.split(",") if "=" in pair]
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
        left=tuple(_left(given, place)),
    )


def _left(given: Mapping[str, Data], place: Location) -> Iterator[NotImported]:
    """Yield the options that a pod does not get, and those that a spec expresses in another way."""
    for name, why in _WHY.items():
        for value in _texts(given, name):
            yield NotImported(name, place, shown(name, value), why)


def _texts(given: Mapping[str, Data], name: str) -> list[str]:
    values = given.get(name, ())
    return [str(value) for value in (values if isinstance(values, tuple) else (values,))]


def _parameters() -> list[click.Parameter]:
    return [
        *(parameter(declared, multiple=True) for declared in _SEVERAL),
        *(parameter(declared) for declared in _VALUED),
        *(parameter(declared, is_flag=True) for declared in _SWITCHES),
    ]
