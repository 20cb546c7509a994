"""The pods of a runtime, and what a TrainJob overrides in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from trainwright.datatypes.data import Data, amount, dig, mapping, mappings, sequence, text
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.indexed_pod_templates import ReplicatedJob, replicated_jobs
from trainwright.kinds.trainjob.runtime import patches

STEP = "trainer.kubeflow.org/trainjob-ancestor-step"  # label of a replicated Job's template
TRAINER = "trainer"


def step_of(group: Mapping[str, Data]) -> str:
    """Return a replicated Job's step of the training, "" if none; a job sets the trainer's."""
    return text(dig(group, "template", "metadata", "labels", STEP))


def job_set(runtime: Mapping[str, Data]) -> Mapping[str, Data]:
    """Return the specification of the JobSet that a runtime makes."""
    return mapping(dig(runtime, "template", "spec"))


def runtime_jobs(runtime: Manifest, pointer: str) -> Iterator[ReplicatedJob]:
    """Yield the replicated Jobs of a runtime."""
    return replicated_jobs(job_set(runtime.spec), pointer)


def nodes_of(trainjob: Mapping[str, Data], runtime: Mapping[str, Data]) -> int:
    """Return how many nodes train, by a TrainJob's specification, else by its runtime's."""
    return amount(dig(trainjob, "trainer", "numNodes"), 0) or amount(
        dig(runtime, "mlPolicy", "numNodes")
    )


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


def patched(
    template: Mapping[str, Data], trainjob: Mapping[str, Data], job: str
) -> Mapping[str, Data]:
    """Return the pod template of a replicated job with a TrainJob's patches of it."""
    for _, name, patch in patches(trainjob):
        if name in ("", job):
            template = _merged(template, patch)
    return template


def _merged(below: Mapping[str, Data], above: Mapping[str, Data]) -> dict[str, Data]:
    """Return the strategic merge of two pod templates."""
    merged = dict(below)
    for key, value in above.items():
        if key in _KEYS and isinstance(value, list):
            merged[key] = _merged_list(below.get(key), value, _KEYS[key])
        elif isinstance(value, dict) and isinstance(below.get(key), dict):
            merged[key] = _merged(below[key], value)
        else:
            merged[key] = value
    return merged


def _merged_list(below: Data, above: Data, identity: str) -> list[Data]:
    items = {text(item.get(identity)): item for item in mappings(below)}
    for item in mappings(above):
        name = text(item.get(identity))
        items[name] = _merged(items.get(name, {}), item)
    return list(items.values())


def trained(container: Mapping[str, Data], trainjob: Mapping[str, Data]) -> dict[str, Data]:
    """Return a runtime's container with the `spec.trainer` of a TrainJob merged into it."""
    trainer = mapping(trainjob.get("trainer"))
    merged = dict(container)
    merged |= {key: trainer[key] for key in ("image", "command", "args") if key in trainer}
    resources = mapping(trainer.get("resourcesPerNode"))
    if resources:
        below = mapping(merged.get("resources"))
        merged["resources"] = resources if _is_old(trainjob) else _by_name(below, resources)
    if "env" in trainer:
        merged["env"] = upserted(sequence(merged.get("env")), mappings(trainer["env"]))
    return merged


def upserted(entries: Iterable[Data], more: Iterable[Mapping[str, Data]]) -> list[Data]:
    """Return the entries and `more`: those of the same name replaced in place, others appended."""
    by_name = {text(entry.get("name")): entry for entry in mappings(list(entries))}
    by_name |= {text(entry.get("name")): entry for entry in more}
    return list(by_name.values())


def _is_old(trainjob: Mapping[str, Data]) -> bool:
    """Whether a TrainJob has the fields for pod overrides of a Trainer before 2.2."""
    return any(field in trainjob for field in ("podSpecOverrides", "podTemplateOverrides"))


def _by_name(below: Mapping[str, Data], above: Mapping[str, Data]) -> dict[str, Data]:
    """Return a TrainJob's resources merged over its runtime's, name by name as since 2.3.

    2.2 still replaces them all, as its predecessors do, but its TrainJobs are written like 2.3's.
    """
    amounts = {k: {**mapping(below.get(k)), **mapping(above.get(k))} for k in _AMOUNTS}
    return {**below, **above, **amounts}


_AMOUNTS = ("requests", "limits")
