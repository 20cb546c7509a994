"""JobSets, and the one group of pods in them that trains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from trainwright.kinds.indexed_import import only_group, pod_groups
from trainwright.kinds.reading import Loss, Read, Reader, Reason, SourceObject, mapping
from trainwright.model import Data

_GROUPS = "/spec/replicatedJobs"


def _read(part: SourceObject, others: Sequence[SourceObject]) -> Read:
    spec = mapping(part.body.get("spec"))
    part, groups = only_group(part, _GROUPS, spec, _size)
    return Read(parts=(part, *pod_groups(part, others)), groups=groups)


def _size(group: Mapping[str, Data]) -> int:
    """How many pods a group has: the training is the largest."""
    spec = mapping(mapping(group.get("template")).get("spec"))
    count, pods = group.get("replicas", 1), spec.get("completions", spec.get("parallelism", 1))
    return count * pods if isinstance(count, int) and isinstance(pods, int) else 1


READER = Reader(
    read=_read,
    reasons=(
        Reason(
            "**/restartPolicy",
            "the target sets it: pods are replaced, as often as retries allows",
            Loss.COSMETIC,
        ),
        Reason("/spec/successPolicy/**", "all pods of a run have to succeed", Loss.BEHAVIOUR),
        Reason(
            "/spec/startupPolicy/**",
            "there is one group of pods, which starts at once",
            Loss.COSMETIC,
        ),
        Reason(
            "/spec/coordinator/**",
            "there is one group of pods, and rank 0 is its first",
            Loss.COSMETIC,
        ),
        Reason(
            "/spec/replicatedJobs/*/name",
            "the target names its group of pods itself",
            Loss.COSMETIC,
        ),
        Reason(
            "/spec/replicatedJobs/*/groupName",
            "the target names its group of pods itself",
            Loss.COSMETIC,
        ),
        Reason(
            "/spec/failurePolicy/rules/**",
            "the entrypoint's exit code tells what is final",
            Loss.BEHAVIOUR,
        ),
    ),
)
