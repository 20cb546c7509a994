"""Import of JobSets: one group of pods that trains, and others that serve it."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.kinds.indexed_import import OF_GROUPS, check_groups, pod_groups
from trainwright.kinds.reading import Read, Reader, SourceObject, reasons


def _read(part: SourceObject, others: Sequence[SourceObject]) -> Read:
    spec = part.spec
    name = part.metadata.get("name") or part.metadata.get("generateName", "")
    check_groups(part, "/spec/replicatedJobs", f"JobSet/{name}", spec)
    return Read(parts=(part, *pod_groups(part, others)))


READER = Reader(
    read=_read,
    reasons=(*OF_GROUPS, *reasons(__file__)),
)
