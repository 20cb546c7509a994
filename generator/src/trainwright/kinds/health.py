"""Health checks of a kind for GitOps engines: in Lua for Argo CD, in CEL for Flux.

Facts: status of the kinds in kubeflow/trainer v1.9.4 and v2.3.0, kubernetes-sigs/jobset v0.12.0
and lattice-io/lattice.
"""

from __future__ import annotations

from pathlib import Path

from trainwright.datatypes.frozen import dataclass


@dataclass(frozen=True, kw_only=True)
class Health:
    """The health checks of one kind: Argo CD's `lua`, and Flux' CEL expressions, in their order.

    Lua reads `obj` and returns what Argo CD shows. CEL is over the object's own fields:
    https://fluxcd.io/flux/components/kustomize/kustomizations/#health-check-expressions
    A run is current once its operator has taken it on, so that a Kustomization is ready while runs
    train or wait for quota, and not ready when one of them has failed.
    """

    lua: str
    in_progress: str
    failed: str
    current: str


def script(module: str) -> str:
    """Return the Lua script beside a module, after the functions that all such scripts call."""
    parts = (Path(__file__), Path(module))
    return "".join(part.with_suffix(".lua").read_text(encoding="utf-8") for part in parts)


def holds(conditions: str, *types: str) -> str:
    """Return CEL: whether a condition of one of these types is true in a list of conditions."""
    listed = ", ".join(f"'{kind}'" for kind in types)
    return (
        f"has({conditions}) && {conditions}.exists(c, c.type in [{listed}] && c.status == 'True')"
    )


def unseen(*fields: str) -> str:
    """Return CEL: whether no operator has written any of these fields of the status.

    The variables of an expression are the object's own fields, so that any use of `status` is an
    error if the object has none: https://github.com/fluxcd/pkg/blob/main/runtime/cel. Whether
    someone wrote it is therefore read from `metadata.managedFields`.
    """
    no_status = (
        "has(metadata.managedFields) && "
        "!metadata.managedFields.exists(m, has(m.fieldsV1) && 'f:status' in m.fieldsV1)"
    )
    return f"({no_status}) || ({' && '.join(f'!has({field})' for field in fields)})"
