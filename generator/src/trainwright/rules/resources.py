"""What pods ask for: accelerators, memory and /dev/shm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, dig, extended, mapping, mappings, sequence, text
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.job import Job
from trainwright.datatypes.listing import plural
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.quantity import count
from trainwright.objects.kueue import QUEUE_LABEL
from trainwright.objects.pods.launching import launches, options, starts_one_process
from trainwright.objects.pods.requests import OF_PROCESS, of_processes
from trainwright.objects.pods.storage import variables, written
from trainwright.objects.pods.template import SHARED_MEMORY, Container, PodTemplate
from trainwright.rule_model.rule import defined_in, error, warning
from trainwright.rule_model.subject import Hit, Subject
from trainwright.rules.tuning import threads
from trainwright.specs.fabrics import is_rdma, nics

# Accelerators without one process each: a Neuron device has two cores with a process each, and one
# process drives all TPU chips.
# https://awsdocs-neuron.readthedocs-hosted.com/en/latest/about-neuron/arch/neuron-hardware/trn1-arch.html
# https://docs.pytorch.org/xla/master/learn/pytorch-on-xla-devices.html
_UNPAIRED = frozenset({"aws.amazon.com/neuron", "google.com/tpu"})
_RDMA = "/dev/infiniband"


@error("TW701", spec=Pointer("/resources"), per_pod=True, special=True)
def request_limit_mismatch(subject: Subject) -> Iterator[Hit]:
    containers = (item for template in subject.pod_templates for item in template.containers)
    for container in containers:
        for name, amount in _as_limited(container.requests):
            limit = container.limits.get(name)
            if quantity.read(limit) != quantity.read(amount):
                difference = "no limit" if limit is None else f"limit {limit}"
                pointer = Pointer(f"{container.pointer}/resources/requests") / name
                yield Hit(pointer, f"{name}: request {amount}, {difference}")
    for container in subject.containers:
        for name, amount in container.extended.items():
            if count(amount) is None:
                yield Hit(
                    f"{container.pointer}/resources", f"{name}: {amount!r} is not a whole number"
                )


def _as_limited(requests: Mapping[str, Data]) -> Iterator[tuple[str, Data]]:
    """Yield the requests whose limit has to equal them: extended resources and huge pages."""
    yield from extended(requests).items()
    yield from (item for item in requests.items() if str(item[0]).startswith("hugepages-"))


_LEAST = 1024**2  # of anything that is counted in bytes
_IN_BYTES = ("memory", "ephemeral-storage")


@error("TW769", spec=Pointer("/resources"), per_pod=True, special=True)
def amount_without_unit(subject: Subject) -> Iterator[Hit]:
    # The size of /dev/shm may follow from that of the memory.
    yield from tuple(_memory_without_unit(subject)) or _volume_without_unit(subject)


def _memory_without_unit(subject: Subject) -> Iterator[Hit]:
    for container in subject.containers:
        for where, amounts in (("requests", container.requests), ("limits", container.limits)):
            for name in _IN_BYTES:
                if _is_without_unit(amounts.get(name)):
                    at = Pointer(f"{container.pointer}/resources/{where}") / name
                    yield Hit(at, f"{name} is {amounts[name]}, which is less than 1 MiB")


def _volume_without_unit(subject: Subject) -> Iterator[Hit]:
    """Yield a hit for each scratch volume whose size has no unit."""
    for template in subject.templates:
        shm, _ = template.shm or ("", {})
        for at, volume in template.volumes:
            size, name = dig(volume, "emptyDir", "sizeLimit"), text(volume.get("name"))
            if _is_without_unit(size):
                spec = Pointer.of("volumes", name, "emptyDir", "sizeLimit")
                yield Hit(
                    f"{at}/emptyDir/sizeLimit",
                    f"the size of {name} is {size}, which is less than 1 MiB",
                    spec=Pointer("/shm") if at == shm else spec,
                )


def _is_without_unit(amount: Data) -> bool:
    return isinstance(amount, (str, int, float)) and _is_small(amount)


@lru_cache(maxsize=4096, typed=True)  # to Python, 1 and true are equal
def _is_small(amount: str | float) -> bool:
    number = quantity.read(amount)
    return number is not None and 0 < number < _LEAST


@warning("TW702", spec=Pointer("/shm"), per_pod=True)
def missing_shared_memory(subject: Subject) -> Iterator[Hit]:
    if subject.kind.group == "ray.io":  # KubeRay mounts it
        return
    for template in subject.templates:
        if template.partial or _has_shared_memory(template):
            continue
        if gpus := next(_gpus(subject, template), ""):
            message = f"{gpus}, but only 64 MB of shared memory"
            yield Hit(f"{template.pointer}/spec", message)


# Whose collectives go through no shared memory of the pod.
_OTHER_CHIPS = ("tpu", "neuron")


def _gpus(subject: Subject, template: PodTemplate) -> Iterator[str]:
    """Yield each resource or claim by which a pod has GPUs."""
    yield from (
        name for name in template.accelerators if not any(chip in name for chip in _OTHER_CHIPS)
    )
    for claim in mappings(template.spec.get("resourceClaims")):
        names = {
            key: text(claim.get(key)) for key in ("resourceClaimTemplateName", "resourceClaimName")
        }
        classes = " ".join(_device_classes(subject, names))
        if "gpu" in " ".join((text(claim.get("name")), *names.values(), classes)).lower():
            yield f"the claim {text(claim.get('name'))}"


def _device_classes(subject: Subject, names: Mapping[str, str]) -> Iterator[str]:
    """Yield the device classes that a pod's claim requests, if the claim's definition is known."""
    for field, kind in _CLAIM_KINDS.items():
        for manifest in subject.around.by_kind.get(kind, ()) if names[field] else ():
            if manifest.name == names[field]:
                inner = mapping(manifest.spec.get("spec")) or manifest.spec
                for request in mappings(dig(inner, "devices", "requests")):
                    exactly = mapping(request.get("exactly")) or request
                    yield text(exactly.get("deviceClassName"))


_CLAIM_KINDS = {
    "resourceClaimTemplateName": GroupKind("resource.k8s.io", "ResourceClaimTemplate"),
    "resourceClaimName": GroupKind("resource.k8s.io", "ResourceClaim"),
}


def _has_shared_memory(template: PodTemplate) -> bool:
    """A memory volume at /dev/shm, or the node's own: by a hostPath, or with its IPC namespace."""
    _, volume = template.shm or ("", {})
    return (
        _in_memory(volume)
        or text(dig(volume, "hostPath", "path")).rstrip("/") == SHARED_MEMORY
        or template.spec.get("hostIPC") is True
    )


def _written(container: Container) -> frozenset[str]:
    """The volumes that a container may write to: memory is charged to who writes."""
    mounts = (mount for mount in container.mounts if mount.get("readOnly") is not True)
    return frozenset(text(mount.get("name")) for mount in mounts)


def _in_memory(volume: Mapping[str, Data]) -> bool:
    return bool(dig(volume, "emptyDir", "medium") == "Memory")


def _shm_above_limit(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        main = template.main
        if template.shm is None or main is None:
            continue
        pointer, volume = template.shm
        size = dig(volume, "emptyDir", "sizeLimit")
        memory = main.limits.get("memory")
        shm_bytes, memory_bytes = quantity.read(size), quantity.read(memory)
        if shm_bytes is None or memory_bytes is None or shm_bytes < memory_bytes:
            continue
        if any(text(volume.get("name")) in _written(each) for each in template.trains):
            message = f"shared memory may take {size}, the memory limit is {memory}"
            yield Hit(
                f"{pointer}/emptyDir/sizeLimit", message, also=(Pointer("/resources/memory"),)
            )


def _d03_volumes(subject: Subject) -> Iterator[Hit]:
    """Check other in-memory volumes too: they count against the container that writes to them."""
    for template in subject.templates:
        main = template.main
        shm = template.shm[0] if template.shm else ""
        if main is None or not any(at != shm and _in_memory(v) for at, v in template.volumes):
            continue
        limit = quantity.read(main.limits.get("memory"))
        if limit is None:
            continue
        written = _written(main)
        sizes = {
            pointer: (text(volume.get("name")), dig(volume, "emptyDir", "sizeLimit"))
            for pointer, volume in template.volumes
            if _in_memory(volume) and text(volume.get("name")) in written
        }
        total = sum(quantity.read(size) or 0 for _, size in sizes.values())
        others = [at for at in sizes if at != shm and quantity.read(sizes[at][1])]
        if others and total >= limit:
            at = max(others, key=lambda at: quantity.read(sizes[at][1]) or 0)
            parts = " and ".join(f"{size} ({name})" for name, size in sizes.values() if size)
            message = f"volumes in memory may take {parts}, the memory limit is "
            yield Hit(
                f"{at}/emptyDir/sizeLimit",
                f"{message}{main.limits['memory']}",
                spec=Pointer.of("volumes", sizes[at][0], "emptyDir", "sizeLimit"),
                also=(Pointer("/resources/memory"),),
            )


@warning("TW703", spec=Pointer("/shm"), per_pod=True)
def shm_exceeds_memory(subject: Subject) -> Iterator[Hit]:
    yield from _shm_above_limit(subject)
    yield from _d03_volumes(subject)


def _processes(template: PodTemplate) -> tuple[int | None, str]:
    """Return how many processes a pod is told to start (None: not told), and where.

    The option of a launcher wins over the variable that an operator sets, as in torchrun.
    """
    main = template.main
    option = options(main).get("nproc-per-node", "") if main else ""
    own = "" if "$" in option else option
    if template.processes_at and own in ("", template.processes):
        return count(template.processes), template.processes_at
    if main is None:
        return None, ""
    told = option or template.processes
    return (1 if not told and starts_one_process(main) else count(told)), main.pointer


@warning("TW704", spec=Pointer("/procsPerNode"), per_pod=True)
def processes_per_gpu_mismatch(subject: Subject) -> Iterator[Hit]:
    for hit, fails in _mismatches(subject):
        if not fails:
            yield replace(hit, form="idle" if hit.note.endswith("idle") else "shared")


@error("TW775", spec=Pointer("/procsPerNode"), per_pod=True)
def more_ranks_than_gpus(subject: Subject) -> Iterator[Hit]:
    yield from (hit for hit, fails in _mismatches(subject) if fails)


def _mismatches(subject: Subject) -> Iterator[tuple[Hit, bool]]:
    """Yield the pods with another number of processes than GPUs, and whether they surely fail."""
    for template in subject.templates:
        main = template.main
        counts = main.accelerators if main else {}
        gpus = sum(number for name, number in counts.items() if name not in _UNPAIRED)
        processes, pointer = _processes(template) if gpus else (None, "")
        if main and processes is not None and gpus != processes:
            shared = f"{processes - gpus} ranks would share a GPU with another"
            note = shared if processes > gpus else f"{gpus - processes} GPUs would stay idle"
            started = plural(processes, "process", "processes")
            message = f"{started} per node, but {plural(gpus, 'GPU')}"
            hit = Hit(pointer, message, note=note, also=(Pointer("/resources/gpu"),))
            yield (
                _at_option(hit, gpus, subject.job_of(template)),
                processes > gpus and _needs_gpu_per_rank(main),
            )


_COUNTS = re.compile(r"--?(?:nproc[-_]per[-_]node|num[-_](?:processes|gpus|accelerators))\b")
_MACHINES = re.compile(r"--num[-_]machines\b")  # beside which num_processes are those of all


def _at_option(hit: Hit, gpus: int, job: Job | None) -> Hit:
    """Return a hit at the option of a job's command that has the number of processes, if any."""
    argv = job.entrypoint.argv if job else ()
    at = next((index for index, word in enumerate(argv) if _COUNTS.search(word)), None)
    if job is None or at is None:
        return hit
    of_all = any(map(_MACHINES.search, argv))
    number, name = (gpus * job.nodes, "world.size") if of_all else (gpus, "procsPerNode")
    remedy = f"Write {number} there, or `${{{{ {name} }}}}`."
    return replace(hit, spec=Pointer.of("entrypoint", "argv", at), remedy=remedy)


# Whole GPUs by the names of their device plugins: not slices (nvidia.com/mig-1g.10gb) or shares.
_WHOLE = frozenset({"nvidia.com/gpu", "amd.com/gpu"})
# What has ranks meet by other means than NCCL or RCCL, or has them see other devices.
_OTHERWISE = re.compile(
    r"gloo|\bucc\b|\bmpi\b|(?:use|on|device)[_=\s]cpu|--cpu\b|no_cuda|visible_devices|multi_rank_gpu",
    re.IGNORECASE,
)


def _needs_gpu_per_rank(container: Container) -> bool:
    """Whether a container starts ranks that take a whole GPU each, for all that it shows."""
    whole = _WHOLE.issuperset(container.accelerators) and launches(container.started)
    return whole and not _OTHERWISE.search(written(container))


@warning("TW720", spec=Pointer("/resources"), per_pod=True)
def missing_cpu_or_memory(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        main = template.main
        if main is None or template.partial or not main.accelerators:
            continue
        for name in ("cpu", "memory"):
            form, message = _too_little(main, name)
            if message:
                spec = Pointer.of("resources", name)
                remedy = _enough(template, main, name)
                at = f"{main.pointer}/resources"
                yield Hit(at, message, spec=spec, form=form, remedy=remedy)


def _enough(template: PodTemplate, container: Container, name: str) -> str:
    """Return what to request of CPU or memory, so that no other rule says it is too little."""
    processes = max(sum(container.accelerators.values()), _processes(template)[0] or 1)
    least = of_processes(name, processes)
    if name == "cpu":
        least = str(max(int(least), *(busy.cpus for busy in threads(template, container)), 1))
    return (
        f'Set `resources.{name}` to "{least}" or more, in the job or in `defaults` of its '
        "environment."
    )


def _too_little(container: Container, name: str) -> tuple[str, str]:
    """Return the form and the message of too little CPU or memory; both empty for enough."""
    amounts = [given[name] for given in (container.limits, container.requests) if name in given]
    if not amounts:
        return "", f"accelerators are requested, but no {name}"
    gpus = sum(n for gpu, n in container.accelerators.items() if gpu in _WHOLE)
    known = [amount for amount in map(quantity.read, amounts) if amount is not None]
    if not known or max(known) >= gpus * OF_PROCESS[name]:
        return "", ""
    return "small", f"{name} is {amounts[0]}, for {plural(gpus, 'GPU')}"


def _as_a_whole(template: PodTemplate) -> Iterator[Container]:
    """Yield what a pod asks for beside its containers, as one of them."""
    if "resources" in template.spec:
        yield Container(f"{template.pointer}/spec", template.spec)


@error("TW724", spec=Pointer("/resources"), per_pod=True)
def request_above_limit(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        for asking in (*_as_a_whole(template), *template.containers):
            for name, amount in asking.requests.items():
                limit = asking.limits.get(name)
                least, most = quantity.read(amount), quantity.read(limit)
                # Of extended resources the two must be equal, which is another rule.
                if least is None or most is None or least <= most or name in asking.extended:
                    continue
                pointer = Pointer(f"{asking.pointer}/resources/requests") / name
                spec = "ephemeralStorage" if name == "ephemeral-storage" else name
                yield Hit(
                    pointer,
                    f"{name}: request {amount}, limit {limit}",
                    Pointer.of("resources", "limits", spec),
                    also=(
                        Pointer.of("resources", "requests", spec),
                        Pointer.of("resources", spec),
                    ),
                )


@warning(
    "TW706",
    about=("NCCL_IB_", "FI_PROVIDER", "UCX_", "NCCL_NET"),
    spec=Pointer("/env"),
    per_pod=True,
)
def incomplete_fabric_settings(subject: Subject) -> Iterator[Hit]:
    for template in subject.templates:
        for container in template.containers:
            fabric = [n for n in container.extended if is_rdma(n) or n in nics()]
            given = {name: s.value for name, s in variables(container).items()}
            off = [name for name, pattern in _OFF.items() if _is(given, name, pattern)]
            on = [name for name, pattern in _ON.items() if _is(given, name, pattern)]
            if fabric:
                for name in off:
                    message = f"{name}={given[name]} beside {fabric[0]}"
                    yield Hit(container.pointer, message, form="unused")
            elif on and not off and not _devices(template, container):
                message = f"{on[0]} is set, but no RDMA resource is requested"
                yield Hit(container.pointer, message, form="missing")


# Variables that tell libraries to use a fabric, or to do without one.
_ON = {
    "NCCL_IB_HCA": "",
    "FI_PROVIDER": r"efa|verbs|cxi|opx",
    "UCX_NET_DEVICES": r"(?:.*,)?(?:mlx|ib|rdma|bnxt|irdma|efa).*",
    "UCX_TLS": r"(?:.*,)?(?:rc|dc|ud|ib)(?:_\w+)?(?:,.*)?",
    "NCCL_NET": "IB",
}
_OFF = {"NCCL_IB_DISABLE": "1", "FI_PROVIDER": r"tcp|sockets|shm", "NCCL_NET": "Socket"}


def _is(variables: Mapping[str, str], name: str, pattern: str) -> bool:
    """Whether a variable has a value of a form, which is empty for any."""
    return name in variables and (not pattern or bool(re.fullmatch(pattern, variables[name])))


def _devices(template: PodTemplate, container: Container) -> bool:
    """Whether a container gets the devices of a fabric without an extended resource: by resource
    claims (dynamic resource allocation), a hostPath mount, or as privileged.
    """
    mounted = {text(mapping(m).get("name")) for m in sequence(container.body.get("volumeMounts"))}
    paths = [dig(v, "hostPath", "path") for _, v in template.volumes if v.get("name") in mounted]
    claims = dig(container.body, "resources", "claims")
    whole = container.security.get("privileged") is True
    return whole or bool(sequence(claims)) or any(text(path).startswith(_RDMA) for path in paths)


@warning("TW705", spec=Pointer("/pool"), per_pod=True)
def missing_pool_toleration(subject: Subject) -> Iterator[Hit]:
    """GPU pods must tolerate every taint of some pool that has the accelerator they ask for.

    Those in a Kueue queue get the tolerations of a ResourceFlavor when they are admitted.
    """
    if QUEUE_LABEL in subject.labels:
        return
    pools = [pool for pool in subject.environment.pools.values() if pool.resource]
    for template in subject.templates if pools else ():
        fitting = [pool for pool in pools if pool.resource in template.accelerators]
        have = mappings(template.spec.get("tolerations"))
        if not fitting or template.partial:
            continue
        if not any(all(_tolerated(want, have) for want in pool.tolerations) for pool in fitting):
            names = ", ".join(pool.name for pool in fitting)
            yield Hit(
                f"{template.pointer}/spec", f"tolerates the taints of none of these pools: {names}"
            )


def _tolerated(want: object, have: Sequence[object]) -> bool:
    """Whether a toleration is among those that are there, or is covered by one."""
    wanted = mapping(want)
    return any(
        mapping(t).get("key") in (None, wanted.get("key"))
        and mapping(t).get("effect") in (None, wanted.get("effect"))
        and (
            mapping(t).get("operator") == "Exists" or mapping(t).get("value") == wanted.get("value")
        )
        for t in have
    )


RULES = defined_in(globals())
