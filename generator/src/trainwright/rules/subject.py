"""What a rule looks at: rendered objects, read tolerantly, since they may be anybody's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from trainwright import quantity
from trainwright.model import Data, Environment, Job, Manifest


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where a rule fails, as a JSON pointer into the object.

    `spec` is the dotted job-spec path that decides it ("resources.gpu"), so that the finding can
    point at the authored line; the rule's own `spec` is used when it is empty. `also` are further
    spec paths that the message speaks of.
    """

    pointer: str
    message: str
    spec: str = ""
    note: str = ""
    also: tuple[str, ...] = ()


def mapping(value: Data) -> Mapping[str, Data]:
    """The value if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def sequence(value: Data) -> Sequence[Data]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list | tuple) else ()


def text(value: Data) -> str:
    """The value if it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def escape(key: str) -> str:
    """A key as one JSON-pointer token (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


def dig(value: Data, *keys: str) -> Data:
    """The value under nested mapping keys, or None when any of them is absent."""
    for key in keys:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


@dataclass(frozen=True)
class Container:
    """A container or init container and where it stands."""

    pointer: str
    body: Mapping[str, Data]
    init: bool = False

    @property
    def name(self) -> str:
        return text(self.body.get("name"))

    @cached_property
    def command_line(self) -> tuple[str, ...]:
        """Command and args, in the order the kubelet joins them."""
        parts = [*sequence(self.body.get("command")), *sequence(self.body.get("args"))]
        return tuple(str(part) for part in parts)

    @cached_property
    def env(self) -> tuple[Mapping[str, Data], ...]:
        return tuple(mapping(entry) for entry in sequence(self.body.get("env")))

    @cached_property
    def limits(self) -> Mapping[str, Data]:
        return mapping(dig(self.body, "resources", "limits"))

    @cached_property
    def requests(self) -> Mapping[str, Data]:
        return mapping(dig(self.body, "resources", "requests"))


@dataclass(frozen=True)
class PodTemplate:
    """A pod template inside an object: its role ("Master", "Worker", ...) and replica count."""

    pointer: str
    body: Mapping[str, Data]
    role: str = ""
    replicas: int = 1

    @cached_property
    def spec(self) -> Mapping[str, Data]:
        return mapping(self.body.get("spec"))

    @cached_property
    def metadata(self) -> Mapping[str, Data]:
        return mapping(self.body.get("metadata"))

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Main containers first, then init containers."""
        found = []
        for field_name, init in (("containers", False), ("initContainers", True)):
            for index, body in enumerate(sequence(self.spec.get(field_name))):
                pointer = f"{self.pointer}/spec/{field_name}/{index}"
                found.append(Container(pointer, mapping(body), init))
        return tuple(found)

    @cached_property
    def trains(self) -> tuple[Container, ...]:
        """The containers that are not init containers."""
        return tuple(c for c in self.containers if not c.init)

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
            for mount in map(mapping, sequence(container.body.get("volumeMounts")))
            if text(mount.get("mountPath")).rstrip("/") == "/dev/shm"  # noqa: S108
        }
        return next(((p, v) for p, v in self.volumes if text(v.get("name")) in names), None)

    @cached_property
    def main(self) -> Container | None:
        """The first non-init container, the one that trains."""
        return next((c for c in self.containers if not c.init), None)


@dataclass(frozen=True)
class Subject:
    """One object under examination, with what is known around it.

    `job` is None for manifests people wrote by hand; `siblings` are the other objects rendered or
    read together with this one.
    """

    manifest: Manifest
    environment: Environment
    job: Job | None = None
    siblings: tuple[Manifest, ...] = field(default=(), repr=False)

    @property
    def kind(self) -> str:
        return self.manifest.kind

    @cached_property
    def body(self) -> Mapping[str, Data]:
        return self.manifest.body

    @cached_property
    def spec(self) -> Mapping[str, Data]:
        return mapping(self.body.get("spec"))

    @cached_property
    def metadata(self) -> Mapping[str, Data]:
        return mapping(self.body.get("metadata"))

    @cached_property
    def templates(self) -> tuple[PodTemplate, ...]:
        """Every pod template of the object, whatever its kind."""
        finder = _TEMPLATES.get(self.kind)
        return tuple(finder(self)) if finder else ()

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Every container of every pod template."""
        return tuple(c for template in self.templates for c in template.containers)


def _count(value: Data, default: int = 1) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _pytorchjob(subject: Subject) -> Iterator[PodTemplate]:
    for role, replica in mapping(subject.spec.get("pytorchReplicaSpecs")).items():
        if isinstance(replica, Mapping):
            pointer = f"/spec/pytorchReplicaSpecs/{escape(role)}/template"
            yield PodTemplate(
                pointer, mapping(replica.get("template")), role, _count(replica.get("replicas"))
            )


def _trainingjob(subject: Subject) -> Iterator[PodTemplate]:
    replica = subject.spec.get("replicaSpecs")
    if isinstance(replica, Mapping):
        replicas = _count(subject.spec.get("maxSize"))
        template = mapping(replica.get("template"))
        yield PodTemplate("/spec/replicaSpecs/template", template, "Worker", replicas)


def _job(subject: Subject) -> Iterator[PodTemplate]:
    pods = _count(subject.spec.get("parallelism"))
    yield PodTemplate("/spec/template", mapping(subject.spec.get("template")), "Worker", pods)


def _jobset(subject: Subject) -> Iterator[PodTemplate]:
    yield from _replicated(subject.spec, "/spec")


def _replicated(jobset: Mapping[str, Data], pointer: str) -> Iterator[PodTemplate]:
    """The pods of a JobSet's specification, which a TrainingRuntime contains too."""
    for index, replicated in enumerate(map(mapping, sequence(jobset.get("replicatedJobs")))):
        job = mapping(dig(replicated, "template", "spec"))
        yield PodTemplate(
            f"{pointer}/replicatedJobs/{index}/template/spec/template",
            mapping(job.get("template")),
            text(replicated.get("name")),
            _count(replicated.get("replicas")) * _count(job.get("parallelism")),
        )


def _trainjob(subject: Subject) -> Iterator[PodTemplate]:
    """A runtime's pods with what the job runs in them, where the runtime is known.

    What the job says itself is in one place, so that is where all of it points.
    """
    wanted = dig(subject.spec, "runtimeRef", "name")
    trainer = mapping(subject.spec.get("trainer"))
    program = {k: v for k, v in trainer.items() if k in ("image", "command", "args", "env")}
    program["resources"] = mapping(trainer.get("resourcesPerNode"))
    nodes = _count(trainer.get("numNodes"))
    for sibling in subject.siblings:
        if sibling.kind in ("TrainingRuntime", "ClusterTrainingRuntime") and sibling.name == wanted:
            for template in _replicated(mapping(dig(sibling.body, "spec", "template", "spec")), ""):
                yield PodTemplate("/spec/trainer", _running(template, program), "node", nodes)
            return
    if trainer:
        pod = PodTemplate("", _overrides(subject.spec))
        node = {"name": "node", **next((c.body for c in pod.trains if c.name == "node"), {})}
        body = {**pod.body, "spec": {**pod.spec, "containers": [{**node, **program}]}}
        yield PodTemplate("/spec/trainer", body, "node", nodes)


def _overrides(trainjob: Mapping[str, Data]) -> Mapping[str, Data]:
    """What a TrainJob changes in the pods of its runtime, as each minor version spells it."""
    for override in map(mapping, sequence(trainjob.get("podSpecOverrides"))):
        return {"spec": override}
    for override in map(mapping, sequence(trainjob.get("podTemplateOverrides"))):
        return override
    for patch in map(mapping, sequence(trainjob.get("runtimePatches"))):
        jobset = mapping(dig(patch, "trainingRuntimeSpec", "template", "spec"))
        for template in _replicated(jobset, ""):
            return template.body
    return {}


def _running(template: PodTemplate, program: Mapping[str, Data]) -> dict[str, Data]:
    """The pod template with a program in its container `node`."""
    containers = [
        {**container.body, **program} if container.name == "node" else container.body
        for container in template.trains
    ]
    return {**template.body, "spec": {**template.spec, "containers": containers}}


def _compose(subject: Subject) -> Iterator[PodTemplate]:
    """The services of a Compose file as the pods they would be."""
    for name, service in mapping(subject.spec.get("services")).items():
        service = mapping(service)  # noqa: PLW2901 - anybody's file
        added, dropped = (list(sequence(service.get(f"cap_{w}"))) for w in ("add", "drop"))
        hardened = "no-new-privileges:true" in sequence(service.get("security_opt"))
        container = {
            "name": name,
            "image": service.get("image"),
            "command": sequence(service.get("entrypoint")),
            "args": sequence(service.get("command")),
            "env": [
                {"name": key, **({} if text(value).startswith("${") else {"value": value})}
                for key, value in mapping(service.get("environment")).items()
            ],
            "securityContext": {
                "allowPrivilegeEscalation": not hardened,
                "capabilities": {"drop": dropped, "add": added},
                "runAsNonRoot": text(service.get("user")).partition(":")[0] not in ("", "0"),
                "seccompProfile": {"type": "RuntimeDefault"},
            },
        }
        metadata = {"labels": service.get("labels"), "annotations": service.get("annotations")}
        spec: dict[str, Data] = {"containers": [container]}
        grace = text(service.get("stop_grace_period")).removesuffix("s")
        if grace.isdigit():
            spec["terminationGracePeriodSeconds"] = int(grace)
        pointer = f"/spec/services/{escape(str(name))}"
        yield PodTemplate(pointer, {"metadata": metadata, "spec": spec}, str(name))


_TEMPLATES = {
    "PyTorchJob": _pytorchjob,
    "TrainingJob": _trainingjob,
    "TrainJob": _trainjob,
    "JobSet": _jobset,
    "Job": _job,
    "Compose": _compose,
}


def count(value: Data) -> int | None:
    """A whole number written as one or as a string ("8"), as resource amounts may be."""
    number = quantity.read(value)
    return int(number) if number is not None and number == int(number) else None


def extended(amounts: Mapping[str, Data]) -> dict[str, Data]:
    """The extended resources ("nvidia.com/gpu") among resource amounts."""
    return {
        name: amount
        for name, amount in amounts.items()
        if isinstance(name, str) and "/" in name and not name.startswith("kubernetes.io/")
    }


def accelerators(container: Container) -> dict[str, int]:
    """How many of each accelerator a container gets, by resource name."""
    found = {}
    for name, amount in extended({**container.requests, **container.limits}).items():
        number = count(amount)
        if number and any(word in name for word in ACCELERATORS):
            found[name] = number
    return found


ACCELERATORS = ("gpu", "gaudi", "tpu", "neuron", "nvidia.com/mig")
