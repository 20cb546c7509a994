"""What the toys' controller makes of a Toy."""

from collections.abc import Sequence

from trainwright.kinds import indexed_pods
from trainwright.kinds.toy import KIND
from trainwright.model import Manifest
from trainwright.pods.pod import Operator, Restart, Workload


def _pods(manifest: Manifest, together: Sequence[Manifest], _: int | None) -> Workload:
    spec = manifest.body["spec"]
    job = {"completions": spec["size"], "completionMode": "Indexed", "template": spec["template"]}
    pods = indexed_pods.job_pods(manifest.name, job, role=KIND.container, restart=Restart(limit=0))
    return Workload(pods=pods, deciding=tuple(pod.name for pod in pods))


OPERATOR = Operator(name="toy controller", pods=_pods)
