"""Objects that no spec can say as the runs of jobs: they go on, and have no next run."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

import apiserver
from adoption import (
    AS_THEY_ARE,
    POOLS,
    adopted_by,
    before,
    is_over,
    job_file,
    live_as_it_is,
    planned,
    unlike,
    with_roles,
)
from apiserver import ApiServer
from cluster_objects import RUNNING
from git_repository import commit, git
from repository import Copied, Repository
from trainwright.kinds.adopted.status import STATUS
from trainwright.kinds.state import Phase


def team_of(root: Path, *bodies: dict[str, Any]) -> Repository:
    """A repository with a pool, where these objects are adopted on a branch."""
    before(root)
    file = root / "environments/prod/environment.yaml"
    file.write_text(file.read_text(encoding="utf-8") + POOLS, encoding="utf-8")
    commit(root, "Have a pool")
    git(root, "switch", "--quiet", "--create", "adopt")
    done = adopted_by(root, *bodies)
    assert done.exit_code == 0, done.output
    rendered = Repository(root).run("render")
    assert rendered.exit_code == 0, rendered.output
    commit(root, "Adopt")
    return Repository(root)


def everything(root: Path) -> None:
    team_of(root, *AS_THEY_ARE)


@pytest.fixture
def adopted(copied: Copied, tmp_path: Path) -> Repository:
    return copied(everything, tmp_path / "team")


def names(*, over: bool) -> set[str]:
    return {one["metadata"]["name"] for one in AS_THEY_ARE if is_over(one) == over}


def test_nothing_begins_changes_or_ends(adopted: Repository) -> None:
    assert planned(adopted, "main") == {f"prod/{name}": "adopted" for name in names(over=False)}
    for verb in ("check", "render --check", "gitops verify HEAD"):
        done = adopted.run(*verb.split())
        assert done.exit_code == 0, (verb, done.output)
    listed = adopted.run("list", "jobs").output
    suspended = {name for name in names(over=False) if name.endswith("-suspended")}
    assert listed.count(" suspended ") == len(suspended)
    assert listed.count(" active ") == len(names(over=False) - suspended)
    assert listed.count("retired: ") == len(names(over=True))


def test_what_is_rendered_is_the_object(adopted: Repository) -> None:
    files = adopted.tree()
    for body in AS_THEY_ARE:
        path = f"prod/rendered/{body['metadata']['name']}/object.yaml"
        if is_over(body):
            assert path not in files
        else:
            rendered = yaml.safe_load(files[path])
            assert unlike(rendered, body) == []
            assert set(rendered["spec"]) >= set(body["spec"]) - {"suspend"}


@pytest.fixture
def team(tmp_path: Path) -> Repository:
    return team_of(tmp_path / "team", live_as_it_is("MPIJob", "running"))


JOB = "prod/mpijob-running"


def test_its_accelerators_are_counted_once(team: Repository) -> None:
    done = team.run("plan", "--against", "main", "-o", "json")
    plan = json.loads(done.stdout)["plan"]
    (change,) = plan["changes"]
    assert change["requests"]["gpus"] == {"low": 0, "high": 0}
    assert "0 → 16 of 1,000 GPUs" in team.run("plan", "--against", "main").output


def test_it_has_no_next_run(team: Repository) -> None:
    done = team.run("rerun", JOB)
    assert done.exit_code != 0
    assert "was adopted as it is, and no spec says what it is" in done.output
    file = job_file(team, "mpijob-running")
    file.write_text(file.read_text(encoding="utf-8").replace("mpirun", "other"), encoding="utf-8")
    text = file.read_text(encoding="utf-8") + "env: {A: b}\n"
    file.write_text(text, encoding="utf-8")
    edited = team.run("render")
    assert edited.exit_code == 1
    assert "there is no next run of it" in edited.output
    assert "Or write the next run: a target that is rendered" in edited.output


def test_a_target_that_is_rendered_begins_a_run_of_ours(team: Repository) -> None:
    file = job_file(team, "mpijob-running")
    spec = yaml.safe_load(file.read_text(encoding="utf-8"))
    spec |= {"target": "pytorchjob", "entrypoint": {"script": "train.py"}}
    file.write_text(yaml.safe_dump(spec), encoding="utf-8")
    assert team.run("render").exit_code == 0
    assert planned(team, "HEAD") == {JOB: "new run"}
    why = team.run("plan", "--against", "HEAD").output
    assert (
        "keeps training (16 GPUs) beside it until `kubectl --namespace training delete mpijob/"
        in why
    )


def test_it_is_suspended_and_resumed(team: Repository) -> None:
    path = "prod/rendered/mpijob-running/object.yaml"
    was = yaml.safe_load(team.tree()[path])
    assert team.run("suspend", JOB).exit_code == 0
    assert planned(team, "HEAD") == {JOB: "suspends"}
    suspended = yaml.safe_load(team.tree()[path])
    assert suspended["spec"]["runPolicy"].pop("suspend") is True
    was["spec"]["runPolicy"].pop("suspend", None)
    assert suspended == was
    commit(team.root)
    assert team.run("gitops", "verify", "HEAD").exit_code == 0
    assert team.run("resume", JOB).exit_code == 0
    assert planned(team, "HEAD") == {JOB: "resumes"}


@pytest.mark.parametrize("body", [live_as_it_is("StatefulSet", "running"), with_roles("queued")])
def test_what_has_no_field_for_it_is_not_suspended(body: dict[str, Any], tmp_path: Path) -> None:
    team = team_of(tmp_path / "team", body)
    done = team.run("suspend", f"prod/{body['metadata']['name']}")
    assert done.exit_code == 1
    assert "was adopted as it is, and takes no other state" in done.output
    assert not git(team.root, "status", "--porcelain")


def test_it_is_retired(team: Repository) -> None:
    assert team.run("retire", JOB, "--outcome", "succeeded").exit_code == 0
    assert planned(team, "HEAD") == {JOB: "retires"}
    commit(team.root)
    assert team.run("gitops", "verify", "HEAD").exit_code == 0
    assert planned(team, "HEAD") == {}


def test_other_fields_of_operation_wait(team: Repository) -> None:
    file = job_file(team, "mpijob-running")
    with file.open("a", encoding="utf-8") as spec:
        spec.write("maxDuration: 3h\n")
    done = team.run("render")
    assert done.exit_code == 0
    assert "of an object that was adopted as it is, only the state is edited" in done.output
    assert planned(team, "HEAD") == {JOB: "outdated"}


@pytest.mark.parametrize(
    ("forbids", "rule"),
    [("podSecurity: baseline", "TW707"), ("images: {requireDigest: true}", "TW715")],
)
def test_rules_look_at_its_pods(forbids: str, rule: str, tmp_path: Path) -> None:
    root = tmp_path / "team"
    before(root)
    body = live_as_it_is("RayJob", "running")
    group = body["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]
    group["template"]["spec"]["hostPID"] = True
    assert adopted_by(root, body).exit_code == 0
    file = root / "environments/prod/environment.yaml"  # which forbids it from now on
    text = file.read_text(encoding="utf-8")
    if forbids.startswith("podSecurity"):
        text = text.replace("podSecurity: privileged\n", "")
    file.write_text(f"{text}{forbids}\n", encoding="utf-8")
    done = Repository(root).run("render")
    assert done.exit_code == 1
    assert f"error[{rule}]" in done.output
    assert "environments/prod/adopted/rayjob-running.yaml:" in done.output


@pytest.mark.parametrize("engine", ["argocd", "flux"])
@pytest.mark.parametrize("applications", ["job", "environment"])
def test_the_wiring_applies_it(engine: str, applications: str, team: Repository) -> None:
    file = team.root / "environments/prod/environment.yaml"
    repository = "repository: {url: 'https://git.example.com/a/b.git', revision: main}"
    gitops = f"gitops: {{engine: {engine}, applications: {applications}, {repository}}}"
    text = file.read_text(encoding="utf-8")
    text = text.replace("gitops: {engine: argocd, mode: rendered}", gitops)
    file.write_text(text, encoding="utf-8")
    done = team.run("gitops", "wire", "prod")
    assert done.exit_code == 0, done.output
    wired = [one for one in yaml.safe_load_all(done.stdout) if one]
    if engine == "argocd":
        (project,) = (one for one in wired if one["kind"] == "AppProject")
        allowed = project["spec"]["namespaceResourceWhitelist"]
        assert {"group": "kubeflow.org", "kind": "MPIJob"} in allowed
        return
    found = [one for one in wired if one["kind"] == "Kustomization"]
    if applications == "job":
        (run,) = (one for one in found if one["spec"]["path"].endswith("/mpijob-running"))
        assert run["spec"]["wait"] is False
        return
    (first,) = (one for one in found if "dependsOn" not in one["spec"])
    assert "MPIJob" in first["spec"]["patches"][0]["target"]["kind"].split("|")


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    monkeypatch.setitem(apiserver.KINDS, ("kubeflow.org/v2beta1", "MPIJob"), "mpijobs")
    server = ApiServer()
    yield server
    server.close()


def test_status_finds_it_and_its_pods(team: Repository, api: ApiServer, tmp_path: Path) -> None:
    api.put(live_as_it_is("MPIJob", "running"))
    labels = {"training.kubeflow.org/job-name": "mpijob-running"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "mpijob-running-worker-0", "namespace": "training", "labels": labels},
        "spec": {"nodeName": "node-a", "containers": [{"name": "pytorch"}]},
        "status": RUNNING,
    }
    api.put(pod)
    config = api.kubeconfig(tmp_path / "kubeconfig")
    done = team.run("status", "prod", "-o", "json", "--kubeconfig", str(config))
    (item,) = json.loads(done.stdout)["items"]
    assert (item["job"], item["object"], item["cluster"]) == (JOB, "mpijob-running", "running")
    assert len(item["pods"]) == 1


def test_status_finds_the_nodes_of_a_rayjob_by_their_cluster(
    api: ApiServer, tmp_path: Path
) -> None:
    """KubeRay gives the name of the RayJob to the pod that submits the program alone."""
    body = live_as_it_is("RayJob", "running")
    body["status"]["rayClusterName"] = "rayjob-running-x7k2p"
    team = team_of(tmp_path / "team", body)
    api.put(body)
    of_all = {"ray.io/cluster": "rayjob-running-x7k2p"}
    for name, labels in (
        ("rayjob-running-x7k2p-head-a1b2c", of_all | {"ray.io/node-type": "head"}),
        ("rayjob-running-x7k2p-gpu-worker-d3e4f", of_all | {"ray.io/node-type": "worker"}),
        ("rayjob-running-q9w8e", {"ray.io/originated-from-cr-name": "rayjob-running"}),
        ("another-head-a1b2c", {"ray.io/cluster": "another"}),
    ):
        metadata = {"name": name, "namespace": "training", "labels": labels}
        spec = {"nodeName": "node-a", "containers": [{"name": "pytorch"}]}
        api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": RUNNING})  # fmt: skip
    config = api.kubeconfig(tmp_path / "kubeconfig")
    done = team.run("status", "prod", "-o", "json", "--kubeconfig", str(config))
    (item,) = json.loads(done.stdout)["items"]
    names = sorted(pod["name"].rpartition("-")[0] for pod in item["pods"])
    assert names == [
        "rayjob-running",
        "rayjob-running-x7k2p-gpu-worker",
        "rayjob-running-x7k2p-head",
    ]


@pytest.mark.parametrize(
    ("body", "phase"),
    [
        ({"status": {"state": "ready"}}, Phase.RUNNING),
        ({"status": {"state": {"phase": "Completed"}}}, Phase.SUCCEEDED),
        ({"status": {"phase": "Suspended"}}, Phase.SUSPENDED),
        ({"spec": {"suspend": True}}, Phase.SUSPENDED),
        ({"spec": {"replicas": 3}, "status": {"readyReplicas": 1}}, Phase.RUNNING),
        ({"spec": {"replicas": 3}, "status": {"replicas": 3}}, Phase.PENDING),
        ({"status": {"conditions": "none", "state": 3}}, Phase.PENDING),
        ({}, Phase.PENDING),
    ],
)
def test_the_status_of_any_kind_is_read_by_common_words(body: dict[str, Any], phase: Phase) -> None:
    assert STATUS.state_of(copy.deepcopy(body)).phase is phase


def test_a_server_is_no_training(tmp_path: Path) -> None:
    before(tmp_path / "team")
    body = live_as_it_is("StatefulSet", "running")
    for container in body["spec"]["template"]["spec"]["containers"]:
        container.pop("resources")
    done = adopted_by(tmp_path / "team", body, live_as_it_is("MPIJob", "running"))
    assert done.exit_code == 0, done.output
    assert "1 go on" in done.output
    assert "StatefulSet/statefulset-running: it is not a training workload" in done.output
