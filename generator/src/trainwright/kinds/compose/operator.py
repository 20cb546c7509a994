"""What Docker Compose makes of a compose file: a container for each service and replica.

Facts: the Compose Specification, https://github.com/compose-spec/compose-spec/blob/main/spec.md
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from trainwright.datatypes.data import (
    Data,
    amount,
    dig,
    digits,
    mapping,
    mappings,
    sequence,
    stated,
    text,
)
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.compose import notation
from trainwright.kinds.compose.accelerators import accelerators
from trainwright.objects.pods.groups import Pods
from trainwright.objects.pods.pod import (
    Awaited,
    EnvVar,
    ManifestError,
    Mount,
    Operator,
    Pod,
    Port,
    Restart,
    Workload,
)
from trainwright.objects.pods.template import ROLE_LABEL

_GRACE = "10s"  # the default of stop_grace_period
_TRIES = 3  # the default of `retries` in a health check
_DURATION = re.compile(
    r"(?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9}(?:\.\d+)?)s)?(?:(\d{1,9})ms)?(?:(\d{1,9})us)?"
)


def _pods(manifest: Manifest, _: Sequence[Manifest], __: int | None) -> Workload:
    file = _file(manifest)
    written = mapping(file.get("services"))
    services = {str(name): mapping(service) for name, service in written.items()}
    if not services:
        raise ManifestError("the compose file has no services")
    serving = dict(_serving(services))
    # With `replicas: 0` there is a service that is not started yet: one pod, once it is.
    pods = Pods.of(
        _pod(file, name, service, index, serves=_role(name, service) in serving)
        for name, service in services.items()
        for index in range(_replicas(service) or 1)
    )
    return Workload(
        pods=pods,
        deciding=pods.where(lambda role: role not in serving).names,
        serving=serving,
        suspended=not any(map(_replicas, services.values())),
        isolated=all(service.get("network_mode") == "none" for service in services.values()),
    )


def _role(name: str, service: Mapping[str, Data]) -> str:
    """Return the role of a service: its label's value where each container of a role is a service
    of its own, else the service's name.
    """
    return notation.pairs(service.get("labels")).get(ROLE_LABEL, name)


def _index(name: str, service: Mapping[str, Data], index: int) -> int:
    """Return the number of a container in its role: the end of its service's name, else `index`."""
    role, number = _role(name, service), name.rpartition("-")[2]
    own = digits(number) if name == f"{role}-{number}" else None
    return index if own is None else own


def _serving(services: Mapping[str, Mapping[str, Data]]) -> Iterator[tuple[str, Awaited]]:
    """Yield each role that other services depend on, and the state of it that they wait for."""
    for dependent in services.values():
        for name, condition in notation.dependencies(dependent.get("depends_on")).items():
            if name in services:
                service = services[name]
                yield _role(name, service), _awaited(condition, probed="healthcheck" in service)


def _awaited(condition: str, *, probed: bool) -> Awaited:
    """Return the state that a condition waits for. Without a health check, running is ready."""
    if condition == "service_completed_successfully":
        return "complete"
    return "ready" if condition == "service_healthy" or not probed else ""


def _file(manifest: Manifest) -> Mapping[str, Data]:
    return mapping(manifest.body.get("spec", manifest.body))


def _replicas(service: Mapping[str, Data]) -> int:
    return amount(dig(service, "deploy", "replicas"), amount(service.get("scale")))


def _pod(
    file: Mapping[str, Data], name: str, service: Mapping[str, Data], index: int, *, serves: bool
) -> Pod:
    prefix = f"{file['name']}-" if file.get("name") else ""
    return Pod(
        name=text(service.get("container_name")) or f"{prefix}{name}-{index + 1}",
        hostname=name,
        aliases=tuple(_aliases(service)),
        role=_role(name, service),
        index=_index(name, service, index),
        image=text(service.get("image")),
        command=(*_words(service.get("entrypoint")), *_words(service.get("command"))),
        declared=tuple(_env(service.get("environment"))),
        restart=_restart(service),
        ports=tuple(_ports([*sequence(service.get("ports")), *sequence(service.get("expose"))])),
        mounts=tuple(_mounts(file, service)),
        resources=_resources(service),
        grace_period=_seconds(service, "stop_grace_period", _GRACE),
        security=_security(service),
        labels=notation.pairs(service.get("labels")),
        annotations=notation.pairs(service.get("annotations")),
        pull_policy=_PULL_POLICIES.get(text(service.get("pull_policy")), ""),
        rest={
            "container": {**_container(service), **(_probes(service) if serves else {})},
            "pod": _host(service),
        },
        token=False,  # there is no cluster that it would be for
        starts_image=_starts_image(service),
    )


def _aliases(service: Mapping[str, Data]) -> Iterator[str]:
    """Yield the names besides its own by which a service is reached in its networks.

    https://github.com/moby/moby/blob/v28.0.0/daemon/container_operations.go
    """
    own = (text(service.get(key)) for key in ("hostname", "container_name"))
    yield from filter(None, own)
    for network in mapping(service.get("networks")).values():
        yield from map(str, sequence(mapping(network).get("aliases")))


def _starts_image(service: Mapping[str, Data]) -> bool:
    """Whether a service sets no program; a command that begins with an option is only arguments."""
    first = next(iter(_words(service.get("command"))), "-")
    return not service.get("entrypoint") and first.startswith("-")


def _host(service: Mapping[str, Data]) -> dict[str, Data]:
    """Return the namespaces of the machine that a service shares; for /dev/shm, `shm` decides."""
    keys = (("network_mode", "hostNetwork"), ("pid", "hostPID"))
    shared: dict[str, Data] = {f: True for key, f in keys if service.get(key) == "host"}
    aliases = _host_aliases(service.get("extra_hosts"))
    return {**shared, "hostAliases": aliases} if aliases else shared


def _host_aliases(written: Data) -> list[Data]:
    """Return `extra_hosts` as `hostAliases`, with the names of each address together.

    They are a list of `NAME=ADDRESS` or `NAME:ADDRESS`, or map names to an address or a list:
    https://github.com/compose-spec/compose-spec/blob/main/schema/compose-spec.json
    """
    if isinstance(written, Mapping):
        pairs = [(name, ip) for name, ips in written.items() for ip in sequence(ips) or (ips,)]
    else:
        parts = (re.split("[=:]", str(item), maxsplit=1) for item in sequence(written))
        pairs = [(part[0], part[-1]) for part in parts]
    names: dict[str, list[str]] = {}
    for name, ip in pairs:
        address = notation.plain(str(ip)).strip("[]")
        names.setdefault(address, []).append(notation.plain(str(name)))
    return [{"ip": address, "hostnames": hostnames} for address, hostnames in names.items()]


def _container(service: Mapping[str, Data]) -> dict[str, Data]:
    """Return the fields of a Kubernetes container that a service sets: `workingDir`, if any."""
    folder = service.get("working_dir")
    return {"workingDir": notation.plain(str(folder))} if folder else {}


def _probes(service: Mapping[str, Data]) -> dict[str, Data]:
    """Return the probes of a container that serves, as Kubernetes has them."""
    check = mapping(service.get("healthcheck"))
    words = sequence(check.get("test"))
    command = ["sh", "-c", *words[1:]] if words[:1] == ["CMD-SHELL"] else list(words[1:])
    if isinstance(check.get("test"), str):
        command = ["sh", "-c", str(check["test"])]
    if check.get("disable") or not command:
        return {}
    probe: dict[str, Data] = {"exec": {"command": [notation.plain(str(w)) for w in command]}}
    period = max(1, _seconds(check, "interval", "30s"))
    # Failures count once the period of the start is over.
    # https://docs.docker.com/reference/dockerfile/#healthcheck
    start = _seconds(check, "start_period", "0s")
    tries = -(-start // period) + amount(check.get("retries"), _TRIES)
    return {
        "readinessProbe": {**probe, "periodSeconds": period},
        "startupProbe": {**probe, "failureThreshold": tries, "periodSeconds": period},
    }


_PULL_POLICIES = {"always": "Always", "missing": "IfNotPresent", "never": "Never"}


def _security(service: Mapping[str, Data]) -> dict[str, dict[str, Data]]:
    """Return the nearest security contexts. Docker's own seccomp profile is its default."""
    user, _, group = str(service.get("user", "")).partition(":")
    groups = sequence(service.get("group_add"))
    options = [str(option).replace("=", ":") for option in sequence(service.get("security_opt"))]
    pod: dict[str, Data] = {
        field: number
        for field, value in (("runAsUser", user), ("runAsGroup", group))
        if (number := digits(value)) is not None
    }
    if groups and (number := digits(str(groups[0]))) is not None:
        pod["fsGroup"] = number
    unconfined = "seccomp:unconfined" in options
    pod["seccompProfile"] = {"type": "Unconfined" if unconfined else "RuntimeDefault"}
    named = {kind: list(sequence(service.get(f"cap_{kind}"))) for kind in ("add", "drop")}
    capabilities = {kind: names for kind, names in named.items() if names}
    container: dict[str, Data] = {"capabilities": capabilities} if capabilities else {}
    if {"no-new-privileges:true", "no-new-privileges"} & set(options):
        container["allowPrivilegeEscalation"] = False
    if service.get("privileged"):
        container["privileged"] = True
    if service.get("read_only"):
        container["readOnlyRootFilesystem"] = True
    return {"pod": pod, "container": container} if container else {"pod": pod}


def _env(written: Data) -> Iterator[EnvVar]:
    for name, value in notation.variables(written).items():
        variables = [name] if value is None else notation.asked(str(value))
        if variables:
            yield EnvVar(name, source=f"variable {variables[0]} of the shell")
        else:
            yield EnvVar(name, notation.literal(notation.word(value)))


def _words(written: Data) -> tuple[str, ...]:
    words = _split(written) if isinstance(written, str) else sequence(written)
    return tuple(notation.literal(str(word)) for word in words)


def _split(written: str) -> list[str]:
    """Split a command line into words; one with an unclosed quote stays a single word."""
    try:
        return shlex.split(written)
    except ValueError:
        return [written]


def _ports(written: Data) -> Iterator[Port]:
    for port in sequence(written):
        long = mapping(port)
        short = str(port).rpartition(":")[2].partition("/")[0].partition("-")[0]
        number = str(long.get("target")) if long else short
        if (port_number := digits(number)) is not None:
            yield Port(text(long.get("name")), port_number)


def _mounts(file: Mapping[str, Data], service: Mapping[str, Data]) -> Iterator[Mount]:
    for written in sequence(service.get("volumes")):
        volume = written if isinstance(written, Mapping) else notation.long_volume(str(written))
        source = notation.plain(str(volume.get("source", "")))
        yield Mount(
            path=notation.plain(text(volume.get("target"))),
            volume=_label(source) or text(volume.get("type")) or "volume",
            source=_source(file, volume, source),
            sub_path=notation.plain(text(dig(volume, "volume", "subpath"))),
            read_only=volume.get("read_only") is True,
        )
    if service.get("ipc") == "host":  # /dev/shm of the machine, which has no limit of its own
        yield Mount(path="/dev/shm", volume="dshm", source={"emptyDir": {"medium": "Memory"}})  # noqa: S108
    elif "shm_size" in service:
        memory = {"medium": "Memory", "sizeLimit": _bytes(service["shm_size"])}
        yield Mount(path="/dev/shm", volume="dshm", source={"emptyDir": memory})  # noqa: S108

    for config in mappings(service.get("configs")):
        name, target = text(config.get("source")), PurePosixPath(text(config.get("target")))
        items = [{"key": "content", "path": target.name, **_mode(config.get("mode"))}]
        yield Mount(
            path=str(target),
            volume=name,
            source={"configMap": {"name": name, "items": items}},
            sub_path=target.name,
            read_only=True,
        )


_NOT_IN_LABELS = re.compile(r"[^a-z0-9]+")
_LONGEST = 50  # of 63 characters, so that a number may follow


def _label(source: str) -> str:
    """Return the name of a volume in a pod for a folder of the machine, or for a named volume."""
    return _NOT_IN_LABELS.sub("-", source.lower())[-_LONGEST:].strip("-")


def _mode(written: Data) -> dict[str, int]:
    """Return permissions as a mode: from a number, or from octal digits as text."""
    if isinstance(written, str) and re.fullmatch("0?[0-7]{1,3}", written):
        return {"mode": int(written, 8)}
    return {"mode": written} if isinstance(written, int) else {}


def _configs(manifest: Manifest) -> dict[str, dict[str, str]]:
    """Return the configs whose content is inline in the compose file, by name."""
    return {
        str(name): {"content": notation.plain(text(config["content"]))}
        for name, config in mapping(_file(manifest).get("configs")).items()
        if "content" in mapping(config)
    }


def _source(file: Mapping[str, Data], volume: Mapping[str, Data], source: str) -> dict[str, Data]:
    """Return the nearest Kubernetes volume source."""
    kind = volume.get("type", "volume")
    if kind == "bind":
        made = dig(volume, "bind", "create_host_path") is not False
        return {"hostPath": {"path": source, **({"type": "DirectoryOrCreate"} if made else {})}}
    if kind == "tmpfs":
        size = dig(volume, "tmpfs", "size")
        limit = {} if size is None else {"sizeLimit": _bytes(size)}
        return {"emptyDir": {"medium": "Memory", **limit}}
    if not source:
        return {"emptyDir": {}}
    options = mapping(dig(file, "volumes", source, "driver_opts"))
    server = re.search(r"(?:^|,)addr=([^,]+)", str(options.get("o", "")))
    if options.get("type") == "nfs" and server:
        return {"nfs": {"server": server[1], "path": str(options.get("device", ""))[1:]}}
    return {"persistentVolumeClaim": {"claimName": source}}


def _bytes(written: Data) -> str:
    """Return a size as a Kubernetes quantity: Docker counts in powers of 1024."""
    match = re.fullmatch(r"([\d.]*)\s*([a-z]*)", str(written).strip().lower())
    if match is None:
        return str(written)
    number, unit = match.groups()
    prefix = unit.removesuffix("b").removesuffix("i").upper()
    return f"{number}{prefix}i" if prefix else number


# Fields of a service itself, which stand for those below `deploy`.
# https://docs.docker.com/reference/compose-file/services/#mem_limit
_SHORT: Mapping[str, Callable[[Mapping[str, Data]], dict[str, Data]]] = {
    "reservations": lambda service: stated({"memory": service.get("mem_reservation")}),
    "limits": lambda service: stated(
        {"cpus": service.get("cpus"), "memory": service.get("mem_limit")}
    ),
}


def _resources(service: Mapping[str, Data]) -> dict[str, dict[str, str]]:
    written = mapping(dig(service, "deploy", "resources"))
    by_kind: dict[str, dict[str, str]] = {}
    for key, kind in (("reservations", "requests"), ("limits", "limits")):
        amounts = {**_SHORT[key](service), **mapping(written.get(key))}
        names = (("cpus", "cpu"), ("memory", "memory"))
        plain = {
            ours: _bytes(amounts[theirs]) if ours == "memory" else str(amounts[theirs])
            for theirs, ours in names
            if theirs in amounts
        }
        if plain:
            by_kind[kind] = plain
    for resource, count in accelerators(service).items():
        by_kind.setdefault("requests", {})[resource] = count
        by_kind.setdefault("limits", {})[resource] = count
    return by_kind


def _restart(service: Mapping[str, Data]) -> Restart:
    # An unquoted `no` is a YAML boolean.
    policy, _, limit = str(service.get("restart") or "no").partition(":")
    if policy == "no":
        return Restart(limit=0)
    return Restart(limit=digits(limit))


def _seconds(service: Mapping[str, Data], field: str, default: str) -> int:
    """Return a duration of a service or of its health check in whole seconds, as the kubelet has.

    Raise ManifestError for any other text.
    """
    written = str(service.get(field, default))
    match = _DURATION.fullmatch(written)
    if not match or not written:
        raise ManifestError(f'{field} is "{written}", expected a duration such as 1m30s')
    sizes = (3600, 60, 1, 1e-3, 1e-6)
    amounts = (float(group or 0) for group in match.groups())
    return math.ceil(sum(n * size for n, size in zip(amounts, sizes, strict=True)))


# A compose file has neither an API group nor a kind; as a manifest it is given one.
OPERATOR = Operator(
    name="Docker Compose",
    pods=_pods,
    configs=_configs,
)
