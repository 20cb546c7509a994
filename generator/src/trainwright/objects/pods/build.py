"""The pod that an operator builds from a template: what is written, and what is added to it.

Templates may be malformed in any way; a value of the wrong type counts as absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from trainwright.datatypes.data import Data, amount, dig, integer, mapping, mappings, text, texts
from trainwright.datatypes.quantity import count
from trainwright.objects.pods.pod import (
    PERMANENT,
    Deadline,
    EnvVar,
    ManifestError,
    Mount,
    Pod,
    Port,
    Restart,
)
from trainwright.objects.pods.template import Container, PodTemplate


def main_container(template: PodTemplate, name: str = "") -> Container:
    """Return the container of that name (or the first). Raise ManifestError if there is none."""
    container = next((c for c in template.trains if not name or c.name == name), None)
    if container is None:
        wanted = f'container "{name}"' if name else "container"
        raise ManifestError(f"a pod template has no {wanted}: the operator starts nothing")
    return container


def pod(
    template: PodTemplate,
    container: Container,
    *,
    name: str,
    role: str,
    index: int,
    restart: Restart,
    fields: Mapping[str, str],
    injected: tuple[EnvVar, ...] = (),
) -> Pod:
    """Return the pod of a template, with its name as host name and nothing its operator adds.

    `fields` are values of the downward API that are known beforehand; `injected` follows the
    container's own env.
    """
    spec = template.spec
    security = {"pod": mapping(spec.get("securityContext")), "container": container.security}
    token = spec.get("automountServiceAccountToken")
    return Pod(
        name=name,
        hostname=name,
        role=role,
        index=index,
        image=container.image,
        command=container.command_line,
        declared=(*variables(container, fields), *injected),
        restart=restart,
        ports=ports(container),
        mounts=tuple(_mounts(template, container)),
        resources=_resources(container),
        security={where: context for where, context in security.items() if context},
        grace_period=amount(spec.get("terminationGracePeriodSeconds"), 30),
        labels=texts(template.labels),
        annotations=texts(template.annotations),
        pull_policy=text(container.body.get("imagePullPolicy")),
        pull_secrets=tuple(text(s.get("name")) for s in mappings(spec.get("imagePullSecrets"))),
        placement=dict(_placement(spec)),
        service_account=text(spec.get("serviceAccountName")) or text(spec.get("serviceAccount")),
        token=token if isinstance(token, bool) else None,
        starts_image=not container.body.get("command"),
        rest=_rest(spec, container),
        volumes=_volumes(template),
        beside=tuple(c for c in template.trains if c is not container),
        before=tuple(c for c in template.containers if c.init),
        env_from=container.env_from,
    )


_OWN_SCHEDULER = "default-scheduler"  # the API server's default
_PLACEMENT: Mapping[str, Callable[[Data], Data]] = {
    "nodeSelector": texts,
    "tolerations": mappings,
    "affinity": mapping,
    "priorityClassName": text,
    "runtimeClassName": text,
    "schedulerName": text,
}
# Fields of a pod's spec that other fields of `Pod` hold; the rest is kept as it is written.
_POD_FIELDS = frozenset(
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


def _placement(spec: Mapping[str, Data]) -> Iterator[tuple[str, Data]]:
    for field, read in _PLACEMENT.items():
        value = read(spec.get(field))
        if value and value != _OWN_SCHEDULER:
            yield field, value


def _rest(spec: Mapping[str, Data], container: Container) -> dict[str, dict[str, Data]]:
    """Return the pod and container fields that nothing else here reads, so that none is lost."""
    by_owner = {
        "pod": {key: value for key, value in spec.items() if key not in _POD_FIELDS},
        "container": {
            **{k: v for k, v in container.body.items() if k not in _SAID_OF_CONTAINERS},
            **dict(_beyond_numbers(container)),
        },
    }
    return {where: fields for where, fields in by_owner.items() if fields}


def _beyond_numbers(container: Container) -> Iterator[tuple[str, Data]]:
    """Yield a container's resource claims, and its ports that have a hostPort, if any."""
    claims = mappings(mapping(container.body.get("resources")).get("claims"))
    if claims:
        yield "claims", claims
    taken = [port for port in container.ports if port.get("hostPort")]
    if taken:
        yield "hostPorts", taken


def deadline(policy: Mapping[str, Data], *, attempt: bool = False) -> Deadline | None:
    """Return the deadline of a spec or a run policy, which all operators spell alike, or None."""
    seconds = integer(policy.get("activeDeadlineSeconds"))
    return None if seconds is None else Deadline(seconds=seconds, attempt=attempt)


def ports(container: Container) -> tuple[Port, ...]:
    """Return the ports of a container, without those whose number is none."""
    numbers = [(port, count(port.get("containerPort"))) for port in container.ports]
    return tuple(Port(text(port.get("name")), n) for port, n in numbers if n is not None)


def variables(container: Container, fields: Mapping[str, str]) -> tuple[EnvVar, ...]:
    """Return the entries of a container's env; `fields` are known values of the downward API."""
    return tuple(_variable(entry, fields) for entry in container.env)


def variables_with(
    declared: Sequence[EnvVar], container: Container, fields: Mapping[str, str]
) -> tuple[EnvVar, ...]:
    """Return a container's env: `declared`, with the downward-API values in `fields` replaced."""
    replaced = list(declared)
    for at, variable in enumerate(declared):
        if variable.origin and _field(variable) in fields:
            replaced[at] = _variable(container.env[at], fields)
    return tuple(replaced)


def _field(variable: EnvVar) -> str:
    """Return the field of the pod that a variable is taken from; empty for any other variable."""
    return text(dig(variable.origin, "fieldRef", "fieldPath"))


def _variable(entry: Mapping[str, Data], fields: Mapping[str, str]) -> EnvVar:
    name, origin = text(entry.get("name")), mapping(entry.get("valueFrom"))
    if not origin:
        return EnvVar(name, str(entry.get("value") or ""))
    return _from_elsewhere(name, origin, fields)


def _from_elsewhere(name: str, origin: Mapping[str, Data], fields: Mapping[str, str]) -> EnvVar:
    """Return a variable whose value is from a field, a Secret, a ConfigMap or a resource."""
    kind = next(iter(origin))
    reference = mapping(origin[kind])
    if kind == "fieldRef":
        path = text(reference.get("fieldPath"))
        if path in fields:
            # The value is final: a $ in it is no reference.
            return EnvVar(name, fields[path].replace("$", "$$"), origin=origin)
        return EnvVar(name, source=f"field {path} of the pod", origin=origin)
    if kind == "secretKeyRef":
        secret = (text(reference.get("name")), text(reference.get("key")))
        key = f"key {secret[1]} of Secret {secret[0]}{_if_there(reference)}"
        return EnvVar(name, source=key, secret=secret, origin=origin)
    if kind == "configMapKeyRef":
        config, key = text(reference.get("name")), text(reference.get("key"))
        source = f"key {key} of ConfigMap {config}{_if_there(reference)}"
        return EnvVar(name, source=source, origin=origin)
    if kind == "resourceFieldRef":
        return EnvVar(name, source=_amount_of(reference), origin=origin)
    return EnvVar(name, source=f"{kind} of the pod", origin=origin)


def _amount_of(reference: Mapping[str, Data]) -> str:
    divisor = str(reference.get("divisor") or "1")
    of = f" of container {reference['containerName']}" if "containerName" in reference else ""
    return f"{text(reference.get('resource'))}{of} by {'1' if divisor == '0' else divisor}"


def _if_there(reference: Mapping[str, Data]) -> str:
    return ", if it is there" if reference.get("optional") else ""


def _volumes(template: PodTemplate) -> dict[str, dict[str, Data]]:
    return {
        text(volume.get("name")): {key: value for key, value in volume.items() if key != "name"}
        for _, volume in template.volumes
    }


_OF_MOUNTS = frozenset({"name", "mountPath", "subPath", "readOnly"})


def _mounts(template: PodTemplate, container: Container) -> Iterator[Mount]:
    """Yield the mounts of a container, each with the source of its volume."""
    sources = _volumes(template)
    for mount in container.mounts:
        volume = text(mount.get("name"))
        yield Mount(
            path=text(mount.get("mountPath")),
            volume=volume,
            source=sources.get(volume, {}),
            sub_path=text(mount.get("subPath")),
            read_only=mount.get("readOnly") is True,
            more={k: v for k, v in mount.items() if k not in _OF_MOUNTS and v != "None"},
        )


def _resources(container: Container) -> dict[str, dict[str, str]]:
    """Return requests and limits; the API server fills requests in from limits."""
    limits, requests = texts(container.limits), texts(container.requests)
    both = {"requests": {**limits, **requests}, "limits": limits}
    return {kind: amounts for kind, amounts in both.items() if amounts}


def restart_of_role(policy: Data, run_policy: Mapping[str, Data]) -> Restart:
    """Return how the pods of a role are restarted, by Kubeflow's common API of version 1."""
    limit = integer(run_policy.get("backoffLimit"))
    if policy == "Never":
        return Restart(limit=0)
    if policy == "ExitCode":
        return Restart(limit=limit, permanent=PERMANENT)
    return Restart(limit=limit, in_pod=True)
