"""What the JobSet controller makes of a JobSet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trainwright.datatypes.manifest import Manifest
from trainwright.kinds import indexed_pods
from trainwright.objects.pods.pod import Operator, Workload


def _pods(manifest: Manifest, together: Sequence[Manifest], _: int | None) -> Workload:
    spec = manifest.spec
    workload = indexed_pods.replicated_workload(manifest.name, spec)
    return replace(workload, gang=indexed_pods.pod_group(workload.pods, together))


OPERATOR = Operator(name="JobSet controller", pods=_pods)
