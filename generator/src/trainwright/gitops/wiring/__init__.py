"""The wirings, in the order they are listed. A new one needs a module and a line here."""

from __future__ import annotations

from trainwright.datatypes.environment import GitOps
from trainwright.gitops.wiring import argocd_chart, argocd_rendered, fluxcd_chart, fluxcd_rendered
from trainwright.gitops.wiring.wiring import Wiring

WIRINGS: dict[tuple[str, str], Wiring] = {
    (w.engine, w.mode): w
    for w in (
        argocd_rendered.WIRING,
        argocd_chart.WIRING,
        fluxcd_rendered.WIRING,
        fluxcd_chart.WIRING,
    )
}


def wiring_of(gitops: GitOps) -> Wiring:
    """Return how the engine of an environment is configured in its mode."""
    return WIRINGS[gitops.engine, gitops.mode]
