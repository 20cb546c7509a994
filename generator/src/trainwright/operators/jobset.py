"""What the JobSet controller makes of a JobSet."""

from __future__ import annotations

from collections.abc import Sequence

from trainwright.model import Manifest
from trainwright.operators import indexed
from trainwright.operators.operator import Operator, Workload


def _pods(manifest: Manifest, _: Sequence[Manifest], __: int | None) -> Workload:
    return indexed.jobset_workload(manifest.name, manifest.body["spec"])


OPERATOR = Operator(name="JobSet controller", kinds=(("jobset.x-k8s.io", "JobSet"),), pods=_pods)
