"""What happens to an object that leaves git: one answer for plans, verbs and rules."""

from __future__ import annotations

import pytest

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import Environment, GitOps
from trainwright.datatypes.finding import Location
from trainwright.datatypes.manifest import Manifest
from trainwright.objects.departure import Departure, applying, end, leaving

ARGO = {"argocd.argoproj.io/sync-options": "Prune=confirm"}
FLUX = {"kustomize.toolkit.fluxcd.io/prune": "disabled"}
DELETED = "`kubectl --namespace training delete job/llm-1`"
CONFIRMED = "its deletion is confirmed (`argocd app confirm-deletion training-prod-llm-1`)"


def _environment(engine: str, prune: str) -> Environment:
    return Environment(
        name="prod",
        namespace="training",
        place=Location("environments/prod/environment.yaml"),
        kubernetes_version="1.34",
        targets={},
        gitops=GitOps(engine=engine, prune=prune),  # type: ignore[arg-type]
    )


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
    found = end(manifest, _environment(engine, prune))
    assert (found.how, found.until) == (how, until)
    stays = f"llm-1 stays in the cluster until {until}" if until else ""
    assert found.stays("llm-1") == stays


@pytest.mark.parametrize(
    ("engine", "how"),
    [("flux", Departure.KEPT), ("argocd", Departure.PRUNED), ("none", Departure.KEPT)],
)
@pytest.mark.parametrize("field", ["annotations", "labels"])
def test_flux_reads_its_mark_in_labels_and_annotations(
    field: str, engine: str, how: Departure
) -> None:
    assert leaving({field: FLUX}, _environment(engine, "immediate")) is how


CONFIRM, IMMEDIATE = ("argocd", "confirm"), ("argocd", "immediate")


@pytest.mark.parametrize(
    ("was", "now", "how"),
    [
        (IMMEDIATE, CONFIRM, Departure.PRUNED),  # until wiring/ is applied
        (IMMEDIATE, ("none", "confirm"), Departure.PRUNED),
        (CONFIRM, CONFIRM, Departure.KEPT),
        (CONFIRM, IMMEDIATE, Departure.PRUNED),
        (CONFIRM, ("none", "confirm"), Departure.UNKNOWN),
        (("none", "immediate"), CONFIRM, Departure.KEPT),
        (None, CONFIRM, Departure.KEPT),
        (CONFIRM, None, Departure.KEPT),
        (IMMEDIATE, None, Departure.PRUNED),
        (None, None, Departure.UNKNOWN),
    ],
)
def test_a_merge_removes_by_the_settings_that_the_cluster_has(
    was: tuple[str, str] | None, now: tuple[str, str] | None, how: Departure
) -> None:
    sides = (_environment(*it) if it else None for it in (was, now))
    assert leaving({}, applying(*sides)) is how
