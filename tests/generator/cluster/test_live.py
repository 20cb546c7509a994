"""`trainwright status --diff`: the API server's answer to a dry run, and nothing changed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import Result

from apiserver import ApiServer, status
from cluster_objects import conditions
from repository import Repository
from trainwright.cluster import live
from trainwright.cluster.client import Access, Cluster
from trainwright.datatypes.manifest import Manifest

Run = Callable[..., Result]
Applied = Callable[..., dict[str, Any]]


def test_what_is_there_as_git_has_it_does_not_differ(run: Run, applied: Applied) -> None:
    body = applied("prod/llm", conditions("Created", "Running"))
    body["metadata"].update(creationTimestamp="2026-11-21T03:04:30Z", generation=1)
    done = run("status", "--diff", "prod/llm")
    assert done.exit_code == 0, done.output
    assert done.stdout == ""


def test_what_an_apply_would_change_and_add(run: Run, applied: Applied, api: ApiServer) -> None:
    body = applied("prod/llm", conditions("Created", "Running"))
    template = body["spec"]["pytorchReplicaSpecs"]["Worker"]
    template["replicas"] = 5
    api.put(body)
    done = run("status", "--diff", "prod")
    assert done.exit_code == 1, done.output
    name = body["metadata"]["name"]
    assert f"--- live/training/PyTorchJob.kubeflow.org/{name}\n" in done.stdout
    assert "-      replicas: 5\n+      replicas: 1\n" in done.stdout
    assert "--- /dev/null\n+++ git/training/PyTorchJob.kubeflow.org/mnist-" in done.stdout
    for bookkeeping in ("managedFields", "resourceVersion", "uid", "status"):
        assert bookkeeping not in done.stdout


def test_another_namespace_is_named(run: Run, api: ApiServer) -> None:
    done = run("status", "--diff", "prod/llm", "--namespace", "elsewhere")
    assert "git/elsewhere/PyTorchJob" in done.stdout
    assert "training/PyTorchJob" not in done.stdout


def test_it_is_asked_as_who_applies(
    repository: Repository, run: Run, applied: Applied, api: ApiServer
) -> None:
    applied("prod/llm")
    run("status", "--diff", "prod/llm")
    repository.environment("prod", "gitops: {engine: flux}\n")
    run("status", "--diff", "prod/llm")
    asked = [r.query for r in api.requests if r.verb == "patch"]
    assert [q["fieldManager"] for q in asked] == ["argocd-controller", "kustomize-controller"]
    assert all(q["dryRun"] == "All" and q["force"] == "true" for q in asked)
    assert {r.verb for r in api.requests} <= {"get", "patch"}


def test_it_is_what_would_be_rendered_now(
    repository: Repository, run: Run, applied: Applied, api: ApiServer
) -> None:
    old = applied("prod/llm")["metadata"]["name"]
    repository.job("prod/llm", "run: 2\n")
    done = run("status", "--diff", "prod/llm")
    assert done.exit_code == 1
    assert "--- /dev/null\n" in done.stdout
    assert old not in done.stdout


def test_a_file_that_would_be_rendered_empty_has_no_object(tmp_path: Path) -> None:
    """What the disk has is older."""
    (tmp_path / "rendered/llm").mkdir(parents=True)
    (tmp_path / "rendered/llm/job.yaml").write_text("kind: Job\napiVersion: batch/v1\n")
    run = SimpleNamespace(target="pytorchjob", files=("job.yaml",))
    planned: Any = SimpleNamespace(
        jobs=(SimpleNamespace(name="llm"),), runs={"llm": run}, folder="rendered", changes=None
    )
    assert [m.kind for _, m in live.rendered(tmp_path, planned)] == ["Job"]
    planned.changes = SimpleNamespace(written={"llm/job.yaml": ""})
    assert list(live.rendered(tmp_path, planned)) == []


def test_what_the_api_server_refuses_is_a_finding_in_its_words(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    name = applied("prod/llm")["metadata"]["name"]
    message = f'PyTorchJob.kubeflow.org "{name}" is invalid: spec.nprocPerNode: Invalid value'
    field = "spec.pytorchReplicaSpecs[Master].template"
    api.refused[name] = status(422, "Invalid", message, ({"field": field},))
    done = run("status", "--diff", "prod")
    assert done.exit_code == 1
    assert f"error[TW017]: the API server refuses it: {message}" in done.stderr
    assert "--> environments/prod/jobs/llm.yaml" in done.stderr
    assert f"in: PyTorchJob/{name} /spec/pytorchReplicaSpecs/Master/template" in done.stderr
    assert "mnist" in done.stdout, "the others are compared all the same"


@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "validate.kyverno.svc-fail" denied the request: no latest',
        'admission webhook "x" denied the request: User "eve" cannot use resource "gpu" today',
        "ValidatingAdmissionPolicy 'images' with binding 'images' denied request: no latest",
        'jobs.batch "llm" is forbidden: exceeded quota: team, requested: count/jobs.batch=1',
    ],
)
def test_a_policy_that_refuses_the_object_is_a_finding_too(
    run: Run, applied: Applied, api: ApiServer, message: str
) -> None:
    name = applied("prod/llm")["metadata"]["name"]
    api.refused[name] = status(403, "Forbidden", message)
    done = run("status", "--diff", "prod/llm")
    assert done.exit_code == 1
    assert message in done.stderr


def test_a_kind_that_the_cluster_lacks_is_a_finding(run: Run, api: ApiServer) -> None:
    del api.kinds["kubeflow.org/v1", "PyTorchJob"]
    done = run("status", "--diff", "prod/llm")
    assert done.exit_code == 1
    assert "knows no PyTorchJob (kubeflow.org/v1)" in done.stderr


def test_a_patch_that_rbac_forbids_names_the_role(
    run: Run, applied: Applied, api: ApiServer
) -> None:
    applied("prod/llm")
    api.forbidden.add(("patch", "pytorchjobs"))
    done = run("status", "--diff", "prod/llm")
    assert done.exit_code == 2
    assert "--print-rbac dry-run" in done.stderr.splitlines()[-1]


def test_the_values_of_a_secret_never_show(api: ApiServer, tmp_path: Any) -> None:
    secret = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "training"},
        "data": {"same": "c2FtZQ==", "weights": "b2xk"},
    }  # fmt: skip
    wanted = copy.deepcopy(secret)
    wanted["data"]["weights"] = "bmV3"
    cluster = Cluster(Access(kubeconfig=str(api.kubeconfig(tmp_path / "k"))))
    new = live.compare(cluster, "training", Manifest(body=wanted), "x")
    api.put(secret)
    changed = live.compare(cluster, "training", Manifest(body=wanted), "x")
    text = "".join((*new.diff(), *changed.diff()))
    assert changed.differs
    assert "*** (before)" in text
    assert "*** (after)" in text
    for value in ("c2FtZQ", "b2xk", "bmV3"):
        assert value not in text


@pytest.mark.parametrize("other", [("--watch",), ("-o", "json"), ("--for", "running")])
def test_differences_are_text_that_is_shown_once(run: Run, other: tuple[str, ...]) -> None:
    done = run("status", "--diff", "prod", *other)
    assert done.exit_code == 2
    assert "do not go together" in done.stderr
