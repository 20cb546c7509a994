"""Import of JobSets: one group of pods that trains, and others that serve it."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.kinds.indexed_import import OF_GROUPS, check_groups, pod_groups
from trainwright.kinds.reading import Loss, Read, Reader, Reason, SourceObject


def _read(part: SourceObject, others: Sequence[SourceObject]) -> Read:
    spec = part.spec
    name = part.metadata.get("name") or part.metadata.get("generateName", "")
    check_groups(part, "/spec/replicatedJobs", f"JobSet/{name}", spec)
    return Read(parts=(part, *pod_groups(part, others)))


READER = Reader(
    read=_read,
    reasons=(
        *OF_GROUPS,
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
