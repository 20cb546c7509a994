"""What Docker Compose makes of a compose file: a container for each service and replica.

Facts: the Compose Specification, https://github.com/compose-spec/compose-spec/blob/main/spec.md
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from trainwright.model import Data, Manifest
from trainwright.pods.pod import (
    EnvVar,
    ManifestError,
    Mount,
    Operator,
    Pod,
    Port,
    Restart,
    Workload,
)

_GRACE = 10  # seconds, the default of stop_grace_period
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
# `$$` is a dollar sign; $NAME and ${NAME...} are taken from the shell that starts it all.
_INTERPOLATION = re.compile(r"\$(?:\$|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)[^}]*\})")


def _pods(manifest: Manifest, _: Sequence[Manifest], __: int | None) -> Workload:
    file: Mapping[str, Data] = manifest.body.get("spec", manifest.body)
    services: Mapping[str, Data] = file.get("services") or {}
    if not services:
        raise ManifestError("the compose file has no services")
    # With `replicas: 0` there is a service that is not started yet: one pod, once it is.
    pods = tuple(
        _pod(file, name, service, index)
        for name, service in services.items()
        for index in range(_replicas(service) or 1)
    )
    return Workload(
        pods=pods,
        deciding=tuple(pod.name for pod in pods),
        suspended=not any(map(_replicas, services.values())),
        isolated=all(service.get("network_mode") == "none" for service in services.values()),
    )


def _replicas(service: Mapping[str, Data]) -> int:
    deploy: Mapping[str, Data] = service.get("deploy") or {}
    count: int = deploy.get("replicas", service.get("scale", 1))
    return count


def _pod(file: Mapping[str, Data], name: str, service: Mapping[str, Data], index: int) -> Pod:
    prefix = f"{file['name']}-" if file.get("name") else ""
    return Pod(
        name=service.get("container_name") or f"{prefix}{name}-{index + 1}",
        hostname=service.get("hostname") or name,
        role=name,
        index=index,
        image=service.get("image", ""),
        command=(*_words(service.get("entrypoint")), *_words(service.get("command"))),
        declared=tuple(_env(service.get("environment") or {})),
        restart=_restart(service),
        ports=tuple(_ports(service.get("ports") or ())),
        mounts=tuple(_mounts(file, service)),
        resources=_resources((service.get("deploy") or {}).get("resources") or {}),
        grace_period=_seconds(str(service.get("stop_grace_period", f"{_GRACE}s"))),
        security=_security(service),
        labels=_pairs(service.get("labels") or {}),
        annotations=_pairs(service.get("annotations") or {}),
        pull_policy=_PULL_POLICIES.get(service.get("pull_policy", ""), ""),
        rest={"container": _container(service), "pod": _host(service)},
        token=False,  # there is no cluster that it would be for
        starts_image=not service.get("entrypoint") and not service.get("command"),
    )


def _host(service: Mapping[str, Data]) -> dict[str, Data]:
    """The namespaces of the machine that a service shares, but for that of /dev/shm: `shm` is."""
    keys = (("network_mode", "hostNetwork"), ("pid", "hostPID"))
    shared: dict[str, Data] = {f: True for key, f in keys if service.get(key) == "host"}
    aliases = _host_aliases(service.get("extra_hosts") or ())
    return {**shared, "hostAliases": aliases} if aliases else shared


def _host_aliases(written: Data) -> list[Data]:
    """A mapping of names to addresses, or a list of `NAME=ADDRESS` or `NAME:ADDRESS`."""
    if isinstance(written, Mapping):
        pairs = list(written.items())
    else:
        parts = (re.split("[=:]", _plain(str(item)), maxsplit=1) for item in written)
        pairs = [(part[0], part[-1].strip("[]")) for part in parts]
    names: dict[str, list[str]] = {}
    for name, address in pairs:
        names.setdefault(str(address), []).append(str(name))
    return [{"ip": address, "hostnames": known} for address, known in names.items()]


def _container(service: Mapping[str, Data]) -> dict[str, Data]:
    """What a service says that a container has fields for."""
    folder = service.get("working_dir")
    return {"workingDir": _plain(str(folder))} if folder else {}


_PULL_POLICIES = {"always": "Always", "missing": "IfNotPresent", "never": "Never"}


def _pairs(written: Data) -> dict[str, str]:
    """A mapping, or a list of NAME=VALUE, as labels have both."""
    if isinstance(written, Mapping):
        return {name: _plain(_word(value)) for name, value in written.items()}
    return {name: _plain(value) for name, _, value in (str(i).partition("=") for i in written)}


def _security(service: Mapping[str, Data]) -> dict[str, dict[str, Data]]:
    """The security contexts that come nearest. Docker's own seccomp profile is its default."""
    user, _, group = str(service.get("user", "")).partition(":")
    groups = service.get("group_add") or ()
    options = [str(option).replace("=", ":") for option in service.get("security_opt") or ()]
    pod: dict[str, Data] = {
        field: int(value)
        for field, value in (("runAsUser", user), ("runAsGroup", group))
        if value.isdigit()
    }
    if groups and str(groups[0]).isdigit():
        pod["fsGroup"] = int(groups[0])
    unconfined = "seccomp:unconfined" in options
    pod["seccompProfile"] = {"type": "Unconfined" if unconfined else "RuntimeDefault"}
    capabilities = {
        kind: list(service[f"cap_{kind}"]) for kind in ("add", "drop") if service.get(f"cap_{kind}")
    }
    container: dict[str, Data] = {"capabilities": capabilities} if capabilities else {}
    if {"no-new-privileges:true", "no-new-privileges"} & set(options):
        container["allowPrivilegeEscalation"] = False
    if service.get("privileged"):
        container["privileged"] = True
    if service.get("read_only"):
        container["readOnlyRootFilesystem"] = True
    return {"pod": pod, "container": container} if container else {"pod": pod}


def _plain(text: str) -> str:
    """Text after Compose's own interpolation, as far as no shell is needed for it."""
    return _INTERPOLATION.sub(lambda m: "$" if m.group() == "$$" else m.group(), text)


def _literal(text: str) -> str:
    """The same in the notation of `expand`, for which it holds no references."""
    return _plain(text).replace("$", "$$")


def _words(written: Data) -> tuple[str, ...]:
    words = shlex.split(written) if isinstance(written, str) else written or ()
    return tuple(_literal(str(word)) for word in words)


def _env(written: Data) -> Iterator[EnvVar]:
    """A mapping, or a list of NAME=VALUE; without a value it comes from the shell."""
    if not isinstance(written, Mapping):
        pairs = [str(item).partition("=") for item in written]
        written = {name: value if equals else None for name, equals, value in pairs}
    for name, value in written.items():
        asked = name if value is None else _asked(str(value))
        if asked:
            yield EnvVar(name, source=f"variable {asked} of the shell")
        else:
            yield EnvVar(name, _literal(_word(value)))


def _asked(value: str) -> str:
    """The first variable that a value takes from the shell, or nothing."""
    names = (m.group(1) or m.group(2) for m in _INTERPOLATION.finditer(value))
    return next((name for name in names if name), "")


def _word(value: Data) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _ports(written: Data) -> Iterator[Port]:
    for port in written:
        if isinstance(port, Mapping):
            yield Port(port.get("name", ""), int(port["target"]))
        else:
            number = str(port).rpartition(":")[2].partition("/")[0].partition("-")[0]
            yield Port("", int(number))


def _mounts(file: Mapping[str, Data], service: Mapping[str, Data]) -> Iterator[Mount]:
    for written in service.get("volumes") or ():
        volume = written if isinstance(written, Mapping) else _long(str(written))
        source = _plain(str(volume.get("source", "")))
        yield Mount(
            path=_plain(volume["target"]),
            volume=source.strip("./~").replace("/", "-") or volume.get("type", "volume"),
            source=_source(file, volume, source),
            sub_path=_plain((volume.get("volume") or {}).get("subpath", "")),
            read_only=volume.get("read_only", False),
        )
    if "shm_size" in service:
        memory = {"medium": "Memory", "sizeLimit": _bytes(service["shm_size"])}
        yield Mount(path="/dev/shm", volume="dshm", source={"emptyDir": memory})  # noqa: S108

    for config in service.get("configs") or ():
        name, target = config["source"], PurePosixPath(config["target"])
        items = [{"key": "content", "path": target.name, **_mode(config.get("mode"))}]
        yield Mount(
            path=str(target),
            volume=name,
            source={"configMap": {"name": name, "items": items}},
            sub_path=target.name,
            read_only=True,
        )


def _mode(written: Data) -> dict[str, int]:
    """Permissions: a number, or octal digits as text."""
    if isinstance(written, str) and re.fullmatch("0?[0-7]{1,3}", written):
        return {"mode": int(written, 8)}
    return {"mode": written} if isinstance(written, int) else {}


def _configs(manifest: Manifest) -> dict[str, dict[str, str]]:
    """Configs whose content the file itself holds."""
    file: Mapping[str, Data] = manifest.body.get("spec", manifest.body)
    return {
        name: {"content": _plain(config["content"])}
        for name, config in (file.get("configs") or {}).items()
        if "content" in config
    }


def _long(text: str) -> dict[str, Data]:
    """The long form of `source:target:options`, or of a target alone."""
    if ":" not in text:
        return {"type": "volume", "target": text}
    source, target, *options = text.split(":")
    local = source.startswith((".", "/", "~"))
    return {
        "type": "bind" if local else "volume",
        "source": source,
        "target": target,
        "read_only": "ro" in ",".join(options).split(","),
        **({"bind": {"create_host_path": True}} if local else {}),
    }


def _source(file: Mapping[str, Data], volume: Mapping[str, Data], source: str) -> dict[str, Data]:
    """The Kubernetes volume source that comes nearest."""
    kind = volume.get("type", "volume")
    if kind == "bind":
        made = (volume.get("bind") or {}).get("create_host_path", True)
        return {"hostPath": {"path": source, **({"type": "DirectoryOrCreate"} if made else {})}}
    if kind == "tmpfs":
        size = (volume.get("tmpfs") or {}).get("size")
        limit = {} if size is None else {"sizeLimit": _bytes(size)}
        return {"emptyDir": {"medium": "Memory", **limit}}
    if not source:
        return {"emptyDir": {}}
    options = ((file.get("volumes") or {}).get(source) or {}).get("driver_opts") or {}
    server = re.search(r"(?:^|,)addr=([^,]+)", str(options.get("o", "")))
    if options.get("type") == "nfs" and server:
        return {"nfs": {"server": server[1], "path": str(options.get("device", ""))[1:]}}
    return {"persistentVolumeClaim": {"claimName": source}}


def _bytes(written: Data) -> str:
    """A size as a Kubernetes quantity: Docker counts in powers of 1024."""
    number, unit = re.fullmatch(r"\s*([\d.]*)\s*([a-z]*)\s*", str(written).lower()).groups()  # type: ignore[union-attr]
    prefix = unit.removesuffix("b").removesuffix("i").upper()
    return f"{number}{prefix}i" if prefix else number


def _resources(written: Mapping[str, Data]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for key, kind in (("reservations", "requests"), ("limits", "limits")):
        amounts = written.get(key) or {}
        names = (("cpus", "cpu"), ("memory", "memory"))
        plain = {
            ours: _bytes(amounts[theirs]) if ours == "memory" else str(amounts[theirs])
            for theirs, ours in names
            if theirs in amounts
        }
        if plain:
            found[kind] = plain
    for device in (written.get("reservations") or {}).get("devices") or ():
        if "gpu" in (device.get("capabilities") or ()):
            count = str(device.get("count", len(device.get("device_ids") or ()) or "all"))
            resource = f"{device.get('driver', 'nvidia')}.com/gpu"
            found.setdefault("requests", {})[resource] = count
            found.setdefault("limits", {})[resource] = count
    return found


def _restart(service: Mapping[str, Data]) -> Restart:
    policy, _, limit = str(service.get("restart", "no")).partition(":")
    # An unquoted `no` is a YAML boolean.
    if policy in ("no", "False"):
        return Restart(limit=0)
    return Restart(limit=int(limit) if limit else None)


def _seconds(written: str) -> int:
    match = _DURATION.fullmatch(written)
    if not match or not written:
        raise ManifestError(f'stop_grace_period is "{written}", expected a duration such as 1m30s')
    hours, minutes, rest = (float(group or 0) for group in match.groups())
    return int(hours * 3600 + minutes * 60 + rest)


# A compose file has neither an API group nor a kind; as a manifest it is given one.
OPERATOR = Operator(
    name="Docker Compose",
    pods=_pods,
    configs=_configs,
)
