"""RayJobs of KubeRay: a program, and nodes that are all alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.datatypes.data import Data, dig, mappings
from trainwright.kinds.rayjob.pod_templates import CLUSTER
from trainwright.kinds.reading import (
    ImportingError,
    Loss,
    Read,
    Reader,
    Reason,
    SourceObject,
    mapping,
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
    """A group's pods, but for the names and ports of their containers."""
    pod = dig(group, "template", "spec")
    containers = mappings(mapping(pod).get("containers"))
    unnamed = [{k: v for k, v in c.items() if k not in ("name", "ports")} for c in containers]
    return {**mapping(pod), "containers": unnamed}


READER = Reader(
    read=_read,
    entrypoint="entrypoint",
    reasons=(
        Reason("/spec/submissionMode", "the target chooses it", Loss.COSMETIC),
        Reason("/spec/submitterPodTemplate/**", "the target writes it", Loss.COSMETIC),
        Reason("/spec/shutdownAfterJobFinishes", "the target sets it", Loss.COSMETIC),
        Reason("/spec/rayClusterSpec/rayVersion", "the image has it", Loss.COSMETIC),
        Reason("/spec/rayClusterSpec/*/rayStartParams/**", "Ray's own defaults hold", Loss.BEHAVIOUR),
        Reason("/spec/runtimeEnvYAML", "put it into the image", Loss.CANNOT_RUN),
        Reason("/spec/deletionStrategy/**", "its cluster goes with its program", Loss.BEHAVIOUR),
        Reason("/spec/rayClusterSpec/workerGroupSpecs/*/groupName", "it has a name", Loss.COSMETIC),
    ),
)
