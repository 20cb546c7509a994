"""The runtime that a TrainJob refers to, and what the TrainJob changes in its pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, dig, mapping, mappings, text
from trainwright.datatypes.groupkind import CLUSTERTRAININGRUNTIME, GroupKind
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.kind import Reference

JOB_SET = "/spec/template/spec"  # of a runtime


def runtime_of(trainjob: Manifest) -> tuple[GroupKind, str]:
    """Return kind and name of the runtime that a TrainJob refers to, defaults filled in."""
    reference = mapping(trainjob.spec.get("runtimeRef"))
    given = CLUSTERTRAININGRUNTIME
    group = text(reference.get("apiGroup")) or given.group
    kind = GroupKind(group, text(reference.get("kind")) or given.kind)
    return kind, text(reference.get("name"))


def references(trainjob: Manifest) -> tuple[Reference, ...]:
    """Return the reference to the runtime, without which there are no pods."""
    return (Reference(*runtime_of(trainjob), "/spec/runtimeRef"),)


def patches(trainjob: Mapping[str, Data]) -> Iterator[tuple[str, str, Mapping[str, Data]]]:
    """Yield each change to the runtime's pods: pointer, replicated job ("" for all), pod.

    Each minor version of Kubeflow Trainer spells it in its own way: podSpecOverrides (2.0),
    podTemplateOverrides (2.1), runtimePatches (2.2).
    """
    for field, is_template in (("podSpecOverrides", False), ("podTemplateOverrides", True)):
        for index, override in enumerate(mappings(trainjob.get(field))):
            pointer = f"/spec/{field}/{index}"
            pod: Mapping[str, Data] = {k: v for k, v in override.items() if k != "targetJobs"}
            pod = pod if is_template else {"spec": pod}
            yield from ((pointer, name, pod) for name in _targets(override))
    for index, patch in enumerate(mappings(trainjob.get("runtimePatches"))):
        jobs = dig(patch, "trainingRuntimeSpec", "template", "spec", "replicatedJobs")
        for at, group in enumerate(mappings(jobs)):
            inside = "trainingRuntimeSpec/template/spec/replicatedJobs"
            pointer = f"/spec/runtimePatches/{index}/{inside}/{at}"
            pod = mapping(dig(group, "template", "spec", "template"))
            yield pointer, text(group.get("name")), pod


def _targets(override: Mapping[str, Data]) -> list[str]:
    return [text(job.get("name")) for job in mappings(override.get("targetJobs"))] or [""]
