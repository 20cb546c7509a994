"""A pod template, and what an operator adds to it, into a `Pod`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.model import Data
from trainwright.pods.pod import (
    Deadline,
    EnvVar,
    InitContainer,
    ManifestError,
    Mount,
    Pod,
    Port,
    Restart,
)


def main_container(spec: Mapping[str, Data], name: str = "") -> Mapping[str, Data]:
    """The container of that name; without a name the first. Raises ManifestError without one."""
    containers: list[Mapping[str, Data]] = spec.get("containers") or []
    found = [c for c in containers if not name or c.get("name") == name]
    if not found:
        wanted = f'container "{name}"' if name else "container"
        raise ManifestError(f"a pod template has no {wanted}: the operator starts nothing")
    return found[0]


def pod(
    written: Mapping[str, Data],
    container: Mapping[str, Data],
    *,
    name: str,
    role: str,
    index: int,
    restart: Restart,
    fields: Mapping[str, str],
    injected: tuple[EnvVar, ...] = (),
) -> Pod:
    """The pod of a template, reached by its name and without what its operator adds to it.

    `written` is the template with its metadata, `fields` are values of the downward API that are
    known beforehand; `injected` follows the container's own env.
    """
    spec: Mapping[str, Data] = written["spec"]
    metadata: Mapping[str, Data] = written.get("metadata") or {}
    own = tuple(_variable(entry, fields) for entry in container.get("env") or ())
    return Pod(
        name=name,
        hostname=name,
        role=role,
        index=index,
        image=container.get("image", ""),
        command=words(container),
        declared=(*own, *injected),
        restart=restart,
        ports=container_ports(container),
        mounts=tuple(_mounts(spec, container)),
        resources=_resources(container.get("resources") or {}),
        security={
            where: context
            for where, context in (
                ("pod", spec.get("securityContext")),
                ("container", container.get("securityContext")),
            )
            if context
        },
        init=tuple(_init(c) for c in spec.get("initContainers") or ()),
        grace_period=spec.get("terminationGracePeriodSeconds", 30),
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        pull_policy=container.get("imagePullPolicy", ""),
        pull_secrets=tuple(s["name"] for s in spec.get("imagePullSecrets") or ()),
        placement={
            field: spec[field]
            for field in _PLACEMENT
            if spec.get(field) and spec[field] != _OWN_SCHEDULER
        },
        service_account=spec.get("serviceAccountName") or spec.get("serviceAccount") or "",
        token=spec.get("automountServiceAccountToken"),
        starts_image=not container.get("command"),
        rest=_rest(spec, container),
        volumes=_volumes(spec),
        beside=tuple(c for c in spec.get("containers") or () if c is not container),
        before=tuple(spec.get("initContainers") or ()),
        env_from=tuple(container.get("envFrom") or ()),
    )


_OWN_SCHEDULER = "default-scheduler"  # as the API server writes it where nothing is said
_PLACEMENT = (
    *("nodeSelector", "tolerations", "affinity"),
    *("priorityClassName", "runtimeClassName", "schedulerName"),
)
# What the other fields of a `Pod` say, by where it stands; the rest is kept as it is written.
_SAID_OF_PODS = frozenset(
    {
        *_PLACEMENT,
        "automountServiceAccountToken",
        "containers",
        "imagePullSecrets",
        "initContainers",
        "restartPolicy",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "subdomain",
        "terminationGracePeriodSeconds",
        "volumes",
    }
)
_SAID_OF_CONTAINERS = frozenset(
    {
        "args",
        "command",
        "env",
        "envFrom",
        "image",
        "imagePullPolicy",
        "name",
        "ports",
        "resources",
        "securityContext",
        "stdin",
        "stdinOnce",
        "tty",
        "volumeMounts",
    }
)


def _rest(spec: Mapping[str, Data], container: Mapping[str, Data]) -> dict[str, dict[str, Data]]:
    """The fields that nothing else here reads, so that no field of a template means nothing."""
    found = {
        "pod": {key: value for key, value in spec.items() if key not in _SAID_OF_PODS},
        "container": {
            **{k: v for k, v in container.items() if k not in _SAID_OF_CONTAINERS},
            **dict(_beyond_numbers(container)),
        },
    }
    return {where: fields for where, fields in found.items() if fields}


def _beyond_numbers(container: Mapping[str, Data]) -> Iterator[tuple[str, Data]]:
    """What resources say beyond amounts, and ports beyond those of the pod."""
    claims = (container.get("resources") or {}).get("claims")
    if claims:
        yield "claims", claims
    taken = [port for port in container.get("ports") or () if port.get("hostPort")]
    if taken:
        yield "hostPorts", taken


def deadline(policy: Mapping[str, Data], *, attempt: bool = False) -> Deadline | None:
    """The deadline of a spec or a run policy, which all operators call alike."""
    seconds = policy.get("activeDeadlineSeconds")
    return None if seconds is None else Deadline(seconds=seconds, attempt=attempt)


def words(container: Mapping[str, Data]) -> tuple[str, ...]:
    """Command and arguments, which the kubelet starts as one argv."""
    return (*(container.get("command") or ()), *(container.get("args") or ()))


def container_ports(container: Mapping[str, Data]) -> tuple[Port, ...]:
    return tuple(
        Port(port.get("name", ""), int(port["containerPort"]))
        for port in container.get("ports") or ()
    )


def _variable(entry: Mapping[str, Data], fields: Mapping[str, str]) -> EnvVar:
    origin = entry.get("valueFrom")
    if not origin:
        return EnvVar(entry["name"], str(entry.get("value") or ""))
    return replace(_from_elsewhere(entry["name"], origin, fields), origin=origin)


def _from_elsewhere(name: str, origin: Mapping[str, Data], fields: Mapping[str, str]) -> EnvVar:
    kind, reference = next(iter(origin.items()))
    if kind == "fieldRef":
        path = reference["fieldPath"]
        if path in fields:
            # The value is final: a $ in it is no reference.
            return EnvVar(name, fields[path].replace("$", "$$"))
        return EnvVar(name, source=f"field {path} of the pod")
    if kind == "secretKeyRef":
        secret = (reference["name"], reference["key"])
        key = f"key {secret[1]} of Secret {secret[0]}{_if_there(reference)}"
        return EnvVar(name, source=key, secret=secret)
    if kind == "configMapKeyRef":
        key = f"key {reference['key']} of ConfigMap {reference['name']}{_if_there(reference)}"
        return EnvVar(name, source=key)
    if kind == "resourceFieldRef":
        divisor = str(reference.get("divisor") or "1")
        of = f" of container {reference['containerName']}" if "containerName" in reference else ""
        source = f"{reference['resource']}{of} by {'1' if divisor == '0' else divisor}"
        return EnvVar(name, source=source)
    return EnvVar(name, source=f"{kind} of the pod")


def _if_there(reference: Mapping[str, Data]) -> str:
    return ", if it is there" if reference.get("optional") else ""


def _volumes(spec: Mapping[str, Data]) -> dict[str, dict[str, Data]]:
    return {
        volume["name"]: {key: value for key, value in volume.items() if key != "name"}
        for volume in spec.get("volumes") or ()
    }


_OF_MOUNTS = frozenset({"name", "mountPath", "subPath", "readOnly"})


def _mounts(spec: Mapping[str, Data], container: Mapping[str, Data]) -> list[Mount]:
    sources = _volumes(spec)
    return [
        Mount(
            path=mount["mountPath"],
            volume=mount["name"],
            source=sources.get(mount["name"], {}),
            sub_path=mount.get("subPath", ""),
            read_only=mount.get("readOnly", False),
            more={k: v for k, v in mount.items() if k not in _OF_MOUNTS and v != "None"},
        )
        for mount in container.get("volumeMounts") or ()
    ]


def _resources(resources: Mapping[str, Data]) -> dict[str, dict[str, str]]:
    """Requests and limits; the API server fills requests in from limits."""
    limits, requests = (
        {key: str(value) for key, value in (resources.get(kind) or {}).items() if value is not None}
        for kind in ("limits", "requests")
    )
    both = {"requests": {**limits, **requests}, "limits": limits}
    return {kind: amounts for kind, amounts in both.items() if amounts}


def _init(container: Mapping[str, Data]) -> InitContainer:
    return InitContainer(container["name"], container.get("image", ""), words(container))
