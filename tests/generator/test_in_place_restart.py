"""JobSets that restart in place: an agent in each pod, and exit codes that JobSet acts on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import crds
from repository import Repository
from trainwright_runtime.failures.exit_codes import NODE_FAULT, PREFLIGHT, UNREACHABLE

AGENT = f"registry.example.com/in-place-restart-agent@sha256:{'5' * 64}"
SWITCH = f"inPlaceRestart: {{image: {AGENT}}}"


def _environment(options: str = SWITCH, kubernetes: str = "1.36") -> str:
    return f"""\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: ml
kubernetes: {{version: "{kubernetes}"}}
targets: {{jobset: {{{options}}}, job: {{}}}}
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.environment("prod").write_text(_environment())
    return made


def _rendered(repository: Repository, job: str = "", retries: int = 3) -> dict[str, Any]:
    repository.job("prod/llm", f"target: jobset\nretries: {retries}\n{job}")
    done = repository.run("render", "prod")
    assert done.exit_code == 0, done.output
    folder = repository.root / "environments/prod/rendered/llm"
    body: dict[str, Any] = yaml.safe_load((folder / "jobset.yaml").read_text())
    return body


def _job_of(body: dict[str, Any]) -> dict[str, Any]:
    job: dict[str, Any] = body["spec"]["replicatedJobs"][0]["template"]["spec"]
    return job


def test_the_definition_and_the_webhook_accept_it(
    repository: Repository, shared: Callable[[str], Path]
) -> None:
    body = _rendered(repository)
    assert crds.errors(shared(crds.CRDS["JobSet"]), body) == []
    assert body["spec"]["failurePolicy"]["restartStrategy"] == "InPlaceRestart"
    assert body["spec"]["failurePolicy"]["maxRestarts"] == 3
    job = _job_of(body)
    assert (job["backoffLimit"], job["podReplacementPolicy"]) == (2147483647, "Failed")
    assert repository.run("check", "prod").exit_code == 0


def test_without_retries_nothing_restarts(repository: Repository) -> None:
    body = _rendered(repository, retries=0)
    assert body["spec"]["failurePolicy"]["restartStrategy"] == "Recreate"
    assert "initContainers" not in _job_of(body)["template"]["spec"]


@pytest.mark.parametrize(
    ("launcher", "code", "outcome"),
    [
        ("trainwright", 0, "done"),
        ("trainwright", UNREACHABLE, "in place"),
        ("trainwright", 137, "in place"),
        ("trainwright", 143, "in place"),
        ("trainwright", NODE_FAULT, "another pod"),
        ("trainwright", PREFLIGHT, "another pod"),
        ("trainwright", 1, "over"),
        ("trainwright", 127, "over"),
        ("torchrun", 0, "done"),
        ("torchrun", 1, "in place"),
        ("torchrun", 137, "in place"),
    ],
)
def test_what_an_exit_code_leads_to(
    launcher: str, code: int, outcome: str, repository: Repository
) -> None:
    job = _job_of(_rendered(repository, f"launcher: {launcher}\n"))
    (container,) = job["template"]["spec"]["containers"]
    (rule,) = container["restartPolicyRules"]
    assert (rule["action"], container["restartPolicy"]) == ("RestartAllContainers", "Never")
    assert rule["exitCodes"]["operator"] == "NotIn"
    assert (code not in rule["exitCodes"]["values"]) is (outcome == "in place")
    final = job.get("podFailurePolicy", {}).get("rules", ())
    ends = any(r["action"] == "FailJob" and code in r["onExitCodes"]["values"] for r in final)
    assert ends is (outcome == "over")


def test_the_agent_alone_has_a_token(repository: Repository) -> None:
    pod = _job_of(_rendered(repository, "sidecars: {log: {image: r.example.com/log:1}}\n"))
    spec = pod["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "jobset-in-place-restart"
    names = [container["name"] for container in spec["initContainers"]]
    assert names == ["log", "in-place-restart-agent"]
    holders = [
        container["name"]
        for container in (*spec["initContainers"], *spec["containers"])
        for mount in container.get("volumeMounts", ())
        if mount["name"] == "in-place-restart-agent"
    ]
    assert holders == ["in-place-restart-agent"]


def test_a_job_with_an_account_of_its_own_keeps_it(repository: Repository) -> None:
    pod = _job_of(_rendered(repository, "serviceAccount: own\n"))["template"]["spec"]
    assert pod["serviceAccountName"] == "own"


@pytest.mark.parametrize("own", ["", "serviceAccount: own\n"], ids=["of the run", "named"])
def test_an_account_that_comes_with_the_run_is_that_of_the_pods(
    own: str, repository: Repository
) -> None:
    body = _rendered(repository, f"createServiceAccount: true\n{own}")
    folder = repository.root / "environments/prod/rendered/llm"
    account = yaml.safe_load((folder / "serviceaccount.yaml").read_text())["metadata"]["name"]
    assert account == ("own" if own else body["metadata"]["name"])
    assert _job_of(body)["template"]["spec"]["serviceAccountName"] == account


@pytest.mark.parametrize("own", ["serviceAccount: own\n", "createServiceAccount: true\n"])
def test_the_account_of_the_environment_is_no_fact_of_a_job_with_its_own(
    own: str, repository: Repository
) -> None:
    _rendered(repository, own)
    repository.environment("prod").write_text(
        _environment(options=f"inPlaceRestart: {{image: {AGENT}, serviceAccount: other}}")
    )
    listed = repository.run("list", "jobs", "-o", "json")
    (job,) = json.loads(listed.stdout)["items"]
    assert "inPlaceRestart" not in json.dumps(job.get("outdated", []))


@pytest.mark.parametrize(
    ("kubernetes", "job", "message"),
    [
        (
            "1.34",
            "",
            "restarts in place need Kubernetes 1.35 with the feature gate RestartAllContainersOnContainerExits, and prod has 1.34",
        ),
        ("1.36", "network: isolated\n", "which isolated pods cannot reach"),
    ],
)
def test_what_cannot_restart_in_place_is_refused_by_name(
    kubernetes: str, job: str, message: str, repository: Repository
) -> None:
    repository.environment("prod").write_text(_environment(kubernetes=kubernetes))
    repository.job("prod/llm", f"target: jobset\nretries: 3\n{job}")
    found = repository.run("check", "prod")
    assert found.exit_code == 1
    assert message in found.output


def test_a_run_that_there_is_takes_it_up_with_its_next_one(repository: Repository) -> None:
    path = repository.environment("prod")
    path.write_text(_environment(options=""))
    before = _rendered(repository)
    path.write_text(_environment())
    assert _rendered(repository) == before
    listed = repository.run("list", "jobs", "-o", "json")
    (job,) = json.loads(listed.stdout)["items"]
    assert "targets.jobset.inPlaceRestart.image" in json.dumps(job["outdated"])
    again = _rendered(repository, "run: 2\n")
    assert again["spec"]["failurePolicy"]["restartStrategy"] == "InPlaceRestart"
