"""What Kubernetes' own Job controller makes of an Indexed Job."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.model import Manifest
from trainwright.operators import indexed, template
from trainwright.operators.operator import Operator, Workload


def _pods(manifest: Manifest, together: Sequence[Manifest], _: int | None) -> Workload:
    spec = manifest.body["spec"]
    restart = indexed.job_restart(spec)
    pods = indexed.job_pods(manifest.name, spec, role="node", restart=restart)
    return Workload(
        pods=pods,
        deciding=tuple(pod.name for pod in pods),
        deadline=template.deadline(spec),
        suspended=spec.get("suspend", False),
        gang=indexed.pod_group(pods, together),
    )


OPERATOR = Operator(name="Kubernetes Job controller", kinds=(("batch", "Job"),), pods=_pods)
