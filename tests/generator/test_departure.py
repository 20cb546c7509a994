"""What happens to an object that leaves git: one answer for plans, verbs and rules."""

from __future__ import annotations

import pytest

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment, GitOps
from trainwright.datatypes.finding import Location
from trainwright.datatypes.manifest import Manifest
from trainwright.objects.departure import Departure, end

ARGO = {"argocd.argoproj.io/sync-options": "Prune=confirm"}
FLUX = {"kustomize.toolkit.fluxcd.io/prune": "disabled"}
DELETED = "`kubectl --namespace training delete job/llm-1`"
CONFIRMED = "its deletion is confirmed (`argocd app confirm-deletion training-prod-llm-1`)"


@pytest.mark.parametrize(
    ("engine", "prune", "annotations", "how", "until"),
    [
        ("argocd", "confirm", {}, Departure.KEPT, DELETED),
        ("argocd", "immediate", {}, Departure.PRUNED, ""),
        ("argocd", "immediate", ARGO, Departure.CONFIRMED, CONFIRMED),
        ("argocd", "immediate", FLUX, Departure.PRUNED, ""),
        ("flux", "confirm", {}, Departure.KEPT, DELETED),
        ("flux", "immediate", {}, Departure.PRUNED, ""),
        ("flux", "immediate", FLUX, Departure.KEPT, DELETED),
        ("flux", "immediate", ARGO, Departure.PRUNED, ""),
        ("none", "confirm", {}, Departure.UNKNOWN, DELETED),
        ("none", "immediate", {}, Departure.UNKNOWN, DELETED),
        ("none", "confirm", FLUX, Departure.KEPT, DELETED),
    ],
)
def test_an_object_that_leaves_git(
    engine: str, prune: str, annotations: dict[str, Data], how: Departure, until: str
) -> None:
    metadata = {"name": "llm-1", "namespace": "training", "annotations": annotations}
    manifest = Manifest(body={"kind": "Job", "metadata": metadata})
    environment = Environment(
        name="prod",
        namespace="training",
        place=Location("environments/prod/environment.yaml"),
        kubernetes_version="1.34",
        targets={},
        gitops=GitOps(engine=engine, prune=prune),  # type: ignore[arg-type]
    )
    found = end(manifest, environment)
    assert (found.how, found.until) == (how, until)
    stays = f"llm-1 stays in the cluster until {until}" if until else ""
    assert found.stays("llm-1") == stays
