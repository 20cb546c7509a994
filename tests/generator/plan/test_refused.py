"""Edits of live objects that the API server refuses: plan, check and render refuse them, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import git_repository
from repository import Copied, Repository

HEAD = "metadata: {name: NAME, namespace: training}\n"
RBAC = "rbac.authorization.k8s.io"
OBJECTS = {
    "data": f"apiVersion: v1\nkind: PersistentVolumeClaim\n{HEAD}"
    "spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 2Gi}}}\n",
    "sealed": f"apiVersion: v1\nkind: ConfigMap\n{HEAD}data: {{a: b}}\nimmutable: true\n",
    "binding": f"apiVersion: {RBAC}/v1\nkind: RoleBinding\n{HEAD}"
    f"roleRef: {{apiGroup: {RBAC}, kind: Role, name: reader}}\n"
    "subjects: [{kind: ServiceAccount, name: tuner, namespace: training}]\n",
    "team": f"apiVersion: kueue.x-k8s.io/v1beta2\nkind: LocalQueue\n{HEAD}"
    "spec: {clusterQueue: a}\n",
    "quota": f"apiVersion: v1\nkind: ResourceQuota\n{HEAD}"
    'spec: {hard: {pods: "9"}, scopes: [BestEffort]}\n',
}
CLAIM = "volumes: {out: {create: {size: 500Gi, storageClass: efs}, mountPath: /out}}\n"


def _prod(folder: Path) -> None:
    made = Repository(git_repository.init(folder))
    made.environment("prod", "gitops: {prune: confirm}\n")
    made.job("prod/llm", CLAIM)
    for name, text in OBJECTS.items():
        made.write(f"prod/objects/{name}.yaml", text.replace("NAME", name))
    done = made.run("render")
    assert done.exit_code == 0, done.output
    git_repository.commit(made.root)


def _plan(repository: Repository, code: int) -> dict[str, Any]:
    done = repository.run("plan", "--against", "HEAD", "-o", "json")
    assert done.exit_code == code, done.output
    plan: dict[str, Any] = json.loads(done.stdout)["plan"]
    assert plan["blocked"] is (code == 1)
    return plan


def _summary(repository: Repository) -> str:
    return repository.run("plan", "--against", "HEAD").stdout.splitlines()[0]


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            "data",
            "2Gi",
            "1Gi",
            "a claim may only grow (spec.resources.requests.storage 2Gi → 1Gi)",
        ),
        ("sealed", "a: b", "a: c", "the object is marked immutable (data.a b → c)"),
        (
            "binding",
            "reader",
            "admin",
            "the field is immutable (roleRef.name reader → admin)",
        ),
        ("team", "Queue: a", "Queue: b", "the field is immutable (spec.clusterQueue a → b)"),
        ("quota", "[BestEffort]", "[NotBestEffort]", "the field is immutable (spec.scopes.0 "),
    ],
)
def test_a_refused_edit_of_an_object_is_an_error_of_each_verb(
    name: str, old: str, new: str, message: str, copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit(f"prod/objects/{name}.yaml", old, new)
    said = f"error[TW504]: the API server refuses it: {message}"
    for verb in (("check",), ("render", "--check"), ("render",), ("plan", "--against", "HEAD")):
        done = prod.run(*verb)
        assert done.exit_code == 1, verb
        assert said in done.output, verb
    plan = _plan(prod, 1)
    (change,) = plan["objects"]
    assert change["refused"] is True
    assert change["effects"][0].startswith(f"the API server refuses it: {message}")
    assert _summary(prod) == "Cannot sync 1 object · objects: 1 changed · 1 error"


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("data", "2Gi", "3Gi"),
        ("sealed", "name: sealed", "name: opened"),
        ("binding", "name: tuner", "name: other"),
        ("team", "clusterQueue: a", "clusterQueue: a, stopPolicy: Hold"),
        ("quota", '"9"', '"8"'),
    ],
)
def test_what_the_api_server_takes_is_no_error(
    name: str, old: str, new: str, copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit(f"prod/objects/{name}.yaml", old, new)
    for verb in (("check",), ("render",)):
        done = prod.run(*verb)
        assert done.exit_code == 0, done.output
    assert all(not it["refused"] for it in _plan(prod, 0)["objects"])


def test_each_refused_field_is_a_finding(copied: Copied, tmp_path: Path) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/objects/data.yaml", "2Gi", "1Gi")
    prod.edit("prod/objects/data.yaml", "spec: {", "spec: {storageClassName: fast, ")
    said = prod.run("check").stdout
    assert f"{REFUSED}: a claim may only grow (spec.resources.requests.storage 2Gi → 1Gi)" in said
    assert f"{REFUSED}: the field is immutable (spec.storageClassName (unset) → fast)" in said
    assert _summary(prod) == "Cannot sync 1 object · objects: 1 changed · 2 errors"


def test_a_waived_refusal_blocks_nothing(copied: Copied, tmp_path: Path) -> None:
    """The object was deleted by hand, and is made anew."""
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/objects/data.yaml", "2Gi", "1Gi")
    waiver = "{rule: TW504, job: '*', reason: deleted, until: 2999-01-01}"
    path = prod.root / "environments/prod/environment.yaml"
    path.write_text(f"{path.read_text()}waivers: [{waiver}]\n")
    done = prod.run("render")
    assert done.exit_code == 0, done.output
    assert not _plan(prod, 0)["objects"][0]["refused"]


SMALLER = "a claim may only grow (spec.resources.requests.storage 500Gi → 300Gi)"


def test_the_claim_of_a_job_does_not_shrink_with_its_next_run(
    copied: Copied, tmp_path: Path
) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/jobs/llm.yaml", "500Gi", "300Gi")
    for verb in ("check", "render"):
        done = prod.run(verb)
        assert done.exit_code == 1, verb
        assert f"error[TW504]: PersistentVolumeClaim/llm-out: {REFUSED}: {SMALLER}" in done.output
        assert "environments/prod/jobs/llm.yaml:10:32" in done.output
    _plan(prod, 1)
    assert _summary(prod) == "Cannot render 1 job · 1 error"


REFUSED = "the API server refuses it"


def test_a_rendered_run_with_a_smaller_claim_is_rejected(copied: Copied, tmp_path: Path) -> None:
    """As where it was rendered while a waiver held. Nothing begins, and nothing is asked for."""
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/jobs/llm.yaml", "500Gi", "300Gi")
    waiver = "waivers: {TW504: {reason: deleted, until: 2999-01-01}}\n"
    path = prod.root / "environments/prod/jobs/llm.yaml"
    path.write_text(f"{path.read_text()}{waiver}")
    assert prod.run("render").exit_code == 0
    (change,) = _plan(prod, 0)["changes"]
    assert change["action"] == "new run"
    path.write_text(path.read_text().replace(waiver, ""))
    (change,) = _plan(prod, 1)["changes"]
    assert change["action"] == "rejected"
    why = f"PersistentVolumeClaim/llm-out: {REFUSED}: {SMALLER}, and the sync fails"
    assert change["why"] == why
    assert _summary(prod) == "Cannot sync 1 job · 1 error"
    assert prod.run("check").exit_code == 1


def test_a_claim_that_stays_as_it_is_is_no_finding(copied: Copied, tmp_path: Path) -> None:
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/jobs/llm.yaml", "nodes: 2", "nodes: 3")
    assert prod.run("check").exit_code == 0
    prod.edit("prod/jobs/llm.yaml", "500Gi", "800Gi")
    assert prod.run("check").exit_code == 0
    assert prod.run("render").exit_code == 0
    _plan(prod, 0)


def test_a_claim_keeps_its_access_modes_where_the_nodes_become_one(
    copied: Copied, tmp_path: Path
) -> None:
    """Which modes a claim gets follows from the nodes, unless they are written."""
    prod = copied(_prod, tmp_path / "clone")
    prod.edit("prod/jobs/llm.yaml", "nodes: 2", "nodes: 1")
    done = prod.run("check")
    assert done.exit_code == 1
    assert "Write `accessModes: [ReadWriteMany]` in its `create`" in done.output
    prod.edit("prod/jobs/llm.yaml", "size: 500Gi", "accessModes: [ReadWriteMany], size: 500Gi")
    assert prod.run("check").exit_code == 0
