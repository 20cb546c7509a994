"""Settings that every Argo CD needs once, for any use: health and actions of the kinds.

https://argo-cd.readthedocs.io/en/stable/operator-manual/health/#custom-health-checks
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment
from trainwright.documents import yamlio
from trainwright.documents.yamlio import Block
from trainwright.gitops.wiring import kinds, workload
from trainwright.kinds import SERVED

CONFIG_MAP = "argocd-cm.yaml"
HELM_VALUES = "argocd-values.yaml"


def settings(environments: Iterable[Environment]) -> dict[str, Data]:
    """Return the keys and values of argocd-cm; each Application has its own ignoreDifferences."""
    made = kinds.training(*environments)
    entries: dict[str, Data] = {}
    for kind in SERVED.values():
        # A check of Argo CD's own is replaced only where runs are of that kind.
        if not kind.awaited or kind in made:
            entries[_key("health", f"{kind.group}_{kind.kind}")] = Block(kind.health.lua)
    return entries | dict(_of_workloads())


def _of_workloads() -> Iterator[tuple[str, Data]]:
    yield _key("health", workload.NAME), Block(workload.health())
    definitions = [
        {"name": action, "action.lua": Block(workload.action(action))}
        for action in workload.ACTIONS
    ]
    actions = {"discovery.lua": Block(workload.discovery()), "definitions": definitions}
    yield _key("actions", workload.NAME), Block(yamlio.dump(actions))


def _key(what: str, name: str) -> str:
    return f"resource.customizations.{what}.{name}"


def config_map(settings: dict[str, Data]) -> dict[str, Data]:
    """Return a part of argocd-cm for server-side apply, which keeps the other parts."""
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
    """Return settings of Argo CD as values of the argo-cd chart."""
    return {"configs": {"cm": settings}}
