"""Docker Compose: one VM with Docker and GPUs, no Kubernetes.

Facts: https://github.com/compose-spec/compose-spec
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.job import Job, ValueFrom
from trainwright.datatypes.listing import article
from trainwright.datatypes.pointer import Pointer
from trainwright.datatypes.volumes import Volume
from trainwright.kinds import indexed
from trainwright.kinds.compose import KIND
from trainwright.kinds.target import (
    Deviation,
    Meeting,
    Serving,
    Target,
    Unsupported,
    argument_words,
    given,
    one_process,
    own_rendezvous,
)
from trainwright.objects.pods import command
from trainwright.objects.pods.references import NotKnown

_TRAINS = "train"  # the service that trains
_NVIDIA = "nvidia.com/gpu"  # the only accelerators that Docker reserves by number
_OF_DOCKER = frozenset(
    {"working_dir", "host_network", "host_aliases"}
)  # which it has as well, of what pods have
_DEFAULT_PROFILE = "RuntimeDefault"
_PROFILES = (_DEFAULT_PROFILE, "Unconfined")  # of seccomp, which have names in Docker
_PROBES = ("readinessProbe", "startupProbe")
_REMEDY = "Remove it, or use a target that runs on Kubernetes."


def _values(job: Job, environment: Environment, name: str) -> dict[str, Data]:
    values: dict[str, Data] = {
        "command": command.command_line(job, rendezvous=("--standalone",)),
        "runPolicy": {"backoffLimit": job.retries, "suspend": job.state == "suspended"},
        "resources": _resources(job),
    }
    if job.launcher == "python" or not job.entrypoint.launched:
        values["env"] = indexed.single_pod_env(job)
    return values


def _serving(role: Job, environment: Environment) -> dict[str, Data]:
    """Return the values of a role, whose pods are services with GPUs of their own."""
    return {
        "nodes": role.nodes,
        "runPolicy": {"backoffLimit": role.retries, "suspend": role.state == "suspended"},
        "resources": _resources(role),
    }


def _services(role: Job) -> tuple[str, ...]:
    """Return the names of a role's services, which are also the host names of their containers."""
    assert role.role is not None
    return tuple(f"{role.role.name}-{index}" for index in range(role.nodes))


def _resources(job: Job) -> dict[str, Data]:
    """Return CPU amounts as decimal numbers of cores: Docker does not count in thousandths."""
    resources = job.resources
    amounts = {"requests": resources.requests["cpu"], "limits": resources.limits["cpu"]}
    cores = {kind: quantity.parse(cpu).normalize() for kind, cpu in amounts.items() if cpu}
    return {kind: {"cpu": f"{count:f}"} for kind, count in cores.items()}


def as_object(body: Mapping[str, Data]) -> dict[str, Data]:
    """Return a Compose file as an object with kind and name, for rules and schemas."""
    name = body.get("name")
    return {
        "apiVersion": KIND.api_version,
        "kind": KIND.kind,
        "metadata": {"name": name},
        "spec": dict(body),
    }


def _unsupported(job: Job, environment: Environment) -> Iterator[Unsupported]:
    if job.nodes > 1 and job.role is None:
        yield Unsupported(
            Pointer("/nodes"),
            f"one machine cannot be {job.nodes} nodes",
            "Set nodes: 1, or use a target that runs on Kubernetes.",
        )
    cluster = {
        Pointer("/initContainers"): job.init_containers,
        Pointer("/sidecars"): job.sidecars,
        Pointer("/queue"): job.queue,
        Pointer("/gang"): job.gang,
        **given(job, without=_OF_DOCKER),
        Pointer("/serviceAccount"): job.service_account,
        Pointer("/serviceAccountToken"): job.service_account_token,
        Pointer("/createServiceAccount"): job.create_service_account,
        Pointer("/nodeSelector"): job.node_selector,
        Pointer("/tolerations"): job.tolerations,
        Pointer("/affinity"): job.affinity,
        Pointer("/image/pullSecrets"): job.image.pull_secrets,
        Pointer("/podPatch"): job.pod_patch,
        Pointer("/resources/extended"): job.resources.extended,
        Pointer("/resources/hugepages"): job.resources.hugepages,
        Pointer("/resourceClaims"): job.resource_claims,
        Pointer("/resources/ephemeralStorage"): job.resources.ephemeral_storage,
        Pointer("/resources/requests/ephemeralStorage"): job.resources.request_ephemeral_storage,
        Pointer("/resources/limits/ephemeralStorage"): job.resources.limit_ephemeral_storage,
    }
    for path in (path for path, value in cluster.items() if value):
        yield Unsupported(path, f"Docker has nothing like {path.dotted}", _REMEDY)
    if job.max_duration is not None:
        yield Unsupported(
            Pointer("/maxDuration"),
            "Docker ends no container after a time",
            "Remove it (maxDuration: null), and stop the run yourself.",
        )
    yield from _unserved(job)
    yield from one_process(job)
    yield from own_rendezvous(job, "one machine meets itself")
    yield from _unsupported_devices(job)
    yield from _too_many_devices(job)
    yield from _unsupported_mounts(job)
    yield from _unsupported_variables(job)
    yield from _unsupported_files(job)
    yield from _unsupported_security(job, environment)
    yield from _expansions(job)
    yield from _units(job)


def _unserved(job: Job) -> Iterator[Unsupported]:
    """Refuse containers of a run with roles that have no name in its network."""
    apart = {"hostNetwork": job.host_network, "network": job.network == "isolated"}
    for path in (path for path, value in apart.items() if value and job.roles):
        yield Unsupported(
            Pointer.of(path),
            "roles are found by their names in the network of the compose file, and this "
            "container is not in it",
            f"Remove it ({path}: null), or remove roles.",
        )
    services = {service: group for group in job.roles for service in _services(group)}
    taken = {_TRAINS: job, **services} if job.role is None else {}
    for role in job.roles:
        if (other := taken.get(_called(role))) is not None:
            yield Unsupported(
                Pointer.of("roles", _called(role)),
                f"{_called(role)} is also what a service of {_called(other)} is called, so that "
                "the name would lead to both",
                "Choose another name for the role.",
            )


def _unsupported_devices(job: Job) -> Iterator[Unsupported]:
    pool = job.pool
    if pool and job.resources.gpu and pool.resource != _NVIDIA:
        message = f"Docker reserves {_NVIDIA} only, and the pool has {pool.resource}"
        yield Unsupported(Pointer("/pool"), message, "Use a pool of NVIDIA GPUs.")
    if pool and (pool.node_selector or pool.tolerations):
        message = "the pool selects nodes of a cluster, and this is one machine"
        yield Unsupported(
            Pointer("/pool"), message, "Use a pool without nodeSelector and tolerations."
        )


def _too_many_devices(job: Job) -> Iterator[Unsupported]:
    """Refuse a job whose containers request more GPUs together than the one machine has."""
    groups = [group for group in (job, *job.roles) if group.resources.gpu and group.pool]
    has = max((g.pool.gpus_per_node or 0 for g in groups if g.pool), default=0)
    total = sum(group.nodes * group.resources.gpu for group in groups)
    if job.role is None and job.roles and 0 < has < total:
        parts = [f"{_called(g)} {g.nodes * g.resources.gpu}" for g in groups]
        message = f"one machine has {has} GPUs, and {total} are requested ({', '.join(parts)})"
        remedy = "Lower nodes or resources.gpu, or use a target that runs on Kubernetes."
        yield Unsupported(Pointer("/roles"), message, remedy)


def _called(group: Job) -> str:
    return group.role.name if group.role else _TRAINS


def _meeting(job: Job, _environment: Environment, _name: str) -> Meeting:
    """Return the rendezvous of the single training node: loopback, or its host name for a role."""
    if job.role is None:
        return Meeting("127.0.0.1", str(indexed.PORT), "0")
    own = NotKnown("all containers of a role have the same command here", "Set nodes: 1.")
    return Meeting(_TRAINS, str(indexed.PORT), own)


_HERE = frozenset({"persistentVolumeClaim", "hostPath", "emptyDir", "nfs"})  # volumes of Docker
_OBJECTS = ("configMap", "secret")


def _unsupported_mounts(job: Job) -> Iterator[Unsupported]:
    for volume in job.volumes:
        path = Pointer.of("volumes", volume.name)
        if volume.create:
            message = "Docker cannot give a volume a size or a class"
            remedy = f"Run `docker volume create NAME`, and write {path.dotted}.claim: NAME."
            yield Unsupported(path / "create", message, remedy)
        for kind in volume.source.keys() - _HERE:
            message = f"Docker has nothing like {(path / kind).dotted}"
            if kind in _OBJECTS:
                message = f"{article(kind)} is an object of a cluster"
            remedy = "Put the files into a folder, and mount it with hostPath."
            yield Unsupported(path / kind, message, remedy)
        yield from _unsupported_places(volume, path)
        if "emptyDir" in volume.source:
            yield from _unsupported_scratch(volume, path)


def _unsupported_places(volume: Volume, path: Pointer) -> Iterator[Unsupported]:
    if volume.device_path:
        yield Unsupported(path / "devicePath", "Docker has nothing like devicePath", _REMEDY)
    for at, mount in volume.places:
        wanted = {
            "subPathExpr": mount.sub_path_expr,
            "mountPropagation": mount.mount_propagation,
            "recursiveReadOnly": mount.recursive_read_only,
        }
        for key in (key for key, value in wanted.items() if value):
            yield Unsupported(at / key, f"Docker has nothing like {key}", _REMEDY)
        if mount.sub_path and "emptyDir" in volume.source:
            message = "an empty folder has no folders"
            yield Unsupported(at / "subPath", message, "Remove subPath.")


def _unsupported_scratch(volume: Volume, path: Pointer) -> Iterator[Unsupported]:
    scratch = volume.source["emptyDir"]
    if "sizeLimit" in scratch and scratch.get("medium") != "Memory":
        message = "Docker limits no folder on a disk"
        remedy = "Remove sizeLimit, or set medium: Memory."
        yield Unsupported(path / "emptyDir" / "sizeLimit", message, remedy)
    if scratch.get("medium", "") not in ("", "Memory"):
        message = f"Docker has no folder in {scratch['medium']}"
        yield Unsupported(path / "emptyDir" / "medium", message, "Remove it, or write Memory.")
    if len(volume.mounted) > 1:
        message = "a nameless folder of Docker is at one place"
        remedy = "Use a claim (docker volume create), or mount it once."
        yield Unsupported(path / "mounts", message, remedy)


def _unsupported_variables(job: Job) -> Iterator[Unsupported]:
    for variable, value in job.env.items():
        if isinstance(value, ValueFrom):
            message = "a value of a cluster, which Docker does not have"
            yield Unsupported(Pointer.of("env", variable), message, "Write the value itself.")
    if job.env_from:
        message = "ConfigMaps and Secrets are objects of a cluster"
        yield Unsupported(Pointer("/envFrom"), message, "Write the variables into env.")
    for variable, secret in job.secrets.items():
        if secret.external:
            message = "External Secrets run in a cluster"
            remedy = "Write name and key; the value comes from the shell's own environment."
            yield Unsupported(Pointer.of("secrets", variable, "external"), message, remedy)


def _unsupported_files(job: Job) -> Iterator[Unsupported]:
    for file in job.files:
        if file.binary:
            path, message = Pointer.of("files", file.name), "a compose file holds text only"
            yield Unsupported(path, message, "Put the file into the image, or into a folder.")


def _unsupported_security(job: Job, environment: Environment) -> Iterator[Unsupported]:
    if environment.pod_security == "restricted" and not job.security.run_as_user:
        yield Unsupported(
            Pointer("/security/runAsUser"),
            "restricted pod security requires a user other than root, and Docker does not",
            "Set security.runAsUser, or podSecurity: baseline in environment.yaml.",
        )
    own = job.security
    lacking = {
        "runAsNonRoot": own.run_as_non_root,
        "supplementalGroups": own.supplemental_groups,
        "appArmorProfile": own.app_armor_profile,
        "seLinuxOptions": own.se_linux_options,
        "sysctls": own.sysctls,
        "seccompProfile": own.seccomp_profile.get("type", _DEFAULT_PROFILE) not in _PROFILES,
    }
    for path in (Pointer.of("security", key) for key, value in lacking.items() if value):
        yield Unsupported(path, f"a compose file has nothing like {path.dotted} here", _REMEDY)
    if job.network and job.metrics:
        yield Unsupported(
            Pointer("/metrics"),
            "a container without a network cannot be scraped",
            "Remove metrics, or set network: open.",
        )


def _units(job: Job) -> Iterator[Unsupported]:
    """Refuse sizes in powers of 1000: Docker would read 64G as 64Gi."""
    sizes = {
        Pointer("/resources/memory"): job.resources.memory,
        Pointer("/resources/requests/memory"): job.resources.request_memory,
        Pointer("/resources/limits/memory"): job.resources.limit_memory,
        Pointer("/shm"): job.shm,
    }
    for volume in job.volumes:
        scratch = volume.source.get("emptyDir", {})
        sizes[Pointer.of("volumes", volume.name, "emptyDir", "sizeLimit")] = scratch.get(
            "sizeLimit", ""
        )
    for path, size in sizes.items():
        if size[-1:] in tuple("kMGTPE"):
            message = f"Docker counts in powers of 1024, and {size} is not such a number"
            yield Unsupported(path, message, f"Write {size[:-1]}{size[-1].upper()}i.")


def _expansions(job: Job) -> Iterator[Unsupported]:
    """Refuse $(NAME) and $$, which Kubernetes replaces and Docker does not."""
    words = [(Pointer("/entrypoint"), word) for word in job.entrypoint.argv]
    words += [
        (Pointer.of("env", name), value)
        for name, value in job.env.items()
        if isinstance(value, str)
    ]
    for path, word in (*words, *argument_words(job)):
        if "$(" in word or "$$" in word:
            yield Unsupported(path, f"Docker does not expand {word!r}", "Write the value itself.")


TARGET = Target(
    of=KIND,
    summary="Docker Compose: one machine with GPUs, no Kubernetes.",
    template="compose.yaml",
    values=_values,
    longest_suffix=lambda job: "",
    unsupported=_unsupported,
    facts=(),  # one machine: nothing of a cluster reaches it
    deviations=(
        Deviation(
            about="Retries",
            text="Docker restarts the container whatever its exit code.",
            fields=("/pods/*/restart/final",),
            when=lambda job, _: job.retries > 0 and command.starts_runtime(job),
        ),
        Deviation(
            about="Roles",
            text="`docker compose up --exit-code-from train` ends them with the training: started "
            "with `--detach` they go on. Docker probes from inside the container, a path or a port "
            "by its `python3`, and starts one again that has ended, not one that has stopped to "
            "answer.",
            fields=(
                *(f"/pods/*/rest/container/{probe}/**" for probe in _PROBES),
                "/pods/*/restart/**",
            ),
            when=lambda job, _: bool(job.roles),
        ),
        Deviation(
            about="Secrets",
            text="Their values come from the shell that calls `docker compose`.",
            fields=("/pods/*/secrets/**",),
            when=lambda job, _: bool(job.secrets),
        ),
        Deviation(
            about="Annotations",
            text="They are the container's, and there are none for the controllers of a cluster.",
            fields=("/annotations/**", "/pods/*/annotations/**"),
        ),
        Deviation(
            about="Labels of pods",
            text="A container is both the object and the pod, and has the labels of both.",
            fields=("/labels/**",),
            when=lambda job, _: bool(job.pod_labels),
        ),
        Deviation(
            about="Host network",
            text="There is no cluster whose name servers it could ask.",
            fields=("/pods/*/rest/pod/dnsPolicy",),
            when=lambda job, _: bool(job.host_network),
        ),
        Deviation(
            about="Group of volumes",
            text="The process has the group `security.fsGroup`, but nothing gives it the files.",
            fields=("/pods/*/security/fsGroupChangePolicy",),
            when=lambda job, _: job.security.fs_group is not None,
        ),
        Deviation(
            about="Metrics",
            text="They can be fetched on 127.0.0.1, and nothing does so by itself.",
            fields=(Pointer.of("beside", "PodMonitor/*") / "**", "/pods/*/ports/**"),
            when=lambda job, _: job.metrics is not None,
        ),
        Deviation(
            about="Isolated network",
            text="The container has no network at all.",
            fields=(Pointer.of("beside", "NetworkPolicy/*") / "**",),
            when=lambda job, _: job.network == "isolated",
        ),
    ),
    envelope=as_object,
    serving=Serving(
        _serving,
        lambda role, _name: _services(role),
        lambda role, _index: [f"/spec/services/{service}" for service in _services(role)],
    ),
    meeting=_meeting,
)
