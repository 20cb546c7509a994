"""The containers of a pod beside the one that trains: those that run before, and alongside.

https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, dig, mapping, text, texts
from trainwright.importing.equivalence import containers
from trainwright.objects.pods.pod import Pod
from trainwright.objects.pods.template import Container

_SAID = frozenset(
    "name image imagePullPolicy env resources securityContext volumeMounts ports".split()
)


def init(pod: Pod) -> Iterator[dict[str, Data]]:
    """Yield what runs before the training, in order, with sidecars that later ones may need."""
    for container in pod.init:
        yield {"name": container.name, **_container(container, pod)}


def sidecars(pod: Pod) -> dict[str, Data]:
    """Return what runs alongside, by name: the last sidecars, and the pod's other containers."""
    return {container.name: _container(container, pod) for container in pod.sidecars}


def _container(written: Container, pod: Pod) -> dict[str, Data]:
    policy = text(written.body.get("imagePullPolicy"))
    return {
        "image": containers.image(written.image),
        "pullPolicy": containers.pull_policy(policy, written.image),
        "env": {
            text(entry.get("name")): _value(entry) for entry in written.env if not _counts(entry)
        },
        "resources": containers.resources(
            {"limits": texts(written.limits), "requests": texts(written.requests)}
        ),
        "claims": dig(written.body, "resources", "claims"),
        "mounts": dict(_mounts(written, pod)),
        "ports": {str(port.get("containerPort", "")): _port(port) for port in written.ports},
        "security": containers.security(written.security, pod.security.get("pod", {})),
        **containers.beyond_defaults({k: v for k, v in written.body.items() if k not in _SAID}),
    }


def _counts(entry: Mapping[str, Data]) -> bool:
    """Whether a variable is JOB_COMPLETION_INDEX with a number: the pod's index in its Job."""
    return entry.get("name") == "JOB_COMPLETION_INDEX" and text(entry.get("value")).isdigit()


def _value(entry: Mapping[str, Data]) -> Data:
    origin = mapping(entry.get("valueFrom"))
    return dict(origin) if origin else str(entry.get("value") or "")


def _port(port: Mapping[str, Data]) -> dict[str, Data]:
    return {k: v for k, v in port.items() if (k, v) != ("protocol", "TCP") and k != "containerPort"}


def _mounts(written: Container, pod: Pod) -> Iterator[tuple[str, dict[str, Data]]]:
    for mount in written.mounts:
        name, path = text(mount.get("name")), text(mount.get("mountPath"))
        shared = containers.shared(pod, name, containers.place_in(written, path))
        more = {k: v for k, v in mount.items() if k not in ("name", "mountPath") and v != "None"}
        yield (
            containers.normal(path),
            {
                "source": containers.source_of(pod.volumes.get(name, {}), ""),
                **({"shared": shared} if shared else {}),
                **more,
            },
        )
