"""Where a TrainJob and its runtime have their pod templates, in a manifest of any origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.groupkind import RUNTIMES, GroupKind
from trainwright.datatypes.model import Data, Manifest
from trainwright.datatypes.tolerant import dig, mapping, mappings
from trainwright.kinds.trainjob import KIND
from trainwright.kinds.trainjob.layers import (
    nodes_of,
    patched,
    runtime_jobs,
    trained,
)
from trainwright.kinds.trainjob.runtime import runtime_of
from trainwright.objects.bundle import Bundle
from trainwright.pods.template import PodTemplate

_NODE = KIND.container


def used_runtimes(around: Bundle) -> frozenset[tuple[GroupKind, str]]:
    """Kind and name of every training runtime that a TrainJob here refers to."""
    return frozenset(map(runtime_of, around.by_kind.get(KIND.group_kind, ())))


def _runtime(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    """The pods of a runtime, unless a job here uses it: they are then looked at as its own."""
    if (manifest.group_kind, manifest.name) not in around.derived(used_runtimes):
        yield from (job.template for job in runtime_jobs(manifest, "/spec/template/spec"))


def _trainjob(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    """A runtime's pods with what the job runs in them, where the runtime is known.

    What the job says itself is in one place, so that is where all of it points.
    """
    spec = manifest.spec
    runtime = around.named(*runtime_of(manifest), manifest.namespace)
    nodes = nodes_of(spec, runtime.spec if runtime else {})
    at = "/spec/trainer" if spec.get("trainer") else "/spec"
    for template in _runtime_pods(runtime):
        if template.role in (_NODE, "") or runtime is None:
            yield PodTemplate(
                at,
                _running(patched(template.body, spec, _NODE), spec),
                _NODE,
                nodes,
                retried=template.retried,
                placed={_NODE: at} if spec.get("trainer") else {},
                partial=runtime is None,
                claimed=template.claimed,
                processes=_processes(runtime),
            )


def _processes(runtime: Manifest | None) -> str:
    """What Trainer sets PET_NPROC_PER_NODE to, unless the job says it."""
    torch = dig(runtime.spec, "mlPolicy", "torch") if runtime else None
    return "" if torch is None else str(mapping(torch).get("numProcPerNode", "auto"))


def _runtime_pods(runtime: Manifest | None) -> Iterator[PodTemplate]:
    if runtime is None:
        yield PodTemplate("", {"spec": {"containers": [{"name": _NODE}]}})
    else:
        yield from (job.template for job in runtime_jobs(runtime, ""))


def _running(template: Mapping[str, Data], trainjob: Mapping[str, Data]) -> dict[str, Data]:
    """The pod template with what the job runs in its container `node`."""
    spec = mapping(template.get("spec"))
    containers = [
        trained(container, trainjob) if container.get("name") == _NODE else container
        for container in mappings(spec.get("containers"))
    ]
    return {**template, "spec": {**spec, "containers": containers}}


TEMPLATES = {KIND.group_kind: _trainjob, **dict.fromkeys(RUNTIMES, _runtime)}
