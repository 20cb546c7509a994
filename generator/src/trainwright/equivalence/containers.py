"""A pod's container in terms that all operators share: amounts, mounts, files, security."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from trainwright import quantity
from trainwright.equivalence.programs import UNBUFFERED
from trainwright.model import Data, file_digest
from trainwright.pods import command
from trainwright.pods.pod import Configs, EnvVar, Mount, Pod

# Variables by which operators and launchers place a process; `programs` says what comes of them.
_PLACING = frozenset(
    {
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "MASTER_ADDR",
        "MASTER_PORT",
        "JOB_COMPLETION_INDEX",
        "TRAINWRIGHT_MASTER_ADDR",
        "TRAINWRIGHT_MASTER_PORT",
        "TRAINWRIGHT_NNODES",
        UNBUFFERED,
    }
)
_PLACING_PREFIXES = ("PET_", "LATTICE_")


def places(name: str) -> bool:
    """Whether a variable is one that operators set for launchers."""
    return name in _PLACING or name.startswith(_PLACING_PREFIXES)


def environment(pod: Pod) -> tuple[dict[str, str], dict[str, EnvVar]]:
    """What the job itself sets: values that are known, and variables whose values are not."""
    known = {name: value for name, value in pod.env if not places(name)}
    elsewhere = {v.name: v for v in pod.unresolved if not places(v.name)}
    return dict(sorted(known.items())), dict(sorted(elsewhere.items()))


def is_secret(variable: EnvVar) -> bool:
    """Whether a variable's value is kept out of git for being secret, not for being unknown."""
    return variable.secret is not None or variable.source.endswith("of the shell")


def image(pod: Pod) -> str:
    """The image with the tag that registries give by default."""
    named = ":" in pod.image.rpartition("/")[2] or "@" in pod.image
    return pod.image if named or not pod.image else f"{pod.image}:latest"


def pull_policy(pod: Pod) -> str:
    """The policy, with the API server's default for an image."""
    moving = image(pod).endswith(":latest")
    return pod.pull_policy or ("Always" if moving else "IfNotPresent")


def amount(written: Data) -> str:
    """A quantity in cores, bytes or pieces; other words as they are."""
    found = quantity.read(written)
    return str(written) if found is None else f"{found.normalize():f}"


def resources(pod: Pod) -> dict[str, dict[str, str]]:
    """Requests, which limits fill in, and limits."""
    limits = pod.resources.get("limits", {})
    both = {"requests": {**limits, **pod.resources.get("requests", {})}, "limits": limits}
    return {
        kind: {name: amount(value) for name, value in sorted(amounts.items())}
        for kind, amounts in both.items()
        if amounts
    }


def mounts(pod: Pod, configs: Configs) -> Iterator[tuple[str, dict[str, Data], Mount]]:
    """Path, volume source and mount of everything but what `files` gives whole."""
    for mount in pod.mounts:
        if _config(mount) not in configs:
            path = str(PurePosixPath(mount.path))
            yield path, _source(mount), _joined(mount)


def _joined(mount: Mount) -> Mount:
    """A folder of a host path is itself a host path."""
    if "hostPath" not in mount.source:
        return mount
    return Mount(
        path=mount.path, volume=mount.volume, source=mount.source, read_only=mount.read_only
    )


def _source(mount: Mount) -> dict[str, Data]:
    kind = next(iter(mount.source), "")
    source: Mapping[str, Data] = mount.source.get(kind) or {}
    if kind == "hostPath":
        path = PurePosixPath(source.get("path", "/")) / mount.sub_path
        return {kind: {"path": str(path), "type": source.get("type", "")}}
    if kind == "emptyDir" and "sizeLimit" in source:
        return {kind: {**source, "sizeLimit": amount(source["sizeLimit"])}}
    return {kind: dict(source)}


def _config(mount: Mount) -> str:
    return str((mount.source.get("configMap") or {}).get("name", ""))


def files(pod: Pod, configs: Configs) -> Iterator[tuple[str, str]]:
    """The files of configs that are among the manifests, by path: their text, or else a digest."""
    for mount in pod.mounts:
        data = configs.get(_config(mount), {})
        source = mount.source.get("configMap") or {}
        items = source.get("items") or [{"key": key, "path": key} for key in data]
        for item in items:
            if mount.sub_path in ("", item["path"]) and item["key"] in data:
                inside = "" if mount.sub_path else item["path"]
                found = data[item["key"]]
                shown = file_digest(found) if isinstance(found, bytes) else found
                yield str(PurePosixPath(mount.path) / inside), shown


def security(pod: Pod) -> dict[str, Data]:
    """Both security contexts in one: the container's wins where both speak."""
    own, theirs = pod.security.get("container", {}), pod.security.get("pod", {})
    both: dict[str, Data] = {**theirs, **own}
    both["nonRoot"] = both.pop("runAsNonRoot", False) or bool(both.get("runAsUser"))
    both["allowPrivilegeEscalation"] = both.get("allowPrivilegeEscalation", True)
    return both


# What holds without a field, which then changes nothing where it is written.
_DEFAULTS: Mapping[str, tuple[Data, ...]] = {
    "dnsPolicy": ("ClusterFirst",),
    "enableServiceLinks": (True,),
    "hostUsers": (True,),
    "preemptionPolicy": ("PreemptLowerPriority",),
    "terminationMessagePath": ("/dev/termination-log",),
    # They differ in a message alone: with FallbackToLogsOnError there is one more often.
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
}
_PROBE_DEFAULTS = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
    "initialDelaySeconds": 0,
}


def rest(pod: Pod) -> dict[str, dict[str, Data]]:
    """Fields of the pod and its container that no other part of a form has, but for defaults."""
    found = {
        where: {
            key: _said(key, value) for key, value in fields.items() if value not in _absent(key)
        }
        for where, fields in pod.rest.items()
    }
    return {where: fields for where, fields in found.items() if fields}


def _absent(key: str) -> tuple[Data, ...]:
    return (None, *_DEFAULTS.get(key, (False,)))


def _said(key: str, value: Data) -> Data:
    """False as a word where it is not what holds without it; a probe without its own defaults."""
    if key.endswith("Probe") and isinstance(value, Mapping):
        return _probe(value)
    return "false" if value is False and True in _DEFAULTS.get(key, ()) else value


def _probe(written: Mapping[str, Data]) -> dict[str, Data]:
    found = {k: value for k, value in written.items() if _PROBE_DEFAULTS.get(k) != value}
    get = written.get("httpGet")
    if isinstance(get, Mapping) and get.get("scheme") == "HTTP":
        found["httpGet"] = {key: value for key, value in get.items() if key != "scheme"}
    return found


def ports(pod: Pod) -> tuple[int, ...]:
    """Numbers of the ports that are not the rendezvous'."""
    env, options = dict(pod.env), command.parse(pod.argv).options
    names = ("MASTER_PORT", "PET_MASTER_PORT", "TRAINWRIGHT_MASTER_PORT")
    endpoint = (options.get("rdzv-endpoint") or env.get("PET_RDZV_ENDPOINT", "")).rpartition(":")[2]
    meeting = {env.get(name) for name in names} | {options.get("master-port"), endpoint}
    return tuple(sorted({p.number for p in pod.ports if str(p.number) not in meeting}))
