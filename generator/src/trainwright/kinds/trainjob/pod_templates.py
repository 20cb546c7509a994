"""Where a TrainJob and its runtime have their pod templates, in a manifest of any origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from trainwright.datatypes.data import Data, dig, mapping, mappings
from trainwright.datatypes.groupkind import RUNTIMES, GroupKind
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.trainjob import KIND
from trainwright.kinds.trainjob.layers import (
    TRAINER,
    nodes_of,
    patched,
    runtime_jobs,
    step_of,
    trained,
)
from trainwright.kinds.trainjob.runtime import JOB_SET, runtime_of
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.template import PodTemplate

_NODE = KIND.container


def used_runtimes(around: Bundle) -> frozenset[tuple[GroupKind, str]]:
    """Return kind and name of every training runtime that a TrainJob here refers to."""
    return frozenset(map(runtime_of, around.by_kind.get(KIND.group_kind, ())))


def _runtime(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    """Yield the pods of a runtime, unless a job here uses it: they then count as that job's own."""
    if (manifest.group_kind, manifest.name) not in around.derived(used_runtimes):
        yield from (job.template for job in runtime_jobs(manifest, JOB_SET))


def _trainjob(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    """Yield the pod templates of a TrainJob: its runtime's, if known, with the job's own values.

    All that the TrainJob itself sets has one pointer, the place where it does so. Other groups of
    pods have their pointers in the runtime.
    """
    spec = manifest.spec
    runtime = around.named(*runtime_of(manifest), manifest.namespace)
    nodes = nodes_of(spec, runtime.spec if runtime else {})
    at = "/spec/trainer" if spec.get("trainer") else "/spec"
    own = dig(spec, "trainer", "numProcPerNode")
    for step, template in _runtime_pods(runtime):
        if template.role in (_NODE, ""):
            yield PodTemplate(
                at,
                _running(patched(template.body, spec, _NODE), spec),
                _NODE,
                nodes,
                retried=template.retried,
                placed={_NODE: at} if spec.get("trainer") else {},
                partial=runtime is None,
                claimed=template.claimed,
                processes=_processes(runtime) if own is None else str(own),
                processes_at="" if own is None else "/spec/trainer/numProcPerNode",
            )
        elif step != TRAINER:
            yield replace(template, body=patched(template.body, spec, template.role))


def _processes(runtime: Manifest | None) -> str:
    """Return the PET_NPROC_PER_NODE that Trainer sets by the runtime, unless the job sets it."""
    torch = dig(runtime.spec, "mlPolicy", "torch") if runtime else None
    return "" if torch is None else str(mapping(torch).get("numProcPerNode", "auto"))


def _runtime_pods(runtime: Manifest | None) -> Iterator[tuple[str, PodTemplate]]:
    """Yield the pods of a runtime, each with the step of the training that its group is."""
    if runtime is None:
        yield TRAINER, PodTemplate("", {"spec": {"containers": [{"name": _NODE}]}})
    else:
        jobs = runtime_jobs(runtime, JOB_SET)
        yield from ((step_of(job.group), job.template) for job in jobs)


def _running(template: Mapping[str, Data], trainjob: Mapping[str, Data]) -> dict[str, Data]:
    """Return the pod template with what the job runs in the container `node`."""
    spec = mapping(template.get("spec"))
    containers = [
        trained(container, trainjob) if container.get("name") == _NODE else container
        for container in mappings(spec.get("containers"))
    ]
    return {**template, "spec": {**spec, "containers": containers}}


TEMPLATES = {KIND.group_kind: _trainjob, **dict.fromkeys(RUNTIMES, _runtime)}
