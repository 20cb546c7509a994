"""What Kubernetes' own Job controller makes of an Indexed Job."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import indexed_pods
from trainwright.kinds.job.pod_templates import pod_template
from trainwright.objects.pods import build
from trainwright.objects.pods.groups import Pods
from trainwright.objects.pods.pod import Operator, Workload


def _pods(manifest: Manifest, together: Sequence[Manifest], _: int | None) -> Workload:
    spec = manifest.spec
    restart = indexed_pods.job_restart(spec)
    template = pod_template(manifest)
    group = indexed_pods.job_pods(manifest.name, spec, template, role="node", restart=restart)
    pods = Pods((group,))
    return Workload(
        pods=pods,
        deciding=pods.names,
        deadline=build.deadline(spec),
        suspended=spec.get("suspend") is True,
        gang=indexed_pods.pod_group(pods, together),
    )


OPERATOR = Operator(name="Kubernetes Job controller", pods=_pods)
