"""What the states of each kind mean to Argo CD (Lua) and to Flux (CEL).

Facts: status of the kinds in kubeflow/trainer v1.9.4 and v2.3.0, kubernetes-sigs/jobset v0.12.0,
kubernetes-sigs/kueue v0.19.2 and lattice-io/lattice.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Expressions:
    """Flux' reading of a kind, as CEL over the object's own fields, asked in this order.

    https://fluxcd.io/flux/components/kustomize/kustomizations/#health-check-expressions
    An object without a status makes them fail, which Flux takes for an unknown state and asks
    again. A run is current once its operator has taken it on, so that a Kustomization is ready
    while runs train or wait for quota, and not ready when one of them has failed.
    """

    in_progress: str
    failed: str
    current: str


@dataclass(frozen=True, kw_only=True)
class Health:
    """One kind: `lua` reads `obj` and returns what Argo CD shows.

    `actions` are what people may do to an object in Argo CD: only to what is not in git, since
    self-healing would take back anything else. Kinds that Flux never applies have no expressions.
    """

    api_version: str
    kind: str
    flux: Expressions | None = None
    actions: tuple[str, ...] = ()

    @property
    def group(self) -> str:
        """`batch` of batch/v1, and nothing for v1."""
        return self.api_version.rpartition("/")[0]

    @cached_property
    def lua(self) -> str:
        return _read("prelude.lua") + _read(f"{self.kind.lower()}.lua")

    @cached_property
    def discovery(self) -> str:
        """Lua that says which actions are possible now."""
        return _read(f"{self.kind.lower()}-discovery.lua")

    def action(self, name: str) -> str:
        """Lua that changes the object."""
        return _read(f"{self.kind.lower()}-{name}.lua")


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _holds(conditions: str, *types: str) -> str:
    listed = ", ".join(f"'{kind}'" for kind in types)
    return (
        f"has({conditions}) && {conditions}.exists(c, c.type in [{listed}] && c.status == 'True')"
    )


def _ended(kind: str) -> str:
    return f"has(status.execStatus) && {_holds('status.execStatus.conditions', kind)}"


PYTORCHJOB = Health(
    api_version="kubeflow.org/v1",
    kind="PyTorchJob",
    flux=Expressions(
        in_progress="!has(status.conditions)",
        failed=_holds("status.conditions", "Failed"),
        current=_holds(
            "status.conditions", "Created", "Running", "Restarting", "Suspended", "Succeeded"
        ),
    ),
)
TRAININGJOB = Health(
    api_version="breezeml.ai/v1",
    kind="TrainingJob",
    flux=Expressions(
        in_progress="!has(status.stage) || status.stage == ''",
        failed=f"status.stage in ['WrongConfiguration', 'Cancelled'] || {_ended('Failed')}",
        current=f"status.stage in ['Waiting', 'Running', 'RequeueCooldown'] || "
        f"{_ended('Succeeded')}",
    ),
)
TRAINJOB = Health(
    api_version="trainer.kubeflow.org/v1alpha1",
    kind="TrainJob",
    flux=Expressions(
        in_progress="!has(status.conditions) && !has(status.jobsStatus)",
        failed=_holds("status.conditions", "Failed"),
        current=f"has(status.jobsStatus) || "
        f"({_holds('status.conditions', 'Suspended', 'Complete')})",
    ),
)
JOBSET = Health(
    api_version="jobset.x-k8s.io/v1alpha2",
    kind="JobSet",
    flux=Expressions(
        in_progress="!has(status.conditions) && !has(status.replicatedJobsStatus)",
        failed=_holds("status.conditions", "Failed"),
        current=f"has(status.replicatedJobsStatus) || "
        f"({_holds('status.conditions', 'Suspended', 'Completed')})",
    ),
)
JOB = Health(
    api_version="batch/v1",
    kind="Job",
    flux=Expressions(
        in_progress="!has(status.conditions) && !has(status.startTime)",
        failed=_holds("status.conditions", "Failed", "FailureTarget"),
        current=f"has(status.startTime) || "
        f"({_holds('status.conditions', 'Suspended', 'Complete')})",
    ),
)
WORKLOAD = Health(
    api_version="kueue.x-k8s.io/v1beta2", kind="Workload", actions=("hold", "release")
)

KINDS: dict[str, Health] = {
    health.kind: health for health in (PYTORCHJOB, TRAININGJOB, TRAINJOB, JOBSET, JOB, WORKLOAD)
}
