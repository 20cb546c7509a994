"""What the toys' controller makes of a Toy."""

from collections.abc import Sequence

from trainwright.datatypes.data import amount, dig
from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import indexed_pods
from trainwright.kinds.toy import KIND
from trainwright.kinds.toy.pod_templates import pod_template
from trainwright.objects.pods.groups import Pods
from trainwright.objects.pods.pod import Operator, Restart, Workload


def _pods(manifest: Manifest, together: Sequence[Manifest], _: int | None) -> Workload:
    job = {"completions": amount(dig(manifest.body, "spec", "size")), "completionMode": "Indexed"}
    template = pod_template(manifest)
    restart = Restart(limit=0)
    group = indexed_pods.job_pods(
        manifest.name, job, template, role=KIND.container, restart=restart
    )
    return Workload(pods=Pods((group,)), deciding=group.names)


OPERATOR = Operator(name="toy controller", pods=_pods)
