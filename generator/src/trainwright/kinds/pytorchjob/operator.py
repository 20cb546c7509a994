"""What Kubeflow's training operator v1 makes of a PyTorchJob.

Facts: kubeflow/trainer v1.9.4, pkg/controller.v1/pytorch/{envvar,master,elastic,initcontainer}.go
and pytorch_defaults.go; the tests hold them against pods that a real operator made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trainwright.datatypes.data import Data, dig, integer, mapping, mappings, text, texts
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.pytorchjob import KIND
from trainwright.kinds.pytorchjob.pod_templates import pod_templates
from trainwright.objects.pods import build
from trainwright.objects.pods.groups import PodGroup, Pods
from trainwright.objects.pods.pod import (
    EnvVar,
    Gang,
    ManifestError,
    Operator,
    Pod,
    Port,
    Restart,
    Workload,
)
from trainwright.objects.pods.template import Container, PodTemplate
from trainwright.rule_model.upstream import upstream

PORT = Port("pytorchjob-port", upstream("training-operator/rendezvous-port").value, meets=True)
_INIT_IMAGE: str = upstream("training-operator/init-image").value
_MASTER, _WORKER = "Master", "Worker"
(_DOMAIN,) = KIND.domains


@dataclass(frozen=True, slots=True)
class _Job:
    """A PyTorchJob with the defaults that the controller fills in memory."""

    name: str
    spec: Mapping[str, Data]
    templates: Mapping[str, PodTemplate]  # by role
    replicas: Mapping[str, int]  # by role, Master first

    @property
    def elastic(self) -> Mapping[str, Data] | None:
        written = self.spec.get("elasticPolicy")
        return written if isinstance(written, dict) else None

    def container(self, role: str) -> Container:
        return build.main_container(self.templates[role], KIND.container)

    def ports(self, role: str) -> tuple[Port, ...]:
        written = build.ports(self.container(role))
        ports = tuple(replace(port, meets=port.name == PORT.name) for port in written)
        return ports if any(port.name == PORT.name for port in ports) else (*ports, PORT)

    def port(self, role: str) -> int:
        return next(port.number for port in self.ports(role) if port.name == PORT.name)

    @property
    def procs(self) -> str | None:
        """spec.nprocPerNode with its default, which the deprecated elastic field suppresses."""
        written = texts({"procs": self.spec.get("nprocPerNode")}).get("procs")
        deprecated = self.elastic is not None and "nProcPerNode" in self.elastic
        return written or (None if deprecated else "auto")

    @property
    def policy(self) -> Mapping[str, Data]:
        return mapping(self.spec.get("runPolicy"))

    @property
    def sizes(self) -> tuple[int, int] | None:
        """The fewest and the most workers if elastic, each the other's default; else None."""
        if self.elastic is None:
            return None
        workers = self.replicas.get(_WORKER, 0)
        low = integer(self.elastic.get("minReplicas"))
        high = integer(self.elastic.get("maxReplicas"))
        default = next((size for size in (low, high) if size is not None), workers)
        return default if low is None else low, default if high is None else high

    @property
    def world_size(self) -> int:
        """The number of pods times the processes per pod; `auto` and other words count as 1."""
        procs = self.procs or ""
        return sum(self.replicas.values()) * (int(procs) if procs.isdigit() else 1)


def _job(manifest: Manifest, size: int | None) -> _Job:
    spec = manifest.spec
    templates = {template.role: template for template in pod_templates(manifest)}
    replicas = {role: templates[role].replicas for role in (_MASTER, _WORKER) if role in templates}
    if not replicas:
        raise ManifestError(f"PyTorchJob {manifest.name} has neither Master nor Worker")
    if size is not None and spec.get("elasticPolicy") and _WORKER in replicas:
        replicas[_WORKER] = size
    return _Job(manifest.name, spec, templates, replicas)


def _pods(manifest: Manifest, _: Sequence[Manifest], size: int | None) -> Workload:
    job = _job(manifest, size)
    pods = Pods(_of_role(job, role, count) for role, count in job.replicas.items() if count > 0)
    masters = pods.where("master".__eq__).names
    return Workload(
        pods=pods,
        deciding=masters or pods.names,
        needs="any" if job.elastic and not masters else "all",
        sizes=job.sizes,
        deadline=build.deadline(job.policy),
        suspended=job.policy.get("suspend") is True,
        gang=_gang(job),
    )


def _gang(job: _Job) -> Gang | None:
    """Return the group that the operator makes with a gang scheduler, or None without a policy."""
    scheduling_policy = mapping(job.policy.get("schedulingPolicy"))
    if not scheduling_policy:
        return None
    members = integer(scheduling_policy.get("minAvailable")) or sum(job.replicas.values())
    return Gang(members, text(scheduling_policy.get("queue")))


def _of_role(job: _Job, role: str, count: int) -> PodGroup:
    """Return the pods of a role: they share a template, and little depends on the index."""
    container = job.container(role)
    waits = role == _WORKER and _MASTER in job.replicas
    first = build.pod(
        job.templates[role],
        container,
        name=job.name,
        role=role.lower(),
        index=0,
        restart=_restart(job, role),
        fields={},
    )
    added, ports = (_wait_for_master(job),) if waits else (), job.ports(role)
    names = tuple(f"{job.name}-{role.lower()}-{index}" for index in range(count))
    has_fields = any(variable.origin for variable in first.declared)

    def pod(index: int) -> Pod:
        """Return the pod of an index, as the first one is."""
        name, declared = names[index], first.declared
        if has_fields:
            declared = build.variables_with(declared, container, {"metadata.name": name})
        return replace(
            first,
            name=name,
            hostname=name,
            index=index,
            declared=(*declared, *_injected(job, role, index)),
            ports=ports,
            added=added,
            controller_labels=dict(_labels(job, role, index)),
        )

    pod(0)  # raises here, and not where it is asked for
    return PodGroup(role.lower(), names, names, pod)


def _labels(job: _Job, role: str, index: int) -> Iterator[tuple[str, str]]:
    """Yield the labels by which the operator's own Services select pods."""
    yield f"{_DOMAIN}operator-name", "pytorchjob-controller"
    yield f"{_DOMAIN}job-name", job.name
    yield f"{_DOMAIN}replica-type", role.lower()
    yield f"{_DOMAIN}replica-index", str(index)
    if role == _MASTER or (index == 0 and _MASTER not in job.replicas):
        yield f"{_DOMAIN}job-role", "master"


def _injected(job: _Job, role: str, index: int) -> Iterator[EnvVar]:
    """Yield the variables that are appended to the container's own, and so override them."""
    yield EnvVar("PYTHONUNBUFFERED", "1")
    if _MASTER in job.replicas:
        yield from _of_master(job, index + 1 if role == _WORKER else index)
    if job.procs is not None:
        yield EnvVar("PET_NPROC_PER_NODE", job.procs)
    if job.elastic is None:
        yield EnvVar("PET_NNODES", str(sum(job.replicas.values())))
    else:
        yield from _of_elastic(job, job.elastic)


def _of_master(job: _Job, rank: int) -> Iterator[EnvVar]:
    port, address = str(job.port(_MASTER)), f"{job.name}-master-0"
    yield EnvVar("MASTER_PORT", port)
    yield EnvVar("PET_MASTER_PORT", port)
    yield EnvVar("MASTER_ADDR", address)
    yield EnvVar("PET_MASTER_ADDR", address)
    yield EnvVar("WORLD_SIZE", str(job.world_size))  # counts processes,
    yield EnvVar("RANK", str(rank))  # while this is the rank of the pod
    yield EnvVar("PET_NODE_RANK", str(rank))


def _of_elastic(job: _Job, policy: Mapping[str, Data]) -> Iterator[EnvVar]:
    """Yield the variables of torchrun that the operator sets for an elastic job."""
    if _WORKER not in job.replicas or job.sizes is None:
        raise ManifestError(f"PyTorchJob {job.name} has an elasticPolicy, but no Worker")
    low, high = job.sizes
    host = policy.get("rdzvHost") or f"{job.name}-worker-0"
    yield EnvVar("PET_RDZV_ENDPOINT", f"{host}:{policy.get('rdzvPort') or job.port(_WORKER)}")
    yield EnvVar("PET_RDZV_BACKEND", text(policy.get("rdzvBackend")) or "c10d")
    yield EnvVar("PET_NNODES", f"{low}:{high}")
    if "maxRestarts" in policy:
        yield EnvVar("PET_MAX_RESTARTS", str(policy["maxRestarts"]))
    if "nProcPerNode" in policy:
        yield EnvVar("PET_NPROC_PER_NODE", str(policy["nProcPerNode"]))
    if "rdzvId" in policy:
        yield EnvVar("PET_RDZV_ID", str(policy["rdzvId"]))
    if policy.get("rdzvConf"):
        pairs = mappings(policy["rdzvConf"])
        conf = ",".join(f"{pair.get('key')}={pair.get('value')}" for pair in pairs)
        yield EnvVar("PET_RDZV_CONF", conf)
    if policy.get("standalone"):
        yield EnvVar("PET_STANDALONE")


def _wait_for_master(job: _Job) -> Container:
    """Return the init container of workers: it looks the master up 100 times, and else fails."""
    script = (
        f"err=1;for i in $(seq 100); do if nslookup {job.name}-master-0; then err=0 && break; fi;"
        "echo waiting for master; sleep 2; done; exit $err"
    )
    body = {
        "name": "init-pytorch",
        "image": _INIT_IMAGE,
        "command": ["sh", "-c", script],
        "resources": upstream("training-operator/init-resources").value,
    }
    return Container("", body, init=True)


def _restart(job: _Job, role: str) -> Restart:
    policy = dig(job.spec, "pytorchReplicaSpecs", role, "restartPolicy") or "OnFailure"
    return build.restart_of_role(policy, job.policy)


OPERATOR = Operator(
    name="Kubeflow training operator v1",
    pods=_pods,
)
