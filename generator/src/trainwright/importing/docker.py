"""`docker run` and `podman run` command lines, as a service that would start the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    names: dict[str, str] = {"/spec/services/train/image": "IMAGE"}
    service: dict[str, Data] = {"image": image}
    for name, option in _OPTIONS.items():
        if name in given and option.read and not option.parts:
            value = given[name]
            service[option.read] = list(value) if isinstance(value, tuple) else value
            names[f"/spec/services/train/{option.read}"] = name
    for key, first, value in _structured(given):
        if isinstance(service.get(key), list):
            service[key] += value
        else:
            service[key] = value
        names[f"/spec/services/train/{key}"] = first
    _resources(service, given, names)
    if words:
        service["command"] = words
        names["/spec/services/train/command"] = "COMMAND"
    if isinstance(service.get("entrypoint"), str):
        service["entrypoint"] = [service["entrypoint"]]
    named = str(given.get("--name", "")) or image
    file = SourceObject(
        body={"name": "", "services": {"train": mapped(service, _escaped)}},
        place=lambda _: line.place,
        called=call({k.removeprefix("/spec"): v for k, v in names.items()}),
    )
    ((_, part),) = services(file)
    written = {name: shown("", value) for name, value in given.items() if isinstance(value, str)}
    return Source(
        kind="Podman" if line.words[0] == "podman" else "Docker",
        name=re.split(r"[:@]", named.rpartition("/")[2])[0],
        target=KIND.name,
        parts=(replace(part, given=written),),
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


def _structured(given: dict[str, Data]) -> Iterator[tuple[str, str, Data]]:
    """Yield the keys of a service for options that have parts, each after its option."""
    for text in given.get("--mount", ()):
        yield "volumes", "--mount", [_mount(text)]
    for text in given.get("--tmpfs", ()):
        target, _, options = text.partition(":")
        size = re.search(r"(?:^|,)size=([^,]+)", options)
        yield (
            "volumes",
            "--tmpfs",
            [{"type": "tmpfs", "target": target, **({"tmpfs": {"size": size[1]}} if size else {})}],
        )
    if "--stop-timeout" in given:
        yield "stop_grace_period", "--stop-timeout", f"{given['--stop-timeout']}s"


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
    if "tmpfs-size" in fields:
        fields["tmpfs"] = {"size": fields.pop("tmpfs-size")}
    return fields


def _resources(service: dict[str, Data], given: dict[str, Data], names: dict[str, str]) -> None:
    """Set the amounts of a service, as its `deploy` has them, and note their options in `names`."""
    limits = {"memory": given.get("--memory"), "cpus": given.get("--cpus")}
    amounts: dict[str, Data] = {}
    if any(limits.values()):
        amounts["limits"] = {key: value for key, value in limits.items() if value}
        for key, option in (("memory", "--memory"), ("cpus", "--cpus")):
            names[f"/spec/services/train/deploy/resources/limits/{key}"] = option
    if "--gpus" in given:
        amounts["reservations"] = {"devices": [_devices(str(given["--gpus"]))]}
        names["/spec/services/train/deploy/resources/reservations"] = "--gpus"
    if amounts:
        service["deploy"] = {"resources": amounts}


def _devices(text: str) -> dict[str, Data]:
    """Return the devices of `all`, a number, `count=2`, or `"device=0,1"`.

    A field that follows, as in `device=0,capabilities=utility`, is not a device.
    """
    ids = re.search(r'device=([^",=]+(?:,[^",=]+(?=[,"]|$))*)', text)
    number = re.match(r"(?:count=)?(\d+)", text)
    count: Data = int(number[1]) if number else "all"
    if ids and ids[1] != "all":
        count = len(ids[1].split(","))
    return {"driver": "nvidia", "count": count, "capabilities": ["gpu"]}


# https://github.com/NVIDIA/nvidia-docker wraps `docker` and selects its runtime.
_NVIDIA = "nvidia-docker"
COMMANDS = tuple(
    CommandReader(begins=(program, "run"), read=_read) for program in ("docker", "podman", _NVIDIA)
)
