"""What the status of each kind means. Adding a kind is its module and its line here."""

from trainwright.cluster.states import job, jobset, pytorchjob, trainingjob, trainjob
from trainwright.cluster.states.state import Kind, Phase, State

KINDS: dict[tuple[str, str], Kind] = {
    (kind.group, kind.kind): kind
    for kind in (
        pytorchjob.KIND,
        trainingjob.KIND,
        trainjob.KIND,
        jobset.KIND,
        job.KIND,
    )
}

__all__ = ["KINDS", "Kind", "Phase", "State"]
