"""What in a typed job contradicts itself or its environment, which no schema can see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from pathlib import PurePosixPath

from trainwright.datatypes import quantity
from trainwright.datatypes.data import mapping
from trainwright.datatypes.environment import Environment, Pool
from trainwright.datatypes.finding import Finding, Related
from trainwright.datatypes.job import Job, Role
from trainwright.datatypes.layout import ADOPTED
from trainwright.datatypes.listing import plural
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.volumes import Claim, Volume
from trainwright.findings import diagnostics as dx
from trainwright.objects.pods.command import SCRIPT_PATH
from trainwright.objects.pods.requests import of_processes
from trainwright.rule_model.upstream import upstream
from trainwright.specs import (
    allowed,
    capacity,
    commands,
    containers,
    fabrics,
    files,
    layers,
    pod_parts,
    pod_patch,
)
from trainwright.specs.merge import BUILT_IN, Layered

_MAX_GRACE = 7 * 24 * 3600  # seconds: as long a pod that is deleted may keep its node


def contradictions(job: Job, spec: Layered, environment: Environment) -> Iterator[Finding]:
    """Yield everything in a job that contradicts itself or its environment."""
    yield from _references(job, spec, environment)
    yield from _queueing(job, spec, environment)
    yield from _elastic_range(job, spec)
    yield from _accelerators(job, spec, environment)
    yield from _fabric(job, spec)
    yield from containers.problems(job, spec, environment)
    yield from _variables(job, spec)
    yield from _files(job, spec)
    yield from _grace(job, spec)
    yield from _peer_copies(job, spec)
    yield from _writable(job, spec)
    yield from commands.problems(job, spec)
    yield from _resumed(job, spec)
    yield from _host_network(job, spec)
    yield from allowed.problems(spec, environment)
    yield from pod_parts.problems(spec, environment.kubernetes_version)
    yield from pod_patch.problems(spec, environment.kubernetes_version)
    yield from _claims(job, spec)
    for role in job.roles:
        assert role.role is not None
        yield from _serving(role.role, spec)
        findings = contradictions(role, layers.of_role(spec, role.role.name), environment)
        yield from (in_role(finding, spec, role.role) for finding in findings)


def _claims(job: Job, spec: Layered) -> Iterator[Finding]:
    """Yield a finding where two volumes would create different claims of the same name."""
    claims: dict[str, tuple[Pointer, Claim]] = {}
    for group in (job, *job.roles) if job.roles else ():
        inside = ("roles", group.role.name) if group.role else ()
        for volume in (volume for volume in group.volumes if volume.create):
            assert volume.create is not None
            at = Pointer.of(*inside, "volumes", volume.name)
            other, create = claims.setdefault(volume.name, (at, volume.create))
            if create != volume.create:
                message = f"{(at / 'create').dotted} is another claim than that of {other.dotted}, "
                message += f"and both are called {job.name}-{volume.name}"
                remedy = "Choose another name for the volume."
                yield spec.finding(dx.CONTRADICTION, at / "create", message, remedy=remedy)


def _serving(role: Role, spec: Layered) -> Iterator[Finding]:
    at, ready = Pointer.of("roles", role.name, "ready"), role.ready
    if ready and not ready.command and role.port is None:
        at, what = (at / "path", "an HTTP path is") if ready.path else (at, "a connection is")
        message = f"{what} requested at a port, and the role has none"
        remedy = f"Set roles.{role.name}.port" + ("." if ready.path else ", or a command.")
        yield spec.finding(dx.CONTRADICTION, at, message, remedy=remedy)


def in_role(finding: Finding, spec: Layered, role: Role | None) -> Finding:
    """Return a role's finding as one about the job, at the role's own field if it sets that."""
    if role is None:
        return finding
    own = Pointer.of("roles", role.name, *finding.path.parts)
    wrote = any(layer.wrote(own) for layer in spec.layers) or not finding.path
    return replace(finding, path=own if wrote else finding.path)


# What follows from a name of something that is not there.
_NO_KIND = "There is no kind of object to render the job as."
_NO_NODES = "It is not known which nodes the pods are for."
_NO_QUEUE = "Nothing would ever admit the job: it would stay suspended."
_NO_VOLUME = "What is saved there would be lost with its container."
_NO_KEYS = "The pods would not start, but wait in CreateContainerConfigError."
_NO_GANG = "The pods would start one by one, and hold their GPUs while they wait for the others."
_NO_DEVICES = "The pods would be refused, or start without their devices."
_TOO_LARGE = "The API server would refuse the ConfigMap, and no pod would start."


def _known(field: str, names: Iterable[str], wanted: str, declared: str = "{}") -> str:
    """Return that one of the names is to be used, the nearest first, or what declares another."""
    line, near = f"{wanted}: {declared}", get_close_matches(wanted, [*names], n=3, cutoff=0.4)
    if not names:
        return f"Declare it in environment.yaml: `{field}: {{{line}}}`."
    ordered = ", ".join(sorted(names, key=lambda name: (name not in near, name)))
    return f"Use one of {ordered}, or declare it below {field} in environment.yaml: `{line}`."


def _pool(job: Job) -> str:
    """Return what declares a pool that has the GPUs of a job."""
    gpus = job.resources.gpu or _GPUS_OF_A_NODE
    return f"{{resource: nvidia.com/gpu, gpusPerNode: {gpus}, capacity: {gpus * job.nodes}}}"


_GPUS_OF_A_NODE = 8


def _target(target: str, spec: Layered, environment: Environment) -> Finding:
    """Return the finding that a target is not installed, or that none is chosen."""
    at, installed = Pointer("/target"), sorted(environment.targets)
    if installed and spec.setter(at).label == BUILT_IN:
        message = f"no target is chosen: {environment.name} has {', '.join(installed)}"
        uses = " or ".join(f"`target: {each}`" for each in installed)
        remedy = f"Write {uses}, in the job or among defaults in environment.yaml."
    else:
        message = f'the target "{target}" is not installed in {environment.name}'
        remedy = _known("targets", environment.targets, target)
        remedy = f"{remedy[:-1]}, where the cluster has its operator."
    return dx.REFERENCE.at(spec.authored(at), message, path=at, remedy=remedy, effect=_NO_KIND)


def _references(job: Job, spec: Layered, environment: Environment) -> Iterator[Finding]:
    """Yield a finding for each name of something that the environment does not have."""
    target, pool, name = job.target, spec.data.get("pool"), environment.name
    if target not in (*environment.targets, ADOPTED):
        yield _target(target, spec, environment)
    if pool is not None and job.pool is None:
        message = f'the pool "{pool}" does not exist in {name}'
        remedy = _known("pools", environment.pools, str(pool), _pool(job))
        yield spec.finding(dx.REFERENCE, Pointer("/pool"), message, remedy=remedy, effect=_NO_NODES)
    if job.queue and environment.queueing in ("none", "coscheduling"):
        lacks = "queueing" if environment.queueing == "none" else "queues, only gangs"
        message = f'the queue "{job.queue}" is requested, but {name} has no {lacks}'
        remedy = (
            "Remove the queue (queue: null), or write in environment.yaml what the cluster has: "
        )
        remedy += f"`queueing: kueue` (or volcano) and `queues: {{{job.queue}: {{}}}}`."
        yield spec.finding(
            dx.REFERENCE, Pointer("/queue"), message, remedy=remedy, effect=_NO_QUEUE
        )
    elif job.queue and environment.queues and job.queue not in environment.queues:
        message = f'the queue "{job.queue}" does not exist in {name}'
        remedy = _known("queues", environment.queues, job.queue)
        yield spec.finding(
            dx.REFERENCE, Pointer("/queue"), message, remedy=remedy, effect=_NO_QUEUE
        )
    volume = job.checkpoint.volume if job.checkpoint else None
    if volume is not None and volume not in {v.name for v in job.volumes if v.mounted}:
        message = f'checkpoints go to the volume "{volume}", which the job does not mount'
        meant = [each.name for each in job.volumes if volume in _places(each)]
        remedy = f"Add {Pointer.of('volumes', volume).dotted}, or name one that is there."
        remedy = f"Write `volume: {meant[0]}`, the name of it." if meant else remedy
        yield spec.finding(
            dx.REFERENCE, Pointer("/checkpoint/volume"), message, remedy=remedy, effect=_NO_VOLUME
        )

    yield from _code(job, spec, environment)
    for variable, secret in sorted(job.secrets.items()):
        if secret.name and environment.secrets and secret.name not in environment.secrets:
            message = f'the Secret "{secret.name}" does not exist in {name}'
            at = Pointer.of("secrets", variable, "name")
            remedy = _known("secrets", environment.secrets, secret.name)
            yield spec.finding(dx.REFERENCE, at, message, remedy=remedy, effect=_NO_KEYS)


def _places(volume: Volume) -> Iterator[str]:
    """Yield the paths that a volume is mounted at, and the claim that it is of."""
    yield from (mount.mount_path for _, mount in volume.places)
    yield str(mapping(volume.source.get("persistentVolumeClaim")).get("claimName", ""))


def _code(job: Job, spec: Layered, environment: Environment) -> Iterator[Finding]:
    git = job.code.git if job.code else None
    if git is None:
        return
    if git.secret and environment.secrets and git.secret not in environment.secrets:
        at = Pointer("/code/git/secret")
        message = f'the Secret "{git.secret}" does not exist in {environment.name}'
        remedy = _known("secrets", environment.secrets, git.secret)
        yield spec.finding(dx.REFERENCE, at, message, remedy=remedy, effect=_NO_KEYS)
    if git.over_ssh and not git.secret:
        message = "a repository is fetched by ssh with a key, and code.git has no secret"
        remedy = "Name a Secret with ssh-privatekey and known_hosts, or use an https URL."
        yield spec.finding(dx.CONTRADICTION, Pointer("/code/git/url"), message, remedy=remedy)
    if job.network:
        message = "the pods of an isolated network reach only each other, and fetch no code"
        remedy = "Put the code into an image (code.image), or set network: open."
        yield spec.finding(dx.CONTRADICTION, Pointer("/code/git"), message, remedy=remedy)


def _queueing(job: Job, spec: Layered, environment: Environment) -> Iterator[Finding]:
    queued = job.queue and environment.queueing == "kueue"
    for path, what in (("queuePriority", "a priority in the queue"), ("topology", "a topology")):
        if path in spec.data and not queued:
            message = f"{what} is requested, but the job waits in no Kueue queue"
            remedy = f"Set queue, or remove {path}."
            yield spec.finding(dx.CONTRADICTION, Pointer.of(path), message, remedy=remedy)
    # Kueue admits all pods of a job or none, so what it queues is a gang already.
    if job.gang and environment.queueing not in ("volcano", "coscheduling") and not queued:
        message = f"a gang is requested, but nothing in {environment.name} starts pods together"
        remedy = (
            "Write `queueing: coscheduling`, or volcano, in environment.yaml, where the cluster "
        )
        remedy += "has it; for kueue name a queue, whose jobs are gangs anyway; or remove gang."
        yield spec.finding(dx.REFERENCE, Pointer("/gang"), message, remedy=remedy, effect=_NO_GANG)


def _elastic_range(job: Job, spec: Layered) -> Iterator[Finding]:
    if job.elastic is None:
        return
    low, high = job.elastic.min_nodes, job.elastic.max_nodes
    if low > high:
        message = f"elastic.minNodes ({low}) is more than elastic.maxNodes ({high})"
        yield spec.finding(dx.CONTRADICTION, Pointer("/elastic/minNodes"), message)
    elif not low <= job.nodes <= high:
        message = f"nodes ({job.nodes}) is outside the elastic range {low} to {high}"
        remedy = f"Set nodes between {low} and {high}, or leave it out to start with {high}."
        yield spec.finding(dx.CONTRADICTION, Pointer("/nodes"), message, remedy=remedy)


def _accelerators(job: Job, spec: Layered, environment: Environment) -> Iterator[Finding]:
    gpus, pool = job.resources.gpu, job.pool
    if job.backend == "nccl" and not gpus and not job.resource_claims:
        message = "backend is nccl, but resources.gpu is 0: NCCL needs GPUs"
        remedy = "Ask for GPUs in resources.gpu, or leave backend to auto."
        yield spec.finding(dx.CONTRADICTION, Pointer("/backend"), message, remedy=remedy)
    if gpus and "pool" not in spec.data:
        message = f"resources.gpu is {gpus}, but there is no pool to take GPUs from"
        accelerated = [name for name, candidate in environment.pools.items() if candidate.resource]
        remedy = f"Write {' or '.join(f'`pool: {name}`' for name in sorted(accelerated))}."
        if not accelerated:
            line = f"gpu: {_pool(job)}"
            line = f"below pools `{line}`" if environment.pools else f"`pools: {{{line}}}`"
            remedy = f"Write `pool: gpu`, and in environment.yaml {line}."
        yield spec.finding(
            dx.REFERENCE, Pointer("/resources/gpu"), message, remedy=remedy, effect=_NO_NODES
        )
    if pool and pool.resource in job.resources.extended:
        message = f'{pool.resource} is what the pool "{pool.name}" counts in resources.gpu'
        path = Pointer.of("resources", "extended", pool.resource)
        yield spec.finding(dx.CONTRADICTION, path, message, remedy="Set resources.gpu instead.")
    if gpus and pool:
        yield from _pool_fit(job, spec, pool)
    version = environment.kubernetes_version
    if job.resource_claims and not _CLAIMS.holds(version):
        message = (
            f"resourceClaims need Kubernetes {_CLAIMS.since}, {environment.name} has {version}"
        )
        remedy = "Remove them, or raise kubernetes.version with the cluster's."
        yield spec.finding(
            dx.REFERENCE, Pointer("/resourceClaims"), message, remedy=remedy, effect=_NO_DEVICES
        )


_CLAIMS = upstream("kubernetes/device-claims")
# The resources of GPUs, misspelt: of NVIDIA and AMD, whose plugins have one name each.
_SLIPS = re.compile(r"(?:www\.)?(nvidia|amd)(?:(?:\.com)?/gpus|/gpu|\.io/gpus?)", re.IGNORECASE)
_LEAST_MEMORY = 64 * 2**20  # bytes; torch alone has more


def _pool_fit(job: Job, spec: Layered, pool: Pool) -> Iterator[Finding]:
    gpus = job.resources.gpu
    if not pool.resource:
        needs = f"needs {plural(gpus, 'GPU')} per node"
        message = f'{needs}, but the pool "{pool.name}" has no accelerators'
        pools = Related("from", f'sets pool: "{pool.name}"', spec.origin("/pool"))
        related = (pools, *_of_pool(pool, spec))
        yield spec.finding(dx.CAPACITY, Pointer("/resources/gpu"), message, related=related)
        return
    if slip := _SLIPS.fullmatch(pool.resource):
        message = f'no device plugin offers {pool.resource}, the resource of the pool "{pool.name}"'
        remedy = f"Write `resource: {slip[1]}.com/gpu` in pools.{pool.name} of the environment."
        yield spec.finding(
            dx.REFERENCE,
            Pointer("/pool"),
            message,
            remedy=remedy,
            effect="No node has it, so that the pods stay pending.",
        )
    memory = quantity.read(job.resources.memory)
    has_unit = job.resources.memory[-1:] in "kMGTi"  # one without is told by TW769
    if memory and has_unit and memory < job.procs_per_node * _LEAST_MEMORY:
        started = plural(job.procs_per_node, "process", "processes")
        least = of_processes("memory", max(job.procs_per_node, gpus))
        message = f"resources.memory is {job.resources.memory}, for {started} with a GPU"
        yield spec.finding(
            dx.CONTRADICTION,
            Pointer("/resources/memory"),
            message,
            remedy=f'Set `resources.memory` to "{least}" or more, which is what a node may use in '
            "all.",
            effect="The kernel ends them while they import PyTorch.",
        )
    for short in capacity.shortages(job):
        path = "/resources/gpu" if short.per_node or "nodes" not in spec.data else "/nodes"
        message = short.message(f" ({job.nodes} nodes of {gpus})")
        related = tuple(_of_pool(pool, spec, short))
        yield spec.finding(dx.CAPACITY, Pointer(path), message, related=related)


def _of_pool(
    pool: Pool, spec: Layered, short: capacity.Shortage | None = None
) -> Iterator[Related]:
    """Yield where an environment has a pool, or the number of accelerators that it is short of."""
    document = layers.environment_file(spec.layers)
    if document is None:
        return
    at = Pointer.of("pools", pool.name)
    if short is None:
        yield Related("from", f'pool "{pool.name}" has no resource', document.place(at))
    else:
        sets = f'pool "{pool.name}" sets {short.field}: {short.has}'
        yield Related("from", sets, document.place(at / short.field))


def _fabric(job: Job, spec: Layered) -> Iterator[Finding]:
    """Yield what the fabric of the pool needs and the pool lacks, at the line that names the
    fabric, and what it needs of the job.
    """
    pool = job.pool
    fabric = fabrics.profile(pool.fabric) if pool else None
    named = (layer for layer in spec.layers if layer.label.startswith("fabric "))
    layer = next(named, None)
    if pool is None or fabric is None or layer is None:
        return
    needs = fabric.needs
    for need, has in needs.unmet(pool):
        message = f'the fabric {fabric.name} needs {need}, the pool "{pool.name}" has {has}'
        remedy = "Correct the pool in environment.yaml, or name the fabric that its nodes have."
        yield dx.CONTRADICTION.at(layer.place(""), message, remedy=remedy, path=Pointer("/pool"))
    if needs.targets and job.target not in needs.targets:
        message = f"the fabric {fabric.name} needs the target {' or '.join(needs.targets)}"
        remedy = f"Set target, or use another pool than {pool.name}."
        yield spec.finding(dx.CONTRADICTION, Pointer("/target"), message, remedy=remedy)
    shape, chips = needs.slice(pool) or ("", 0)
    requested = job.nodes * job.resources.gpu
    if shape and requested != chips:
        message = (
            f'a slice of the pool "{pool.name}" is {shape}: {chips} accelerators, and the job has '
            f"{requested} (nodes: {job.nodes}, resources.gpu: {job.resources.gpu})"
        )
        remedy = "Set nodes to the hosts of a slice and resources.gpu to what one host has."
        yield spec.finding(dx.CONTRADICTION, Pointer("/nodes"), message, remedy=remedy)


def _variables(job: Job, spec: Layered) -> Iterator[Finding]:
    """Variables that are set twice, in the job or in a container beside it."""
    for name in sorted(set(job.env) & set(job.secrets)):
        message = f"{name} is set in env and in secrets"
        yield spec.finding(dx.CONTRADICTION, Pointer.of("env", name), message)
    for at, container in containers.helpers(job):
        for name in sorted(set(container.env) & set(container.secrets)):
            message = f"{name} is set in env and in secrets of {at.dotted}"
            yield spec.finding(dx.CONTRADICTION, at / "env" / name, message)


def _files(job: Job, spec: Layered) -> Iterator[Finding]:
    """Yield files mounted in the place of others, or that together exceed a ConfigMap."""
    taken = {SCRIPT_PATH: "entrypoint.inline"} if job.entrypoint.inline else {}
    taken |= {"/dev/shm": "shm"} if job.shm != "none" else {}  # noqa: S108
    for file in job.files:
        if file.name in taken:
            at = Pointer.of("files", file.name)
            message = f"{at.dotted} and {taken[file.name]} are both mounted at {file.name}"
            yield spec.finding(dx.CONTRADICTION, at, message)
    yield from _unmountable(job, spec)
    sizes = {Pointer.of("files", file.name): len(file.raw) for file in job.files}
    if job.entrypoint.inline:
        sizes[Pointer.of("entrypoint", "inline")] = len(job.entrypoint.inline.encode())
    total = sum(sizes.values())
    if total > files.LIMIT:
        largest = max(sizes, key=lambda at: sizes[at])
        message = (
            f"the files of the run have {total} bytes, a ConfigMap holds {files.LIMIT}: "
            f"{total - files.LIMIT} too many, and {largest.dotted} has {sizes[largest]}"
        )
        remedy = "Put large files into the image, or on a volume."
        yield spec.finding(dx.FILE, largest, message, remedy=remedy, effect=_TOO_LARGE)


# Folders of a container that the kernel or its runtime fills.
_FILLED = ("/proc", "/sys", "/dev")


def _unmountable(job: Job, spec: Layered) -> Iterator[Finding]:
    """Yield a finding for each file below another file, or in /proc, /sys or /dev."""
    names = {file.name for file in job.files}
    names |= {SCRIPT_PATH} if job.entrypoint.inline else set()
    for name in sorted(names):
        above = next((path for path in map(str, PurePosixPath(name).parents) if path in names), "")
        folder = next((filled for filled in _FILLED if name.startswith(f"{filled}/")), "")
        at, message = Pointer.of("files", name), ""
        if above:
            message = f"{at.dotted} is below {Pointer.of('files', above).dotted}, which is a file"
        elif folder:
            message = f"{at.dotted} is in {folder}, where nothing can be mounted"
        if message:
            remedy = "Choose another path."
            yield dx.CONTRADICTION.at(spec.key_origin(at), message, path=at, remedy=remedy)


def _grace(job: Job, spec: Layered) -> Iterator[Finding]:
    if job.grace_period > _MAX_GRACE:
        grace = spec.data["gracePeriod"]
        message = f"gracePeriod is {grace}, the most is {_MAX_GRACE // 86_400}d"
        remedy = "Write the time that a checkpoint takes."
        yield spec.finding(dx.SCHEMA, Pointer("/gracePeriod"), message, remedy=remedy)


def _peer_copies(job: Job, spec: Layered) -> Iterator[Finding]:
    """They have to be in memory that outlives the processes, of nodes that start again together."""
    copies = job.checkpoint.peer_copies if job.checkpoint else None
    if copies is None:
        return
    at = Pointer("/checkpoint/peerCopies")
    volume = next((v for v in job.volumes if v.name == copies.volume), None)
    where = Pointer.of("volumes", copies.volume).dotted
    if volume is None or not volume.mounted:
        message = f'peer copies go to the volume "{copies.volume}", which the job does not mount'
        remedy = f"Add {where}: {{emptyDir: {{medium: Memory, sizeLimit: ...}}, mountPath: ...}}."
        yield spec.finding(dx.REFERENCE, at / "volume", message, remedy=remedy, effect=_NO_VOLUME)
    elif mapping(volume.source.get("emptyDir")).get("medium") != "Memory":
        message = f'peer copies go to the volume "{copies.volume}", which is not in memory'
        remedy = f"Set {where}.emptyDir.medium to Memory, or name a volume that is an emptyDir."
        yield spec.finding(dx.CONTRADICTION, at / "volume", message, remedy=remedy)
    if job.elastic and job.elastic.recovery == "live":
        message = "peer copies are for restarts, and with live recovery the other workers go on"
        remedy = "Remove checkpoint.peerCopies: a worker that is new takes the state of the others."
        yield spec.finding(dx.CONTRADICTION, at, message, remedy=remedy)


def _writable(job: Job, spec: Layered) -> Iterator[Finding]:
    """Yield a finding where checkpoints or peer copies would go to a read-only volume."""
    checkpoint = job.checkpoint
    if checkpoint is None:
        return
    destinations = [("checkpoints go", Pointer("/checkpoint/volume"), checkpoint.volume)]
    if copies := checkpoint.peer_copies:
        destinations.append(
            ("peer copies go", Pointer("/checkpoint/peerCopies/volume"), copies.volume)
        )
    volumes = {volume.name: volume for volume in job.volumes if volume.mounted}
    for what, at, name in destinations:
        fixed = _read_only(volumes[name]) if name in volumes else None
        if fixed is not None:
            message = f'{what} to the volume "{name}", which is mounted read-only'
            remedy = f"Remove {fixed.dotted}, or name a volume that can be written to."
            related = Related("and", f"{fixed.dotted} is true", spec.origin(fixed))
            yield spec.finding(dx.CONTRADICTION, at, message, remedy=remedy, related=(related,))


def _read_only(volume: Volume) -> Pointer | None:
    """Return what makes a volume read-only where the training first mounts it; None if writable."""
    at, mount = volume.places[0]
    if mount.read_only:
        return at / "readOnly"
    for name, source in volume.source.items():
        if mapping(source).get("readOnly") is True:
            return Pointer.of("volumes", volume.name, name, "readOnly")
    return None


def _resumed(job: Job, spec: Layered) -> Iterator[Finding]:
    """Yield a finding for a folder to start from that is another tool's word for the newest."""
    start = job.checkpoint.resume_from if job.checkpoint else ""
    if start in _NEWEST:
        from trainwright.documents.validation import translation  # only mistakes need it

        at = Pointer("/checkpoint/resumeFrom")
        message = f"{at.dotted} is {start}, and has to be a folder of the volume"
        yield spec.finding(dx.CONTRADICTION, at, message, remedy=translation.RESUMED)


_NEWEST = frozenset({"latest", "auto", "last", "newest", "true", "yes", "best"})


def _host_network(job: Job, spec: Layered) -> Iterator[Finding]:
    if job.host_network and job.network:
        message = (
            "a NetworkPolicy does not hold pods in the host's network, and network is isolated"
        )
        remedy = "Remove one of them (hostNetwork: null, or network: open)."
        yield spec.finding(dx.CONTRADICTION, Pointer("/hostNetwork"), message, remedy=remedy)
