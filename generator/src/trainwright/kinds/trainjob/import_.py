"""TrainJobs of Kubeflow Trainer v2, with the runtime that they refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.groupkind import GroupKind
from trainwright.kinds.indexed_import import only_group
from trainwright.kinds.reading import Loss, NotImported, Read, Reader, Reason, SourceObject, mapping
from trainwright.kinds.trainjob import KIND
from trainwright.model import Data, Manifest

_ANCESTOR = "trainer.kubeflow.org/trainjob-ancestor-step"
_GROUPS = "/spec/template/spec/replicatedJobs"


def _read(part: SourceObject, others: Sequence[SourceObject]) -> Read:
    reference = mapping(mapping(part.body.get("spec")).get("runtimeRef"))
    kind = str(reference.get("kind", "ClusterTrainingRuntime"))
    name = str(reference.get("name", ""))
    for other in others:
        manifest = Manifest(body=other.body)
        if (manifest.group_kind, manifest.name) == (
            GroupKind(KIND.group, kind),
            name,
        ):
            job_set = mapping(mapping(mapping(other.body.get("spec")).get("template")).get("spec"))
            runtime, groups = only_group(other, _GROUPS, job_set, _trains)
            return Read(parts=(part, runtime), groups=groups)
    unknown = NotImported(
        field=part.called("/spec/runtimeRef/name"),
        place=part.place("/spec/runtimeRef/name"),
        value=name,
        why=f"this {kind} is not among the files: what it adds to the pods is not known, and not "
        "carried",
    )
    return Read(parts=(part,), left=(unknown,), assumed=(bare(kind, name),))


def _trains(group: Mapping[str, Data]) -> int:
    """The group that trains says so; where none does, the first."""
    metadata = mapping(mapping(group.get("template")).get("metadata"))
    return int(mapping(metadata.get("labels")).get(_ANCESTOR) == "trainer")


def bare(kind: str, name: str) -> Manifest:
    """A runtime that adds nothing of its own, as upstream's torch-distributed does."""
    container = {"name": "node", "image": "runtime"}
    pod = {"template": {"spec": {"containers": [container]}}}
    group = {
        "name": "node",
        "template": {"metadata": {"labels": {_ANCESTOR: "trainer"}}, "spec": pod},
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
    reasons=(
        Reason(
            "/spec/initializer*",
            "a job spec has no initializers: the entrypoint fetches what it needs",
            Loss.CANNOT_RUN,
        ),
        Reason(
            "**/labels/trainer.kubeflow.org~1*", "a run brings a runtime of its own", Loss.COSMETIC
        ),
        Reason(
            "/spec/template/**/containers/*/image", "the image of the job counts", Loss.COSMETIC
        ),
        Reason(
            "/spec/runtimePatches/*/manager",
            "a run brings a runtime of its own, and patches none",
            Loss.COSMETIC,
        ),
        Reason("/spec/runtimePatches/*/time", "the cluster writes it", Loss.COSMETIC),
        Reason(
            "/spec/template/spec/replicatedJobs/*/name",
            "the target names its group of pods itself",
            Loss.COSMETIC,
        ),
        Reason(
            "/spec/template/spec/replicatedJobs/*/groupName",
            "the target names it itself",
            Loss.COSMETIC,
        ),
    ),
)
