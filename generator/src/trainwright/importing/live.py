"""Objects that a cluster has: a spec that is made from one starts another run of that training.

A new run has a name of its own, so that nothing in git or in the cluster connects it with the
object: one that runs gets a twin, one that has finished is trained again.
"""

from __future__ import annotations

from trainwright.datatypes.data import mapping
from trainwright.importing.source import Source
from trainwright.kinds import trains
from trainwright.kinds.reading import ImportingError, SourceObject
from trainwright.kinds.state import Phase

# What only an API server or a controller writes.
_WRITTEN_BY_CLUSTER = ("uid", "resourceVersion", "deletionTimestamp")


def refuse_live(source: Source) -> None:
    """Raise ImportingError for a workload that was read from a cluster, with its state there."""
    part = source.parts[0]
    written = written_by_cluster(part)
    if not written:
        return
    raise ImportingError(
        f"{part.place(written)}: {source.title} is in a cluster{_state(source)}: its spec would "
        "begin another run, which trains the same again. Let it go on as the run of its job with "
        "`trainwright adopt`, or add --new-runs to begin another"
    )


def written_by_cluster(part: SourceObject) -> str:
    """Return a pointer to something that a cluster wrote into an object; empty if none."""
    status = mapping(part.body.get("status"))
    if any(status.values()):
        return "/status"
    metadata = part.metadata
    return next((f"/metadata/{key}" for key in _WRITTEN_BY_CLUSTER if metadata.get(key)), "")


def _state(source: Source) -> str:
    """Return the object's phase in the cluster, in brackets, if its status shows one."""
    part = source.parts[0]
    kind = trains(part)
    if kind is None:
        return ""
    phase = kind.status.state_of(part.body).phase
    return "" if phase is Phase.ABSENT else f" ({phase})"
