"""Where the objects come from: a cluster, a repository in git, and what an engine applies of it."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

import apiserver
from adoption import before, live, live_as_it_is
from apiserver import ApiServer
from git_repository import git
from repository import Repository

MPI = ("kubeflow.org/v2beta1", "MPIJob")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    monkeypatch.setitem(apiserver.KINDS, MPI, "mpijobs")
    server = ApiServer()
    yield server
    server.close()


@pytest.fixture
def team(tmp_path: Path) -> Repository:
    before(tmp_path / "team")
    return Repository(tmp_path / "team")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The team's former repository: an Application, and what it applies."""
    root = tmp_path / "gitops"
    for name in ("bert", "llama"):
        written(root / "training" / f"{name}.yaml", manifest(name))
    written(root / "others" / "gpt.yaml", manifest("gpt"))
    return root


def manifest(name: str, kind: str = "PyTorchJob") -> dict[str, Any]:
    """An object as git has it: no namespace, and nothing of a cluster."""
    body = live(kind, "running")
    return {
        "apiVersion": body["apiVersion"],
        "kind": kind,
        "metadata": {"name": name},
        "spec": body["spec"],
    }


def in_cluster(name: str, kind: str = "PyTorchJob", state: str = "running") -> dict[str, Any]:
    body = live(kind, state)
    body["metadata"]["name"] = name
    return body


def written(path: Path, *bodies: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump_all(bodies, sort_keys=False), encoding="utf-8")
    return path


APPLICATION = {
    "apiVersion": "argoproj.io/v1alpha1",
    "kind": "Application",
    "metadata": {"name": "ml-jobs", "namespace": "argocd"},
    "spec": {
        "source": {"repoURL": "https://git.example.com/ml/gitops.git", "path": "training"},
        "destination": {"namespace": "training"},
    },
}
KUSTOMIZATION = {
    "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
    "kind": "Kustomization",
    "metadata": {"name": "ml-jobs", "namespace": "flux-system"},
    "spec": {"path": "./training", "targetNamespace": "training", "prune": True},
}
ENGINES = pytest.mark.parametrize("source", [APPLICATION, KUSTOMIZATION], ids=["argocd", "flux"])


def adopt(team: Repository, *given: object, api: ApiServer | None = None) -> Result:
    words = [*map(str, given), "--env", "prod"]
    if api is not None:
        config = api.kubeconfig(team.root.parent / "kubeconfig")
        words += ["--live", "--kubeconfig", str(config)]
    return team.run("adopt", *words)


def adopted(team: Repository) -> list[str]:
    return sorted(one.stem for one in (team.root / "environments/prod/adopted").glob("*"))


# --- the cluster ---------------------------------------------------------------------------------


def test_all_of_a_namespace_is_read_from_the_cluster(team: Repository, api: ApiServer) -> None:
    api.put(in_cluster("bert"))
    api.put(in_cluster("mnist", "Job", "succeeded"))
    api.put(live_as_it_is("MPIJob", "running"))
    ours = in_cluster("ours-1a2b3c4d")
    ours["metadata"]["labels"]["app.kubernetes.io/managed-by"] = "trainwright"
    api.put(ours)
    done = adopt(team, api=api)
    assert done.exit_code == 0, done.output
    assert "2 go on, 1 have finished; 0 begin, 0 end." in done.output
    assert adopted(team) == ["bert", "mnist", "mpijob-running"]
    assert {request.verb for request in api.requests} <= {"list", "get"}


def test_what_is_adopted_already_is_not_adopted_again(team: Repository, api: ApiServer) -> None:
    api.put(in_cluster("bert"))
    assert adopt(team, api=api).exit_code == 0
    api.put(in_cluster("llama"))
    done = adopt(team, api=api)
    assert done.exit_code == 0, done.output
    assert "1 go on, 0 have finished" in done.output
    assert adopted(team) == ["bert", "llama"]


def test_one_that_does_not_answer_changes_nothing(team: Repository, tmp_path: Path) -> None:
    config = ApiServer()
    path = config.kubeconfig(tmp_path / "kubeconfig")
    config.close()
    done = team.run("adopt", "--env", "prod", "--live", "--kubeconfig", str(path))
    assert done.exit_code == 2
    assert not git(team.root, "status", "--porcelain")


def test_something_has_to_be_named(team: Repository) -> None:
    done = team.run("adopt", "--env", "prod")
    assert done.exit_code == 2
    assert "--live" in done.output


# --- a repository --------------------------------------------------------------------------------


def test_files_of_git_are_read_as_the_cluster_has_them(
    team: Repository, old: Path, api: ApiServer
) -> None:
    body = in_cluster("bert")
    body["spec"]["runPolicy"] = {"backoffLimit": 7}  # which a person has edited there
    api.put(body)
    api.put(in_cluster("llama", state="succeeded"))
    done = adopt(team, old / "training", api=api)
    assert done.exit_code == 0, done.output
    assert "1 go on, 1 have finished; 0 begin, 0 end." in done.output
    text = (team.root / "environments/prod/adopted/bert.yaml").read_text(encoding="utf-8")
    assert yaml.safe_load(text)["spec"]["runPolicy"] == {"backoffLimit": 7}


def test_what_the_cluster_has_not_would_begin(team: Repository, old: Path, api: ApiServer) -> None:
    api.put(in_cluster("bert"))
    done = adopt(team, old / "training", api=api)
    assert done.exit_code == 1
    assert "PyTorchJob/llama is not in the cluster" in done.output
    assert adopted(team) == ["bert"]


def test_files_of_git_alone_do_not_say_what_runs(team: Repository, old: Path) -> None:
    done = adopt(team, old / "training")
    assert done.exit_code == 1
    assert "add --live to look there" in done.output
    assert not git(team.root, "status", "--porcelain")


# --- what an engine applies ----------------------------------------------------------------------


@ENGINES
@pytest.mark.parametrize("place", ["apps/ml.yaml", "ml.yaml"])
def test_the_path_of_an_engine_says_which_objects(
    source: dict[str, Any], place: str, team: Repository, old: Path, api: ApiServer
) -> None:
    written(old / place, source)
    for name in ("bert", "llama", "gpt"):
        api.put(in_cluster(name))
    done = adopt(team, old, api=api)
    assert done.exit_code == 0, done.output
    assert adopted(team) == ["bert", "llama"]


@ENGINES
def test_what_kubectl_has_printed_does_for_a_cluster(
    source: dict[str, Any], team: Repository, old: Path, tmp_path: Path
) -> None:
    written(old / "apps/ml.yaml", source)
    objects = {
        "apiVersion": "v1",
        "kind": "List",
        "items": [in_cluster(n) for n in ("bert", "gpt")],
    }
    printed = written(tmp_path / "live.yaml", objects)
    done = adopt(team, old, printed)
    assert adopted(team) == ["bert"], done.output
    assert done.exit_code == 1  # llama is in the path, and nothing says whether it runs


def applied(source: dict[str, Any], *names: str) -> dict[str, Any]:
    """A source as the cluster has it, with what it has applied."""
    found = copy.deepcopy(source)
    if source is APPLICATION:
        one = {"group": "kubeflow.org", "version": "v1", "kind": "PyTorchJob"}
        resources = [{**one, "namespace": "training", "name": name} for name in names]
        found["status"] = {"resources": resources}
    else:
        entries = [{"id": f"training_{name}_kubeflow.org_PyTorchJob", "v": "v1"} for name in names]
        found["status"] = {"inventory": {"entries": entries}}
    return found


@ENGINES
def test_what_an_engine_has_applied_needs_no_files(
    source: dict[str, Any], team: Repository, tmp_path: Path, api: ApiServer
) -> None:
    for name in ("bert", "llama"):
        api.put(in_cluster(name))
    printed = written(tmp_path / "source.yaml", applied(source, "bert"))
    done = adopt(team, printed, api=api)
    assert done.exit_code == 0, done.output
    assert adopted(team) == ["bert"]


@ENGINES
def test_a_path_that_is_not_given_is_named(
    source: dict[str, Any], team: Repository, tmp_path: Path
) -> None:
    done = adopt(team, written(tmp_path / "source.yaml", source))
    assert done.exit_code == 1
    assert "ml-jobs reads the path training of its repository" in done.output


def test_a_path_in_several_folders_is_ambiguous(team: Repository, tmp_path: Path) -> None:
    for clone, name in (("one", "bert"), ("two", "llama")):
        written(tmp_path / "clones" / clone / "training/job.yaml", in_cluster(name))
    source = written(tmp_path / "source.yaml", APPLICATION)
    done = adopt(team, source, tmp_path / "clones")
    assert done.exit_code == 1
    assert "is in several folders" in done.output
