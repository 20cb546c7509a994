"""Where a TrainJob and its runtime have their pod templates, in a manifest of any origin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.groupkind import RUNTIMES, GroupKind
from trainwright.kinds.indexed_templates import replicated
from trainwright.kinds.trainjob import KIND
from trainwright.kinds.trainjob.runtime import patches, runtime_of
from trainwright.model import Data, Manifest
from trainwright.objects.bundle import Bundle
from trainwright.pods.template import PodTemplate
from trainwright.tolerant import amount, dig, mapping, mappings, sequence, text


def used_runtimes(around: Bundle) -> frozenset[tuple[GroupKind, str]]:
    """Kind and name of every training runtime that a TrainJob here refers to."""
    return frozenset(map(runtime_of, around.by_kind.get(KIND.group_kind, ())))


def _runtime(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    """The pods of a runtime, unless a job here uses it: they are then looked at as its own."""
    if (manifest.group_kind, manifest.name) not in around.derived(used_runtimes):
        job_set = mapping(dig(mapping(manifest.body.get("spec")), "template", "spec"))
        yield from replicated(job_set, "/spec/template/spec")


def _trainjob(manifest: Manifest, around: Bundle) -> Iterator[PodTemplate]:
    """A runtime's pods with what the job runs in them, where the runtime is known.

    What the job says itself is in one place, so that is where all of it points.
    """
    spec = mapping(manifest.body.get("spec"))
    trainer = mapping(spec.get("trainer"))
    program = {k: v for k, v in trainer.items() if k in ("image", "command", "args", "env")}
    if "resourcesPerNode" in trainer:
        program["resources"] = mapping(trainer["resourcesPerNode"])
    runtime = around.named(*runtime_of(manifest), manifest.namespace)
    nodes = amount(trainer.get("numNodes"), _default_nodes(runtime))
    for template in _runtime_pods(runtime):
        if template.role in ("node", "") or runtime is None:
            pod = _running(_patched(template.body, spec), program)
            yield PodTemplate(
                "/spec/trainer" if trainer else "/spec",
                pod,
                "node",
                nodes,
                retried=template.retried,
                placed={"node": "/spec/trainer"} if trainer else {},
                partial=runtime is None,
                claimed=template.claimed,
            )


def _runtime_pods(runtime: Manifest | None) -> Iterator[PodTemplate]:
    if runtime is None:
        yield PodTemplate("", {"spec": {"containers": [{"name": "node"}]}})
    else:
        job_set = mapping(dig(mapping(runtime.body.get("spec")), "template", "spec"))
        yield from replicated(job_set, "")


def _default_nodes(runtime: Manifest | None) -> int:
    return amount(dig(mapping(runtime.body.get("spec")), "mlPolicy", "numNodes")) if runtime else 1


def _patched(body: Mapping[str, Data], trainjob: Mapping[str, Data]) -> dict[str, Data]:
    """A pod template of the job `node` with the patches of a TrainJob: lists merge by name."""
    merged = dict(body)
    for _, name, patch in patches(trainjob):
        if name in ("", "node"):
            merged = _laid_over(merged, patch)
    return merged


_NAMED = frozenset({"containers", "initContainers", "volumes", "env", "imagePullSecrets"})


def _laid_over(below: Mapping[str, Data], above: Mapping[str, Data]) -> dict[str, Data]:
    merged = dict(below)
    for key, value in above.items():
        if isinstance(value, dict):
            merged[key] = _laid_over(mapping(merged.get(key)), value)
        elif key in _NAMED and isinstance(value, list):
            merged[key] = _by_name(mappings(merged.get(key)), mappings(value))
        elif isinstance(value, list):
            merged[key] = [*sequence(merged.get(key)), *value]
        else:
            merged[key] = value
    return merged


def _by_name(below: list[Mapping[str, Data]], above: list[Mapping[str, Data]]) -> list[Data]:
    merged = {text(item.get("name")): item for item in below}
    for item in above:
        name = text(item.get("name"))
        merged[name] = _laid_over(merged.get(name, {}), item)
    return list(merged.values())


def _running(template: Mapping[str, Data], program: Mapping[str, Data]) -> dict[str, Data]:
    """The pod template with a program in its container `node`."""
    spec = mapping(template.get("spec"))
    containers = [
        {**container, **program} if container.get("name") == "node" else container
        for container in mappings(spec.get("containers"))
    ]
    return {**template, "spec": {**spec, "containers": containers}}


TEMPLATES = {KIND.group_kind: _trainjob, **dict.fromkeys(RUNTIMES, _runtime)}
