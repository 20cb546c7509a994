"""What the status of each kind means. Adding a kind is its module and its line here."""

from trainwright.kinds.job import status as job
from trainwright.kinds.jobset import status as jobset
from trainwright.kinds.pytorchjob import status as pytorchjob
from trainwright.kinds.state import Kind, Phase, State
from trainwright.kinds.trainingjob import status as trainingjob
from trainwright.kinds.trainjob import status as trainjob

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
