"""The operator type, and the pods that an operator makes of a rendered object, as their processes
see them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from trainwright.datatypes.data import Data, dig, text
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.frozen import cached_property, dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.objects.pods.groups import Pods
from trainwright.objects.pods.template import Container


class ManifestError(TrainwrightError):
    """Raised if an operator cannot make pods of an object; the message gives the reason."""


ALL = "all"  # in place of a number of accelerators: those of the machine


@dataclass(frozen=True, slots=True)
class EnvVar:
    """One entry of a container's env.

    `source` is where the cluster gets a value that is not in git, such as "key token of Secret hf";
    `value` is empty then. `secret` is the Secret's name and key if the value comes from one.
    `origin` is what the manifest has instead of a value, if it has anything.
    """

    name: str
    value: str = ""
    source: str = ""
    secret: tuple[str, str] | None = None
    origin: Mapping[str, Data] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a container; `meets` if the operator lets the ranks meet at it."""

    name: str
    number: int
    meets: bool = False


# A pattern of what follows the name of a pod or Service where it is written in full.
# https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
DOMAIN = r"\.[a-z0-9-]+\.svc(?:\.cluster\.local)?"

# Files by ConfigMap and key: bytes where they are not text.
Configs: TypeAlias = Mapping[str, Mapping[str, str | bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """One mounted volume; `source` is the Kubernetes volume source ({"emptyDir": {}}, say).

    `more` holds the other fields of the volumeMount, as Kubernetes names them.
    """

    path: str
    volume: str
    source: Mapping[str, Data]
    sub_path: str = ""
    read_only: bool = False
    more: Mapping[str, Data] = field(default_factory=dict)

    @property
    def config(self) -> str:
        """The name of the mounted ConfigMap, or "" if something else is mounted."""
        return text(dig(self.source, "configMap", "name"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """What happens when a pod fails.

    It is restarted at most `limit` times (None: without limit), alone or, with `gang`, together
    with all others; exit codes in `permanent` end the job at once. With `in_pod` only its
    container is restarted, and keeps the pod's own volumes.
    """

    limit: int | None
    gang: bool = False
    permanent: frozenset[int] = frozenset()
    in_pod: bool = False

    def helps(self, code: int) -> bool:
        """Whether the operator restarts a pod that ended with this exit code."""
        return self.limit != 0 and code not in self.permanent


# Exit codes that say that a retry cannot help, under restartPolicy ExitCode.
# https://github.com/kubeflow/trainer/blob/v1.9.4/pkg/util/train/train_util.go
PERMANENT = frozenset(range(1, 128))


@dataclass(frozen=True, kw_only=True)
class Pod:
    """One pod and its training container, as the kubelet starts it.

    `hostname` is the name by which peers reach it, `aliases` are others. `command` and `declared`
    are as in the pod's spec, duplicates included; `argv` and `env` are what the process gets.
    `agent` holds what an agent of the operator adds to the env of each process that it starts from
    the command; without an agent the command itself is the one process.
    """

    name: str
    hostname: str
    role: str
    index: int
    image: str
    command: tuple[str, ...]
    declared: tuple[EnvVar, ...]
    restart: Restart
    agent: tuple[tuple[EnvVar, ...], ...] = ()
    ports: tuple[Port, ...] = ()
    mounts: tuple[Mount, ...] = ()
    resources: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    security: Mapping[str, Mapping[str, Data]] = field(default_factory=dict)  # of pod, container
    grace_period: int = 30  # seconds, the API server's default
    labels: Mapping[str, str] = field(default_factory=dict)
    controller_labels: Mapping[str, str] = field(default_factory=dict)  # that its controllers add
    annotations: Mapping[str, str] = field(default_factory=dict)
    pull_policy: str = ""  # as written
    pull_secrets: tuple[str, ...] = ()
    placement: Mapping[str, Data] = field(default_factory=dict)  # fields of the spec, as written
    service_account: str = ""
    token: bool | None = None  # whether it is mounted, as it or its ServiceAccount says
    starts_image: bool = False  # what the image itself starts, with `command` as its arguments
    rest: Mapping[str, Mapping[str, Data]] = field(default_factory=dict)  # of pod, container
    volumes: Mapping[str, Mapping[str, Data]] = field(default_factory=dict)  # sources by name
    beside: tuple[Container, ...] = ()  # the other containers
    before: tuple[Container, ...] = ()  # init containers and sidecars
    added: tuple[Container, ...] = ()  # init containers that the operator adds behind those
    env_from: tuple[Mapping[str, Data], ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def has_token(self) -> bool:
        """Whether its containers find a token of its ServiceAccount, as they do unasked."""
        return self.token is not False

    @property
    def init(self) -> tuple[Container, ...]:
        """The init containers in order, with the sidecars that one after them may need."""
        ends = max((at for at, c in enumerate(self.before, 1) if not c.sidecar), default=0)
        return self.before[:ends]

    @property
    def sidecars(self) -> tuple[Container, ...]:
        """Containers that run alongside and start last: sidecars, and the pod's others."""
        return (*self.before[len(self.init) :], *self.beside)

    @property
    def env(self) -> tuple[tuple[str, str], ...]:
        """The process's variables by name, without those that only the cluster knows."""
        return tuple(self.resolved[1].items())

    @property
    def argv(self) -> tuple[str, ...]:
        """The words of the command, with $(VAR) replaced where the value is known."""
        return self.resolved[0]

    @cached_property
    def resolved(self) -> tuple[tuple[str, ...], Mapping[str, str]]:
        """argv and env, with the values that are known."""
        return self.resolve({})

    @property
    def unresolved(self) -> tuple[EnvVar, ...]:
        """The variables whose values are not in the manifests."""
        last = {variable.name: variable for variable in self.declared}
        return tuple(variable for variable in last.values() if variable.source)

    def resolve(self, given: Mapping[str, str]) -> tuple[tuple[str, ...], dict[str, str]]:
        """Return argv and env, with `given` for values that only the cluster knows.

        As in the kubelet, the last of several entries of a name counts, and $(VAR) sees the entries
        before it. https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables
        """
        env: dict[str, str] = {}
        for variable in self.declared:
            if not variable.source:
                env[variable.name] = expand(variable.value, env)
            elif variable.name in given:
                env[variable.name] = given[variable.name]
            else:
                env.pop(variable.name, None)
        return tuple(expand(word, env) for word in self.command), env


_REFERENCE = re.compile(r"\$(?:\$|\(([^)]{0,500}+)\))")


def expand(text: str, env: Mapping[str, str]) -> str:
    """Return a text with `$(VAR)` replaced if `env` has VAR, else left alone; `$$` becomes `$`."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else env.get(name, match.group())

    return _REFERENCE.sub(value, text) if "$" in text else text


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods that are started together or not at all; of a queue of the scheduler's, if any."""

    members: int
    queue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadline:
    """After how many seconds the operator ends a run, or each attempt of it."""

    seconds: int
    attempt: bool = False


# What the training waits for from a serving role: nothing, that it is ready, or that it completes.
Awaited: TypeAlias = Literal["", "ready", "complete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The pods of one object, and which of them have to succeed for it to succeed.

    `serving` are the roles whose pods serve the training and end with it: by name, what the
    training waits for before it starts. `sizes` are the fewest and the most pods of an elastic
    workload. A suspended workload has the pods that it would start with. `own` are settings that
    only this operator has, without those that have their defaults.
    """

    pods: Pods
    deciding: tuple[str, ...]  # names of pods
    needs: Literal["all", "any"] = "all"
    serving: Mapping[str, Awaited] = field(default_factory=dict)
    sizes: tuple[int, int] | None = None
    deadline: Deadline | None = None
    suspended: bool = False
    gang: Gang | None = None
    isolated: bool = False  # by the object itself; a NetworkPolicy is another
    own: Mapping[str, Data] = field(default_factory=dict)

    @property
    def training(self) -> Pods:
        """The pods that train together."""
        return self.pods.where(lambda role: role not in self.serving) if self.serving else self.pods

    def of_role(self, role: str) -> Pods:
        """Return the pods of one role."""
        return self.pods.where(role.__eq__)

    def succeeded(self, codes: Mapping[str, int]) -> bool:
        """Whether the operator calls the object succeeded, by exit codes of pods that ended."""
        ended_well = [codes.get(name) == 0 for name in self.deciding]
        return any(ended_well) if self.needs == "any" else all(ended_well)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """An operator, which makes pods of objects of one kind.

    `pods` takes the object, everything rendered with it, and how many pods an elastic object
    gets (None: as many as it requests). `configs` returns the files that the object itself
    holds, by config and key, as a ConfigMap has them.
    """

    name: str
    pods: Callable[[Manifest, Sequence[Manifest], int | None], Workload]
    configs: Callable[[Manifest], Configs] = lambda _: {}
