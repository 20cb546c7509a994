"""A pod's variables, volumes and containers other than the main one, as a spec has them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeAlias

from trainwright.datatypes.data import Data, dig, mapping, mappings, sequence, stated, text
from trainwright.importing import companions
from trainwright.importing.equivalence.containers import places
from trainwright.objects.pods import build
from trainwright.objects.pods.pod import Mount, Pod
from trainwright.objects.pods.template import SHARED_MEMORY, Container

Literal: TypeAlias = Callable[[str], str]  # a text as a spec has to write it


# --- variables -----------------------------------------------------------------------------------


def variables(pod: Pod, literal: Literal) -> Iterator[tuple[str, Data]]:
    """Yield the training container's variables, except secrets and those that operators set."""
    for variable in pod.declared:
        if places(variable.name) or variable.secret:
            continue
        if variable.origin:
            origin = _origin(variable.origin)
            if origin:
                yield variable.name, origin
        elif not variable.source:
            yield variable.name, literal(variable.value)


def _origin(origin: Mapping[str, Data]) -> dict[str, Data]:
    """Return where the cluster takes a value from; empty if a spec cannot express that."""
    for kind, written in origin.items():
        source = mapping(written)
        if kind == "fieldRef":
            return {"field": source.get("fieldPath")}
        if kind == "resourceFieldRef" and "containerName" not in source:
            divisor = str(source.get("divisor") or "1")
            by = {"divisor": divisor} if divisor not in ("0", "1") else {}
            return {"resource": source.get("resource"), **by}
        if kind == "configMapKeyRef":
            named = {"configMap": source.get("name"), "key": source.get("key")}
            return {**named, **companions.optional(source)}
    return {}


def sources(written: Collection[Mapping[str, Data]]) -> list[Data]:
    """Return whole ConfigMaps and Secrets as variables."""
    found: list[Data] = []
    for entry in written:
        for key, named in (("configMapRef", "configMap"), ("secretRef", "secret")):
            reference = mapping(entry.get(key))
            if "name" in reference:
                prefix = {"prefix": entry["prefix"]} if entry.get("prefix") else {}
                found.append({named: reference["name"], **prefix, **companions.optional(reference)})
    return found


# --- volumes -------------------------------------------------------------------------------------

_SHORT = {
    "configMap": ("configMap", "name"),
    "secret": ("secret", "secretName"),
    "persistentVolumeClaim": ("claim", "claimName"),
}
_TAKEN = {"dshm": "shm", "trainwright-files": "files"}  # names that the targets give volumes


def shared_memory(pod: Pod) -> str:
    """Return the size of /dev/shm, "none" unless it is a volume of memory only mounted there."""
    for mount in pod.mounts:
        source = mapping(mount.source.get("emptyDir"))
        alone = not _elsewhere(pod, mount.volume) and not mount.sub_path
        if mount.path == SHARED_MEMORY and source.get("medium") == "Memory" and alone:
            return str(source.get("sizeLimit", "none"))
    return "none"


def volumes(pod: Pod, is_file: Callable[[Mount], bool]) -> Iterator[tuple[str, Data]]:
    """Yield the volumes that containers mount, except for those of files that the spec contains."""
    shm = shared_memory(pod) != "none"
    by_name = {**{mount.volume: mount.source for mount in pod.mounts}, **pod.volumes}
    devices = {
        text(device.get("name")): {"devicePath": device.get("devicePath")}
        for device in mappings(pod.rest.get("container", {}).get("volumeDevices"))
    }
    for name, source in by_name.items():
        if source and name in devices:
            yield _name(name, by_name), {**_source(source), **devices[name]}
            continue
        own = [m for m in pod.mounts if m.volume == name and not (shm and m.path == SHARED_MEMORY)]
        own = [mount for mount in own if not is_file(mount)]
        if source and (own or _elsewhere(pod, name)):
            yield from _volume(_name(name, by_name), source, own)


def _volume(
    name: str, source: Mapping[str, Data], mounts: list[Mount]
) -> Iterator[tuple[str, Data]]:
    """Yield a volume and its mounts, by its name; each further source by a name of its own."""
    # A command line may mount two sources by one name; a pod cannot.
    own = [mount for mount in mounts if mount.source == source]
    written = [_mount(mount) for mount in own]
    where: dict[str, Data] = {"mounts": written} if len(written) > 1 else dict(*written)
    yield name, {**_source(source), **where}
    for number, mount in enumerate((m for m in mounts if m.source != source), 2):
        yield f"{name}-{number}", {**_source(mount.source), **_mount(mount)}


def _name(name: str, taken: Collection[str]) -> str:
    other = _TAKEN.get(name, name)
    return f"{other}-2" if other != name and other in taken else other


def _elsewhere(pod: Pod, volume: str) -> bool:
    """Whether a container other than the one that trains mounts a volume."""
    others = (*pod.before, *pod.beside)
    used = [use for c in others for use in (*c.mounts, *mappings(c.body.get("volumeDevices")))]
    return any(use.get("name") == volume for use in used)


def _source(source: Mapping[str, Data]) -> dict[str, Data]:
    """Return a volume's source in the spec's short form if there is one, else as in Kubernetes."""
    kind = next(iter(source))
    written = {k: v for k, v in mapping(source[kind]).items() if v not in (None, "")}
    if kind in _SHORT:
        short, only = _SHORT[kind]
        if set(written) == {only}:
            return {short: written[only]}
    return {kind: written}


def _mount(mount: Mount) -> dict[str, Data]:
    entry: dict[str, Data] = {"mountPath": mount.path}
    if mount.sub_path:
        entry["subPath"] = mount.sub_path
    if mount.read_only:
        entry["readOnly"] = True
    return {**entry, **mount.more}


# --- other containers ----------------------------------------------------------------------------

_NOT_AS_IT_IS = frozenset(
    {"name", "env", "envFrom", "volumeMounts", "securityContext", "restartPolicy", "resources"}
)


def init(pod: Pod, literal: Literal) -> Iterator[tuple[str, Data]]:
    """Yield what runs before the training, in order, with sidecars that later ones may need."""
    for container in pod.init:
        always = {"restartPolicy": "Always"} if container.sidecar else {}
        yield container.name, {**_container(container, pod, literal), **always}


def sidecars(pod: Pod, literal: Literal) -> Iterator[tuple[str, Data]]:
    """Yield the containers that run alongside the training and end with it."""
    for container in pod.sidecars:
        yield container.name, _container(container, pod, literal)


def _container(written: Container, pod: Pod, literal: Literal) -> dict[str, Data]:
    """Return an init container or a sidecar as a spec has it."""
    entries = build.variables(written, {})
    secret = {v.name: mapping(v.origin["secretKeyRef"]) for v in entries if v.secret}
    fields: dict[str, Data] = {
        **{k: v for k, v in written.body.items() if k not in _NOT_AS_IT_IS},
        **{
            key: [literal(str(word)) for word in sequence(written.body.get(key))]
            for key in ("command", "args")
        },
        "resources": _resources(mapping(written.body.get("resources"))),
        "env": {
            v.name: _origin(v.origin) if v.origin else literal(v.value)
            for v in entries
            if v.name not in secret
        },
        "envFrom": sources(written.env_from),
        "secrets": {name: companions.secret(reference) for name, reference in secret.items()},
        "mounts": dict(_mounts_of(written, pod)),
        "security": security(written.security),
    }
    return stated(fields)


def _resources(written: Mapping[str, Data]) -> dict[str, Data]:
    return {
        kind: {name: str(amount) for name, amount in amounts.items()}
        if isinstance(amounts, Mapping)
        else amounts
        for kind, amounts in written.items()
        if amounts
    }


def _mounts_of(written: Container, pod: Pod) -> Iterator[tuple[str, Data]]:
    by_volume: dict[str, list[dict[str, Data]]] = {}
    for mount in written.mounts:
        more = {k: v for k, v in mount.items() if k != "name" and v not in (False, "", "None")}
        by_volume.setdefault(_name(text(mount.get("name")), pod.volumes), []).append(more)
    for name, mounts in by_volume.items():
        plain = len(mounts) == 1 and set(mounts[0]) == {"mountPath"}
        yield name, mounts[0]["mountPath"] if plain else mounts[0] if len(mounts) == 1 else mounts


def security(context: Mapping[str, Data]) -> dict[str, Data]:
    """Return what a security context adds: a rendered container has no rights by default."""
    added = sequence(dig(context, "capabilities", "add"))
    fields = {
        key: value
        for key, value in context.items()
        if key != "capabilities" and value is not None and value is not False
    }
    if added:
        fields["capabilities"] = [str(name).removeprefix("CAP_") for name in added]
    return fields
