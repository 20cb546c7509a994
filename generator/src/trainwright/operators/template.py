"""A pod template, and what an operator adds to it, into a `Pod`."""

from __future__ import annotations

from collections.abc import Mapping

from trainwright.model import Data
from trainwright.operators.operator import (
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
    spec: Mapping[str, Data],
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

    `fields` are values of the downward API that are known beforehand; `injected` follows the
    container's own env.
    """
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
    )


def words(container: Mapping[str, Data]) -> tuple[str, ...]:
    """Command and arguments, which the kubelet starts as one argv."""
    return (*(container.get("command") or ()), *(container.get("args") or ()))


def container_ports(container: Mapping[str, Data]) -> tuple[Port, ...]:
    return tuple(
        Port(port.get("name", ""), int(port["containerPort"]))
        for port in container.get("ports") or ()
    )


def _variable(entry: Mapping[str, Data], fields: Mapping[str, str]) -> EnvVar:
    name, origin = entry["name"], entry.get("valueFrom")
    if not origin:
        return EnvVar(name, str(entry.get("value") or ""))
    kind, reference = next(iter(origin.items()))
    if kind == "fieldRef":
        path = reference["fieldPath"]
        if path in fields:
            # The value is final: a $ in it is no reference.
            return EnvVar(name, fields[path].replace("$", "$$"))
        return EnvVar(name, source=f"field {path} of the pod")
    if kind == "secretKeyRef":
        return EnvVar(name, source=f"key {reference['key']} of Secret {reference['name']}")
    if kind == "configMapKeyRef":
        return EnvVar(name, source=f"key {reference['key']} of ConfigMap {reference['name']}")
    return EnvVar(name, source=f"{kind} of the pod")


def _mounts(spec: Mapping[str, Data], container: Mapping[str, Data]) -> list[Mount]:
    sources = {
        volume["name"]: {key: value for key, value in volume.items() if key != "name"}
        for volume in spec.get("volumes") or ()
    }
    return [
        Mount(
            path=mount["mountPath"],
            volume=mount["name"],
            source=sources.get(mount["name"], {}),
            sub_path=mount.get("subPath", ""),
            read_only=mount.get("readOnly", False),
        )
        for mount in container.get("volumeMounts") or ()
    ]


def _resources(resources: Mapping[str, Data]) -> dict[str, dict[str, str]]:
    """Requests and limits; the API server fills requests in from limits."""
    limits = {key: str(value) for key, value in (resources.get("limits") or {}).items()}
    requests = {key: str(value) for key, value in (resources.get("requests") or {}).items()}
    both = {"requests": {**limits, **requests}, "limits": limits}
    return {kind: amounts for kind, amounts in both.items() if amounts}


def _init(container: Mapping[str, Data]) -> InitContainer:
    return InitContainer(container["name"], container.get("image", ""), words(container))
