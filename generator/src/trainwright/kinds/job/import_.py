"""Jobs of Kubernetes itself, Indexed or of a single pod."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.kinds.indexed_import import pod_groups
from trainwright.kinds.reading import (
    ImportingError,
    Read,
    Reader,
    SourceObject,
    reasons,
)
from trainwright.kinds.roles import described, roles


def _read(part: SourceObject, others: Sequence[SourceObject]) -> Read:
    spec = part.spec
    pods = spec.get("completions", spec.get("parallelism", 1))
    if spec.get("completionMode") != "Indexed" and isinstance(pods, int) and pods > 1:
        name = part.metadata.get("name") or part.metadata.get("generateName", "")
        raise ImportingError(
            f"{part.place('/spec')}: Job/{name} has {pods} pods without completionMode: Indexed, "
            "which do not know their rank, so they are not distributed training: "
            f"{described(roles(part.body))}. Keep applying it, or write completionMode: Indexed if "
            "they train together"
        )
    return Read(parts=(part, *pod_groups(part, others)))


READER = Reader(
    read=_read,
    reasons=reasons(__file__),
)
