"""What Kubeflow Trainer v2 makes of a TrainJob and the runtime it refers to.

Facts: kubeflow/trainer v2.3.0, pkg/runtime/framework/plugins/{torch,jobset}; the fields of 2.0 and
2.1 by their CRDs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from trainwright import quantity
from trainwright.groupkind import RUNTIMES, TRAINJOB, GroupKind
from trainwright.model import Data, Manifest
from trainwright.operators import indexed, template
from trainwright.operators.operator import Gang, ManifestError, Operator, Workload

_ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
_CONTAINER = "node"
_PORT = 29500
_QUEUE = "scheduling.volcano.sh/queue-name"
_INDEX_FIELD = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def _pods(manifest: Manifest, together: Sequence[Manifest], _: int | None) -> Workload:
    train_job: Mapping[str, Data] = manifest.body["spec"]
    runtime = _runtime(manifest, together)
    spec = dict(runtime["template"]["spec"])
    spec["replicatedJobs"] = [
        _replicated(manifest.name, train_job, runtime, group) for group in spec["replicatedJobs"]
    ]
    workload = indexed.jobset_workload(manifest.name, spec)
    return replace(
        workload,
        deadline=template.deadline(train_job) or workload.deadline,
        suspended=train_job.get("suspend", False),
        gang=_gang(runtime, len(workload.pods)),
    )


def _gang(runtime: Mapping[str, Data], pods: int) -> Gang | None:
    """All pods; Volcano's queue is an annotation of what the runtime makes."""
    if not runtime.get("podGroupPolicy"):
        return None
    metadata = runtime["template"].get("metadata") or {}
    return Gang(pods, (metadata.get("annotations") or {}).get(_QUEUE, ""))


def _runtime(manifest: Manifest, together: Sequence[Manifest]) -> Mapping[str, Data]:
    reference = manifest.body["spec"]["runtimeRef"]
    group = reference.get("apiGroup", TRAINJOB.group)
    kind = GroupKind(group, reference.get("kind", "ClusterTrainingRuntime"))
    for other in together:
        if kind in RUNTIMES and (other.group_kind, other.name) == (kind, reference["name"]):
            spec: Mapping[str, Data] = other.body["spec"]
            return spec
    raise ManifestError(
        f"TrainJob {manifest.name} refers to the {kind} {reference['name']}, which is not among "
        "the manifests: what it adds to the pods is not known"
    )


def _replicated(
    name: str, train_job: Mapping[str, Data], runtime: Mapping[str, Data], group: Mapping[str, Data]
) -> dict[str, Data]:
    """One replicated Job of the runtime with everything that the TrainJob lays over it."""
    job = dict(group["template"]["spec"])
    written: Mapping[str, Data] = job["template"]
    for patch in _patches(train_job, group["name"]):
        written = _patched(written, patch)
    pod: Mapping[str, Data] = written["spec"]
    labels = (group["template"].get("metadata") or {}).get("labels") or {}
    if labels.get(_ANCESTOR) == "trainer":
        nodes = _nodes(train_job, runtime)
        job["parallelism"] = job["completions"] = nodes
        pod = _trained(name, train_job, runtime, pod, nodes)
    job["template"] = {**written, "spec": pod}
    return {**group, "template": {**group["template"], "spec": job}}


def _nodes(train_job: Mapping[str, Data], runtime: Mapping[str, Data]) -> int:
    written = (train_job.get("trainer") or {}).get("numNodes")
    nodes: int = written or (runtime.get("mlPolicy") or {}).get("numNodes") or 1
    return nodes


def _trained(
    name: str,
    train_job: Mapping[str, Data],
    runtime: Mapping[str, Data],
    pod: Mapping[str, Data],
    nodes: int,
) -> Mapping[str, Data]:
    """The pod with spec.trainer laid over the container `node`; without one nothing is added."""
    trainer: Mapping[str, Data] = train_job.get("trainer") or {}
    if not trainer:
        return pod
    node = dict(template.main_container(pod, _CONTAINER))
    node |= {key: trainer[key] for key in ("image", "command", "args") if key in trainer}
    if trainer.get("resourcesPerNode"):
        node["resources"] = trainer["resourcesPerNode"]
    node["env"] = _upserted(node.get("env") or (), trainer.get("env") or ())
    torch = (runtime.get("mlPolicy") or {}).get("torch")
    if torch is not None:
        node["env"] = _upserted(node["env"], _torch_env(name, trainer, torch, nodes))
        ports = node.get("ports") or []
        if all(port["containerPort"] != _PORT for port in ports):
            node["ports"] = [*ports, {"containerPort": _PORT}]
    others = [c for c in pod["containers"] if c.get("name") != _CONTAINER]
    return {**pod, "containers": [node, *others]}


def _torch_env(
    name: str, trainer: Mapping[str, Data], torch: Mapping[str, Data], nodes: int
) -> Iterator[Mapping[str, Data]]:
    yield {"name": "PET_NNODES", "value": str(nodes)}
    yield {"name": "PET_NPROC_PER_NODE", "value": _procs(trainer, torch)}
    yield {
        "name": "PET_NODE_RANK",
        "valueFrom": {"fieldRef": {"fieldPath": _INDEX_FIELD}},
    }
    yield {"name": "PET_MASTER_ADDR", "value": f"{name}-{_CONTAINER}-0-0.{name}"}
    yield {"name": "PET_MASTER_PORT", "value": str(_PORT)}


def _procs(trainer: Mapping[str, Data], torch: Mapping[str, Data]) -> str:
    """A number, or `auto` for torchrun to count GPUs; without GPUs the CPUs that are asked for."""
    written = str(trainer.get("numProcPerNode", torch.get("numProcPerNode", "auto")))
    resources = trainer.get("resourcesPerNode")
    if written not in ("auto", "cpu") or resources is None:
        return written
    amounts = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
    if written == "auto" and any("gpu" in name.lower() for name in amounts):
        return written
    return str(max(1, math.ceil(quantity.parse(str(amounts.get("cpu", 1))))))


def _upserted(entries: Data, more: Data) -> list[Mapping[str, Data]]:
    """Entries of the same name replaced where they stand, others appended."""
    by_name = {entry["name"]: entry for entry in entries}
    by_name |= {entry["name"]: entry for entry in more}
    return list(by_name.values())


# --- patches of the pod, which every minor version spells differently ----------------------------


def _patches(train_job: Mapping[str, Data], group: str) -> Iterator[Mapping[str, Data]]:
    """The pod templates to lay over that of a replicated Job, in order."""
    for override in train_job.get("podSpecOverrides") or ():  # 2.0
        if _targets(override, group):
            yield {"spec": {key: value for key, value in override.items() if key != "targetJobs"}}
    for override in train_job.get("podTemplateOverrides") or ():  # 2.1
        if _targets(override, group):
            yield {key: value for key, value in override.items() if key != "targetJobs"}
    for patch in train_job.get("runtimePatches") or ():  # 2.2 and later
        template_spec = ((patch.get("trainingRuntimeSpec") or {}).get("template") or {}).get("spec")
        for job in (template_spec or {}).get("replicatedJobs") or ():
            if job["name"] == group:
                yield ((job.get("template") or {}).get("spec") or {}).get("template") or {}


def _targets(override: Mapping[str, Data], group: str) -> bool:
    return any(target["name"] == group for target in override.get("targetJobs") or ())


# What identifies the items of a pod's lists, for a strategic merge.
_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
}


def _patched(below: Mapping[str, Data], above: Mapping[str, Data]) -> dict[str, Data]:
    """A strategic merge of two pod templates."""
    merged = dict(below)
    for key, value in above.items():
        if key in _KEYS and isinstance(value, list):
            merged[key] = _patched_list(below.get(key) or [], value, _KEYS[key])
        elif isinstance(value, Mapping) and isinstance(below.get(key), Mapping):
            merged[key] = _patched(below[key], value)
        else:
            merged[key] = value
    return merged


def _patched_list(below: Data, above: Data, identity: str) -> list[Data]:
    items = {item[identity]: item for item in below}
    for item in above:
        items[item[identity]] = _patched(items.get(item[identity], {}), item)
    return list(items.values())


OPERATOR = Operator(
    name="Kubeflow Trainer v2",
    kinds=(("trainer.kubeflow.org", "TrainJob"),),
    pods=_pods,
)
