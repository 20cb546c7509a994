"""`docker run` and `podman run` command lines, as a service that would start the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data
from trainwright.datatypes.pointer import mapped
from trainwright.importing import options
from trainwright.importing.commandline import CommandReader, Line, call, taken_literally
from trainwright.importing.source import Source
from trainwright.kinds.compose import KIND
from trainwright.kinds.compose.import_ import READER, services
from trainwright.kinds.reading import ImportingError, SourceObject, shown

_OPTIONS = options.options_of("docker run")


def _read(line: Line) -> Source:
    given, (image, *words) = _parsed(line)
    named = str(given.get("--name", "")) or image
    service, names = options.carried(_OPTIONS, given, {"image": image}, _VALUES)
    names = {"/image": "IMAGE", **names}
    if words:
        service = {**service, "command": words}
        names["/command"] = "COMMAND"
    file = SourceObject(
        body={"name": "", "services": {"train": mapped(service, _escaped)}},
        place=lambda _: line.place,
        called=call({f"/services/train{at}": name for at, name in names.items()}),
        as_written=_unescaped,
    )
    ((_, part),) = services(file)
    written = {name: shown("", value) for name, value in given.items() if isinstance(value, str)}
    return Source(
        kind="Podman" if line.words[0] == "podman" else "Docker",
        name=re.split(r"[:@]", named.rpartition("/")[2])[0],
        target=KIND.name,
        parts=(replace(part, given=written, as_written=_unescaped),),
        left=(
            *part.left,
            *options.left(_OPTIONS, given, line.place),
            *taken_literally(line, line.words),
        ),
        reasons=READER.reasons,
    )


def _parsed(line: Line) -> tuple[dict[str, Data], tuple[str, ...]]:
    """Return the options of a command, and its image with the words behind it."""
    given, rest = options.parse(line, 2, _OPTIONS)
    if line.words[0] == _NVIDIA:
        given.setdefault("--runtime", "nvidia")
    if not rest:
        raise ImportingError(f"{line.place}: {' '.join(line.words[:2])}: there is no image")
    _refuse_unfilled(line, rest[0])
    return given, rest


_PLACEHOLDER = re.compile(r"<[A-Za-z][^<>\n]*>")


def _refuse_unfilled(line: Line, image: str) -> None:
    """Raise ImportingError for what people fill in, and for what a shell replaces by the image."""
    unfilled = dict.fromkeys(_PLACEHOLDER.findall(" ".join(line.words)))
    if unfilled:
        raise ImportingError(f"{line.place}: fill in {', '.join(unfilled)} before it is imported")
    if any(mark in image for mark in "$`"):
        raise ImportingError(
            f"{line.place}: {image} is where the image would be, and no shell has replaced it: "
            "write the command as a shell would run it"
        )


def _escaped(data: Data) -> Data:
    """Escape dollar signs: the shell is done with them, but compose would read variables."""
    return data.replace("$", "$$") if isinstance(data, str) else data


def _unescaped(text: str) -> str:
    return text.replace("$$", "$")


def _tmpfs(text: str) -> dict[str, Data]:
    target, _, options = text.partition(":")
    size = re.search(r"(?:^|,)size=([^,]+)", options)
    return {"type": "tmpfs", "target": target, **({"tmpfs": {"size": size[1]}} if size else {})}


_MOUNT = {
    "src": "source",
    "dst": "target",
    "destination": "target",
    "readonly": "read_only",
    "ro": "read_only",
}


def _mount(text: str) -> dict[str, Data]:
    """Return `type=bind,source=/a,target=/b,readonly` as the long form of a volume."""
    fields: dict[str, Data] = {"type": "volume"}
    for pair in text.split(","):
        key, equals, value = pair.partition("=")
        fields[_MOUNT.get(key, key)] = value if equals else True
    if fields["type"] == "bind":
        fields["bind"] = {"create_host_path": False}
    if fields["type"] == "volume":
        del fields["type"]  # it is one by itself
    if "tmpfs-size" in fields:
        fields["tmpfs"] = {"size": fields.pop("tmpfs-size")}
    return fields


def _devices(text: str) -> list[Data]:
    """Return the devices of `all`, a number, `count=2`, or `"device=0,1"`.

    A field that follows, as in `device=0,capabilities=utility`, is not a device.
    """
    ids = re.search(r'device=([^",=]+(?:,[^",=]+(?=[,"]|$))*)', text)
    number = re.match(r"(?:count=)?([0-9]{1,9})", text)
    count: Data = int(number[1]) if number else "all"
    if ids and ids[1] != "all":
        count = len(ids[1].split(","))
    return [{"driver": "nvidia", "count": count, "capabilities": ["gpu"]}]


# What options become in a service, if that is not what is written.
_VALUES: Mapping[str, Callable[[Data], Data]] = {
    "--entrypoint": lambda program: [program],
    "--mount": lambda texts: [_mount(text) for text in texts],
    "--tmpfs": lambda texts: [_tmpfs(text) for text in texts],
    "--stop-timeout": lambda seconds: f"{seconds}s",
    "--gpus": _devices,
}


# https://github.com/NVIDIA/nvidia-docker wraps `docker` and selects its runtime.
_NVIDIA = "nvidia-docker"
COMMANDS = tuple(
    CommandReader(begins=(program, "run"), read=_read) for program in ("docker", "podman", _NVIDIA)
)
