"""Pod templates and their containers of manifests of any origin: reading never raises."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import field
from functools import wraps
from typing import TypeVar

from trainwright.datatypes.data import (
    Data,
    dig,
    extended,
    is_accelerator,
    mapping,
    mappings,
    sequence,
    text,
)
from trainwright.datatypes.frozen import cached_property, dataclass
from trainwright.datatypes.manifest import ObjectBody
from trainwright.datatypes.quantity import count
from trainwright.objects.pods.mounted import is_script, mounted, named_in

ROLE_LABEL = "trainwright.io/role"  # of pods that serve those that train
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the path of it everywhere
RUN_KEY = "TRAINWRIGHT_RUN_KEY"  # of a Secret: what closes the ports of a run to others
CHECKPOINT_DIR = "TRAINWRIGHT_CHECKPOINT_DIR"  # the folder of `checkpoint`, for programs


Owner = TypeVar("Owner")
Value = TypeVar("Value")


def once(compute: Callable[[Owner], Value]) -> Callable[[Owner], Value]:
    """Compute a function of a container or a template once for each: many rules need the same."""
    name = f"{compute.__module__}.{compute.__qualname__}"

    @wraps(compute)
    def computed(owner: Owner) -> Value:
        cached: dict[str, Value] = owner.__dict__
        try:
            return cached[name]
        except KeyError:
            value = cached[name] = compute(owner)
            return value

    return computed


def claim_names(claims: Iterable[Mapping[str, Data]]) -> tuple[str, ...]:
    """Return the names of the volumes that an object makes from its claim templates."""
    return tuple(text(dig(claim, "metadata", "name")) for claim in claims)


@dataclass(frozen=True)
class Container:
    """A container or init container, and the pointer to it.

    `files` are the texts that known ConfigMaps mount in it, by path. `entrypoint` is a command that
    the object starts in it beside the container's own.
    """

    pointer: str
    body: Mapping[str, Data]
    init: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    entrypoint: str = ""

    @property
    def name(self) -> str:
        return text(self.body.get("name"))

    @property
    def image(self) -> str:
        return text(self.body.get("image"))

    @property
    def working_dir(self) -> str:
        return text(self.body.get("workingDir"))

    @property
    def sidecar(self) -> bool:
        """Whether this is an init container that keeps running alongside the others."""
        return self.init and self.body.get("restartPolicy") == "Always"

    @cached_property
    def command_line(self) -> tuple[str, ...]:
        """Command and args, in the order the kubelet joins them."""
        parts = [*sequence(self.body.get("command")), *sequence(self.body.get("args"))]
        return tuple(str(part) for part in parts)

    @cached_property
    def started(self) -> tuple[str, ...]:
        """The command line and what else is started: an entrypoint, and scripts they name."""
        whole = (*self.command_line, *filter(None, [self.entrypoint]))
        named = named_in(" ".join(whole), self.files, self.working_dir)
        return (*whole, *(content for path, content in named if is_script(path, content)))

    @cached_property
    def configuration(self) -> tuple[tuple[str, str], ...]:
        """The YAML files that the container's command line names, as pairs of path and content."""
        named = named_in(" ".join(self.started), self.files, self.working_dir)
        return tuple(item for item in named if item[0].endswith((".yaml", ".yml")))

    @cached_property
    def env(self) -> tuple[Mapping[str, Data], ...]:
        return tuple(mappings(self.body.get("env")))

    @cached_property
    def env_from(self) -> tuple[Mapping[str, Data], ...]:
        return tuple(mappings(self.body.get("envFrom")))

    @cached_property
    def ports(self) -> tuple[Mapping[str, Data], ...]:
        return tuple(mappings(self.body.get("ports")))

    @cached_property
    def mounts(self) -> tuple[Mapping[str, Data], ...]:
        return tuple(mappings(self.body.get("volumeMounts")))

    @property
    def security(self) -> Mapping[str, Data]:
        return mapping(self.body.get("securityContext"))

    @cached_property
    def variables(self) -> Mapping[str, str]:
        """The variables by name, with their literal values; of duplicates the last one wins."""
        return {text(entry.get("name")): text(entry.get("value")) for entry in self.env}

    @cached_property
    def limits(self) -> Mapping[str, Data]:
        return mapping(dig(self.body, "resources", "limits"))

    @cached_property
    def requests(self) -> Mapping[str, Data]:
        return mapping(dig(self.body, "resources", "requests"))

    @cached_property
    def extended(self) -> Mapping[str, Data]:
        """The extended resources that the container requests; limits win over requests."""
        return extended({**self.requests, **self.limits})

    @cached_property
    def accelerators(self) -> Mapping[str, int]:
        """How many of each accelerator the container gets, by resource name."""
        counts = {}
        for name, amount in self.extended.items():
            number = count(amount)
            if number and is_accelerator(name):
                counts[name] = number
        return counts


@dataclass(frozen=True)
class PodTemplate(ObjectBody):
    """A pod template inside an object: its role ("Master", "Worker", ...) and replica count.

    `retried` is whether a pod that is lost or fails is replaced by a new one, None if unknown.
    `placed` holds the pointers to containers, by name, that are outside the template. A `partial`
    template is completed by an object that is not at hand, so nothing follows from what it lacks.
    `claimed` are further volumes, from claims that the object makes for each pod. A `foreign`
    template is of a kind whose pods may train or serve, as their commands show. `processes` is how
    many processes torchrun starts if its command line does not set it, and `processes_at` where the
    object itself sets it. `configs` are the data of ConfigMaps by name, and `entrypoint` is a
    command that the object starts in the pods. `groups` is how many trainings the pods are of, such
    as the groups of a LeaderWorkerSet. `host` is the network name of its pods, if that is
    not made of the object's name and the role.
    """

    pointer: str
    body: Mapping[str, Data]
    role: str = ""
    replicas: int = 1
    retried: bool | None = None
    placed: Mapping[str, str] = field(default_factory=dict)
    partial: bool = False
    claimed: tuple[str, ...] = ()
    foreign: bool = False
    processes: str = ""
    processes_at: str = ""
    configs: Mapping[str, Mapping[str, Data]] = field(default_factory=dict)
    entrypoint: str = ""
    host: str = ""
    groups: int = 1

    @property
    def ranks(self) -> int:
        """How many of the pods train together."""
        return self.replicas // (self.groups or 1)

    def alike(self, other: PodTemplate) -> bool:
        """Whether the pods are the same apart from their number and what the object calls them."""
        return (
            self.body == other.body
            and (self.retried, self.partial, self.claimed)
            == (other.retried, other.partial, other.claimed)
            and self.placed == other.placed
        )

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Main containers first, then init containers."""
        return (*self._in("containers"), *self._in("initContainers", init=True))

    @cached_property
    def ephemeral(self) -> tuple[Container, ...]:
        """The containers for debugging, which only Pods that run can have."""
        return tuple(self._in("ephemeralContainers"))

    def _in(self, field_name: str, *, init: bool = False) -> Iterator[Container]:
        for index, item in enumerate(sequence(self.spec.get(field_name))):
            body = mapping(item)
            pointer = f"{self.pointer}/spec/{field_name}/{index}"
            at = self.placed.get(text(body.get("name")), pointer)
            volumes = (volume for _, volume in self.volumes)
            files = mounted(body, volumes, self.configs) if self.configs else {}
            first = field_name == "containers" and index == 0
            yield Container(at, body, init, files, self.entrypoint if first else "")

    @property
    def serves(self) -> bool:
        """Whether these pods have a serving role: they serve the training and keep no state."""
        return ROLE_LABEL in self.labels

    @cached_property
    def trains(self) -> tuple[Container, ...]:
        """The containers that are not init containers."""
        return tuple(c for c in self.containers if not c.init)

    @cached_property
    def accelerators(self) -> Mapping[str, int]:
        """How many of each accelerator one pod gets, by resource name."""
        counts: Counter[str] = Counter()
        for container in self.trains:
            counts.update(container.accelerators)
        return counts

    @cached_property
    def volumes(self) -> tuple[tuple[str, Mapping[str, Data]], ...]:
        """Each volume with its pointer."""
        return tuple(
            (f"{self.pointer}/spec/volumes/{index}", mapping(volume))
            for index, volume in enumerate(sequence(self.spec.get("volumes")))
        )

    @cached_property
    def shm(self) -> tuple[str, Mapping[str, Data]] | None:
        """The memory volume mounted at /dev/shm, with its pointer."""
        names = {
            text(mount.get("name"))
            for container in self.trains
            for mount in container.mounts
            if text(mount.get("mountPath")).rstrip("/") == SHARED_MEMORY
        }
        return next(((p, v) for p, v in self.volumes if text(v.get("name")) in names), None)

    @cached_property
    def main(self) -> Container | None:
        """The first non-init container, the one that trains, or None."""
        return next((c for c in self.containers if not c.init), None)
