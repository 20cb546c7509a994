"""What Kubeflow Trainer v2 makes of a TrainJob and the runtime it refers to.

Facts: kubeflow/trainer v2.3.0, pkg/runtime/framework/plugins/{torch,jobset}; the fields of 2.0 and
2.1 by their CRDs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from trainwright import quantity
from trainwright.groupkind import RUNTIMES, GroupKind
from trainwright.kinds import indexed_pods
from trainwright.kinds.trainjob import KIND
from trainwright.model import Data, Manifest
from trainwright.pods import build
from trainwright.pods.pod import Gang, ManifestError, Operator, Workload

_ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
_CONTAINER = KIND.container
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
    workload = indexed_pods.replicated_workload(manifest.name, spec)
    return replace(
        workload,
        deadline=build.deadline(train_job) or workload.deadline,
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
    group = reference.get("apiGroup", KIND.group)
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
    node = dict(build.main_container(pod, _CONTAINER))
    node |= {key: trainer[key] for key in ("image", "command", "args") if key in trainer}
    of_runtime, asked = node.get("resources") or {}, trainer.get("resourcesPerNode")
    if asked:
        node["resources"] = _laid_over(of_runtime, asked, merges=not _is_old(train_job))
    node["env"] = _upserted(node.get("env") or (), trainer.get("env") or ())
    torch = (runtime.get("mlPolicy") or {}).get("torch")
    if torch is not None:
        procs = _procs(trainer, torch, of_runtime if asked is None else asked)
        node["env"] = _upserted(node["env"], _torch_env(name, procs, nodes))
        ports = node.get("ports") or []
        if all(port["containerPort"] != _PORT for port in ports):
            node["ports"] = [*ports, {"containerPort": _PORT}]
    others = [c for c in pod["containers"] if c.get("name") != _CONTAINER]
    return {**pod, "containers": [node, *others]}


def _is_old(train_job: Mapping[str, Data]) -> bool:
    """Whether it is of a Trainer before 2.2, by how it changes its pods."""
    return any(field in train_job for field in ("podSpecOverrides", "podTemplateOverrides"))


def _laid_over(below: Mapping[str, Data], above: Mapping[str, Data], *, merges: bool) -> Data:
    """Resources of a TrainJob over those of its runtime: since 2.3 name by name.

    2.2 replaces them as its predecessors do, and is written like 2.3.
    """
    if not merges:
        return above
    amounts = {k: {**(below.get(k) or {}), **(above.get(k) or {})} for k in ("requests", "limits")}
    return {**below, **above, **amounts}


def _torch_env(name: str, procs: str, nodes: int) -> Iterator[Mapping[str, Data]]:
    yield {"name": "PET_NNODES", "value": str(nodes)}
    yield {"name": "PET_NPROC_PER_NODE", "value": procs}
    yield {
        "name": "PET_NODE_RANK",
        "valueFrom": {"fieldRef": {"fieldPath": _INDEX_FIELD}},
    }
    yield {"name": "PET_MASTER_ADDR", "value": f"{name}-{_CONTAINER}-0-0.{name}"}
    yield {"name": "PET_MASTER_PORT", "value": str(_PORT)}


def _procs(
    trainer: Mapping[str, Data], torch: Mapping[str, Data], resources: Mapping[str, Data]
) -> str:
    """A number, or `auto` for torchrun to count GPUs; without GPUs the CPUs that are asked for.

    As of 2.1: pkg/runtime/framework/plugins/torch/torch.go, EnforceMLPolicy.
    """
    written = str(trainer.get("numProcPerNode", torch.get("numProcPerNode", "auto")))
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    if written == "cpu" or (written == "auto" and not (_gpus(requests) or _gpus(limits))):
        return str(max(1, math.ceil(_amount(requests, "cpu") or _amount(limits, "cpu"))))
    return written


def _gpus(amounts: Mapping[str, Data]) -> Decimal:
    return sum((_amount(amounts, name) for name in amounts if "gpu" in name.lower()), Decimal(0))


def _amount(amounts: Mapping[str, Data], name: str) -> Decimal:
    return quantity.parse(str(amounts.get(name, 0)))


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
    pods=_pods,
)
