"""TrainJobs of Kubeflow Trainer v2, with the runtime that they refer to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from trainwright.datatypes.data import Data, mapping, sequence
from trainwright.datatypes.groupkind import GroupKind
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds.indexed_import import OF_GROUPS, check_groups
from trainwright.kinds.reading import (
    ImportingError,
    Loss,
    Read,
    Reader,
    Reason,
    SourceObject,
    reasons,
)
from trainwright.kinds.trainjob import KIND
from trainwright.kinds.trainjob.layers import STEP, TRAINER, step_of

_GROUPS = "/spec/template/spec/replicatedJobs"
_TRAINER = "node"  # the group of pods that trains
# Ships with the operator, and adds nothing to the pods but torch's variables and an image.
# https://github.com/kubeflow/trainer/blob/v2.1.0/manifests/base/runtimes/torch_distributed.yaml
_UPSTREAM = "torch-distributed"


def _read(part: SourceObject, others: Sequence[SourceObject]) -> Read:
    reference = mapping(part.spec.get("runtimeRef"))
    kind = str(reference.get("kind", "ClusterTrainingRuntime"))
    name = str(reference.get("name", ""))
    for other in others:
        if (other.group_kind, other.name) == (GroupKind(KIND.group, kind), name):
            spec = other.spec
            job_set = mapping(mapping(spec.get("template")).get("spec"))
            _refuse_mpi(other, f"{kind} {name}", spec)
            check_groups(other, _GROUPS, f"its {kind} {name}", job_set)
            return Read(parts=(part, other), reasons=tuple(_ignored(f"{kind} {name}", job_set)))
    _refuse_patched_roles(part)
    severity = Loss.COSMETIC if name == _UPSTREAM else Loss.CANNOT_RUN
    why = (
        "taken for what the operator ships, which adds torch's variables alone"
        if name == _UPSTREAM
        else "what it adds to the pods is not known, and not carried. Add it: kubectl get "
        f"{kind.lower()} {name} -o yaml"
    )
    why = f"this {kind} is not among the files: {why}"
    unknown = part.not_imported("/spec/runtimeRef/name", name, why, severity)
    return Read(parts=(part,), left=(unknown,), assumed=(bare(kind, name),))


def _ignored(runtime: str, job_set: Mapping[str, Data]) -> Iterator[Reason]:
    """Yield what Trainer ignores if the runtime marks no group of pods as the trainer.

    https://github.com/kubeflow/trainer/blob/v2.3.0/pkg/runtime/framework/plugins/jobset/builder.go
    """
    groups = map(mapping, sequence(job_set.get("replicatedJobs")))
    if TRAINER not in map(step_of, groups):
        why = f"Trainer ignores it: no pods of {runtime} have the label {STEP}: {TRAINER}"
        yield Reason("/spec/trainer/**", why, Loss.COSMETIC)


def _refuse_patched_roles(part: SourceObject) -> None:
    """Raise ImportingError if patches target replicated jobs other than the trainer's."""
    patches = part.spec.get("runtimePatches")
    for at, patch in enumerate(patches if isinstance(patches, list) else ()):
        template = mapping(mapping(mapping(patch).get("trainingRuntimeSpec")).get("template"))
        replicated_jobs = mapping(template.get("spec")).get("replicatedJobs")
        groups = replicated_jobs if isinstance(replicated_jobs, list) else []
        named = [str(mapping(group).get("name")) for group in groups]
        if set(named) - {_TRAINER}:
            raise ImportingError(
                f"{part.place(f'/spec/runtimePatches/{at}')}: it patches several groups of pods "
                f"({', '.join(named)}) of a runtime that is not among the files: add that, and "
                "they become roles where one of them trains. Or keep applying it as it is"
            )


def _refuse_mpi(part: SourceObject, name: str, spec: Mapping[str, Data]) -> None:
    policy = mapping(spec.get("mlPolicy"))
    if "mpi" in policy:
        raise ImportingError(
            f"{part.place('/spec/mlPolicy/mpi')}: {name} starts its processes by MPI, from a "
            "launcher over ssh, and a job spec starts them in each pod: give the program to "
            "torchrun, or keep applying it as it is"
        )


def bare(kind: str, name: str) -> Manifest:
    """Return a runtime that adds nothing of its own, not even an image."""
    pod = {"template": {"spec": {"containers": [{"name": "node"}]}}}
    group = {
        "name": _TRAINER,
        "template": {"metadata": {"labels": {STEP: TRAINER}}, "spec": pod},
    }
    return Manifest(
        body={
            "apiVersion": KIND.api_version,
            "kind": kind,
            "metadata": {"name": name},
            "spec": {
                "mlPolicy": {"torch": {}},
                "template": {"spec": {"replicatedJobs": [group]}},
            },
        }
    )


READER = Reader(
    read=_read,
    reasons=(*OF_GROUPS, *reasons(__file__)),
)
