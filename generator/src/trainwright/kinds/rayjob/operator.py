"""What KubeRay makes of a RayJob: the head of a Ray cluster with the program, and its workers.

Facts: ray-project/kuberay v1.7.0, ray-operator/controllers/ray/common/pod.go. The names of the
cluster and of its pods end at random; those here have their beginnings.

KubeRay starts Ray as our entrypoint does with --ray: the first node is the head and has the
program, the others join. So that entrypoint replaces it in the pods here, which makes them those
of any other kind.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from trainwright.datatypes import quantity
from trainwright.datatypes.data import amount, dig, mapping, text, texts
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.rayjob import entrypoint
from trainwright.kinds.rayjob.pod_templates import pod_templates
from trainwright.objects.pods import build, command
from trainwright.objects.pods.groups import PodGroup, Pods
from trainwright.objects.pods.pod import (
    EnvVar,
    ManifestError,
    Mount,
    Operator,
    Pod,
    Restart,
    Workload,
)
from trainwright.objects.pods.template import SHARED_MEMORY, PodTemplate

_PORT = "29500"
_PYTHONS = ("python", "python3")
# Of the head's Service, which KubeRay makes by itself where the head has no ports.
_OF_RAY = ("gcs-server", "dashboard")


def _pods(manifest: Manifest, _: Sequence[Manifest], __: int | None) -> Workload:
    spec = manifest.spec
    templates = [*pod_templates(manifest)]
    if not templates or templates[0].role != "head":
        raise ManifestError(
            f"RayJob {manifest.name} has no head: a cluster that is there already is not seen here"
        )
    words = tuple(_started(manifest))
    nodes = sum(template.replicas for template in templates)
    pods = Pods(_groups(manifest, templates, words, nodes))
    return Workload(
        pods=pods,
        deciding=pods.names[:1],
        deadline=build.deadline(spec, attempt=True),
        suspended=spec.get("suspend") is True,
    )


def _groups(
    manifest: Manifest, templates: Sequence[PodTemplate], words: tuple[str, ...], nodes: int
) -> Iterator[PodGroup]:
    """Yield the head, and each group of workers; their nodes are numbered through."""
    first, restart = 0, Restart(limit=amount(manifest.spec.get("backoffLimit"), 0), gang=True)
    for template in templates:
        is_head = template.role == "head"
        role = "head" if is_head else "worker"
        prefix = f"{manifest.name}-head" if is_head else f"{manifest.name}-{template.role}-worker"
        names = tuple(prefix if is_head else f"{prefix}-{i}" for i in range(template.replicas))
        made = build.pod(
            template,
            build.main_container(template),
            name=prefix,
            role=role,
            index=0,
            restart=restart,
            fields={},
        )
        made = replace(
            _with_shared_memory(made),
            command=words,
            starts_image=False,
            ports=tuple(port for port in made.ports if port.name not in _OF_RAY),
        )
        of_head = f"{manifest.name}-head"
        yield PodGroup(role, names, names, partial(_numbered, made, names, first, nodes, of_head))
        first += template.replicas


def _with_shared_memory(pod: Pod) -> Pod:
    """Return the pod with what KubeRay mounts for Ray's objects, if it has nothing there."""
    if any(mount.path == SHARED_MEMORY for mount in pod.mounts):
        return pod
    limits, requests = (pod.resources.get(kind, {}) for kind in ("limits", "requests"))
    size = limits.get("memory") or requests.get("memory")
    memory = {"medium": "Memory", **({"sizeLimit": size} if size else {})}
    shared = Mount(path=SHARED_MEMORY, volume="shared-mem", source={"emptyDir": memory})
    volumes = {**pod.volumes, shared.volume: shared.source}
    return replace(pod, mounts=(*pod.mounts, shared), volumes=volumes)


def _numbered(
    made: Pod, names: Sequence[str], first: int, nodes: int, head: str, index: int
) -> Pod:
    """Return a pod of an index with its name and the variables of its rank."""
    place = {
        "TRAINWRIGHT_MASTER_ADDR": head,
        "TRAINWRIGHT_MASTER_PORT": _PORT,
        "TRAINWRIGHT_NNODES": str(nodes),
        "JOB_COMPLETION_INDEX": str(first + index),
    }
    variables = (EnvVar(name, value) for name, value in place.items())
    name = names[index]
    return replace(
        made, name=name, hostname=name, index=index, declared=(*made.declared, *variables)
    )


def _started(manifest: Manifest) -> Iterator[str]:
    """Yield the program's command, by our entrypoint if Python starts it."""
    words = entrypoint.words(text(manifest.spec.get("entrypoint")))
    parsed = command.parse(words)
    before = [word for word in words[: parsed.program or 0] if word not in ("-u", "-m")]
    if parsed.launcher != "none" or parsed.program is None or before not in ([p] for p in _PYTHONS):
        yield from words
        return
    yield from (*command.RUNTIME, "--ray", *_options(manifest), "--")
    yield from ("-m",) if parsed.is_module else ()
    yield from words[parsed.program :]


def _options(manifest: Manifest) -> Iterator[str]:
    params: Mapping[str, str] = texts(
        mapping(dig(manifest.spec, "rayClusterSpec", "headGroupSpec", "rayStartParams"))
    )
    params = {**_counted(manifest), **params}
    for name in ("num-cpus", "object-store-memory"):
        if name in params:
            yield f"--{name}={params[name]}"


def _counted(manifest: Manifest) -> Mapping[str, str]:
    """Return the CPUs that KubeRay gives to Ray where nothing is set: the limit, or the request."""
    head = next(template for template in pod_templates(manifest) if template.role == "head")
    resources = build.main_container(head).body.get("resources")
    for kind in ("limits", "requests"):
        if cpu := quantity.read(dig(mapping(resources), kind, "cpu")):
            return {"num-cpus": str(math.ceil(cpu))}
    return {}


OPERATOR = Operator(name="KubeRay", pods=_pods)
