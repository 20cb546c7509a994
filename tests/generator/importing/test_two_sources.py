"""`doctor` finds what was adopted in a second source, and says how that one lets go."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import apiserver
from adoption import adopted_by, before, live
from apiserver import ApiServer
from git_repository import commit
from repository import Copied, Repository

NAME = "pytorchjob-running"


def one_adopted(root: Path) -> None:
    before(root)
    assert adopted_by(root, live("PyTorchJob", "running"), live("Job", "succeeded")).exit_code == 0
    assert Repository(root).run("render").exit_code == 0
    commit(root, "Adopt")


@pytest.fixture
def team(copied: Copied, tmp_path: Path) -> Repository:
    return copied(one_adopted, tmp_path / "team")


def found(team: Repository, *options: str) -> list[dict[str, str]]:
    done = team.run("doctor", "-o", "json", *options)
    items = json.loads(done.stdout)["items"]
    return [item for item in items if item["about"] == "sources"]


def put(team: Repository, path: str, *bodies: dict[str, Any]) -> None:
    file = team.root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump_all(bodies, sort_keys=False), encoding="utf-8")


def old(kind: str = "PyTorchJob", name: str = NAME) -> dict[str, Any]:
    body = live(kind, "running")
    metadata = {"name": name}
    return {
        "apiVersion": body["apiVersion"],
        "kind": kind,
        "metadata": metadata,
        "spec": body["spec"],
    }


def in_order(text: str, *words: str) -> None:
    places = [text.index(word) for word in words]
    assert places == sorted(places)


ARGOCD = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Application",
    "metadata": {"name": "ml-jobs", "namespace": "argocd"},
    "spec": {"source": {"path": "training"}, "destination": {"namespace": "training"}},
}
FLUX = {
    "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
    "kind": "Kustomization",
    "metadata": {"name": "ml-jobs", "namespace": "flux-system"},
    "spec": {"path": "./training"},
}
STEPS = {
    "Application": (
        "argocd app set argocd/ml-jobs --sync-policy none",
        f"annotate pytorchjob {NAME} --overwrite argocd.argoproj.io/sync-options=Prune=false",
        "Take their manifests out of the source",
        "app delete argocd/ml-jobs --cascade=false",
    ),
    "Kustomization": (
        "flux suspend kustomization ml-jobs --namespace flux-system",
        f"annotate pytorchjob {NAME} --overwrite kustomize.toolkit.fluxcd.io/prune=disabled",
        "Take their manifests out of the source",
        "flux resume kustomization ml-jobs",
    ),
}


def test_one_source_is_all_right(team: Repository) -> None:
    put(team, "training/other.yaml", old(name="other"), old("Job", NAME))
    (one,) = found(team)
    assert (one["state"], one["message"]) == ("ok", "nothing adopted is in another file")


def test_where_nothing_was_adopted_nothing_is_read(tmp_path: Path) -> None:
    before(tmp_path / "team")
    (one,) = found(Repository(tmp_path / "team"))
    assert one["message"] == "nothing was adopted"


def test_a_file_that_was_adopted_is_still_there(team: Repository) -> None:
    put(team, "training/llm.yaml", old())
    (one,) = found(team)
    assert one["state"] == "warning"
    assert f"PyTorchJob/{NAME} of prod/{NAME} has two sources" in one["message"]
    assert f"environments/prod/adopted/{NAME}.yaml, and training/llm.yaml" in one["message"]
    assert one["place"].startswith("training/llm.yaml:")
    assert "Remove their old manifests" in one["remedy"]


@pytest.mark.parametrize("engine", [ARGOCD, FLUX], ids=["argocd", "flux"])
def test_the_engine_that_reads_it_lets_go_first(engine: dict[str, Any], team: Repository) -> None:
    put(team, "apps/ml.yaml", engine)
    put(team, "training/llm.yaml", old())
    (one,) = found(team)
    assert f"training/llm.yaml, which {engine['kind']}/ml-jobs applies" in one["message"]
    in_order(one["remedy"], *STEPS[engine["kind"]])
    assert "Merge" not in one["remedy"]


def test_what_has_finished_has_one_source(team: Repository) -> None:
    assert team.run("retire", f"prod/{NAME}", "--outcome", "succeeded").exit_code == 0
    put(team, "training/llm.yaml", old())
    assert [one["state"] for one in found(team)] == ["ok"]


# --- the cluster ---------------------------------------------------------------------------------


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    kinds = apiserver.KINDS
    monkeypatch.setitem(kinds, ("argoproj.io/v1alpha1", "Application"), "applications")
    monkeypatch.setitem(
        kinds, ("kustomize.toolkit.fluxcd.io/v1", "Kustomization"), "kustomizations"
    )
    server = ApiServer()
    yield server
    server.close()


@pytest.fixture
def reached(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ApiServer:
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path / "kubeconfig")))
    return api


def holding(engine: dict[str, Any], *names: str) -> dict[str, Any]:
    """An engine's source with these objects in its inventory."""
    body = copy.deepcopy(engine)
    if engine is ARGOCD:
        one = {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"}
        resources = [{**one, "namespace": "training", "name": name} for name in names]
        return {**body, "status": {"resources": resources}}
    entries = [{"id": f"training_{name}_kubeflow.org_PyTorchJob", "v": "v1"} for name in names]
    return {**body, "status": {"inventory": {"entries": entries}}}


@pytest.mark.parametrize("engine", [ARGOCD, FLUX], ids=["argocd", "flux"])
def test_an_inventory_that_still_has_it(
    engine: dict[str, Any], team: Repository, reached: ApiServer
) -> None:
    reached.put(holding(engine, NAME, "other"))
    *_, one = found(team, "--live")
    assert one["state"] == "warning"
    assert one["message"] == (
        f"prod: PyTorchJob/{NAME} in the inventory of {engine['kind']}/ml-jobs, though it was adopted"
    )
    in_order(one["remedy"], *STEPS[engine["kind"]])


def test_both_inventories_are_named(team: Repository, reached: ApiServer) -> None:
    reached.put(holding(ARGOCD, NAME))
    ours = holding(ARGOCD, NAME)
    labels = {"app.kubernetes.io/managed-by": "trainwright"}
    ours["metadata"] = {"name": f"training-prod-{NAME}", "namespace": "argocd", "labels": labels}
    reached.put(ours)
    *_, one = found(team, "--live")
    assert "of Application/ml-jobs, and in that of Application/training-prod-" in one["message"]


def test_an_inventory_without_it(team: Repository, reached: ApiServer) -> None:
    reached.put(holding(ARGOCD, "other"))
    *_, one = found(team, "--live")
    assert one["message"] == "prod: no other inventory has what was adopted"


def test_inventories_that_cannot_be_read(
    team: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
    *_, one = found(team, "--live")
    assert (one["state"], "were not read" in one["message"]) == ("warning", True)
