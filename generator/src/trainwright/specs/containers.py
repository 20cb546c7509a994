"""Volumes, init containers and sidecars of a job: contradictions, and references to nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from trainwright.datatypes.data import dig, mapping
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.job import Container, Job
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.datatypes.suggestion import suggestion
from trainwright.datatypes.volumes import Claim, Mount
from trainwright.findings import diagnostics as dx
from trainwright.objects.pods.command import SCRIPT_PATH
from trainwright.objects.pods.requests import requests
from trainwright.specs.merge import Layered

UNCOUNTED = "plans and quotas count the accelerators of resources.gpu, and no others"


def helpers(job: Job) -> Iterator[tuple[Pointer, Container]]:
    """Yield each init container and sidecar of a job, after the pointer to it in the spec."""
    for field, containers in (("initContainers", job.init_containers), ("sidecars", job.sidecars)):
        for container in containers:
            yield Pointer.of(field, container.name), container


def problems(job: Job, spec: Layered, environment: Environment) -> Iterator[Finding]:
    """Everything in the volumes and containers of a job that cannot be."""
    yield from _volumes(job, spec)
    yield from _repeated(_own_places(job), spec, _seen(job))
    volume_names = [volume.name for volume in job.volumes]
    for at, container in helpers(job):
        yield from _repeated(_places(container, at, spec), spec, {})
        for name in container.mounts:
            if name not in volume_names:
                yield _no_volume(name, at, volume_names, spec)
    yield from _of_sidecars_alone(job, spec)
    yield from _uncounted(job, spec, environment)
    names = [container.name for container in job.init_containers]
    for container in job.sidecars:
        if container.name in names:
            at = Pointer.of("sidecars", container.name)
            message = f"{at.dotted} and {Pointer.of('initContainers', container.name).dotted}"
            yield spec.finding(dx.CONTRADICTION, at, f"{message} have one name")


# https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#detailed-behavior
_OF_SIDECARS = ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle")


def _of_sidecars_alone(job: Job, spec: Layered) -> Iterator[Finding]:
    for container in job.init_containers:
        if "restartPolicy" not in container.parts:
            for key in (key for key in _OF_SIDECARS if key in container.parts):
                at = Pointer.of("initContainers", container.name, key)
                message = f"{container.name} runs to its end, and only sidecars have a {key}"
                remedy = "Remove it, or make the container a sidecar (restartPolicy: Always)."
                yield dx.CONTRADICTION.at(spec.key_origin(at), message, path=at, remedy=remedy)


def _uncounted(job: Job, spec: Layered, environment: Environment) -> Iterator[Finding]:
    """Yield a finding for each request of accelerators beyond those of the training.

    What runs to its end before the training may have as many: a pod asks for the most of the two.
    https://kubernetes.io/docs/concepts/workloads/pods/init-containers/#resource-sharing-within-containers
    """
    counted = {job.pool.resource: job.resources.gpu} if job.pool else {}
    pool_resources = {pool.resource for pool in environment.pools.values()}
    for at, container in helpers(job):
        stays = container in job.sidecars or container.parts.get("restartPolicy") == "Always"
        for name, amount in requests(container.parts).items():
            most = 0 if stays else counted.get(name, 0)
            if name in pool_resources and amount > most:
                written = name in mapping(dig(container.parts, "resources", "requests"))
                where = at / "resources" / ("requests" if written else "limits") / name
                message = f"{container.name} requests {amount:f} of {name}: {UNCOUNTED}"
                remedy = f"Ask for at most {most}, as the training." if most else "Remove it."
                yield spec.finding(dx.CONTRADICTION, where, message, remedy=remedy)


def _volumes(job: Job, spec: Layered) -> Iterator[Finding]:
    """Yield a finding for each volume that is mounted nowhere, or whose claim does not fit."""
    mounted = {name for _, container in helpers(job) for name in _volumes_of(container)}
    for volume in job.volumes:
        at = Pointer.of("volumes", volume.name)
        if not (volume.mounted or volume.device_path) and volume.name not in mounted:
            remedy = (
                f"Add {(at / 'mountPath').dotted}, name it in the mounts of an init container or "
                "sidecar, or remove it."
            )
            message = f"{at.dotted} is mounted nowhere"
            yield spec.finding(dx.CONTRADICTION, at, message, remedy=remedy)
        if volume.create and volume.device_path:
            message = f"{at.dotted} creates a claim of files, which is not a block device"
            remedy = "Use a claim of volumeMode Block, or mountPath."
            yield spec.finding(dx.CONTRADICTION, at / "devicePath", message, remedy=remedy)
        if volume.create:
            yield from _claim_fits(job, spec, volume.create, at)


def _volumes_of(container: Container) -> Iterator[str]:
    yield from container.mounts
    yield from (device["name"] for device in container.parts.get("volumeDevices", ()))


def _claim_fits(job: Job, spec: Layered, claim: Claim, at: Pointer) -> Iterator[Finding]:
    modes = claim.access_modes
    many = max(job.nodes, job.elastic.max_nodes if job.elastic else 1) > 1
    if modes and many and not {"ReadWriteMany", "ReadOnlyMany"} & set(modes):
        message = f"the claim can be mounted by one node only ({', '.join(modes)})"
        remedy = "Add ReadWriteMany, with a storageClass that has it, or set nodes to 1."
        path = at / "create" / "accessModes"
        yield spec.finding(dx.CONTRADICTION, path, message, remedy=remedy)


def _no_volume(name: str, at: Pointer, volume_names: Sequence[str], spec: Layered) -> Finding:
    near = suggestion(name, volume_names)
    remedy = f'Did you mean "{near}"?' if near else f"Add {Pointer.of('volumes', name).dotted}."
    message = f'{at.dotted} mounts "{name}", there is no such volume'
    where = at / "mounts" / name
    effect = "The API server would refuse the pods."
    return dx.REFERENCE.at(
        spec.key_origin(where), message, path=where, remedy=remedy, effect=effect
    )


# --- mounts --------------------------------------------------------------------------------------


def _seen(job: Job) -> dict[str, str]:
    """What is mounted besides volumes, by path."""
    seen = {"/dev/shm": "shm"} if job.shm != "none" else {}  # noqa: S108
    seen |= {file.name: Pointer.of("files", file.name).dotted for file in job.files}
    if job.code:
        seen[job.code.mount_path.rstrip("/")] = "code"
    if job.entrypoint.inline:
        seen[SCRIPT_PATH] = "entrypoint.inline"
    return seen


def _own_places(job: Job) -> Iterator[tuple[Pointer, Pointer, Mount]]:
    """Yield each mount of the container that trains, after where it is written and its volume."""
    for volume in job.volumes:
        at = Pointer.of("volumes", volume.name)
        for where, mount in volume.places:
            yield where, at, mount


def _places(
    container: Container, at: Pointer, spec: Layered
) -> Iterator[tuple[Pointer, Pointer, Mount]]:
    for name, mounts in container.mounts.items():
        where = at / "mounts" / name
        listed = isinstance(lookup(spec.data, where), list)
        for index, mount in enumerate(mounts):
            yield (where / index if listed else where), where, mount


def _repeated(
    places: Iterable[tuple[Pointer, Pointer, Mount]], spec: Layered, seen: dict[str, str]
) -> Iterator[Finding]:
    """Yield a finding for each path with two mounts, and each mount of two parts of a volume."""
    for where, what, mount in places:
        path = mount.mount_path.rstrip("/") or "/"
        if path in seen:
            message = f"{what.dotted} and {seen[path]} are both mounted at {path}"
            shm = "Remove this mount: `shm: 16Gi` sets the size of /dev/shm."
            remedy = shm if seen[path] == "shm" else ""
            yield spec.finding(dx.CONTRADICTION, where / "mountPath", message, remedy=remedy)
        seen[path] = what.dotted
        if mount.sub_path and mount.sub_path_expr:
            message = "subPath and subPathExpr exclude each other"
            yield spec.finding(dx.CONTRADICTION, where / "subPathExpr", message)
