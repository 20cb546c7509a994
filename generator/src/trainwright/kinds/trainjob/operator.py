"""What Kubeflow Trainer v2 makes of a TrainJob and the runtime it refers to.

Facts: kubeflow/trainer v2.3.0, pkg/runtime/framework/plugins/{torch,jobset}; the fields of 2.0 and
2.1 by their CRDs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal

from trainwright.datatypes import quantity
from trainwright.datatypes.data import Data, dig, mapping, mappings, sequence, text
from trainwright.datatypes.groupkind import RUNTIMES
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import indexed_pods
from trainwright.kinds.indexed import INDEX_FIELD
from trainwright.kinds.indexed_pod_templates import ReplicatedJob
from trainwright.kinds.trainjob import KIND
from trainwright.kinds.trainjob.layers import (
    TRAINER,
    job_set,
    nodes_of,
    patched,
    runtime_jobs,
    step_of,
    trained,
    upserted,
)
from trainwright.kinds.trainjob.runtime import runtime_of
from trainwright.objects.pods import build
from trainwright.objects.pods.pod import Gang, ManifestError, Operator, Workload
from trainwright.objects.pods.template import PodTemplate

_CONTAINER = KIND.container
_PORT = 29500
_QUEUE = "scheduling.volcano.sh/queue-name"


def _pods(manifest: Manifest, together: Sequence[Manifest], _: int | None) -> Workload:
    train_job = manifest.spec
    runtime_manifest = _runtime(manifest, together)
    runtime = runtime_manifest.spec
    jobs = runtime_jobs(runtime_manifest, "/spec")
    groups = [_replicated(manifest.name, train_job, runtime, job) for job in jobs]
    spec = {**job_set(runtime), "replicatedJobs": groups}
    workload = indexed_pods.replicated_workload(manifest.name, spec)
    return replace(
        workload,
        deadline=build.deadline(train_job) or workload.deadline,
        suspended=train_job.get("suspend") is True,
        gang=_gang(runtime, len(workload.pods)),
    )


def _gang(runtime: Mapping[str, Data], pods: int) -> Gang | None:
    """Return the gang of all pods, or None without a podGroupPolicy.

    Volcano's queue is an annotation in the runtime's template.
    """
    if not runtime.get("podGroupPolicy"):
        return None
    annotations = mapping(dig(runtime, "template", "metadata", "annotations"))
    return Gang(pods, text(annotations.get(_QUEUE)))


def _runtime(manifest: Manifest, together: Sequence[Manifest]) -> Manifest:
    kind, name = runtime_of(manifest)
    for other in together:
        if kind in RUNTIMES and (other.group_kind, other.name) == (kind, name):
            return other
    raise ManifestError(
        f"TrainJob {manifest.name} refers to the {kind} {name}, which is not among "
        "the manifests: what it adds to the pods is not known"
    )


def _replicated(
    name: str, train_job: Mapping[str, Data], runtime: Mapping[str, Data], group: ReplicatedJob
) -> dict[str, Data]:
    """Return one replicated Job of the runtime with everything that the TrainJob overrides."""
    job = dict(group.spec)
    template = patched(group.template.body, train_job, group.name)
    if step_of(group.group) == TRAINER:
        nodes = nodes_of(train_job, runtime)
        job["parallelism"] = job["completions"] = nodes
        template = _trained(name, train_job, runtime, template, nodes)
    job["template"] = template
    return {**group.group, "template": {**mapping(group.group.get("template")), "spec": job}}


def _trained(
    name: str,
    train_job: Mapping[str, Data],
    runtime: Mapping[str, Data],
    template: Mapping[str, Data],
    nodes: int,
) -> Mapping[str, Data]:
    """Return the pod template with spec.trainer, if any, merged into its container `node`."""
    trainer = mapping(train_job.get("trainer"))
    if not trainer:
        return template
    written = PodTemplate("", template)
    of_runtime = build.main_container(written, _CONTAINER).body
    node = trained(of_runtime, train_job)
    torch = dig(runtime, "mlPolicy", "torch")
    if torch is not None:
        per_node = trainer.get("resourcesPerNode")
        resources = mapping(of_runtime.get("resources") if per_node is None else per_node)
        procs = _procs(trainer, mapping(torch), resources)
        node["env"] = upserted(sequence(node.get("env")), _torch_env(name, procs, nodes))
        ports = mappings(node.get("ports"))
        if all(port.get("containerPort") != _PORT for port in ports):
            node["ports"] = [*ports, {"containerPort": _PORT}]
    others = [c.body for c in written.trains if c.name != _CONTAINER]
    return {**template, "spec": {**written.spec, "containers": [node, *others]}}


def _torch_env(name: str, procs: str, nodes: int) -> Iterator[Mapping[str, Data]]:
    yield {"name": "PET_NNODES", "value": str(nodes)}
    yield {"name": "PET_NPROC_PER_NODE", "value": procs}
    yield {
        "name": "PET_NODE_RANK",
        "valueFrom": {"fieldRef": {"fieldPath": INDEX_FIELD}},
    }
    yield {"name": "PET_MASTER_ADDR", "value": f"{name}-{_CONTAINER}-0-0.{name}"}
    yield {"name": "PET_MASTER_PORT", "value": str(_PORT)}


def _procs(
    trainer: Mapping[str, Data], torch: Mapping[str, Data], resources: Mapping[str, Data]
) -> str:
    """Return a number, `auto` for torchrun to count GPUs or, if there are none, the requested CPUs.

    As of 2.1: pkg/runtime/framework/plugins/torch/torch.go, EnforceMLPolicy.
    """
    written = str(trainer.get("numProcPerNode", torch.get("numProcPerNode", "auto")))
    requests, limits = mapping(resources.get("requests")), mapping(resources.get("limits"))
    if written == "cpu" or (written == "auto" and not (_gpus(requests) or _gpus(limits))):
        return str(max(1, math.ceil(_amount(requests, "cpu") or _amount(limits, "cpu"))))
    return written


def _gpus(amounts: Mapping[str, Data]) -> Decimal:
    return sum((_amount(amounts, name) for name in amounts if "gpu" in name.lower()), Decimal(0))


def _amount(amounts: Mapping[str, Data], name: str) -> Decimal:
    return quantity.read(amounts.get(name)) or Decimal(0)


OPERATOR = Operator(
    name="Kubeflow Trainer v2",
    pods=_pods,
)
