"""The containers of a pod beside the one that trains: those that run before, and alongside.

https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from trainwright.equivalence import containers
from trainwright.model import Data
from trainwright.pods.pod import Pod

_SAID = frozenset(
    {
        "name",
        "image",
        "imagePullPolicy",
        "env",
        "resources",
        "securityContext",
        "volumeMounts",
        "ports",
    }
)


def is_sidecar(container: Mapping[str, Data]) -> bool:
    """Whether an init container keeps running alongside the others."""
    return container.get("restartPolicy") == "Always"


def init(pod: Pod) -> Iterator[dict[str, Data]]:
    """What runs before, in order, with the sidecars that something after them may need."""
    for container in pod.before[: _ends(pod)]:
        yield {"name": container.get("name", ""), **_container(container, pod)}


def sidecars(pod: Pod) -> dict[str, Data]:
    """What runs alongside and starts last, as the pod's other containers do, by name."""
    found = (*pod.before[_ends(pod) :], *pod.beside)
    return {str(container.get("name", "")): _container(container, pod) for container in found}


def _ends(pod: Pod) -> int:
    """After how many of the init containers only sidecars follow."""
    last = [at for at, container in enumerate(pod.before) if not is_sidecar(container)]
    return last[-1] + 1 if last else 0


def _container(written: Mapping[str, Data], pod: Pod) -> dict[str, Data]:
    image = str(written.get("image") or "")
    asked = written.get("resources") or {}
    return {
        "image": containers.image(image),
        "pullPolicy": containers.pull_policy(str(written.get("imagePullPolicy") or ""), image),
        "env": {entry["name"]: _value(entry) for entry in written.get("env") or ()},
        "resources": containers.resources(asked),
        "claims": asked.get("claims"),
        "mounts": dict(_mounts(written, pod)),
        "ports": {str(port["containerPort"]): _port(port) for port in written.get("ports") or ()},
        "security": containers.security(
            written.get("securityContext") or {}, pod.security.get("pod", {})
        ),
        **containers.beyond_defaults({k: v for k, v in written.items() if k not in _SAID}),
    }


def _value(entry: Mapping[str, Data]) -> Data:
    origin = entry.get("valueFrom")
    return dict(origin) if origin else str(entry.get("value") or "")


def _port(port: Mapping[str, Data]) -> dict[str, Data]:
    return {k: v for k, v in port.items() if (k, v) != ("protocol", "TCP") and k != "containerPort"}


def _mounts(written: Mapping[str, Data], pod: Pod) -> Iterator[tuple[str, dict[str, Data]]]:
    for mount in written.get("volumeMounts") or ():
        name, path = mount["name"], mount["mountPath"]
        shared = containers.shared(pod, name, containers.place_in(written, path))
        more = {k: v for k, v in mount.items() if k not in ("name", "mountPath") and v != "None"}
        yield (
            str(PurePosixPath(path)),
            {
                "source": containers.source_of(pod.volumes.get(name, {}), ""),
                **({"shared": shared} if shared else {}),
                **more,
            },
        )
