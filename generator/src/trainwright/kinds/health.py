"""What the states of a kind mean to a GitOps engine: in Lua to Argo CD, in CEL to Flux.

Facts: status of the kinds in kubeflow/trainer v1.9.4 and v2.3.0, kubernetes-sigs/jobset v0.12.0
and lattice-io/lattice.
"""

from __future__ import annotations

from pathlib import Path

from trainwright.datatypes.frozen import dataclass


@dataclass(frozen=True, kw_only=True)
class Expressions:
    """Flux' reading of a kind, as CEL over the object's own fields, asked in this order.

    https://fluxcd.io/flux/components/kustomize/kustomizations/#health-check-expressions
    A run is current once its operator has taken it on, so that a Kustomization is ready while runs
    train or wait for quota, and not ready when one of them has failed.
    """

    in_progress: str
    failed: str
    current: str


@dataclass(frozen=True, kw_only=True)
class Health:
    """The health checks of one kind: `lua` reads `obj` and returns what Argo CD shows."""

    lua: str
    flux: Expressions


def script(module: str) -> str:
    """The Lua beside a module, with the functions that all of them call."""
    parts = (Path(__file__), Path(module))
    return "".join(part.with_suffix(".lua").read_text(encoding="utf-8") for part in parts)


def holds(conditions: str, *types: str) -> str:
    """CEL: whether a list of conditions has one of these types that is true."""
    listed = ", ".join(f"'{kind}'" for kind in types)
    return (
        f"has({conditions}) && {conditions}.exists(c, c.type in [{listed}] && c.status == 'True')"
    )


def unseen(*fields: str) -> str:
    """CEL: whether an operator has written none of these fields of the status.

    The variables of an expression are the fields that the object has, so that any use of `status`
    is an error where there is none: https://github.com/fluxcd/pkg/blob/main/runtime/cel. Who wrote
    it can be read all the same.
    """
    no_status = (
        "has(metadata.managedFields) && "
        "!metadata.managedFields.exists(m, has(m.fieldsV1) && 'f:status' in m.fieldsV1)"
    )
    return f"({no_status}) || ({' && '.join(f'!has({field})' for field in fields)})"
