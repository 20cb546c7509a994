"""A pod's containers in terms that all operators share: amounts, mounts, files, security."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import PurePosixPath

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, dig, mapping, mappings, text, texts
from trainwright.datatypes.job import file_digest
from trainwright.objects.pods import command, probes
from trainwright.objects.pods.mounted import shown
from trainwright.objects.pods.pod import Configs, EnvVar, Mount, Pod
from trainwright.objects.pods.template import Container

# Variables by which operators and launchers set the rank and peers of a process; `programs` shows
# their effect.
_PLACING = frozenset(
    "RANK LOCAL_RANK WORLD_SIZE MASTER_ADDR MASTER_PORT JOB_COMPLETION_INDEX PYTHONUNBUFFERED "
    "TRAINWRIGHT_MASTER_ADDR TRAINWRIGHT_MASTER_PORT TRAINWRIGHT_NNODES "
    # Further options of torchrun may be variables as well, which only people set.
    "PET_NNODES PET_NPROC_PER_NODE PET_NODE_RANK PET_MASTER_ADDR PET_MASTER_PORT PET_RDZV_BACKEND "
    "PET_RDZV_ENDPOINT PET_RDZV_ID PET_RDZV_CONF PET_MAX_RESTARTS PET_STANDALONE".split()
)


def places(name: str) -> bool:
    """Whether a variable is one that operators set for launchers."""
    return name in _PLACING or name.startswith("LATTICE_")


def environment(pod: Pod) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Return the variables that the job itself sets: those with known values, and the origins of
    those that are kept out of git for being secret, and of others.

    The pod's own name is none of the job's, even if its operator chooses it.
    """
    unresolved = {v.name: v for v in (*pod.unresolved, *_own_names(pod))}
    # A reference to one of those works only in a variable after it, as in `resolve`.
    _, resolved = pod.resolve({name: f"<{v.source}>" for name, v in unresolved.items()})
    # An empty variable is still set, which some programs tell from an unset one.
    plain = {
        name: resolved[name] or '""' for name in resolved.keys() - unresolved if not places(name)
    }
    secrets: dict[str, str] = {}
    others: dict[str, str] = {}
    for name, variable in sorted(unresolved.items()):
        if not places(name):
            is_secret = variable.secret is not None or variable.source.endswith("of the shell")
            (secrets if is_secret else others)[name] = variable.source
    return dict(sorted(plain.items())), secrets, others


_OWN_NAME = "metadata.name"


def _own_names(pod: Pod) -> Iterator[EnvVar]:
    """Yield the variables that have the name of their pod, by the field that they take it from."""
    last = {variable.name: variable for variable in pod.declared}
    for variable in last.values():
        if dig(variable.origin, "fieldRef", "fieldPath") == _OWN_NAME:
            yield replace(variable, value="", source=f"field {_OWN_NAME} of the pod")


def image(written: str) -> str:
    """Return the image with the tag that registries give by default."""
    named = ":" in written.rpartition("/")[2] or "@" in written
    return written if named or not written else f"{written}:latest"


def pull_policy(written: str, of: str) -> str:
    """Return the policy, or the API server's default for an image."""
    moving = image(of).endswith(":latest")
    return written or ("Always" if moving else "IfNotPresent")


def amount(written: Data) -> str:
    """Return a quantity as a number of cores, bytes or pieces; any other text unchanged."""
    parsed = quantity.read(written)
    return str(written) if parsed is None else f"{parsed.normalize():f}"


def resources(written: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, str]]:
    """Return requests, which limits fill in, and limits."""
    limits = written.get("limits", {})
    both = {"requests": {**limits, **written.get("requests", {})}, "limits": limits}
    return {
        kind: {name: amount(value) for name, value in sorted(amounts.items())}
        for kind, amounts in both.items()
        if amounts
    }


@lru_cache(maxsize=4096)  # many containers mount at the same few paths
def normal(path: str, inside: str = "") -> str:
    """Return a path, or one inside it, without redundant parts such as `.` or a final slash."""
    return str(PurePosixPath(path) / inside)


def mounts(pod: Pod, configs: Configs) -> Iterator[tuple[str, dict[str, Data], Mount]]:
    """Yield path, volume source and mount of all mounts, except those that `files` covers."""
    for mount in pod.mounts:
        if mount.config not in configs:
            path = normal(mount.path)
            yield path, source_of(mount.source, mount.sub_path), _joined(mount)


def _joined(mount: Mount) -> Mount:
    """Return a mount without the sub-path of a host path, which is a host path by itself."""
    if "hostPath" not in mount.source:
        return mount
    return replace(mount, sub_path="")


# Volumes that are made for each pod: containers share files only if they mount the same one.
_OF_THE_POD = frozenset({"csi", "emptyDir", "ephemeral"})


def kept(pod: Pod) -> tuple[str, ...]:
    """Return where volumes on a disk are mounted that live as long as the pod."""
    return tuple(
        sorted(
            normal(mount.path)
            for mount in pod.mounts
            if _OF_THE_POD & mount.source.keys()
            and dig(mount.source, "emptyDir", "medium") != "Memory"
        )
    )


def shared(pod: Pod, volume: str, place: str) -> tuple[str, ...]:
    """Return other mount paths of a volume made for the pod: plain, or after a container's name."""
    if not _OF_THE_POD & pod.volumes.get(volume, {}).keys():
        return ()
    places = {normal(mount.path) for mount in pod.mounts if mount.volume == volume}
    for container in (*pod.before, *pod.beside):
        for mount in container.mounts:
            if mount.get("name") == volume:
                places.add(place_in(container, text(mount.get("mountPath"))))
    return tuple(sorted(places - {place}))


def place_in(container: Container, path: str) -> str:
    """Return a path in a container other than the one that trains, after the container's name."""
    return f"{container.name}:{normal(path)}"


def source_of(written: Mapping[str, Data], sub_path: str) -> dict[str, Data]:
    """Return a volume's source, with sizes in bytes."""
    kind = next(iter(written), "")
    source = mapping(written.get(kind))
    if kind == "hostPath":
        path = PurePosixPath(text(source.get("path")) or "/") / sub_path
        return {kind: {"path": str(path), "type": source.get("type", "")}}
    if kind == "emptyDir" and "sizeLimit" in source:
        return {kind: {**source, "sizeLimit": amount(source["sizeLimit"])}}
    return {kind: {key: value for key, value in source.items() if not _usual(kind, key, value)}}


def _usual(kind: str, key: str, value: Data) -> bool:
    """Whether a value is what the API server fills in. 420 is 0644."""
    modes = kind in ("configMap", "secret", "projected", "downwardAPI") and key == "defaultMode"
    return value is False or (modes and value == 0o644)


def files(pod: Pod, configs: Configs) -> Iterator[tuple[str, str]]:
    """Yield the files of configs among the manifests, by path: their text, or else a digest."""
    for path, content, _ in _mounted(pod, configs):
        yield path, file_digest(content) if isinstance(content, bytes) else content


def contents(pod: Pod, configs: Configs) -> Iterator[tuple[str, str | bytes]]:
    """Return the files of configs among the manifests, by path: their text, or else their bytes."""
    return ((path, content) for path, content, _ in _mounted(pod, configs))


def modes(pod: Pod, configs: Configs) -> Iterator[tuple[str, str]]:
    """Yield the octal permissions of these files where they differ from the default."""
    for path, _, mode in _mounted(pod, configs):
        if isinstance(mode, int) and mode != _MODE:
            yield path, f"{mode:04o}"


_MODE = 0o644  # https://kubernetes.io/docs/reference/kubernetes-api/config-and-storage-resources/volume/


def _mounted(pod: Pod, configs: Configs) -> Iterator[tuple[str, str | bytes, Data]]:
    """Yield each file of the configs by path, with its permissions as they are written."""
    for mount in pod.mounts:
        data = configs.get(mount.config, {})
        source = mapping(mount.source.get("configMap"))
        for item, inside in shown(source, data, mount.sub_path):
            mode = item.get("mode", source.get("defaultMode"))
            yield normal(mount.path, inside), data[text(item.get("key"))], mode


def security(own: Mapping[str, Data], theirs: Mapping[str, Data]) -> dict[str, Data]:
    """Merge both security contexts: the container's wins where both set a field."""
    both: dict[str, Data] = {**theirs, **own}
    both["nonRoot"] = both.pop("runAsNonRoot", False) or bool(both.get("runAsUser"))
    both["allowPrivilegeEscalation"] = both.get("allowPrivilegeEscalation", True)
    return both


# The defaults of fields: writing them changes nothing.
_DEFAULTS: Mapping[str, tuple[Data, ...]] = {
    "dnsPolicy": ("ClusterFirst",),
    "enableServiceLinks": (True,),
    "hostUsers": (True,),
    "preemptionPolicy": ("PreemptLowerPriority",),
    "terminationMessagePath": ("/dev/termination-log",),
    # These differ only in the termination message: FallbackToLogsOnError has one more often.
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
}
_OF_PROBES = {"initialDelaySeconds": 0, **probes.DEFAULTS}


def rest(pod: Pod) -> dict[str, dict[str, Data]]:
    """Return the pod's and container's fields that no other part of a form has; no defaults."""
    remaining = {where: beyond_defaults(fields) for where, fields in pod.rest.items()}
    if devices := mappings(remaining.get("container", {}).get("volumeDevices")):
        remaining["container"]["volumeDevices"] = {
            text(device.get("devicePath")): pod.volumes.get(text(device.get("name")), {})
            for device in devices
        }
    numbers = {port.name: port.number for port in pod.ports if port.name}
    for name in [key for key in remaining.get("container", {}) if key.endswith("Probe")]:
        remaining["container"][name] = _numbered(remaining["container"][name], numbers)
    return {where: fields for where, fields in remaining.items() if fields}


def _numbered(probe: Data, numbers: Mapping[str, int]) -> Data:
    """Return a probe with the number of the port that it calls by a name."""
    if not isinstance(probe, Mapping):
        return probe
    named = {
        how: {**action, "port": numbers.get(str(action.get("port")), action.get("port"))}
        for how, action in probe.items()
        if isinstance(action, Mapping) and "port" in action
    }
    return {**probe, **named}


def beyond_defaults(written: Mapping[str, Data]) -> dict[str, Data]:
    """Return the fields without those that are set to their defaults."""
    return {k: _written_entry(k, value) for k, value in written.items() if value not in _absent(k)}


def _absent(key: str) -> tuple[Data, ...]:
    return (None, *_DEFAULTS.get(key, (False,)))


def _written_entry(key: str, value: Data) -> Data:
    """Return False as a word if True is the default, and a probe without its own defaults."""
    if key.endswith("Probe") and isinstance(value, Mapping):
        return _probe(value)
    return "false" if value is False and True in _DEFAULTS.get(key, ()) else value


def _probe(written: Mapping[str, Data]) -> dict[str, Data]:
    probe = {k: value for k, value in written.items() if _OF_PROBES.get(k) != value}
    get = written.get("httpGet")
    if isinstance(get, Mapping) and get.get("scheme") == "HTTP":
        probe["httpGet"] = {key: value for key, value in get.items() if key != "scheme"}
    return probe


def ports(pod: Pod) -> tuple[int, ...]:
    """Return the numbers of the ports that are not the rendezvous'."""
    env, options = dict(pod.env), command.parse(pod.argv).options
    names = ("MASTER_PORT", "PET_MASTER_PORT", "TRAINWRIGHT_MASTER_PORT")
    endpoint = (options.get("rdzv-endpoint") or env.get("PET_RDZV_ENDPOINT", "")).rpartition(":")[2]
    meeting = {env.get(name) for name in names} | {
        *(options.get(name) for name in ("master-port", "main-process-port")),
        endpoint,
    }
    return tuple(
        sorted({p.number for p in pod.ports if not p.meets and str(p.number) not in meeting})
    )


# --- the containers beside the one that trains: those that run before, and alongside --------------

# https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
_SAID_BESIDE = frozenset(
    "name image imagePullPolicy env resources securityContext volumeMounts ports".split()
)


def init(pod: Pod) -> Iterator[dict[str, Data]]:
    """Yield what runs before the training, in order, with sidecars that later ones may need."""
    for container in pod.init:
        yield {"name": container.name, **_beside(container, pod)}


def sidecars(pod: Pod) -> dict[str, Data]:
    """Return what runs alongside, by name: the last sidecars, and the pod's other containers."""
    return {container.name: _beside(container, pod) for container in pod.sidecars}


def _beside(written: Container, pod: Pod) -> dict[str, Data]:
    policy = text(written.body.get("imagePullPolicy"))
    return {
        "image": image(written.image),
        "pullPolicy": pull_policy(policy, written.image),
        "env": {
            text(entry.get("name")): _value(entry) for entry in written.env if not _counts(entry)
        },
        "resources": resources(
            {"limits": texts(written.limits), "requests": texts(written.requests)}
        ),
        "claims": dig(written.body, "resources", "claims"),
        "mounts": dict(_mounts_beside(written, pod)),
        "ports": {str(port.get("containerPort", "")): _port(port) for port in written.ports},
        "security": security(written.security, pod.security.get("pod", {})),
        **beyond_defaults({k: v for k, v in written.body.items() if k not in _SAID_BESIDE}),
    }


def _counts(entry: Mapping[str, Data]) -> bool:
    """Whether a variable is JOB_COMPLETION_INDEX with a number: the pod's index in its Job."""
    return entry.get("name") == "JOB_COMPLETION_INDEX" and text(entry.get("value")).isdigit()


def _value(entry: Mapping[str, Data]) -> Data:
    origin = mapping(entry.get("valueFrom"))
    return dict(origin) if origin else str(entry.get("value") or "")


def _port(port: Mapping[str, Data]) -> dict[str, Data]:
    return {k: v for k, v in port.items() if (k, v) != ("protocol", "TCP") and k != "containerPort"}


def _mounts_beside(written: Container, pod: Pod) -> Iterator[tuple[str, dict[str, Data]]]:
    for mount in written.mounts:
        name, path = text(mount.get("name")), text(mount.get("mountPath"))
        elsewhere = shared(pod, name, place_in(written, path))
        more = {k: v for k, v in mount.items() if k not in ("name", "mountPath") and v != "None"}
        yield (
            normal(path),
            {
                "source": source_of(pod.volumes.get(name, {}), ""),
                **({"shared": elsewhere} if elsewhere else {}),
                **more,
            },
        )
