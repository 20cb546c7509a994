"""RayJobs of KubeRay: a program, and nodes that are all alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.datatypes.data import Data, dig, mapping, mappings
from trainwright.kinds.rayjob.pod_templates import CLUSTER
from trainwright.kinds.reading import (
    ImportingError,
    Read,
    Reader,
    SourceObject,
    reasons,
)
from trainwright.kinds.roles import described, roles


def _read(part: SourceObject, _: Sequence[SourceObject]) -> Read:
    if why := _unlike(part.spec):
        held = described(roles({**part.body, "kind": "pods"}))
        raise ImportingError(
            f"{part.place(CLUSTER)}: RayJob/{part.metadata.get('name', '')} {why}, and a job spec "
            f"has a program on one group of equal pods. It holds {held}. Keep applying it as it is "
            "(`trainwright adopt` takes it so), or change it first"
        )
    return Read(parts=(part,))


def _unlike(spec: Mapping[str, Data]) -> str:
    """Return why a RayJob is not a program on equal nodes; empty if it is."""
    cluster = mapping(spec.get("rayClusterSpec"))
    groups = mappings(cluster.get("workerGroupSpecs"))
    if spec.get("clusterSelector"):
        return "runs on a cluster that is there already"
    if cluster.get("enableInTreeAutoscaling"):
        return "has a cluster that grows and shrinks"
    if spec.get("submissionMode") == "InteractiveMode" or not spec.get("entrypoint"):
        return "has no program: people submit it"
    if len(groups) > 1:
        return f"has {len(groups)} groups of workers"
    head = mapping(cluster.get("headGroupSpec"))
    if any(_pod(group) != _pod(head) for group in groups):
        return "has a head that is unlike its workers"
    return ""


def _pod(group: Mapping[str, Data]) -> Data:
    """Return a group's pods with the counts that Ray uses, without container names and ports."""
    pod, params = mapping(dig(group, "template", "spec")), mapping(group.get("rayStartParams"))
    containers = mappings(pod.get("containers"))
    unnamed = [{k: v for k, v in c.items() if k not in ("name", "ports")} for c in containers]
    cpu = dig(containers[0], "resources", "limits", "cpu") if containers else None
    counts = [str(params.get("num-cpus", cpu)), params.get("num-gpus"), params.get("resources")]
    return {**pod, "containers": unnamed, "counts": counts}


READER = Reader(
    read=_read,
    entrypoint="entrypoint",
    reasons=reasons(__file__),
)
