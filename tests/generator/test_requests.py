"""Requests without limits: what is written of either half is what is rendered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from repository import ENVIRONMENT, EVERY_TARGET, Repository

HEAD = ENVIRONMENT.partition("targets")[0] + "podSecurity: baseline\n"
JOB = """\
apiVersion: trainwright.io/v1alpha1
kind: JobSpec
name: llm
target: job
image: {repository: registry.example.com/ml/train, tag: "1.0"}
entrypoint: {script: train.py}
launcher: python
shm: none
"""


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    made = Repository(tmp_path)
    made.write("dev/environment.yaml", HEAD + EVERY_TARGET)
    return made


def _resources(repository: Repository, written: str) -> dict[str, Any]:
    repository.write("dev/jobs/llm.yaml", f"{JOB}resources: {written}\n")
    done = repository.run("render", "--no-cache")
    assert done.exit_code == 0, done.output
    (text,) = [text for path, text in repository.tree().items() if path.endswith("job.yaml")]
    (container,) = yaml.safe_load(text)["spec"]["template"]["spec"]["containers"]
    return dict(container["resources"])


@pytest.mark.parametrize(
    ("written", "requests", "limits"),
    [
        ("{memory: 8Gi}", {"memory": "8Gi"}, {"memory": "8Gi"}),
        ("{requests: {memory: 8Gi}}", {"memory": "8Gi"}, None),
        ("{limits: {memory: 8Gi}}", None, {"memory": "8Gi"}),
        ("{memory: 16Gi, requests: {memory: 8Gi}}", {"memory": "8Gi"}, {"memory": "16Gi"}),
        (
            "{requests: {cpu: '2', memory: 8Gi, ephemeralStorage: 1Gi},"
            " limits: {memory: 16Gi, ephemeralStorage: 2Gi}}",
            {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "1Gi"},
            {"memory": "16Gi", "ephemeral-storage": "2Gi"},
        ),
        ("{cpu: '1', requests: {cpu: '2'}}", {"cpu": "2"}, None),
    ],
)
def test_each_half_is_what_is_written(
    repository: Repository, written: str, requests: Any, limits: Any
) -> None:
    found = _resources(repository, written)
    assert (found.get("requests"), found.get("limits")) == (requests, limits)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("{cpu: '2'}", "{requests: {cpu: '2'}}"),
        ("{memory: 8Gi}", "{requests: {memory: 8Gi}, limits: {memory: 8Gi}}"),
        (
            "{memory: 8Gi, limits: {memory: 16Gi}}",
            "{requests: {memory: 8Gi}, limits: {memory: 16Gi}}",
        ),
        ("{memory: 8Gi, limits: {memory: 16Gi}}", "{memory: 16Gi, requests: {memory: 8Gi}}"),
        (
            "{ephemeralStorage: 1Gi}",
            "{requests: {ephemeralStorage: 1Gi}, limits: {ephemeralStorage: 1Gi}}",
        ),
    ],
)
def test_two_spellings_are_one_run(repository: Repository, one: str, other: str) -> None:
    _resources(repository, one)
    before = repository.tree()
    _resources(repository, other)
    after = repository.tree()
    assert {k: v for k, v in before.items() if k.endswith("job.yaml")} == {
        k: v for k, v in after.items() if k.endswith("job.yaml")
    }


def test_a_request_above_the_limit_is_found_where_it_is_written(repository: Repository) -> None:
    text = f"{JOB}resources:\n  requests:\n    memory: 8Gi\n  limits:\n    memory: 4Gi\n"
    repository.write("dev/jobs/llm.yaml", text)
    done = repository.run("check", "--no-cache")
    assert "TW724" in done.output
    assert "environments/dev/jobs/llm.yaml:13:13" in done.output


def test_shared_memory_is_half_of_what_is_asked_for(repository: Repository) -> None:
    repository.write(
        "dev/jobs/llm.yaml",
        JOB.replace("shm: none", "shm: auto") + "resources: {requests: {memory: 8Gi}}\n",
    )
    assert repository.run("render", "--no-cache").exit_code == 0
    (text,) = [text for path, text in repository.tree().items() if path.endswith("job.yaml")]
    assert 'sizeLimit: "4Gi"' in text


def test_docker_reserves_it_and_sets_no_limit(repository: Repository) -> None:
    written = "resources: {requests: {cpu: '2', memory: 8Gi}}\n"
    repository.write("dev/jobs/llm.yaml", JOB.replace(": job\n", ": compose\n") + written)
    assert repository.run("render", "--no-cache").exit_code == 0
    (text,) = [text for path, text in repository.tree().items() if path.endswith("compose.yaml")]
    deployed = yaml.safe_load(text)["services"]["train"]["deploy"]
    assert deployed["resources"] == {"reservations": {"cpus": "2", "memory": "8g"}}
    disk = "resources: {requests: {ephemeralStorage: 1Gi}}\n"
    repository.write("dev/jobs/llm.yaml", JOB.replace(": job\n", ": compose\n") + disk)
    done = repository.run("check", "--no-cache")
    assert "Docker has nothing like resources.requests.ephemeralStorage" in done.output


@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "1Gi"}},
        {"limits": {"memory": "8Gi", "ephemeral-storage": "1Gi"}},
        {"requests": {"memory": "8Gi"}, "limits": {"memory": "16Gi"}},
        {"requests": {"ephemeral-storage": "1Gi"}, "limits": {"ephemeral-storage": "2Gi"}},
        {"requests": {"memory": "8Gi"}, "limits": {"cpu": "2", "memory": "8Gi"}},
    ],
    ids=str,
)
def test_import_keeps_both_halves(repository: Repository, resources: Any, tmp_path: Path) -> None:
    container = {"name": "a", "image": "a:1", "command": ["/run"], "resources": resources}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "llm"},
        "spec": {"backoffLimit": 0, "template": template},
    }
    path = tmp_path / "input.yaml"
    path.write_text(yaml.safe_dump(body), encoding="utf-8")
    done = repository.run("import", "--env", "dev", str(path))
    assert done.exit_code == 0, done.output
    assert "resources" not in done.stderr


@pytest.mark.parametrize(
    ("written", "rendered"),
    [
        ("32", "32"),
        ("0.5", "0.5"),
        ("1e3", "1000"),
        ("2.0", "2"),
        ("0.12345", "0.124"),
        ("'8'", "8"),
    ],
)
def test_cores_may_be_a_number(written: str, rendered: str, repository: Repository) -> None:
    made = _resources(repository, f"{{cpu: {written}, memory: 64Gi, limits: {{cpu: {written}}}}}")
    assert (made["requests"]["cpu"], made["limits"]["cpu"]) == (rendered, rendered)


def test_cores_as_a_number_or_as_text_are_one_run(repository: Repository) -> None:
    _resources(repository, "{cpu: 32, memory: 64Gi}")
    before = {path for path in repository.tree() if "rendered" in path}
    _resources(repository, '{cpu: "32", memory: 64Gi}')
    assert {path for path in repository.tree() if "rendered" in path} == before


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("{memory: 64}", 'Write the unit: `memory: "64Gi"` or `memory: "64Mi"`.'),
        ("{cpu: -1}", "resources.cpu is -1, it must be at least 0"),
        ("{cpu: 1e300}", "it must be at most 1000000"),
        ("{cpu: .nan}", "not a valid quantity"),
        ("{cpu: true}", "must be a string or a number"),
    ],
)
def test_an_amount_that_may_be_another_is_refused(
    written: str, why: str, repository: Repository
) -> None:
    repository.write("dev/jobs/llm.yaml", f"{JOB}resources: {written}\n")
    done = repository.run("check")
    assert done.exit_code == 1
    assert why in done.output
