"""`docker run` and `podman run` command lines, as a service that would start the same.

Options: https://docs.docker.com/reference/cli/docker/container/run/
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

import click

from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.pointer import mapped
from trainwright.importing.commandline import (
    CommandReader,
    Line,
    call,
    parameter,
    parse,
    taken_literally,
)
from trainwright.importing.source import Source
from trainwright.kinds.compose import KIND
from trainwright.kinds.compose.import_ import READER, services
from trainwright.kinds.reading import ImportingError, Loss, NotImported, SourceObject, shown

# Options that a service of a compose file has: its key, and whether there may be several.
_SERVICE = {
    "--env -e": ("environment", True),
    "--volume -v": ("volumes", True),
    "--publish -p": ("ports", True),
    "--label -l": ("labels", True),
    "--annotation": ("annotations", True),
    "--cap-add": ("cap_add", True),
    "--cap-drop": ("cap_drop", True),
    "--security-opt": ("security_opt", True),
    "--group-add": ("group_add", True),
    "--shm-size": ("shm_size", False),
    "--ipc": ("ipc", False),
    "--restart": ("restart", False),
    "--user -u": ("user", False),
    "--pull": ("pull_policy", False),
    "--network --net": ("network_mode", False),
    "--entrypoint": ("entrypoint", False),
    "--workdir -w": ("working_dir", False),
    "--add-host": ("extra_hosts", True),
    "--device": ("devices", True),
    "--runtime": ("runtime", False),
}
_SERVICE_SWITCHES = {"--privileged": "privileged", "--read-only": "read_only"}
_STRUCTURED = ("--gpus", "--mount", "--tmpfs", "--memory -m", "--cpus", "--stop-timeout", "--name")
_REPEATED = {"--mount", "--tmpfs"}
# All other options, so that the image is not taken for an option's value. First those with a value.
_VALUED = """
--attach,-a --blkio-weight --cgroup-parent --cgroupns --cidfile --cpu-period --cpu-quota
--cpu-shares,-c --cpuset-cpus --cpuset-mems --detach-keys --device-cgroup-rule
--device-read-bps --device-write-bps --dns --dns-option --dns-search --domainname --env-file
--expose --health-cmd --health-interval --health-retries --health-timeout --hostname,-h --ip --ip6
--isolation --kernel-memory --label-file --link --log-driver --log-opt --mac-address
--memory-reservation --memory-swap --memory-swappiness --network-alias --oom-score-adj --pid
--pids-limit --platform --stop-signal --storage-opt --sysctl --ulimit --userns --uts
--volume-driver --volumes-from
""".split()
_SWITCHES = """
--detach,-d --disable-content-trust --init --interactive,-i --no-healthcheck --oom-kill-disable
--publish-all,-P --quiet,-q --replace --rm --sig-proxy --tty,-t
""".split()
# Options of an interactive terminal.
_INTERACTIVE = {"--detach", "--interactive", "--rm", "--tty", "--quiet", "--sig-proxy"}
_WHY = {
    "--env-file": (
        "write its variables under env, and the secret ones under secrets",
        Loss.CANNOT_RUN,
    ),
    "--ulimit": ("limits of processes are the node's", Loss.BEHAVIOUR),
}


def _read(line: Line) -> Source:
    given, (image, *words) = _parsed(line)
    names: dict[str, str] = {"/spec/services/train/image": "IMAGE"}
    service: dict[str, Data] = {"image": image}
    for option, (key, several) in _SERVICE.items():
        first = option.split()[0]
        if first in given:
            service[key] = list(given[first]) if several else given[first]
            names[f"/spec/services/train/{key}"] = first
    for option, key in _SERVICE_SWITCHES.items():
        if option in given:
            service[key] = True
            names[f"/spec/services/train/{key}"] = option
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
    return Source(
        kind="Podman" if line.words[0] == "podman" else "Docker",
        name=re.split(r"[:@]", named.rpartition("/")[2])[0],
        target=KIND.name,
        parts=(_of_options(part, given),),
        left=(*part.left, *_left(line, given), *taken_literally(line, line.words)),
        reasons=READER.reasons,
    )


@dataclass(frozen=True, kw_only=True)
class _Options(SourceObject):
    """A service made of options, whose values are theirs."""

    given: Mapping[str, Data]

    def not_imported(
        self,
        pointer: str,
        value: Data,
        why: str,
        severity: Loss = Loss.BEHAVIOUR,
        *,
        name: str = "",
    ) -> NotImported:
        """Return a value as not imported, as its option has it where that is a single one."""
        loss = super().not_imported(pointer, value, why, severity, name=name)
        written = self.given.get(loss.field)
        return replace(loss, value=shown("", written)) if isinstance(written, str) else loss


def _of_options(part: SourceObject, given: Mapping[str, Data]) -> SourceObject:
    return _Options(
        body=part.body, place=part.place, called=part.called, left=part.left, given=given
    )


def _parsed(line: Line) -> tuple[dict[str, Data], tuple[str, ...]]:
    """Return the options of a command, and its image with the words behind it."""
    given, rest = parse(line, 2, _parameters(), strict=True)
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


def _parameters() -> list[click.Parameter]:
    options: list[click.Parameter] = []
    for declared in (*_SERVICE, *_STRUCTURED):
        several = _SERVICE.get(declared, ("", declared in _REPEATED))[1]
        options.append(parameter(",".join(declared.split()), multiple=several))
    options += [parameter(declared, multiple=True) for declared in _VALUED]
    switches = (*_SWITCHES, *_SERVICE_SWITCHES)
    options += [parameter(declared, is_flag=True) for declared in switches]
    return options


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


def _left(line: Line, given: dict[str, Data]) -> Iterator[NotImported]:
    """Yield options that a service has no key for here."""
    options = [declared.split(",")[0] for declared in (*_VALUED, *_SWITCHES)]
    for option in options:
        if option not in given:
            continue
        why, severity = _WHY.get(option, ("a job spec has no field for it", Loss.BEHAVIOUR))
        if option in _INTERACTIVE:
            why, severity = "it decides how the run is watched, not what runs", Loss.COSMETIC
        values = given[option] if isinstance(given[option], tuple) else ("",)
        for value in values:
            yield NotImported(option, line.place, shown(option, value), why, severity)


# https://github.com/NVIDIA/nvidia-docker wraps `docker` and selects its runtime.
_NVIDIA = "nvidia-docker"
COMMANDS = tuple(
    CommandReader(begins=(program, "run"), read=_read) for program in ("docker", "podman", _NVIDIA)
)
