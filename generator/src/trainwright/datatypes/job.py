"""A job, resolved: everything that its spec and the layers below decide."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, fields, replace
from typing import Literal, TypeAlias

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data
from trainwright.datatypes.durations import seconds
from trainwright.datatypes.environment import Pool, Waiver
from trainwright.datatypes.fields import NOT_WRITTEN, spelled, written
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.volumes import Mount, Volume

PATCH = "podPatch"  # the field of a spec in which a pod is written as Kubernetes has it
CONTAINERS = ("initContainers", "sidecars")  # fields of a spec, containers by their names
DIRECTIVE = "$patch"  # the key of such a patch that replaces or deletes what is around it


def _unless(default: str) -> Callable[[str], str]:
    """Return a reader that turns a default into "", so that the names of runs do not change."""
    return lambda value: "" if value == default else value


def _texts(items: list[Data]) -> tuple[str, ...]:
    """Words of a command line."""
    return tuple(str(item).lower() if isinstance(item, bool) else str(item) for item in items)


def _true(value: bool) -> bool | None:
    return value or None


def _false(value: bool) -> bool | None:
    """Return False, or None for true: the value of a field that is on unless it is turned off."""
    return None if value else False


# --- the job ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    repository: str
    tag: str = ""
    digest: str = ""
    pull_policy: str = "IfNotPresent"
    pull_secrets: tuple[str, ...] = ()

    @property
    def reference(self) -> str:
        """`repository[:tag][@digest]`, as the container runtime reads it."""
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.repository}{tag}{digest}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrypoint:
    """What the container runs: exactly one of module, script, argv, inline and image is set.

    `inline` is the text of a Python script, which reaches the pods in a ConfigMap; `image` stands
    for what the image starts by itself. `args` are positional arguments, placed before the flags.
    """

    module: str = ""
    script: str = ""
    argv: tuple[str, ...] = ()
    inline: str = ""
    image: bool | None = field(default=None, metadata=written(read=_true))
    args: tuple[str, ...] = field(default=(), metadata=written(read=_texts))

    @property
    def launched(self) -> bool:
        """Whether a launcher starts the program, rather than the container itself."""
        return not (self.argv or self.image)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlagStyle:
    """How flags become arguments. Empty is the form's default: with dashes, switches and repeated
    flags; in `k=v`, values and brackets.
    """

    form: Literal["--k=v", "--k v", "-k=v", "-k v", "k=v"] = "--k=v"
    booleans: Literal["", "switch", "value", "negated"] = ""
    lists: Literal["", "repeat", "words", "comma", "brackets"] = ""


def _flag_style(value: Data) -> FlagStyle:
    return FlagStyle(**({"form": value} if isinstance(value, str) else value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Elastic:
    min_nodes: int
    max_nodes: int
    # Empty rather than "restart": an absent field does not change the names of runs.
    recovery: Literal["", "live"] = field(default="", metadata=written(read=_unless("restart")))


# Amounts of a spec by their names in Kubernetes.
AMOUNTS = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "ephemeralStorage"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What one pod asks for, as Kubernetes quantities.

    `memory` and `ephemeral_storage` are both request and limit, `cpu` is a request only; the
    `request_` and `limit_` fields set one of the two and take precedence.
    """

    cpu: str = field(default="", metadata=written("cpu", read=quantity.cores))
    memory: str = ""
    ephemeral_storage: str = ""
    gpu: int = 0
    extended: Mapping[str, int] = field(default_factory=dict)
    hugepages: Mapping[str, str] = field(default_factory=dict)  # amounts by size of a page
    request_cpu: str = field(default="", metadata=written("requests", "cpu", read=quantity.cores))
    request_memory: str = field(default="", metadata=written("requests", "memory"))
    request_ephemeral_storage: str = field(
        default="", metadata=written("requests", "ephemeralStorage")
    )
    limit_cpu: str = field(default="", metadata=written("limits", "cpu", read=quantity.cores))
    limit_memory: str = field(default="", metadata=written("limits", "memory"))
    limit_ephemeral_storage: str = field(default="", metadata=written("limits", "ephemeralStorage"))

    @property
    def requests(self) -> dict[str, str]:
        """What is requested, by the name of the resource in Kubernetes."""
        return {
            "cpu": self.request_cpu or self.cpu,
            "memory": self.request_memory or self.memory,
            "ephemeral-storage": self.request_ephemeral_storage or self.ephemeral_storage,
        }

    @property
    def limits(self) -> dict[str, str]:
        """The most of it; empty where there is no limit."""
        return {
            "cpu": self.limit_cpu,
            "memory": self.limit_memory or self.memory,
            "ephemeral-storage": self.limit_ephemeral_storage or self.ephemeral_storage,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceClaim:
    """Devices that a DRA driver allocates: by a ResourceClaim for each pod, from a template, or by
    an existing claim. `request` is the request in it that the container uses, if there are several.
    """

    name: str = field(metadata=NOT_WRITTEN)
    template: str = ""
    claim: str = ""
    request: str = ""


@dataclass(frozen=True, slots=True)
class ValueFrom:
    """Where the cluster takes a variable's value from, as in an entry of `env`."""

    source: Mapping[str, Data]


Variable: TypeAlias = str | ValueFrom


def variable(written: str | Mapping[str, Data]) -> Variable:
    """A variable as it is written: its value, or a short form of where that comes from."""
    if isinstance(written, str):
        return written
    if "field" in written:
        return ValueFrom({"fieldRef": {"fieldPath": written["field"]}})
    if "resource" in written:
        amount = {key: written[key] for key in ("resource", "divisor") if key in written}
        return ValueFrom({"resourceFieldRef": amount})
    named = {"name": written["configMap"], "key": written["key"]}
    optional = {"optional": True} if written.get("optional") else {}
    return ValueFrom({"configMapKeyRef": named | optional})


def _variables(written: Mapping[str, Data]) -> dict[str, Variable]:
    return {name: variable(value) for name, value in written.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSource:
    """A ConfigMap or a Secret, exactly one of them, whose keys all become environment variables."""

    config_map: str = ""
    secret: str = ""
    prefix: str = ""
    optional: bool = False

    @property
    def reference(self) -> dict[str, Data]:
        """The entry of `envFrom`."""
        name: dict[str, Data] = {"name": self.config_map or self.secret}
        reference = name | ({"optional": True} if self.optional else {})
        kind = "configMapRef" if self.config_map else "secretRef"
        return {**({"prefix": self.prefix} if self.prefix else {}), kind: reference}


_BINARY = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")  # of text there is none


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file that travels with the run; its name is an absolute path of the container.

    Its bytes are `content`, or `binary` in base64 where they are not text. A recorded run knows
    the file of the repository that it was by its `digest` alone.
    """

    name: str = field(metadata=NOT_WRITTEN)
    digest: str  # "sha256:…" of the bytes
    content: str = ""
    binary: str = ""
    mode: str = ""  # octal; empty: what Kubernetes gives files of a ConfigMap, 0644

    @classmethod
    def of(cls, name: str, raw: bytes, mode: str = "") -> File:
        """A file with these bytes: as text where that gives back the same bytes."""
        digest = file_digest(raw)
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            text = "\0"
        if _BINARY.search(text):
            encoded = base64.b64encode(raw).decode()
            return cls(name=name, digest=digest, binary=encoded, mode=mode)
        return cls(name=name, digest=digest, content=text, mode=mode)

    @property
    def raw(self) -> bytes:
        return base64.b64decode(self.binary) if self.binary else self.content.encode()


def file_digest(raw: bytes) -> str:
    """Return the digest by which a spec and a record identify a file's bytes."""
    return f"sha256:{hashlib.sha256(raw).hexdigest()}"


def _written_bytes(file: Mapping[str, Data]) -> bytes | None:
    """Return a file's bytes if its content is in the spec, or None if it is in the repository."""
    if "binaryData" in file:
        return base64.b64decode(file["binaryData"])
    return file["content"].encode() if "content" in file else None


def _files(written: Mapping[str, Data]) -> tuple[File, ...]:
    """Return a spec's files; those in the repository lack their bytes, which `resolve` adds."""
    return tuple(
        File.of(path, raw, file.get("mode", ""))
        if (raw := _written_bytes(file)) is not None
        else File(name=path, digest=file.get("digest", ""), mode=file.get("mode", ""))
        for path, file in sorted(written.items())
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GitCode:
    """A commit of a repository; `path` is the folder of it that is mounted, `secret` who may."""

    url: str
    commit: str
    path: str = ""
    secret: str = ""

    @property
    def over_ssh(self) -> bool:
        return not self.url.startswith("https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """The code that a run trains with, if its image does not contain it: from `git`, or from an
    `image` whose files are mounted.
    """

    git: GitCode | None = None
    image: str = ""
    mount_path: str = "/code"


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalSecret:
    """A value that External Secrets fetches: `key` and `property` are the store's names for it."""

    store: str
    key: str
    kind: Literal["SecretStore", "ClusterSecretStore"] = "SecretStore"
    property: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretKey:
    """A key of a Secret in the namespace, or one that is fetched into a Secret of the run's own."""

    name: str = ""
    key: str = ""
    # None rather than False: an absent field does not change the names of runs.
    optional: bool | None = field(default=None, metadata=written(read=_true))
    external: ExternalSecret | None = None

    def reference(self, own: str = "", variable: str = "") -> dict[str, Data]:
        """Return the key as `env` refers to it; an external one is in the run's `own` Secret."""
        if self.external:
            return {"name": own, "key": variable}
        entry: dict[str, Data] = {"name": self.name, "key": self.key}
        return entry | ({"optional": True} if self.optional else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerCopies:
    """Copies of the state in the memory of two nodes; `volume` is in that memory."""

    volume: str
    every: int  # steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    volume: str
    path: str
    every: int | None = None  # steps
    keep: int | None = None
    resume_from: str = ""
    peer_copies: PeerCopies | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The level of the cluster's topology (a node label) that the pods share; one of the two."""

    required: str = ""
    preferred: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """`port` is that of local rank 0 of each pod; the others follow it."""

    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracking:
    """The experiment trackers' project for what the script logs, and the code's commit."""

    project: str
    commit: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lattice:
    """What only BreezeML Lattice reads."""

    inject: bool | None = None  # None: decided by `values`
    framework: str = "pytorch"
    priority: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    run_as_user: int | None = None
    run_as_group: int | None = None
    fs_group: int | None = None
    capabilities: tuple[str, ...] = ()
    privileged: bool | None = field(default=None, metadata=written(read=_true))
    run_as_non_root: bool | None = None  # None: decided by `values`
    allow_privilege_escalation: bool | None = field(default=None, metadata=written(read=_true))
    read_only_root_filesystem: bool | None = field(default=None, metadata=written(read=_true))
    supplemental_groups: tuple[int, ...] = ()
    seccomp_profile: Mapping[str, Data] = field(default_factory=dict)
    app_armor_profile: Mapping[str, Data] = field(default_factory=dict)
    se_linux_options: Mapping[str, Data] = field(default_factory=dict)
    sysctls: tuple[Mapping[str, Data], ...] = ()


def _container_mounts(written: Mapping[str, Data]) -> dict[str, tuple[Mount, ...]]:
    """The mounts of a container by volume: a path, a mount, or a list of them."""
    return {name: tuple(_container_mount(value)) for name, value in written.items()}


def _container_mount(written: Data) -> Iterator[Mount]:
    """Yield the mounts of a volume, which may be a path, a mapping or a list of these."""
    for mount in written if isinstance(written, list) else [written]:
        fields: Mapping[str, Data] = {"mountPath": mount} if isinstance(mount, str) else mount
        yield Mount(
            mount_path=fields["mountPath"],
            sub_path=fields.get("subPath", ""),
            sub_path_expr=fields.get("subPathExpr", ""),
            read_only=fields.get("readOnly", False),
            mount_propagation=fields.get("mountPropagation", ""),
            recursive_read_only=fields.get("recursiveReadOnly", ""),
        )


# Fields of a container that reach Kubernetes as they are written.
CONTAINER_PARTS = (
    "imagePullPolicy",
    "workingDir",
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "volumeDevices",
    "restartPolicy",
    "stdin",
    "stdinOnce",
    "tty",
)


def _container_parts(written: Mapping[str, Data]) -> dict[str, Data]:
    return {key: written[key] for key in CONTAINER_PARTS if key in written}


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container beside the training container: an init container or a sidecar.

    It mounts those of the job's volumes that `mounts` names. `parts` are further fields, as
    Kubernetes has them.
    """

    name: str = field(metadata=NOT_WRITTEN)
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: Mapping[str, Variable] = field(default_factory=dict, metadata=written(read=_variables))
    env_from: tuple[EnvironmentSource, ...] = ()
    secrets: Mapping[str, SecretKey] = field(default_factory=dict)
    mounts: Mapping[str, tuple[Mount, ...]] = field(
        default_factory=dict, metadata=written(read=_container_mounts)
    )
    security: Security = Security()
    parts: Mapping[str, Data] = field(metadata=written(whole=True, read=_container_parts))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """When a pod of a role is ready: when an HTTP path answers, a command succeeds or, by default,
    its port accepts connections.

    `within` is how many seconds the first answer may take.
    """

    path: str = ""
    command: tuple[str, ...] = ()
    within: int = field(default=600, metadata=written(read=seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The role of a job that serves another while it trains; `port` is where its pods listen.

    `retries` and `grace_period` are those that it sets itself; inherited ones count as operation.
    """

    name: str
    port: int | None = None
    ready: Ready | None = None
    retries: int | None = None
    grace_period: int | None = field(default=None, metadata=written(read=seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One training run, merged, resolved against its environment, and valid.

    Its fields are those of a spec, in the order of the schema, after those that say where it is.
    """

    environment: str = field(metadata=NOT_WRITTEN)
    source: str = field(metadata=NOT_WRITTEN)  # path of the job file, relative to the root
    namespace: str = field(metadata=NOT_WRITTEN)
    role: Role | None = field(default=None, metadata=NOT_WRITTEN)  # None for the one that trains
    name: str
    target: str
    image: Image
    entrypoint: Entrypoint
    launcher: Literal["trainwright", "torchrun", "python", "accelerate", "deepspeed", "ray"]
    launcher_options: Mapping[str, Data] = field(default_factory=dict)
    flags: Mapping[str, Data] = field(default_factory=dict)
    flag_style: FlagStyle = field(
        default=FlagStyle(), metadata=written(read=_flag_style, derived=True)
    )
    nodes: int = field(metadata=written(derived=True))
    procs_per_node: int = field(metadata=written(derived=True))
    backend: Literal["nccl", "gloo"] = field(metadata=written(derived=True))
    elastic: Elastic | None = field(default=None, metadata=written(derived=True))
    pool: Pool | None
    resources: Resources = Resources()
    resource_claims: tuple[DeviceClaim, ...] = ()
    shm: str = "auto"  # "auto", "none" or a quantity
    env: Mapping[str, Variable] = field(default_factory=dict, metadata=written(read=_variables))
    env_from: tuple[EnvironmentSource, ...] = ()
    secrets: Mapping[str, SecretKey] = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = field(default=(), metadata=written(ordered=True))
    sidecars: tuple[Container, ...] = field(default=(), metadata=written(ordered=True))
    files: tuple[File, ...] = field(default=(), metadata=written(read=_files))
    code: Code | None = None
    checkpoint: Checkpoint | None = None
    queue: str = ""
    queue_priority: str = ""
    topology: Topology | None = None
    # None rather than False: an absent field does not change the names of runs.
    gang: bool | None = field(default=None, metadata=written(read=_true, derived=True))
    priority_class: str = field(default="", metadata=written(pod="priorityClassName"))
    runtime_class: str = field(default="", metadata=written(pod="runtimeClassName"))
    scheduler_name: str = field(default="", metadata=written(pod="schedulerName"))
    max_duration: int | None = field(default=None, metadata=written(read=seconds, derived=True))
    retries: int = 0
    grace_period: int = field(default=60, metadata=written(read=seconds, derived=True))
    run: int = 1
    state: Literal["active", "suspended", "cancelled"] = "active"
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, Data], ...] = ()
    affinity: Mapping[str, Data] = field(default_factory=dict)
    topology_spread: tuple[Mapping[str, Data], ...] = field(
        default=(), metadata=written(pod="topologySpreadConstraints")
    )
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    pod_annotations: Mapping[str, str] = field(default_factory=dict)
    service_account: str = ""
    create_service_account: bool | None = field(
        default=None, metadata=written(read=_true, derived=True)
    )
    service_account_token: bool | None = field(default=None, metadata=written(read=_true))
    network: Literal["", "isolated"] = field(
        default="", metadata=written(read=_unless("open"), derived=True)
    )
    host_network: bool | None = field(default=None, metadata=written(pod="hostNetwork", read=_true))
    host_ipc: bool | None = field(default=None, metadata=written(pod="hostIPC", read=_true))
    host_pid: bool | None = field(default=None, metadata=written(pod="hostPID", read=_true))
    host_users: bool | None = field(default=None, metadata=written(pod="hostUsers", read=_false))
    share_process_namespace: bool | None = field(
        default=None, metadata=written(pod="shareProcessNamespace", read=_true)
    )
    enable_service_links: bool | None = field(
        default=None, metadata=written(pod="enableServiceLinks", read=_false)
    )
    dns_policy: str = field(default="", metadata=written(pod="dnsPolicy"))
    dns_config: Mapping[str, Data] = field(default_factory=dict, metadata=written(pod="dnsConfig"))
    host_aliases: tuple[Mapping[str, Data], ...] = field(
        default=(), metadata=written(pod="hostAliases")
    )
    working_dir: str = field(default="", metadata=written(container="workingDir"))
    liveness_probe: Mapping[str, Data] = field(
        default_factory=dict, metadata=written(container="livenessProbe")
    )
    readiness_probe: Mapping[str, Data] = field(
        default_factory=dict, metadata=written(container="readinessProbe")
    )
    startup_probe: Mapping[str, Data] = field(
        default_factory=dict, metadata=written(container="startupProbe")
    )
    lifecycle: Mapping[str, Data] = field(
        default_factory=dict, metadata=written(container="lifecycle")
    )
    termination_message_path: str = field(
        default="", metadata=written(container="terminationMessagePath")
    )
    termination_message_policy: str = field(
        default="", metadata=written(container="terminationMessagePolicy")
    )
    metrics: Metrics | None = None
    # Checks of the entrypoint: whether, or the minimum of each.
    preflight: Mapping[str, Data] = field(default_factory=dict)
    tracking: Tracking | None = None
    security: Security = field(default=Security(), metadata=written(derived=True))
    # A strategic merge patch of the pods, in which a null removes.
    pod_patch: Mapping[str, Data] = field(default_factory=dict)
    lattice: Lattice = field(default=Lattice(), metadata=written(derived=True))
    roles: tuple[Job, ...] = field(default=(), metadata=written(derived=True))
    waivers: tuple[Waiver, ...] = ()

    @property
    def team(self) -> str:
        """The team that the job belongs to: its label `team`, or else its queue."""
        return self.labels.get("team") or self.queue

    @property
    def groups(self) -> tuple[Job, ...]:
        """The training job, then the jobs that serve it; each has all of the latter as `roles`."""
        return (self, *(replace(role, roles=self.roles) for role in self.roles))


# Fields whose written value is transformed, so that two values may lead to the same job. A change
# of any other field is a change of the job.
DERIVED = frozenset(spelled(f.name) for f in fields(Job) if f.metadata.get("derived"))
# Fields that reach a pod's spec as they are, with their names there.
POD_FIELDS = {f.name: f.metadata["pod"] for f in fields(Job) if f.metadata.get("pod")}
# Fields that reach its container as they are.
CONTAINER_FIELDS = {
    f.name: f.metadata["container"] for f in fields(Job) if f.metadata.get("container")
}
# Those that are rendered as they are, of either.
GIVEN = {**POD_FIELDS, **CONTAINER_FIELDS}
# Mappings of a job in which the order of the keys means something.
ORDERED = frozenset(spelled(f.name) for f in fields(Job) if f.metadata.get("ordered"))
# Every field of a job that people can write, in the order of the schema.
JOB_FIELDS = tuple(spelled(f.name) for f in fields(Job) if not f.metadata.get("unwritten"))
