"""What a whole Argo CD has to be told once, whatever it applies: health and actions of the kinds.

https://argo-cd.readthedocs.io/en/stable/operator-manual/health/#custom-health-checks
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainwright.gitops.wiring import kinds
from trainwright.gitops.wiring.health import KINDS, Health
from trainwright.model import Data, Environment
from trainwright.specs import yamlio
from trainwright.specs.yamlio import Block

CONFIG_MAP = "argocd-cm.yaml"
HELM_VALUES = "argocd-values.yaml"

# Argo CD knows batch Jobs itself, so its own check is replaced only where runs are Jobs.
_KNOWN = "Job"


def settings(environments: Iterable[Environment]) -> dict[str, Data]:
    """Keys and values of argocd-cm. What is ignored in diffs is for each Application to say."""
    made = {target.kind for place in environments for target in kinds.training(place)}
    found: dict[str, Data] = {}
    for health in KINDS.values():
        if health.kind != _KNOWN or health.kind in made:
            found.update(_of_kind(health))
    return found


def _of_kind(health: Health) -> Iterator[tuple[str, Data]]:
    name = f"{health.group}_{health.kind}"
    yield f"resource.customizations.health.{name}", Block(health.lua)
    if health.actions:
        definitions = [
            {"name": action, "action.lua": Block(health.action(action))}
            for action in health.actions
        ]
        actions = {"discovery.lua": Block(health.discovery), "definitions": definitions}
        yield f"resource.customizations.actions.{name}", Block(yamlio.dump(actions))


def config_map(settings: dict[str, Data]) -> dict[str, Data]:
    """A part of argocd-cm, for server-side apply: what else is in there stays."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "argocd-cm",
            "labels": {
                "app.kubernetes.io/name": "argocd-cm",
                "app.kubernetes.io/part-of": "argocd",
            },
        },
        "data": settings,
    }


def helm_values(settings: dict[str, Data]) -> dict[str, Data]:
    """The same as values of the argo-cd chart."""
    return {"configs": {"cm": settings}}
