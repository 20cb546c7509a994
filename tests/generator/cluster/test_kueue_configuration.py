"""`trainwright doctor --live`: what environment.yaml says of Kueue beside what the cluster has."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from apiserver import ApiServer
from repository import Repository

# As Kueue 0.19 ships it, without what no environment says.
FRAMEWORKS = [
    "batch/job",
    "ray.io/rayjob",
    "jobset.x-k8s.io/jobset",
    "trainer.kubeflow.org/trainjob",
]
PRESENT: dict[str, Any] = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "integrations": {"frameworks": FRAMEWORKS},
}
FORMER = {
    **PRESENT,
    "apiVersion": "config.kueue.x-k8s.io/v1beta1",
    "integrations": {"frameworks": [*FRAMEWORKS, "kubeflow.org/pytorchjob"]},
}
IMAGE = "registry.k8s.io/kueue/kueue:v0.19.2"


@pytest.fixture(autouse=True)
def _reached(api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path / "kubeconfig")))


def install(
    api: ApiServer, configuration: dict[str, Any] | str, *arguments: str, image: str = IMAGE
) -> None:
    """Kueue with a configuration, as its manifests install it."""
    text = configuration if isinstance(configuration, str) else yaml.safe_dump(configuration)
    api.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "kueue-manager-config", "namespace": "kueue-system"},
            "data": {"controller_manager_config.yaml": text},
        }
    )
    container = {"name": "manager", "image": image, "args": ["--zap-log-level=2", *arguments]}
    api.put(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "kueue-controller-manager", "namespace": "kueue-system"},
            "spec": {"template": {"spec": {"containers": [container]}}},
        }
    )


def declare(repository: Repository, kueue: str) -> None:
    repository.environment("prod", f"queueing: kueue\n{kueue}")


def compared(repository: Repository) -> list[dict[str, str]]:
    items = json.loads(repository.run("doctor", "--live", "-o", "json").stdout)["items"]
    return [item for item in items if item["about"] == "kueue"]


def test_what_agrees_is_one_line(rendered: Repository, api: ApiServer) -> None:
    declare(rendered, 'kueue: {version: "0.19"}\n')
    install(api, PRESENT)
    (found,) = compared(rendered)
    assert found["state"] == "ok"
    assert found["message"] == "prod: Kueue 0.19.2, as environment.yaml has it"
    asked = {(r.verb, r.group, r.resource, r.path.split("/")[-1]) for r in api.requests}
    assert {request.path.split("/")[-3] for request in api.requests} == {"kueue-system"}
    role, _of_sources = yaml.safe_load_all(rendered.run("status", "--print-rbac", "doctor").stdout)
    assert asked == {
        (verb, group, resource, name)
        for rule in role["rules"]
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule["resourceNames"]
    }


WAITS = "waitForPodsReady"


@pytest.mark.parametrize(
    ("declared", "live", "arguments", "message", "line"),
    [
        ("version: '0.18'", PRESENT, (), 'kueue.version is "0.18", and Kueue 0.19.2 runs', 'version: "0.19"'),
        ("{}", PRESENT, (), "kueue.version is not given, and Kueue 0.19.2 runs", 'version: "0.19"'),
        (
            "version: '0.19'", FORMER | {WAITS: {"enable": True, "timeout": "30m"}}, (),
            "the integration kubeflow.org/pytorchjob is on in the cluster, and off here",
            "frameworks: [batch/job, ray.io/rayjob, jobset.x-k8s.io/jobset, "
            "trainer.kubeflow.org/trainjob, kubeflow.org/pytorchjob]",
        ),
        (
            "{version: '0.19', frameworks: [batch/job, kubeflow.org/pytorchjob]}",
            PRESENT | {"integrations": {"frameworks": ["batch/job"]}}, (),
            "the integration kubeflow.org/pytorchjob is off in the cluster, and on here",
            "frameworks: [batch/job]",
        ),
        (
            "version: '0.19'", PRESENT | {WAITS: {"timeout": "1h0m0s", "recoveryTimeout": "0s"}}, (),
            "Kueue waits 1h for all pods of a run, later for ever; by environment.yaml 30m for all pods of a run, later 30m",
            'waitForPodsReady: {timeout: "1h", recoveryTimeout: "0s"}',
        ),
        (
            "version: '0.19'", PRESENT | {WAITS: {"timeout": "90.5s"}}, (),
            "Kueue waits 1m30s for all pods of a run, later 1m30s; by environment.yaml 30m for",
            'waitForPodsReady: {timeout: "1m30s"}',
        ),
        (
            "{version: '0.19', waitForPodsReady: {timeout: 45m}}", PRESENT, (),
            "Kueue waits 30m for all pods of a run, later 30m; by environment.yaml 45m for",
            'waitForPodsReady: {timeout: "30m"}',
        ),
        (
            "{version: '0.19', frameworks: [batch/job]}",
            PRESENT | {"apiVersion": FORMER["apiVersion"], "integrations": {}}, (),
            "Kueue waits for no pods; by environment.yaml 30m for",
            "waitForPodsReady: {enable: false}",
        ),
        (
            "version: '0.19'", PRESENT, ("--feature-gates=TASBalancedPlacement=true,ElasticJobs=false",),
            "the cluster sets ElasticJobs: false, TASBalancedPlacement: true",
            "featureGates: {ElasticJobs: false, TASBalancedPlacement: true}",
        ),
        (
            "version: '0.19'", PRESENT | {"featureGates": {"DisableWaitForPodsReady": True}}, (),
            "the cluster sets DisableWaitForPodsReady: true",
            "featureGates: {DisableWaitForPodsReady: true}",
        ),
        (
            "{version: '0.19', featureGates: {TASBalancedPlacement: true}}", PRESENT, (),
            "the cluster does not set TASBalancedPlacement",
            "featureGates: {}",
        ),
    ],
)  # fmt: skip
def test_each_difference_has_the_line_to_write(
    declared: str,
    live: dict[str, Any],
    arguments: tuple[str, ...],
    message: str,
    line: str,
    rendered: Repository,
    api: ApiServer,
) -> None:
    whole = declared if declared.startswith("{") else f"{{{declared}}}"
    declare(rendered, f"kueue: {whole}\n")
    install(api, live, *arguments)
    (found,) = compared(rendered)
    assert found["state"] == "warning"
    assert found["message"].startswith(f"prod: {message}")
    assert found["remedy"].startswith(f"Write `{line}` below `kueue`")
    assert found["effect"]
    # What is written so is no longer a difference.
    key, _, value = line.partition(": ")
    mended = yaml.safe_load(whole) | {key: yaml.safe_load(value)}
    declare(rendered, f"kueue: {json.dumps(mended)}\n")
    (found,) = compared(rendered)
    assert found["state"] == "ok"


def test_a_difference_has_file_and_line(rendered: Repository, api: ApiServer) -> None:
    declare(rendered, "kueue:\n  frameworks: [batch/job]\n  version: '0.17'\n")
    install(api, PRESENT)
    written = (rendered.root / "environments/prod/environment.yaml").read_text().splitlines()
    places = [item["place"] for item in compared(rendered)]
    assert places == [
        f"environments/prod/environment.yaml:{1 + written.index(line)}:3"
        for line in ("  version: '0.17'", "  frameworks: [batch/job]")
    ]


def test_a_gate_that_is_as_its_version_has_it_is_no_difference(
    rendered: Repository, api: ApiServer
) -> None:
    declare(rendered, 'kueue: {version: "0.19"}\n')
    install(api, PRESENT, "--feature-gates=DisableWaitForPodsReady=false")
    assert [item["state"] for item in compared(rendered)] == ["ok"]


@pytest.mark.parametrize(
    "image", ["mirror:5000/kueue", "mirror/kueue@sha256:" + "0" * 64, "k:main"]
)
def test_an_image_without_a_version_says_so(
    image: str, rendered: Repository, api: ApiServer
) -> None:
    declare(rendered, 'kueue: {version: "0.19"}\n')
    install(api, PRESENT, image=image)
    (found,) = compared(rendered)
    assert found["state"] == "ok"
    assert (
        found["message"]
        == f"prod: Kueue's image {image} names no version; the rest is as environment.yaml has it"
    )


@pytest.mark.parametrize("resource", ["configmaps", "deployments"])
def test_what_may_not_be_read_is_said_with_the_role(
    resource: str, rendered: Repository, api: ApiServer
) -> None:
    declare(rendered, 'kueue: {version: "0.19"}\n')
    install(api, PRESENT)
    api.forbidden.add(("get", resource))
    (found,) = compared(rendered)
    assert found["state"] == "warning"
    assert "prod: not compared: not allowed to get" in found["message"]
    assert "`trainwright status --print-rbac doctor`" in found["remedy"]


@pytest.mark.parametrize(
    "text", ["a: [", "- a", "", "\x00", "integrations: 5\nwaitForPodsReady: [x]\n"]
)
def test_a_configuration_that_cannot_be_read(
    text: str, rendered: Repository, api: ApiServer
) -> None:
    declare(rendered, 'kueue: {version: "0.19", frameworks: [batch/job]}\n')
    install(api, text)
    (found,) = compared(rendered)
    assert found["state"] in ("warning", "ok")


def test_kueue_that_is_not_there(rendered: Repository, api: ApiServer) -> None:
    declare(rendered, 'kueue: {version: "0.19"}\n')
    (found,) = compared(rendered)
    assert found["state"] == "warning"
    assert "there is no ConfigMap kueue-manager-config in kueue-system" in found["message"]


def test_a_cluster_that_does_not_answer_hides_no_other_check(
    rendered: Repository, api: ApiServer
) -> None:
    declare(rendered, 'kueue: {version: "0.19"}\n')
    api.close()
    done = rendered.run("doctor", "--live")
    assert "prod: not compared: cannot reach" in done.stdout
    assert "python" in done.stdout


def test_without_live_no_cluster_is_asked(rendered: Repository, api: ApiServer) -> None:
    declare(rendered, 'kueue: {version: "0.18"}\n')
    install(api, PRESENT)
    done = rendered.run("doctor")
    assert (
        "skipped  kueue         prod: not compared with its cluster: `doctor --live`" in done.stdout
    )
    assert not api.requests


def test_an_environment_without_kueue_asks_nothing(rendered: Repository, api: ApiServer) -> None:
    rendered.environment("prod", "")
    assert compared(rendered) == [
        {"about": "kueue", "state": "ok", "message": "no environment has queues of Kueue",
         "effect": "", "remedy": "", "place": None}
    ]  # fmt: skip
    assert not api.requests
